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
    """The options of TACOS."""

    chunks: Annotated[
        int,
        Meta(ge=1, le=65_536),
        "Chunks per part that a rank sends or receives.",
        "the sketch's, else 1",
    ] = 1
    alpha: Annotated[
        Literal["travels", "occupies"],
        "Alpha model: travels (a chunk arrives alpha later) or occupies (the link is busy during "
        "alpha).",
    ] = "occupies"
    restarts: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "Number of seeds; the search stops when a schedule attains the lower bound.",
    ] = 1
    improve: Annotated[
        float,
        Meta(ge=0, le=1_000_000),
        "Budget to improve each schedule above the lower bound; 1 takes some seconds.",
    ] = 0.2
    jobs: Annotated[
        int, Meta(ge=1, le=1024), "Number of seeds at a time; it does not change the result."
    ] = 1
    switch_degree: Annotated[
        int,
        Meta(ge=0, le=65_536),
        "Links per rank that replace its port of a switch (the paper's unwinding; such schedules "
        "are not improved); 0: keep switches.",
    ] = 0
