"""Convert frontiers to plain values of files, and back.

Fields that earlier versions did not write are filled in before a file is read. All other fields
have the published shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from sccl.core.answer import Origin
from sccl.core.bound import AlgorithmBounds
from sccl.core.cost import Costs
from sccl.core.files.bounds import (
    bounds_from_wire,
    bounds_to_wire,
    limits_from_wire,
    limits_to_wire,
)
from sccl.core.files.frontier_shapes import (
    CandidateWire,
    ClassWire,
    FrontierWire,
    PointWire,
    QuestionFrontierWire,
    UnsweptWire,
)
from sccl.core.files.shapes import check_steps, cost_from_text, seconds_from_wire, seconds_to_wire
from sccl.core.frontier import (
    ClassFrontier,
    Frontier,
    LimitPoint,
    OpenCandidate,
    Point,
    RefutedCandidate,
    SkippedClass,
    StepLimitFrontier,
    SweepFrontier,
)
from sccl.core.instance import Candidate, SweepRange
from sccl.core.stop import StopReason
from sccl.errors import FormatError, ParameterError

_EMPTY_CERTIFICATE = {
    "problem": "",
    "kind": "",
    "steps": {"problem": "", "chunk": 0, "from": (), "to": 0, "distance": 0},
}
_FRONTIER_DEFAULTS = {
    "root": None,
    "alpha_us": 0.0,
    "gb_per_s": 0.0,
    "complete": False,
    "stopped": "",
}
_POINT_DEFAULTS = {
    "chunks": None,
    "rounds": None,
    "bandwidth_cost": None,
    "optimal": (),
    "file": None,
}


# --- writing -------------------------------------------------------------------------------------


def frontier_to_plain(frontier: Frontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values, its kind first."""
    text = msgspec.json.encode(_frontier_to_wire(frontier))  # so that lists are lists
    plain: dict[str, Any] = msgspec.json.decode(text)
    halves = {"halves": [frontier_to_plain(half) for half in frontier.halves]}
    return {"schema": 1, "kind": "frontier"} | plain | (halves if frontier.is_multiclass else {})


def _frontier_to_wire(frontier: Frontier) -> FrontierWire:
    """Return the shape of a frontier without its halves."""
    f, of_limits = frontier, not isinstance(frontier, SweepFrontier)
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
        complete=f.is_complete,
        every_k=UNSET if of_limits and not f.is_multiclass else f.covers_all_k,
        stopped=str(f.stop_reason),
        seconds=seconds_to_wire(f.seconds),
        points=tuple(
            point_to_wire(p, of_limits=of_limits, among=name, above=f.gap_to_any_class(p))
            for name, p in f.non_dominated
        ),
        limits=() if f.is_multiclass else limits_to_wire(f.classes[0].limits),
        **_candidates_to_wire(f),
        every=limits_to_wire(f.any_class_limits) or UNSET,
        classes=tuple(_class_to_wire(part, f) for part in f.classes) if f.is_multiclass else UNSET,
        unswept=_unswept_to_wire(f) if f.is_multiclass else UNSET,
    )


def _covered_to_wire(frontier: Frontier) -> dict[str, Any]:
    if not isinstance(frontier, SweepFrontier):
        return {}
    return asdict(frontier.covered) | {"solver": frontier.solver}


def _candidates_to_wire(frontier: Frontier) -> dict[str, Any]:
    """Return open and refuted candidates, which limits of one class do not have."""
    if not isinstance(frontier, SweepFrontier) and not frontier.is_multiclass:
        return {}
    return {
        "open": tuple(map(open_to_wire, frontier.open)),
        "unsat": tuple(map(refuted_to_wire, frontier.refuted)),
    }


def _unswept_to_wire(frontier: Frontier) -> tuple[UnsweptWire, ...]:
    return tuple(UnsweptWire(name=entry.name, why=str(entry.reason)) for entry in frontier.skipped)


def _class_to_wire(part: ClassFrontier, frontier: Frontier) -> ClassWire:
    of_limits = not isinstance(frontier, SweepFrontier)
    return ClassWire(
        name=part.name,
        collective=part.collective or frontier.collective,
        scope=part.scope,
        steps=UNSET if part.steps is None else part.steps,
        bandwidth=UNSET if part.bandwidth is None else str(part.bandwidth),
        complete=part.is_complete,
        every_k=part.covers_all_k,
        seconds=seconds_to_wire(part.seconds),
        limits=limits_to_wire(part.limits),
        points=tuple(point_to_wire(point, of_limits=of_limits) for point in part.points),
    )


# --- reading -------------------------------------------------------------------------------------


def frontiers_from_plain(plain: Mapping[str, Any], where: str) -> tuple[Frontier, ...]:
    """Return the frontier in plain JSON values, followed by other classes in older files.

    Args:
        where: Name in messages.

    Raises:
        FormatError: The values are no frontier.
    """
    try:
        wire = msgspec.convert(fill_missing_fields(plain), FrontierWire)
        return _frontiers_from_wire(wire)
    except (msgspec.ValidationError, ParameterError) as error:
        raise FormatError(
            f"{where}: {error}; expected a frontier as 'sccl pareto --json' prints it"
        ) from error


def _frontiers_from_wire(wire: FrontierWire) -> tuple[Frontier, ...]:
    classes = wire.classes or ()
    covered = _covered_from_wire(wire)
    if any(part.name for part in classes):
        named = (part for part in classes if part.name)
        parts = tuple(_class_from_wire(part, wire.collective, covered) for part in named)
        return (_frontier_from_wire(wire, parts, wire.halves or ()),)
    frontier = _half_from_wire(wire)
    return (
        frontier,
        *(
            legacy_class_frontier(_class_from_wire(part, frontier.collective, None), frontier)
            for part in classes
        ),
    )


def _half_from_wire(wire: QuestionFrontierWire) -> SweepFrontier | StepLimitFrontier:
    """Return the frontier of a problem with one class."""
    covered = _covered_from_wire(wire)
    default = None if wire.every_k is True else covered
    part = ClassFrontier(
        name="",
        scope=wire.scope,
        steps=wire.bounds.steps,
        bandwidth=cost_from_text(wire.bounds.bandwidth),
        points=tuple(point_from_wire(point, covered, default) for point in wire.points),
        limits=limits_from_wire(wire.limits),
        is_complete=wire.complete,
        within=default,
        seconds=seconds_from_wire(wire.seconds),
    )
    return _frontier_from_wire(wire, (part,))


def _class_from_wire(wire: ClassWire, collective: str, covered: SweepRange | None) -> ClassFrontier:
    restricted = covered if wire.every_k is False else None
    return ClassFrontier(
        name=wire.name or "",
        scope=wire.scope,
        steps=wire.steps or None,
        bandwidth=cost_from_text(wire.bandwidth) if wire.bandwidth else None,
        points=tuple(point_from_wire(point, covered, restricted) for point in wire.points),
        limits=limits_from_wire(wire.limits),
        is_complete=wire.complete,
        within=restricted,
        collective="" if wire.collective == collective else wire.collective or "",
        seconds=seconds_from_wire(wire.seconds),
    )


def _frontier_from_wire(
    wire: QuestionFrontierWire,
    classes: tuple[ClassFrontier, ...],
    halves: Sequence[QuestionFrontierWire] = (),
) -> SweepFrontier | StepLimitFrontier:
    covered = _covered_from_wire(wire)
    make: Callable[..., SweepFrontier | StepLimitFrontier] = StepLimitFrontier
    if covered is not None:
        sweeps = (_half_from_wire(half) for half in halves)
        make = partial(
            SweepFrontier,
            covered=covered,
            solver=wire.solver or "",
            open=tuple(map(open_from_wire, wire.open or ())),
            refuted=tuple(map(refuted_from_wire, wire.unsat or ())),
            halves=tuple(half for half in sweeps if isinstance(half, SweepFrontier)),
        )
    costs = None
    if wire.gb_per_s:
        costs = Costs(wire.alpha_us, wire.gb_per_s, wire.slowest_link is True)
    return make(
        topology=wire.topology,
        collective=wire.collective,
        root=wire.root,
        costs=costs,
        bounds=bounds_from_wire(wire.bounds),
        classes=classes,
        skipped=tuple(
            SkippedClass(entry.name, StopReason.parse(entry.why)) for entry in wire.unswept or ()
        ),
        any_class_limits=limits_from_wire(wire.every or ()),
        stop_reason=StopReason.parse(wire.stopped),
        seconds=seconds_from_wire(wire.seconds),
    )


def _covered_from_wire(wire: QuestionFrontierWire) -> SweepRange | None:
    """Return the range of a sweep, None for limits, which cover all k."""
    is_sweep = wire.k is not UNSET or wire.solver is not UNSET
    if not is_sweep and all(point.limit for point in wire.points):
        return None
    k = None if wire.k is UNSET else wire.k
    return SweepRange(k, wire.max_steps or None, wire.max_chunks or None)


# --- points and candidates -----------------------------------------------------------------------


def point_to_wire(
    point: Point, *, of_limits: bool, among: str = "", above: Fraction | None = None
) -> PointWire:
    """Return the shape of a point.

    Args:
        of_limits: Whether it belongs to a limit frontier, whose points cover every k.
        among: Its class, if there are several.
        above: its relative gap to a lower bound for all classes. None: unknown.
    """
    is_limit = of_limits or (isinstance(point, LimitPoint) and point.chunks is None)
    return PointWire(
        among=among or UNSET,
        above_every=UNSET if above is None else str(above),
        steps=point.steps,
        chunks=point.chunks,
        rounds=point.rounds,
        bandwidth_cost=_bandwidth_cost(point),
        proved=point.is_proved,
        every_k=UNSET if of_limits else point.is_proved and point.within is None,
        optimal=point.optimal,
        rounds_per_step=UNSET if of_limits else point.rounds_per_step,
        limit=str(point.cost) if is_limit else UNSET,
        attained=point.is_attained if is_limit else UNSET,
        seconds=seconds_to_wire(point.seconds),
        from_store=UNSET if of_limits or point.seconds is None else point.from_store,
        rests_on=tuple(origin.value for origin in point.proof_origins) or UNSET,
        found_by=point.found_by or UNSET,
        file=str(point.file) if point.file else None,
    )


def _bandwidth_cost(point: Point) -> str | None:
    """Return R/C of the algorithm of a point. None: a limit has no algorithm."""
    if not isinstance(point, LimitPoint):
        return str(point.cost)
    return None if point.chunks is None else str(point.candidate.cost)


def point_from_wire(
    wire: PointWire, covered: SweepRange | None, default: SweepRange | None
) -> Point:
    """Return a point.

    Args:
        covered: Range of its proof if the proof does not cover every k.
        default: Range of its proof if the file states none.

    Raises:
        ParameterError: a number is out of range.
    """
    cost = wire.limit or wire.bandwidth_cost
    within = default if wire.every_k is UNSET else None if wire.every_k else covered
    make: Callable[..., Point] = Point
    if wire.limit:
        make = partial(LimitPoint, is_attained=wire.attained is not False)
    return make(
        steps=check_steps(wire.steps),
        cost=cost_from_text(cost or ""),
        chunks=wire.chunks,
        rounds=wire.rounds,
        optimal=wire.optimal,
        is_proved=wire.proved,
        within=None if wire.limit else within,
        file=Path(wire.file) if wire.file else None,
        rounds_per_step=wire.rounds_per_step or (),
        seconds=seconds_from_wire(wire.seconds),
        from_store=wire.from_store is True,
        proof_origins=tuple(map(origin_from_text, wire.rests_on or ())),
        found_by=wire.found_by or "",
    )


def open_to_wire(row: OpenCandidate) -> CandidateWire:
    """Return the shape of a candidate that is open."""
    c = row.candidate
    return CandidateWire(
        chunks=c.chunks,
        steps=c.steps,
        rounds=c.rounds,
        bandwidth_cost=str(c.cost),
        reason=str(row.reason),
        origin=UNSET if row.origin is None else row.origin.value,
    )


def open_from_wire(wire: CandidateWire) -> OpenCandidate:
    """Return a candidate that is open.

    Raises:
        ParameterError: a number is out of range, or there is no such origin.
    """
    return OpenCandidate(
        candidate_from_wire(wire),
        StopReason.parse(wire.reason or ""),
        origin_from_text(wire.origin) if wire.origin else None,
    )


def refuted_to_wire(row: RefutedCandidate) -> CandidateWire:
    """Return the shape of a candidate that is refuted."""
    c = row.candidate
    return CandidateWire(
        chunks=c.chunks,
        steps=c.steps,
        rounds=c.rounds,
        bandwidth_cost=str(c.cost),
        evidence=row.evidence,
        seconds=seconds_to_wire(row.seconds),
        origin=UNSET if row.origin is Origin.THIS_PROCESS else row.origin.value,
        refuted_by=row.refuted_by or UNSET,
    )


def refuted_from_wire(wire: CandidateWire) -> RefutedCandidate:
    """Return a candidate that is refuted.

    Raises:
        ParameterError: a number is out of range, or there is no such origin.
    """
    return RefutedCandidate(
        candidate_from_wire(wire),
        wire.evidence or "",
        seconds_from_wire(wire.seconds),
        origin_from_text(wire.origin or Origin.THIS_PROCESS),
        wire.refuted_by or "",
    )


def origin_from_text(text: str) -> Origin:
    """Return the origin of a refutation.

    Raises:
        ParameterError: there is no such origin.
    """
    try:
        return Origin(text)
    except ValueError as error:
        raise ParameterError(
            f"the origin of a refutation is {text!r}, expected one of {', '.join(Origin)}"
        ) from error


def candidate_from_wire(wire: CandidateWire) -> Candidate:
    """Return the candidate of a row, open or refuted.

    Raises:
        ParameterError: a number is out of range.
    """
    return Candidate(
        cost_from_text(wire.bandwidth_cost), wire.chunks, check_steps(wire.steps), wire.rounds
    )


# --- files of earlier versions -------------------------------------------------------------------


def fill_missing_fields(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a frontier with the fields that earlier versions did not write."""
    bounds = plain.get("bounds")
    if not isinstance(bounds, dict):
        return plain
    bounds = {"scope": "", "certificate": _EMPTY_CERTIFICATE} | bounds
    classes = [{"complete": False} | row | _filled_lists(row) for row in _rows(plain, "classes")]
    return (
        _FRONTIER_DEFAULTS
        | {"scope": bounds["scope"], "limits": ()}
        | {name: value for name, value in plain.items() if (name, value) != ("k", None)}
        | {"bounds": bounds}
        | ({"classes": classes} if classes else {})
        | _filled_lists(plain)
    )


def _filled_lists(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points and limits of a class, completed."""
    lists = {
        "points": [_POINT_DEFAULTS | point for point in _rows(plain, "points")],
        "limits": [{"upper": limit.get("lower")} | limit for limit in _rows(plain, "limits")],
    }
    return {name: rows for name, rows in lists.items() if rows}


def _rows(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a list, empty if invalid: the shape check then reports the error."""
    rows = plain.get(name)
    is_valid = isinstance(rows, list | tuple) and all(isinstance(row, dict) for row in rows)
    return list(rows) if is_valid and rows is not None else []


def legacy_class_frontier(part: ClassFrontier, frontier: Frontier) -> Frontier:
    """Return another class of an older file as a separate frontier, without bounds.

    If the class runs the algorithms of another collective, no bounds restrict it.

    Args:
        part: The class as read.
        frontier: the main frontier of the file.
    """
    first = part.points[0] if part.points else None
    meets_latency = first is not None and "latency" in first.optimal
    bounds = AlgorithmBounds(1, Fraction(0)) if part.collective else None
    collective = part.collective or frontier.collective
    part = replace(part, collective="", steps=first.steps if first and meets_latency else None)
    kind = StepLimitFrontier if isinstance(frontier, StepLimitFrontier) else Frontier
    return kind(frontier.topology, collective, frontier.root, frontier.costs, bounds, (part,))
