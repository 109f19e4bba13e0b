"""What TE-CCL can be told; the seed is that of the effort."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.synth import contract


class Options(contract.Options, frozen=True, kw_only=True):
    """How finely what is moved is cut, by what it is scheduled, and when that is good enough."""

    chunks: Annotated[
        int, Meta(ge=1, le=1024, description="Chunks per part that a rank sends or is to get.")
    ] = 1
    gap: Annotated[
        float,
        Meta(ge=0, le=1, description="Part of the bound by which a schedule may be above it."),
    ] = 0.0
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or a chunk arrives so much later."),
    ] = "travels"
