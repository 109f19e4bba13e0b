"""The shapes of frontiers in files: points and candidates, classes, and whole frontiers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.files.bounds import BoundsWire, LimitWire
from sccl.core.files.shapes import FileText, FractionText, NonNegative, Part, Seconds

Optimal = Annotated[
    tuple[str, ...],
    Meta(
        description="Bounds that the point attains: latency, bandwidth, limit. For a point in "
        "'classes' these are bounds of its family, else of every algorithm."
    ),
]


class PointWire(Part, frozen=True, kw_only=True):
    """An algorithm on a frontier. On a limit frontier, one at or near a limit."""

    among: Annotated[str | UnsetType, "Family of the algorithm, if the frontier has several."] = (
        msgspec.field(name="class", default=UNSET)
    )
    above_every: Annotated[
        FractionText | UnsetType,
        Meta(
            description="For allreduce: gap between R/C and the lower bound for every allreduce "
            "with as many steps; 0: optimal among all."
        ),
    ] = UNSET
    chunks: int | None
    steps: NonNegative
    rounds: int | None
    bandwidth_cost: Annotated[
        FractionText | None, "R/C of the algorithm; null: too large to write."
    ]
    rounds_per_step: tuple[int, ...] | UnsetType = UNSET
    limit: Annotated[
        FractionText | UnsetType, Meta(description="For a limit frontier: the limit of R/C.")
    ] = UNSET
    optimal: Optimal
    proved: Annotated[
        bool, "Whether no algorithm of its family dominates it; otherwise best found."
    ]
    every_k: Annotated[
        bool | UnsetType, "Whether the proof covers every k and C, not only those searched."
    ] = UNSET
    attained: Annotated[bool | UnsetType, "Whether R/C is the limit."] = UNSET
    seconds: Seconds | UnsetType = UNSET
    from_store: Annotated[
        bool | UnsetType,
        "Whether the answer comes from the store; seconds are those of the original search.",
    ] = UNSET
    rests_on: Annotated[
        tuple[str, ...] | UnsetType,
        "Origins, other than this process, of the refutations in its proof: stored, other-version, "
        "store-file, cluster. For a point that is not proved: origins of unverified refutations "
        "that would prove it.",
    ] = UNSET
    found_by: Annotated[
        str | UnsetType,
        "Method that made the algorithm: greedy, construction, packing, composition, or a solver "
        "(cp-sat, cadical, z3).",
    ] = UNSET
    file: FileText | None


class CandidateWire(Part, frozen=True, kw_only=True):
    """A candidate that is open, with the reason, or refuted, with the evidence."""

    chunks: NonNegative
    steps: NonNegative
    rounds: NonNegative
    bandwidth_cost: FractionText
    reason: str | UnsetType = UNSET
    evidence: str | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET
    origin: Annotated[
        str | UnsetType,
        "Source of a refutation: stored, other-version, store-file, cluster; absent: this process. "
        "For an open candidate: source of an unverified claim.",
    ] = UNSET
    refuted_by: Annotated[
        str | UnsetType,
        "For a refuted candidate: distance, cut, packing, or a solver (cp-sat, cadical, z3).",
    ] = UNSET


class ClassWire(Part, frozen=True, kw_only=True):
    """The frontier of another class of algorithms for the same question."""

    name: Annotated[str | UnsetType, "Name of the family in points."] = msgspec.field(
        name="class", default=UNSET
    )
    collective: str | UnsetType = UNSET
    scope: Annotated[str, "Description of the class."]
    steps: Annotated[int | UnsetType, "Lower bound on S for the class."] = UNSET
    bandwidth: FractionText | UnsetType = UNSET
    complete: bool
    every_k: Annotated[bool | UnsetType, "Whether the frontier is complete for every k and C."] = (
        UNSET
    )
    seconds: Seconds | UnsetType = UNSET
    limits: tuple[LimitWire, ...]
    points: tuple[PointWire, ...]


class UnsweptWire(Part, frozen=True, kw_only=True):
    """A class that was not looked at, and why."""

    name: str = msgspec.field(name="class")
    why: str


class QuestionFrontierWire(Part, frozen=True, kw_only=True):
    """The results for a collective on a machine: for one class of algorithms, or for several."""

    topology: str
    collective: str
    root: int | None
    alpha_us: Annotated[float, "Latency of a step, used to compare points."]
    gb_per_s: Annotated[float, "Bandwidth of a lane, used to compare points."]
    slowest_link: Annotated[
        bool | UnsetType,
        "Whether alpha_us and gb_per_s describe the slowest link of a machine with different "
        "links.",
    ] = UNSET
    k: Annotated[int | UnsetType, "For a sweep: k of the searched algorithms (R <= S + k)."] = UNSET
    max_steps: int | UnsetType | None = UNSET
    max_chunks: int | UnsetType | None = UNSET
    solver: str | UnsetType = UNSET
    scope: Annotated[str, "Class of algorithms of the frontier."]
    bounds: BoundsWire
    complete: Annotated[bool, "Whether the frontier of its class is complete."]
    every_k: Annotated[
        bool | UnsetType, "Whether the frontier is complete for every k, not only for this k."
    ] = UNSET
    stopped: Annotated[str, "Reason for the last S: bandwidth-bound, max-steps or interrupted."]
    seconds: Seconds | UnsetType = UNSET
    points: tuple[PointWire, ...]
    limits: Annotated[
        tuple[LimitWire, ...],
        "Limits of R/C by S; empty for several families, as each one in 'classes' has its own.",
    ]
    open: Annotated[
        tuple[CandidateWire, ...] | UnsetType,
        "Candidates without an answer, each of which may hide a better algorithm.",
    ] = UNSET
    unsat: Annotated[
        tuple[CandidateWire, ...] | UnsetType, "Refuted candidates, each with the reason."
    ] = UNSET
    every: Annotated[
        tuple[LimitWire, ...] | UnsetType,
        "For allreduce: lower bound on R/C for every allreduce, by S.",
    ] = UNSET
    classes: Annotated[tuple[ClassWire, ...] | UnsetType, "Frontier of each class."] = UNSET
    unswept: tuple[UnsweptWire, ...] | UnsetType = UNSET


class HalfWire(QuestionFrontierWire, frozen=True, kw_only=True):
    """The frontier of a collective that algorithms are composed of."""

    schema: Literal[1] = 1
    kind: Literal["frontier"] = "frontier"


class FrontierWire(HalfWire, frozen=True, kw_only=True):
    """A frontier, with those of the halves that its algorithms are composed of."""

    halves: Annotated[
        tuple[HalfWire, ...] | UnsetType, "Frontiers of the two collectives of a composition."
    ] = UNSET
