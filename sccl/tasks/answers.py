"""What 'sccl pareto', 'sccl limits' and 'sccl bounds' print with '--json'.

Frontiers and bounds are built where they are known, and a test holds them to these shapes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.tasks.outputs import Count, FileText, FractionText, Inputs, Output, Part, Seconds

Optimal = Annotated[
    tuple[str, ...],
    Meta(
        description="Which bounds are met: latency, bandwidth, limit. Those of its class for a "
        "point in 'classes', else of every algorithm."
    ),
]


class CutPart(Part, frozen=True, kw_only=True):
    """Ranks into which so many chunks must come, at a weight."""

    ranks: tuple[int, ...]
    weight: FractionText
    entering_chunks: Count


class DistancePart(Part, frozen=True, kw_only=True):
    """A chunk that has so far to go, which bounds S."""

    problem: str
    chunk: Count
    sources: Annotated[tuple[int, ...], Meta(description="The ranks that hold it.")] = (
        msgspec.field(name="from")
    )
    rank: int = msgspec.field(name="to")
    distance: Count


class BoundsCertificatePart(Part, frozen=True, kw_only=True):
    """Why the bounds hold: prices of links and budgets, cuts, and a chunk with far to go."""

    problem: Annotated[str, Meta(description="What was bounded: the question, or its dual.")]
    kind: str
    steps: DistancePart
    chunks: Annotated[int | UnsetType, Meta(description="The C at which chunks are counted.")] = (
        UNSET
    )
    rounds_at_least: FractionText | UnsetType = UNSET
    prices: dict[str, FractionText] | UnsetType = UNSET
    cuts: tuple[CutPart, ...] | UnsetType = UNSET
    ranks: Annotated[
        tuple[int, ...] | UnsetType, Meta(description="Of all allreduces: the ranks of a cut.")
    ] = UNSET
    sends_per_chunk: Annotated[
        int | UnsetType, Meta(description="Of all allreduces: what each chunk needs at least.")
    ] = UNSET
    chunks_per_round: Annotated[
        int | UnsetType, Meta(description="Of all allreduces: what a round carries at most.")
    ] = UNSET


class BoundsPart(Part, frozen=True, kw_only=True):
    """What no algorithm of a class can beat."""

    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificatePart


class ClassBoundsPart(BoundsPart, frozen=True, kw_only=True):
    """What no algorithm of one class of several can beat."""

    name: str = msgspec.field(name="class")


class LimitPart(Part, frozen=True, kw_only=True):
    """The infimum of R/C for a number of steps, over all k and C: between two bounds."""

    steps: Count
    lower: FractionText
    upper: FractionText


class LimitProofPart(Part, frozen=True, kw_only=True):
    """Why a limit holds on a machine."""

    problem: str
    topology: str
    bound: FractionText
    prices: Annotated[
        tuple[tuple[str, int, FractionText], ...] | str,
        Meta(description="[constraint, step, price]; or 'bandwidth bound', which says it."),
    ]


class ProvedLimitPart(LimitPart, frozen=True, kw_only=True):
    """A limit with its certificates."""

    certificates: tuple[LimitProofPart, ...]


class PointPart(Part, frozen=True, kw_only=True):
    """An algorithm on a frontier; of a limit frontier, what attains a limit or comes near it."""

    among: Annotated[
        str | UnsetType, Meta(description="The class it is of, where there are several.")
    ] = msgspec.field(name="class", default=UNSET)
    steps: Count
    chunks: int | None
    rounds: int | None
    bandwidth_cost: Annotated[
        FractionText | None, Meta(description="R/C of the algorithm; null: too large to write.")
    ]
    proved: Annotated[
        bool, Meta(description="Nothing dominates it in its class; else: best found.")
    ]
    every_k: Annotated[
        bool | UnsetType, Meta(description="It is proved for every k and C, not those searched.")
    ] = UNSET
    optimal: Optimal
    rounds_per_step: tuple[int, ...] | UnsetType = UNSET
    limit: Annotated[
        FractionText | UnsetType, Meta(description="Of a limit frontier: the limit of R/C.")
    ] = UNSET
    attained: Annotated[bool | UnsetType, Meta(description="Whether R/C is the limit.")] = UNSET
    seconds: Seconds | UnsetType = UNSET
    from_store: Annotated[
        bool | UnsetType, Meta(description="The answer was kept; seconds are those it once took.")
    ] = UNSET
    file: FileText | None


class CandidatePart(Part, frozen=True, kw_only=True):
    """A candidate that is open, with the reason, or refuted, with the evidence."""

    chunks: Count
    steps: Count
    rounds: Count
    bandwidth_cost: FractionText
    reason: str | UnsetType = UNSET
    evidence: str | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET


class ClassPart(Part, frozen=True, kw_only=True):
    """The frontier of another class of algorithms for the same question."""

    name: Annotated[str | UnsetType, Meta(description="What points call it.")] = msgspec.field(
        name="class", default=UNSET
    )
    scope: Annotated[str, Meta(description="The class in words.")]
    complete: bool
    every_k: Annotated[bool | UnsetType, Meta(description="Complete for every k and C.")] = UNSET
    collective: str | UnsetType = UNSET
    steps: Annotated[int | UnsetType, Meta(description="S is at least this in it.")] = UNSET
    bandwidth: FractionText | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET
    limits: tuple[LimitPart, ...]
    points: tuple[PointPart, ...]


class UnsweptPart(Part, frozen=True, kw_only=True):
    """A class that was not looked at, and why."""

    name: str = msgspec.field(name="class")
    why: str


class FoundPart(Part, frozen=True, kw_only=True):
    """What is known of a question: of one class of algorithms, or of several."""

    topology: str
    collective: str
    root: int | None
    alpha_us: Annotated[float, Meta(description="Latency of a step, by which points are compared.")]
    gb_per_s: Annotated[float, Meta(description="Bandwidth of a lane, likewise.")]
    slowest_link: Annotated[
        bool | UnsetType, Meta(description="These are the slowest link's, and others are faster.")
    ] = UNSET
    scope: Annotated[str, Meta(description="The class of algorithms it is about.")]
    bounds: BoundsPart
    complete: Annotated[bool, Meta(description="The whole frontier of its class.")]
    stopped: Annotated[
        str, Meta(description="bandwidth-bound, max-steps or interrupted: why it ends there.")
    ]
    limits: Annotated[
        tuple[LimitPart, ...],
        Meta(description="Of R/C, by S; of several classes none: each in 'classes' has its own."),
    ]
    points: tuple[PointPart, ...]
    seconds: Seconds | UnsetType = UNSET
    k: Annotated[int | UnsetType, Meta(description="Of a sweep: R <= S + k was searched.")] = UNSET
    max_steps: int | UnsetType | None = UNSET
    max_chunks: int | UnsetType | None = UNSET
    solver: str | UnsetType = UNSET
    every_k: Annotated[
        bool | UnsetType, Meta(description="Complete for every k, not this alone.")
    ] = UNSET
    open: Annotated[
        tuple[CandidatePart, ...] | UnsetType, Meta(description="What may hide a better algorithm.")
    ] = UNSET
    unsat: Annotated[
        tuple[CandidatePart, ...] | UnsetType, Meta(description="What does not exist, and why.")
    ] = UNSET
    classes: Annotated[
        tuple[ClassPart, ...] | UnsetType, Meta(description="The frontiers of the classes.")
    ] = UNSET
    unswept: tuple[UnsweptPart, ...] | UnsetType = UNSET


class HalfPart(FoundPart, frozen=True, kw_only=True):
    """The frontier of a collective that algorithms are composed of."""

    schema: Literal[1]
    kind: Literal["frontier"]


class FrontierOutput(FoundPart, frozen=True, kw_only=True):
    """What 'sccl pareto' found, printed or kept in the folder of '--out'."""

    schema: Annotated[Literal[1], Meta(description="Version of this shape.")] = 1
    kind: Literal["frontier"] = "frontier"
    sccl: Annotated[str, Meta(description="The version of sccl.")]
    inputs: Inputs
    halves: Annotated[
        tuple[HalfPart, ...] | UnsetType, Meta(description="What compositions are made of.")
    ] = UNSET


class BoundsOutput(Output, frozen=True, kw_only=True):
    """What 'sccl bounds' computed."""

    kind: Literal["bounds"] = "bounds"
    topology: str
    collective: str
    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificatePart
    classes: Annotated[
        tuple[ClassBoundsPart, ...] | UnsetType, Meta(description="Of allreduce: of a class.")
    ] = UNSET
    limit: Annotated[
        ProvedLimitPart | UnsetType, Meta(description="With --steps: the limit of R/C there.")
    ] = UNSET
