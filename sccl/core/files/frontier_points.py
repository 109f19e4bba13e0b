"""Points and candidates of a frontier as the shapes of files, and back."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

from msgspec import UNSET

from sccl.core.answer import Origin
from sccl.core.candidate import Candidate, SweepRange
from sccl.core.files.fields import check_steps, cost_from_text, seconds_from_wire, seconds_to_wire
from sccl.core.files.frontier_shapes import CandidateWire, PointWire
from sccl.core.frontier import LimitPoint, OpenCandidate, Point, RefutedCandidate
from sccl.core.stop import StopReason
from sccl.errors import ParameterError


def point_to_wire(
    point: Point, *, of_limits: bool, among: str = "", above: Fraction | None = None
) -> PointWire:
    """Return the shape of a point.

    Args:
        of_limits: whether it belongs to a limit frontier, whose points are for every k.
        among: its class, if there are several.
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
        covered: the range of its proof if it is not for every k.
        default: the range of its proof if the file states none.

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
        proof_origins=tuple(map(_origin_from_text, wire.rests_on or ())),
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
        _candidate_from_wire(wire),
        StopReason.parse(wire.reason or ""),
        _origin_from_text(wire.origin) if wire.origin else None,
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
        _candidate_from_wire(wire),
        wire.evidence or "",
        seconds_from_wire(wire.seconds),
        _origin_from_text(wire.origin or Origin.THIS_PROCESS),
        wire.refuted_by or "",
    )


def _origin_from_text(text: str) -> Origin:
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


def _candidate_from_wire(wire: CandidateWire) -> Candidate:
    return Candidate(
        cost_from_text(wire.bandwidth_cost), wire.chunks, check_steps(wire.steps), wire.rounds
    )
