"""The options of the fluid packing."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.synth.common import contract


class Options(contract.Options, frozen=True, kw_only=True):
    """The allowed gap to the bound, and the state of a link during alpha."""

    gap: Annotated[
        float,
        Meta(ge=0, le=1, description="Part of the bound by which the schedule may be above it."),
    ] = 0.01
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or delays arrivals only."),
    ] = "travels"
