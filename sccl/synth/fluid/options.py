"""What the fluid packing can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.synth import contract


class Options(contract.Options, frozen=True, kw_only=True):
    """How near the bound is near enough, and what a link does during alpha."""

    gap: Annotated[
        float,
        Meta(ge=0, le=1, description="Part of the bound by which the schedule may be above it."),
    ] = 0.01
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or delays arrivals only."),
    ] = "travels"
