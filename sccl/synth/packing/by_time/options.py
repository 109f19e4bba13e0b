"""The name, source, features, and options of the fluid packing."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.synth.common import contract
from sccl.synth.common.contract import Feature

NAME = "limits-time"
SOURCE = "Edmonds 1973, Fleischer and Tardos 1998, Wentges 1997: trees packed into time"
FEATURES = (
    Feature.SWITCHES
    | Feature.UNEQUAL_LINKS
    | Feature.COMBINES
    | Feature.CUSTOM
    | Feature.UNEQUAL_CHUNKS
    | Feature.ANYTIME
    | Feature.PROVES
    | Feature.TIMES
)


class Options(contract.Options, frozen=True, kw_only=True):
    """The allowed gap to the bound, and the state of a link during alpha."""

    gap: Annotated[
        float,
        Meta(ge=0, le=1),
        "Stop when the schedule is within this relative gap to the lower bound (0.01 = 1 %).",
    ] = 0.01
    alpha: Annotated[
        Literal["occupies", "travels"], "Whether alpha keeps a link busy, or delays arrivals only."
    ] = "travels"
