"""The name, source, features, and options of TACCL. The seed is that of the effort."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from sccl.synth.common import contract
from sccl.synth.common.contract import Feature
from sccl.synth.sketches.sketch_shapes import SketchWire

NAME = "taccl"
SOURCE = "Shah et al., TACCL, NSDI 2023, section 5 and appendix B"
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
    """The options of TACCL."""

    DEFAULT_BUDGET: ClassVar[float] = 2.0

    sketch: Annotated[
        SketchWire | None,
        "Sketch file ('sccl doctor schema sketch', or one of TACCL's); auto: the best of the "
        "machine's suggestions.",
        "auto",
    ] = None
    chunks: Annotated[
        int,
        Meta(ge=0, le=1024),
        "Chunks per part that a rank sends or receives; 0: the sketch's number, or with auto the "
        "best number.",
    ] = 0
    paths: Annotated[
        Literal["auto", "shortest", "any"],
        "Routes: shortest paths only, any path, or auto (shortest for chunks with one "
        "destination).",
    ] = "auto"
    order: Annotated[
        Literal["best", "farthest-start", "farthest-end", "soonest-start", "soonest-end"],
        "Order on a link: longest remaining path or earliest arrival first, filled from the start "
        "or from the end; best: all four.",
    ] = "best"
    steps: Annotated[
        Literal["auto", "three", "joined"],
        "Stages: three (routes, orders, exact times), joined (improves all of them together), or "
        "auto (joined if small).",
    ] = "auto"
    together: Annotated[bool, "Send chunks together with one alpha, if alpha occupies links."] = (
        True
    )
    alpha: Annotated[
        Literal["travels", "occupies"],
        "Alpha model: travels or occupies. With travels a chunk arrives alpha later, with occupies "
        "the link is busy during alpha.",
    ] = "travels"
    gap: Annotated[
        float,
        Meta(ge=0, le=1),
        "Relative optimality gap at which the search stops (0.01 = 1 %); at least 0.001 if "
        "sketches are searched on a machine that is too large for the models.",
    ] = 0.0
