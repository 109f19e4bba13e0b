"""Frontiers as charts want them, from what ``sccl pareto --json`` prints and from algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec

from sccl.core.algorithm import Algorithm
from sccl.core.cost import alpha_us, lane_gb_per_s
from sccl.errors import FormatError
from sccl.view import CostPoint, FrontierData

_Steps = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Cost = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,15}(/[1-9][0-9]{0,14})?$")]


class _Bounds(msgspec.Struct):
    steps: _Steps
    bandwidth: _Cost
    scope: str = ""


class _Limit(msgspec.Struct):
    steps: _Steps
    lower: _Cost


class _Candidate(msgspec.Struct):
    steps: _Steps
    bandwidth_cost: _Cost


class _Point(msgspec.Struct):
    steps: _Steps
    proved: bool
    bandwidth_cost: _Cost | None = None
    limit: _Cost | None = None
    attained: bool = True
    chunks: int | None = None
    rounds: int | None = None


class _Class(msgspec.Struct):
    """A class of algorithms beyond that of a limit frontier."""

    points: tuple[_Point, ...]
    limits: tuple[_Limit, ...]
    scope: str


class _Frontier(msgspec.Struct):
    topology: str
    collective: str
    bounds: _Bounds
    points: tuple[_Point, ...]
    limits: tuple[_Limit, ...] = ()
    open: tuple[_Candidate, ...] = ()
    unsat: tuple[_Candidate, ...] = ()
    classes: tuple[_Class, ...] = ()
    root: int | None = None
    alpha_us: float | None = None
    gb_per_s: float | None = None


def of_json(plain: Mapping[str, Any], where: str) -> list[FrontierData]:
    """Return the frontier of what ``sccl pareto --json`` prints, then those of other classes.

    Raises:
        FormatError: it is something else.
    """
    try:
        found = msgspec.convert(plain, _Frontier)
    except msgspec.ValidationError as error:
        raise FormatError(f"{where}: {error}; expected what 'sccl pareto --json' prints") from error
    root = f" (rank {found.root})" if found.root else ""
    name = f"{found.collective}{root} on {found.topology}"
    first = FrontierData(
        name=name,
        points=tuple(map(_point, found.points)),
        min_steps=found.bounds.steps,
        bandwidth=Fraction(found.bounds.bandwidth),
        limits=_limits(found.limits),
        refuted=tuple((c.steps, Fraction(c.bandwidth_cost)) for c in found.unsat),
        open=tuple((c.steps, Fraction(c.bandwidth_cost)) for c in found.open),
        scope=found.bounds.scope,
        alpha_us=found.alpha_us,
        gb_per_s=found.gb_per_s,
    )
    others = [
        FrontierData(
            name=f"{name}, {one.scope}",
            points=tuple(map(_point, one.points)),
            limits=_limits(one.limits),
            scope=one.scope,
            alpha_us=found.alpha_us,
            gb_per_s=found.gb_per_s,
        )
        for one in found.classes
    ]
    return [first, *others]


def _limits(limits: Sequence[_Limit]) -> tuple[tuple[int, Fraction], ...]:
    return tuple((x.steps, Fraction(x.lower)) for x in limits)


def _point(point: _Point) -> CostPoint:
    cost = Fraction(point.limit or point.bandwidth_cost or "0")
    if not point.proved:
        return CostPoint(point.steps, cost, point.chunks, point.rounds, "best found")
    if not point.attained:
        return CostPoint(point.steps, cost, None, None, "approached")
    return CostPoint(point.steps, cost, point.chunks, point.rounds, "proved")


def of_algorithms(algorithms: Sequence[Algorithm]) -> list[FrontierData]:
    """Return a frontier per collective and topology; what bounds are met, the algorithms say."""
    groups: dict[str, list[Algorithm]] = {}
    for a in sorted(algorithms, key=lambda a: (a.steps, a.bandwidth_cost)):
        root = f" (rank {a.collective.root})" if a.collective.root else ""
        groups.setdefault(f"{a.collective.name}{root} on {a.topology.name}", []).append(a)
    found = []
    for name, group in sorted(groups.items()):
        best: list[Algorithm] = []  # without those that others dominate
        for a in group:
            if not best or a.bandwidth_cost < best[-1].bandwidth_cost:
                best.append(a)
        met = {word: a for a in best for word in a.proved}
        steps, bandwidth = met.get("latency"), met.get("bandwidth")
        found.append(
            FrontierData(
                name=name,
                points=tuple(map(_point_of, best)),
                min_steps=steps.steps if steps else None,
                bandwidth=bandwidth.bandwidth_cost if bandwidth else None,
                alpha_us=alpha_us(group[0].topology),
                gb_per_s=lane_gb_per_s(group[0].topology),
            )
        )
    return found


def _point_of(a: Algorithm) -> CostPoint:
    proved = "pareto" in a.proved
    return CostPoint(
        a.steps,
        a.bandwidth_cost,
        a.collective.chunks,
        a.rounds,
        "proved" if proved else "best found",
    )
