"""What the limit's synthesiser can be told, and what it spends if it is not."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sccl.synth import contract

LIMIT_UNITS = 30.0
"""Of effort, for a limit. No clock has a part in it, but a unit takes one to five seconds.

Measured: 1.9 from nothing for allgather on ndv2x2 with S = 7, in 9.4 s.
"""

MAX_STEPS = 512
"""Of a limit: certificates speak of no more, either."""


class Options(contract.Options, frozen=True, kw_only=True):
    """Of how many steps the algorithm is, and by what."""

    steps: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_STEPS)] | None,
        Meta(description="S; default: as few as any algorithm has."),
    ] = None
    trees: Annotated[
        bool, Meta(description="For allreduce: search trees up and down instead of equal halves.")
    ] = False
