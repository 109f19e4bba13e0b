"""What the limit's synthesiser can be told."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sccl.synth import contract


class Options(contract.Options, frozen=True, kw_only=True):
    """Of how many steps the algorithm is."""

    steps: Annotated[
        Annotated[int, Meta(ge=1, le=512)] | None,
        Meta(description="S; default: as few as any algorithm has."),
    ] = None
