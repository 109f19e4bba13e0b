"""The name, source, features, and options of the limit by steps."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sccl.synth.common import contract
from sccl.synth.common.contract import Feature
from sccl.synth.common.step_limits import MAX_STEPS

NAME = "limits"
SOURCE = "Cai et al., PPoPP 2021, section 3, with Edmonds 1973 and Wentges 1997 for the packing"
FEATURES = Feature.COMBINES | Feature.CUSTOM | Feature.PROVES | Feature.STEPS


class Options(contract.Options, frozen=True, kw_only=True):
    """The number of steps of the algorithm, and the search for it."""

    steps: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_STEPS)] | None, "S; default: the latency bound."
    ] = None
    trees: Annotated[bool, "For allreduce: search trees up and down instead of equal halves."] = (
        False
    )
