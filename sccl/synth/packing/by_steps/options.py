"""The options of the limit's synthesiser, and its default effort."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sccl.synth.common import contract

LIMIT_EFFORT_UNITS = 30.0
"""Effort for a limit. No clock is used, but a unit takes one to five seconds.

Measured: 1.9 from nothing for allgather on ndv2x2 with S = 7, in 9.4 s.
"""

MAX_STEPS = 512
"""Maximum number of steps of a limit, also in certificates."""


class Options(contract.Options, frozen=True, kw_only=True):
    """The number of steps of the algorithm, and the search for it."""

    steps: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_STEPS)] | None,
        Meta(description="S; default: as few as any algorithm has."),
    ] = None
    trees: Annotated[
        bool, Meta(description="For allreduce: search trees up and down instead of equal halves.")
    ] = False
