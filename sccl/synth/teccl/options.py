"""The name, source, features, and options of TE-CCL. The seed is that of the effort."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.schedule_shapes import VariableBandwidthWire
from sccl.synth.common import contract
from sccl.synth.common.contract import Feature

NAME = "teccl"
SOURCE = "Liu et al., TE-CCL, SIGCOMM 2024, sections 3 and 4.2; also without epochs"
FEATURES = (
    Feature.SWITCHES
    | Feature.UNEQUAL_LINKS
    | Feature.COMBINES
    | Feature.CUSTOM
    | Feature.UNEQUAL_CHUNKS
    | Feature.ANYTIME
    | Feature.PROVES
    | Feature.TIMES
)


class Options(contract.Options, frozen=True, kw_only=True):
    """The number of chunks, the scheduling method, and the required quality."""

    chunks: Annotated[
        int, Meta(ge=1, le=1024, description="Chunks per part that a rank sends or is to get.")
    ] = 1
    model: Annotated[
        Literal["auto", "continuous", "milp", "astar", "lp"],
        Meta(
            description="continuous: intervals without epochs; with epochs, milp: one model, "
            "astar: in rounds, lp: rates for data that are not copied."
        ),
    ] = "auto"
    solver: Annotated[
        Literal["auto", "cp-sat", "glop", "highs", "pdlp", "scip", "gurobi"],
        Meta(description="Solver of the model: auto is GLOP for lp, else CP-SAT."),
    ] = "auto"
    ports: Annotated[
        bool, Meta(description="Whether a link at a switch takes at most one chunk per epoch.")
    ] = False
    epoch: Annotated[
        str,
        Meta(
            description="Epoch length: time of a chunk on the fastest or the slowest link, a "
            "number of us, or auto."
        ),
    ] = "auto"
    multiplier: Annotated[
        int,
        Meta(
            ge=1, le=1024, description="Epoch length as a multiple of the base epoch (TE-CCL's EM)."
        ),
    ] = 1
    epochs: Annotated[
        int,
        Meta(
            ge=0,
            le=4096,
            description="Epochs of the horizon, or of a round; 0: the fewest, from alpha.",
        ),
    ] = 0
    buffers: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Chunks of others that a rank keeps to send on later; none: any."),
    ] = None
    priorities: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=1000)], ...],
        Meta(description="Weights of concurrent collectives in the mean completion time."),
    ] = ()
    gap: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Stop when the schedule is within this relative gap to the "
            "lower bound (0.01 = 1 %).",
        ),
    ] = 0.0
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or delays arrivals only."),
    ] = "travels"
    bandwidth: Annotated[
        VariableBandwidthWire | None,
        Meta(description="Reduced bandwidth of links over time; none: nothing."),
    ] = None
    combine: Annotated[
        Literal["auto", "reversal", "direct"],
        Meta(
            description="Reductions: reversal of the dual's schedule, or direct sends of each "
            "contribution to the place of its reduction; auto: the faster one."
        ),
    ] = "auto"
