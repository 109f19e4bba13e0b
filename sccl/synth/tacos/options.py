"""The name, source, features, and options of TACOS. The seed is that of the effort."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.synth.common import contract
from sccl.synth.common.contract import Feature

NAME = "tacos"
SOURCE = "Won et al., TACOS, MICRO 2024, section IV"
FEATURES = (
    Feature.SWITCHES
    | Feature.UNEQUAL_LINKS
    | Feature.COMBINES
    | Feature.CUSTOM
    | Feature.ANYTIME
    | Feature.PROVES
    | Feature.TIMES
)


class Options(contract.Options, frozen=True, kw_only=True):
    """The number of chunks, the number of trials, and the state of a link during alpha."""

    chunks: Annotated[
        int, Meta(ge=1, le=65_536, description="Chunks per part of a rank's input or output.")
    ] = 1
    restarts: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Number of seeds to try; the search stops at the lower bound.",
        ),
    ] = 1
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or delays arrivals only."),
    ] = "occupies"
    improve: Annotated[
        float,
        Meta(
            ge=0,
            le=1_000_000,
            description="Effort to improve each schedule above the lower bound; 1 takes some "
            "seconds.",
        ),
    ] = 0.2
    jobs: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="Number of seeds tried in parallel: the same result in less time.",
        ),
    ] = 1
    switch_degree: Annotated[
        int,
        Meta(
            ge=0,
            le=65_536,
            description="Links per rank that replace its port of a switch (TACOS' unwinding; such "
            "schedules are not improved); 0: keep switches.",
        ),
    ] = 0
