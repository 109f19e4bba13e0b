"""The name, source, features, and options of TACCL. The seed is that of the effort."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.sketch_shapes import SketchWire
from sccl.synth.common import contract
from sccl.synth.common.contract import Feature

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
    """The sketch, the number of chunks, and the method of each step."""

    sketch: Annotated[
        SketchWire | None,
        Meta(description="Sketch that restricts plans; none: the best of several."),
    ] = None
    chunks: Annotated[
        int,
        Meta(ge=0, le=1024, description="Chunks per part of a rank; 0: the sketch's number."),
    ] = 0
    paths: Annotated[
        Literal["auto", "shortest", "any"],
        Meta(
            description="Whether ranks forward chunks on shortest paths only; auto: for chunks "
            "that only one rank needs."
        ),
    ] = "auto"
    order: Annotated[
        Literal["best", "farthest-start", "farthest-end", "soonest-start", "soonest-end"],
        Meta(description="Order of chunks on a link, from the start or the end; best: all four."),
    ] = "best"
    steps: Annotated[
        Literal["auto", "three", "joined"],
        Meta(
            description="three: fix routes, then orders; joined: improve both together; auto: "
            "joined for small problems."
        ),
    ] = "auto"
    together: Annotated[
        bool, Meta(description="Whether chunks are sent together, if alpha occupies links.")
    ] = True
    gap: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Stop when the schedule is within this relative gap to the lower bound "
            "(0.01 = 1 %); at least 0.001 if sketches are searched on a machine that is "
            "too large for the models.",
        ),
    ] = 0.0
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or delays arrivals only."),
    ] = "travels"
