"""What TE-CCL can be told; the seed is that of the effort."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.schedule_shapes import VariableBandwidthWire
from sccl.synth import contract


class Options(contract.Options, frozen=True, kw_only=True):
    """How finely what is moved is cut, by what it is scheduled, and when that is good enough."""

    chunks: Annotated[
        int, Meta(ge=1, le=1024, description="Chunks per part that a rank sends or is to get.")
    ] = 1
    model: Annotated[
        Literal["auto", "continuous", "milp", "astar", "lp"],
        Meta(
            description="Intervals in continuous time; or epochs: all in one model, in rounds, or "
            "rates of what is not copied."
        ),
    ] = "auto"
    solver: Annotated[
        Literal["auto", "cp-sat", "glop", "highs", "pdlp", "scip", "gurobi"],
        Meta(description="Of the model: auto is GLOP for lp, else CP-SAT."),
    ] = "auto"
    ports: Annotated[
        bool, Meta(description="Whether a link at a switch takes one chunk in an epoch, no more.")
    ] = False
    epoch: Annotated[
        str,
        Meta(description="As long as a chunk takes the fastest, or the slowest link; or us; auto."),
    ] = "auto"
    multiplier: Annotated[
        int, Meta(ge=1, le=1024, description="So many times as long is an epoch.")
    ] = 1
    epochs: Annotated[
        int,
        Meta(
            ge=0,
            le=4096,
            description="Of the horizon, or of a round: 0: the fewest; as alpha asks.",
        ),
    ] = 0
    buffers: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Chunks of others that a rank keeps to send on later; none: any."),
    ] = None
    priorities: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=1000)], ...],
        Meta(description="Of each of several collectives: what it is worth that it finishes soon."),
    ] = ()
    gap: Annotated[
        float,
        Meta(ge=0, le=1, description="Part of the bound by which a schedule may be above it."),
    ] = 0.0
    alpha: Annotated[
        Literal["occupies", "travels"],
        Meta(description="Whether alpha keeps a link busy, or a chunk arrives so much later."),
    ] = "travels"
    bandwidth: Annotated[
        VariableBandwidthWire | None,
        Meta(description="What links have less than the machine says, and when; none: nothing."),
    ] = None
    combine: Annotated[
        Literal["auto", "reversal", "direct"],
        Meta(
            description="What combines: by its dual read backwards, or each contribution goes by "
            "itself to where it is reduced; auto: what takes less."
        ),
    ] = "auto"
