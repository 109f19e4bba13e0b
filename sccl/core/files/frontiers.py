"""Frontiers as the shapes of files, and back. Fractions are texts such as ``"7/6"``.

Fields that earlier versions did not write are filled in before a file is read, by
:func:`_completed`; everything else is as the published shape has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.bounds import Bounds, Counted, Cut, Distance, Priced
from sccl.core.candidate import Candidate, Range
from sccl.core.cost import Costs
from sccl.core.frontier import ClassFrontier, Frontier, Open, Point, Refuted, Unswept
from sccl.core.limit import StepLimit
from sccl.core.topology import constraint_name
from sccl.errors import FormatError, ParameterError

FileText = Annotated[str, Meta(description="A path, as it was given.")]
FractionText = Annotated[
    str, Meta(pattern="^[0-9]+(/[0-9]+)?$", description="A fraction such as 7/6.")
]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[
    float, Meta(ge=0, description="Seconds; not in files, which are the same again.")
]
Optimal = Annotated[
    tuple[str, ...],
    Meta(
        description="Which bounds are met: latency, bandwidth, limit. Those of its class for a "
        "point in 'classes', else of every algorithm."
    ),
]

_MOST_STEPS = 1_000_000
_MOST_DIGITS = 4_000  # of a price: Python reads no more than 4,300 in a number
_COST = re.compile(r"[1-9][0-9]{0,14}(/[1-9][0-9]{0,14})?")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what is printed."""


# --- bounds --------------------------------------------------------------------------------------


class CutWire(Part, frozen=True, kw_only=True):
    """Ranks into which so many chunks must come, at a weight."""

    ranks: tuple[int, ...]
    weight: FractionText
    entering_chunks: Count


class DistanceWire(Part, frozen=True, kw_only=True):
    """A chunk that has so far to go, which bounds S."""

    problem: str
    chunk: Count
    sources: Annotated[tuple[int, ...], Meta(description="The ranks that hold it.")] = (
        msgspec.field(name="from")
    )
    rank: int = msgspec.field(name="to")
    distance: Count


class BoundsCertificateWire(Part, frozen=True, kw_only=True):
    """Why the bounds hold: prices of links and budgets, cuts, and a chunk with far to go."""

    problem: Annotated[str, Meta(description="What was bounded: the question, or its dual.")]
    chunks: Annotated[int | UnsetType, Meta(description="The C at which chunks are counted.")] = (
        UNSET
    )
    rounds_at_least: FractionText | UnsetType = UNSET
    kind: str
    prices: dict[str, FractionText] | UnsetType = UNSET
    cuts: tuple[CutWire, ...] | UnsetType = UNSET
    ranks: Annotated[
        tuple[int, ...] | UnsetType, Meta(description="Of all allreduces: the ranks of a cut.")
    ] = UNSET
    sends_per_chunk: Annotated[
        int | UnsetType, Meta(description="Of all allreduces: what each chunk needs at least.")
    ] = UNSET
    chunks_per_round: Annotated[
        int | UnsetType, Meta(description="Of all allreduces: what a round carries at most.")
    ] = UNSET
    steps: DistanceWire


class BoundsWire(Part, frozen=True, kw_only=True):
    """What no algorithm of a class can beat."""

    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificateWire


def bounds_to_wire(bounds: Bounds) -> BoundsWire:
    """Return the file shape of bounds, which know what proves them."""
    assert bounds.evidence is not None
    return BoundsWire(
        steps=bounds.steps,
        bandwidth=str(bounds.bandwidth),
        scope=bounds.scope,
        certificate=_certificate_to_wire(bounds.evidence, _distance_to_wire(bounds.distance)),
    )


def _certificate_to_wire(found: Priced | Counted, steps: DistanceWire) -> BoundsCertificateWire:
    match found:
        case Priced():
            return BoundsCertificateWire(
                problem=found.problem,
                chunks=found.chunks,
                rounds_at_least=str(found.rounds),
                kind=found.kind,
                prices={name: str(price) for name, price in found.prices},
                cuts=tuple(
                    CutWire(ranks=cut.ranks, weight=str(cut.weight), entering_chunks=cut.chunks)
                    for cut in found.cuts
                ),
                steps=steps,
            )
        case Counted():
            return BoundsCertificateWire(
                problem=found.problem,
                kind=found.kind,
                ranks=found.ranks,
                sends_per_chunk=found.sends,
                chunks_per_round=found.chunks_per_round,
                steps=steps,
            )


def _distance_to_wire(found: Distance | None) -> DistanceWire:
    assert found is not None
    return DistanceWire(
        problem=found.problem,
        chunk=found.chunk,
        sources=found.sources,
        rank=found.rank,
        distance=found.steps,
    )


def _bounds_of_wire(wire: BoundsWire) -> Bounds:
    of, steps = wire.certificate, wire.certificate.steps
    distance = Distance(steps.problem, steps.chunk, steps.sources, steps.rank, steps.distance)
    return Bounds(
        _steps(wire.steps),
        _cost(wire.bandwidth),
        wire.scope,
        distance if of.kind else None,
        _evidence_of_wire(of),
    )


def _evidence_of_wire(wire: BoundsCertificateWire) -> Priced | Counted | None:
    if not wire.kind:
        return None
    if wire.sends_per_chunk is not UNSET:
        ranks = wire.ranks or ()
        return Counted(wire.problem, wire.sends_per_chunk, wire.chunks_per_round or 1, ranks)
    return Priced(
        wire.problem,
        wire.chunks or 1,
        _fraction(wire.rounds_at_least or "0"),
        tuple((name, _fraction(price)) for name, price in (wire.prices or {}).items()),
        tuple(Cut(c.ranks, _fraction(c.weight), c.entering_chunks) for c in wire.cuts or ()),
    )


# --- limits --------------------------------------------------------------------------------------


class LimitWire(Part, frozen=True, kw_only=True):
    """The infimum of R/C for a number of steps, over all k and C: between two bounds."""

    steps: Count
    lower: FractionText
    upper: FractionText


class LimitProofWire(Part, frozen=True, kw_only=True):
    """Why a limit holds on a machine."""

    problem: str
    topology: str
    bound: FractionText
    prices: Annotated[
        tuple[tuple[str, int, FractionText], ...] | str,
        Meta(description="[constraint, step, price]; or 'bandwidth bound', which says it."),
    ]


class ProvedLimitWire(LimitWire, frozen=True, kw_only=True):
    """A limit with its certificates."""

    certificates: tuple[LimitProofWire, ...]


def proved_limit_to_wire(limit: StepLimit) -> ProvedLimitWire:
    """Return the shape of a limit and its proofs."""
    return ProvedLimitWire(
        steps=limit.steps,
        lower=str(limit.lower),
        upper=str(limit.upper),
        certificates=tuple(
            LimitProofWire(
                problem=proof.problem,
                topology=proof.topology,
                bound=str(proof.bound),
                prices=tuple(
                    (constraint_name(key), step, str(price)) for key, step, price in proof.prices
                )
                or "bandwidth bound",
            )
            for proof in limit.proofs
        ),
    )


def _limits_to_wire(limits: Iterable[StepLimit]) -> tuple[LimitWire, ...]:
    return tuple(LimitWire(steps=x.steps, lower=str(x.lower), upper=str(x.upper)) for x in limits)


def _limits_of_wire(wires: Iterable[LimitWire]) -> tuple[StepLimit, ...]:
    return tuple(StepLimit(_steps(x.steps), _cost(x.lower), _cost(x.upper)) for x in wires)


# --- points and candidates -----------------------------------------------------------------------


class PointWire(Part, frozen=True, kw_only=True):
    """An algorithm on a frontier; of a limit frontier, what attains a limit or comes near it."""

    among: Annotated[
        str | UnsetType, Meta(description="The class it is of, where there are several.")
    ] = msgspec.field(name="class", default=UNSET)
    chunks: int | None
    steps: Count
    rounds: int | None
    bandwidth_cost: Annotated[
        FractionText | None, Meta(description="R/C of the algorithm; null: too large to write.")
    ]
    rounds_per_step: tuple[int, ...] | UnsetType = UNSET
    limit: Annotated[
        FractionText | UnsetType, Meta(description="Of a limit frontier: the limit of R/C.")
    ] = UNSET
    optimal: Optimal
    proved: Annotated[
        bool, Meta(description="Nothing dominates it in its class; else: best found.")
    ]
    every_k: Annotated[
        bool | UnsetType, Meta(description="It is proved for every k and C, not those searched.")
    ] = UNSET
    attained: Annotated[bool | UnsetType, Meta(description="Whether R/C is the limit.")] = UNSET
    seconds: Seconds | UnsetType = UNSET
    from_store: Annotated[
        bool | UnsetType, Meta(description="The answer was kept; seconds are those it once took.")
    ] = UNSET
    file: FileText | None


class CandidateWire(Part, frozen=True, kw_only=True):
    """A candidate that is open, with the reason, or refuted, with the evidence."""

    chunks: Count
    steps: Count
    rounds: Count
    bandwidth_cost: FractionText
    reason: str | UnsetType = UNSET
    evidence: str | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET


def _point_to_wire(point: Point, *, of_limits: bool, among: str = "") -> PointWire:
    written = point.chunks is not None and point.rounds is not None
    cost = str(Fraction(point.rounds or 0, point.chunks or 1)) if written else None
    return PointWire(
        among=among or UNSET,
        steps=point.steps,
        chunks=point.chunks,
        rounds=point.rounds,
        bandwidth_cost=cost,
        proved=point.proved,
        every_k=UNSET if of_limits else point.proved and point.within is None,
        optimal=point.optimal,
        rounds_per_step=UNSET if of_limits else point.rounds_per_step,
        limit=str(point.cost) if of_limits else UNSET,
        attained=point.attained if of_limits else UNSET,
        seconds=_seconds_to_wire(point.seconds),
        from_store=UNSET if of_limits else point.from_store,
        file=str(point.file) if point.file else None,
    )


def _point_of_wire(wire: PointWire, covered: Range | None, default: Range | None) -> Point:
    """Return a point.

    Args:
        covered: what its proof is restricted to if it is not for every k.
        default: what it is restricted to if the file does not say.
    """
    cost = wire.limit or wire.bandwidth_cost
    within = default if wire.every_k is UNSET else None if wire.every_k else covered
    return Point(
        steps=_steps(wire.steps),
        cost=_cost(cost or ""),
        chunks=wire.chunks,
        rounds=wire.rounds,
        optimal=wire.optimal,
        proved=wire.proved,
        within=None if wire.limit else within,
        attained=wire.attained is not False,
        file=Path(wire.file) if wire.file else None,
        rounds_per_step=wire.rounds_per_step or (),
        seconds=_given(wire.seconds),
        from_store=wire.from_store is True,
    )


def _seconds_to_wire(seconds: float | None) -> float | UnsetType:
    return UNSET if seconds is None else round(seconds, 3)


def _given(seconds: float | UnsetType) -> float | None:
    return None if seconds is UNSET else seconds


def _open_to_wire(found: Open) -> CandidateWire:
    c = found.candidate
    return CandidateWire(
        chunks=c.chunks,
        steps=c.steps,
        rounds=c.rounds,
        bandwidth_cost=str(c.cost),
        reason=found.reason,
    )


def _refuted_to_wire(found: Refuted) -> CandidateWire:
    c = found.candidate
    return CandidateWire(
        chunks=c.chunks,
        steps=c.steps,
        rounds=c.rounds,
        bandwidth_cost=str(c.cost),
        evidence=found.evidence,
        seconds=_seconds_to_wire(found.seconds),
    )


def _candidate_of_wire(wire: CandidateWire) -> Candidate:
    return Candidate(_cost(wire.bandwidth_cost), wire.chunks, _steps(wire.steps), wire.rounds)


# --- classes and frontiers -----------------------------------------------------------------------


class ClassWire(Part, frozen=True, kw_only=True):
    """The frontier of another class of algorithms for the same question."""

    name: Annotated[str | UnsetType, Meta(description="What points call it.")] = msgspec.field(
        name="class", default=UNSET
    )
    collective: str | UnsetType = UNSET
    scope: Annotated[str, Meta(description="The class in words.")]
    steps: Annotated[int | UnsetType, Meta(description="S is at least this in it.")] = UNSET
    bandwidth: FractionText | UnsetType = UNSET
    complete: bool
    every_k: Annotated[bool | UnsetType, Meta(description="Complete for every k and C.")] = UNSET
    seconds: Seconds | UnsetType = UNSET
    limits: tuple[LimitWire, ...]
    points: tuple[PointWire, ...]


class UnsweptWire(Part, frozen=True, kw_only=True):
    """A class that was not looked at, and why."""

    name: str = msgspec.field(name="class")
    why: str


class FoundWire(Part, frozen=True, kw_only=True):
    """What is known of a question: of one class of algorithms, or of several."""

    topology: str
    collective: str
    root: int | None
    alpha_us: Annotated[float, Meta(description="Latency of a step, by which points are compared.")]
    gb_per_s: Annotated[float, Meta(description="Bandwidth of a lane, likewise.")]
    slowest_link: Annotated[
        bool | UnsetType, Meta(description="These are the slowest link's, and others are faster.")
    ] = UNSET
    k: Annotated[int | UnsetType, Meta(description="Of a sweep: R <= S + k was searched.")] = UNSET
    max_steps: int | UnsetType | None = UNSET
    max_chunks: int | UnsetType | None = UNSET
    solver: str | UnsetType = UNSET
    scope: Annotated[str, Meta(description="The class of algorithms it is about.")]
    bounds: BoundsWire
    complete: Annotated[bool, Meta(description="The whole frontier of its class.")]
    every_k: Annotated[
        bool | UnsetType, Meta(description="Complete for every k, not this alone.")
    ] = UNSET
    stopped: Annotated[
        str, Meta(description="bandwidth-bound, max-steps or interrupted: why it ends there.")
    ]
    seconds: Seconds | UnsetType = UNSET
    points: tuple[PointWire, ...]
    limits: Annotated[
        tuple[LimitWire, ...],
        Meta(description="Of R/C, by S; of several classes none: each in 'classes' has its own."),
    ]
    open: Annotated[
        tuple[CandidateWire, ...] | UnsetType, Meta(description="What may hide a better algorithm.")
    ] = UNSET
    unsat: Annotated[
        tuple[CandidateWire, ...] | UnsetType, Meta(description="What does not exist, and why.")
    ] = UNSET
    classes: Annotated[
        tuple[ClassWire, ...] | UnsetType, Meta(description="The frontiers of the classes.")
    ] = UNSET
    unswept: tuple[UnsweptWire, ...] | UnsetType = UNSET


class HalfWire(FoundWire, frozen=True, kw_only=True):
    """The frontier of a collective that algorithms are composed of."""

    schema: Literal[1] = 1
    kind: Literal["frontier"] = "frontier"


class FrontierWire(HalfWire, frozen=True, kw_only=True):
    """A frontier, with those of the halves that its algorithms are composed of."""

    halves: Annotated[
        tuple[HalfWire, ...] | UnsetType, Meta(description="What compositions are made of.")
    ] = UNSET


def frontier_to_plain(frontier: Frontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values, its kind first."""
    text = msgspec.json.encode(_frontier_to_wire(frontier))  # so that lists are lists
    found: dict[str, Any] = msgspec.json.decode(text)
    halves = {"halves": [frontier_to_plain(half) for half in frontier.halves]}
    return {"schema": 1, "kind": "frontier"} | found | (halves if frontier.several else {})


def _frontier_to_wire(frontier: Frontier) -> FrontierWire:
    """Return the shape of a frontier without its halves."""
    f, of_limits = frontier, frontier.covered is None
    assert f.costs is not None
    assert f.bounds is not None
    return FrontierWire(
        topology=f.topology,
        collective=f.collective,
        root=f.root,
        **asdict(f.costs),
        **_covered_to_wire(f),
        scope=f.scope,
        bounds=bounds_to_wire(f.bounds),
        complete=f.complete,
        every_k=UNSET if of_limits and not f.several else f.every_k,
        stopped=f.stopped,
        seconds=_seconds_to_wire(f.seconds),
        points=tuple(_point_to_wire(p, of_limits=of_limits, among=name) for name, p in f.stairs),
        limits=() if f.several else _limits_to_wire(f.classes[0].limits),
        **_candidates_to_wire(f),
        classes=tuple(_class_to_wire(one, f) for one in f.classes) if f.several else UNSET,
        unswept=_unswept_to_wire(f) if f.several else UNSET,
    )


def _covered_to_wire(frontier: Frontier) -> dict[str, Any]:
    covered = frontier.covered
    return {} if covered is None else asdict(covered) | {"solver": frontier.solver}


def _candidates_to_wire(frontier: Frontier) -> dict[str, Any]:
    """Return open and refuted candidates; limits of one class have none."""
    if frontier.covered is None and not frontier.several:
        return {}
    return {
        "open": tuple(map(_open_to_wire, frontier.open)),
        "unsat": tuple(map(_refuted_to_wire, frontier.refuted)),
    }


def _unswept_to_wire(frontier: Frontier) -> tuple[UnsweptWire, ...]:
    return tuple(UnsweptWire(name=one.name, why=one.why) for one in frontier.unswept)


def _class_to_wire(one: ClassFrontier, frontier: Frontier) -> ClassWire:
    of_limits = frontier.covered is None
    return ClassWire(
        name=one.name,
        collective=one.collective or frontier.collective,
        scope=one.scope,
        steps=UNSET if one.steps is None else one.steps,
        bandwidth=UNSET if one.bandwidth is None else str(one.bandwidth),
        complete=one.complete,
        every_k=one.every_k,
        seconds=_seconds_to_wire(one.seconds),
        limits=_limits_to_wire(one.limits),
        points=tuple(_point_to_wire(point, of_limits=of_limits) for point in one.points),
    )


# --- reading -------------------------------------------------------------------------------------


def frontiers_of_plain(plain: Mapping[str, Any], where: str) -> tuple[Frontier, ...]:
    """Return the frontier of plain JSON values; after it, of older files, those of other classes.

    Args:
        where: what to call it in a message.

    Raises:
        FormatError: it is something else.
    """
    try:
        wire = msgspec.convert(_completed(plain), FrontierWire)
        return _frontiers_of_wire(wire)
    except (msgspec.ValidationError, ParameterError) as error:
        raise FormatError(
            f"{where}: {error}; expected a frontier as 'sccl pareto --json' prints it"
        ) from error


def _frontiers_of_wire(wire: FrontierWire) -> tuple[Frontier, ...]:
    classes = wire.classes or ()
    covered = _covered_of_wire(wire)
    if any(one.name for one in classes):
        named = (one for one in classes if one.name)
        parts = tuple(_class_of_wire(one, wire.collective, covered) for one in named)
        halves = tuple(_half_of_wire(half) for half in wire.halves or ())
        return (replace(_frontier_of_wire(wire, parts), halves=halves),)
    own = _half_of_wire(wire)
    return (own, *(_older_class_of_wire(one, own) for one in classes))


def _half_of_wire(wire: FoundWire) -> Frontier:
    """Return the frontier of a question that has one class."""
    covered = _covered_of_wire(wire)
    default = None if wire.every_k is True else covered
    own = ClassFrontier(
        name="",
        scope=wire.scope,
        steps=wire.bounds.steps,
        bandwidth=_cost(wire.bounds.bandwidth),
        points=tuple(_point_of_wire(point, covered, default) for point in wire.points),
        limits=_limits_of_wire(wire.limits),
        complete=wire.complete,
        within=default,
        seconds=_given(wire.seconds),
    )
    return _frontier_of_wire(wire, (own,))


def _class_of_wire(one: ClassWire, collective: str, covered: Range | None) -> ClassFrontier:
    restricted = covered if one.every_k is False else None
    return ClassFrontier(
        name=one.name or "",
        scope=one.scope,
        steps=one.steps or None,
        bandwidth=_cost(one.bandwidth) if one.bandwidth else None,
        points=tuple(_point_of_wire(point, covered, restricted) for point in one.points),
        limits=_limits_of_wire(one.limits),
        complete=one.complete,
        within=restricted,
        collective="" if one.collective == collective else one.collective or "",
        seconds=_given(one.seconds),
    )


def _older_class_of_wire(one: ClassWire, own: Frontier) -> Frontier:
    """Return another class of an older file: a question of its own, without bounds of its own.

    Where it runs the algorithms of another collective, nothing is beyond that one's bounds.
    """
    part = replace(_class_of_wire(one, own.collective, None), collective="")
    first = part.points[0] if part.points else None
    known = first is not None and "latency" in first.optimal
    part = replace(part, steps=first.steps if first and known else None)
    collective = one.collective or own.collective
    bounds = None if collective == own.collective else Bounds(1, Fraction(0))
    return Frontier(own.topology, collective, own.root, own.costs, bounds, (part,))


def _frontier_of_wire(wire: FoundWire, classes: tuple[ClassFrontier, ...]) -> Frontier:
    costs = None
    if wire.gb_per_s:
        costs = Costs(wire.alpha_us, wire.gb_per_s, wire.slowest_link is True)
    return Frontier(
        topology=wire.topology,
        collective=wire.collective,
        root=wire.root,
        costs=costs,
        bounds=_bounds_of_wire(wire.bounds),
        classes=classes,
        covered=_covered_of_wire(wire),
        solver=wire.solver or "",
        open=tuple(Open(_candidate_of_wire(c), c.reason or "") for c in wire.open or ()),
        refuted=tuple(
            Refuted(_candidate_of_wire(c), c.evidence or "", c.seconds or 0.0)
            for c in wire.unsat or ()
        ),
        unswept=tuple(Unswept(one.name, one.why) for one in wire.unswept or ()),
        stopped=wire.stopped,
        seconds=_given(wire.seconds),
    )


def _covered_of_wire(wire: FoundWire) -> Range | None:
    """Return what a sweep searched; of limits, which are over all k, nothing is said."""
    if wire.k is UNSET and any(point.limit for point in wire.points):
        return None
    k = None if wire.k is UNSET else wire.k
    return Range(k, wire.max_steps or None, wire.max_chunks or None)


def _steps(steps: int) -> int:
    """Return a number of steps that can be drawn."""
    if not 1 <= steps <= _MOST_STEPS:
        raise ParameterError(f"steps is {steps}, expected 1 to {_MOST_STEPS}")
    return steps


def _cost(text: str) -> Fraction:
    """Return an R/C; numbers of very many digits would take long to compute with."""
    if not _COST.fullmatch(text):
        raise ParameterError(f"R/C is {text!r:.40}, expected a fraction such as 7/6")
    return Fraction(text)


def _fraction(text: str) -> Fraction:
    """Return a price, a weight or a number of rounds: they are read, and not computed with."""
    top, _, bottom = text.partition("/")
    if len(text) > _MOST_DIGITS or (bottom and not bottom.strip("0")):
        raise ParameterError(f"a price is {text!r:.40}, expected a fraction such as 7/6")
    return Fraction(int(top), int(bottom or 1))


# --- older files ---------------------------------------------------------------------------------

_UNPROVED = {
    "problem": "",
    "kind": "",
    "steps": {"problem": "", "chunk": 0, "from": (), "to": 0, "distance": 0},
}
_HEAD = {"root": None, "alpha_us": 0.0, "gb_per_s": 0.0, "complete": False, "stopped": ""}
_POINT = {"chunks": None, "rounds": None, "bandwidth_cost": None, "optimal": (), "file": None}


def _completed(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a frontier with the fields that earlier versions did not write."""
    bounds = plain.get("bounds")
    if not isinstance(bounds, dict):
        return plain
    bounds = {"scope": "", "certificate": _UNPROVED} | bounds
    classes = [{"complete": False} | one | _lists(one) for one in _rows(plain, "classes")]
    return (
        _HEAD
        | {"scope": bounds["scope"], "limits": ()}
        | {name: value for name, value in plain.items() if (name, value) != ("k", None)}
        | {"bounds": bounds}
        | ({"classes": classes} if classes else {})
        | _lists(plain)
    )


def _lists(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points and limits of a class, completed."""
    found = {
        "points": [_POINT | point for point in _rows(plain, "points")],
        "limits": [{"upper": limit.get("lower")} | limit for limit in _rows(plain, "limits")],
    }
    return {name: rows for name, rows in found.items() if rows}


def _rows(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a list; none where there is something else, which is complained of."""
    rows = plain.get(name)
    whole = isinstance(rows, list | tuple) and all(isinstance(row, dict) for row in rows)
    return list(rows) if whole and rows is not None else []
