"""What sweeps and limits find, as the one Frontier that is drawn, written and told of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sccl.core.candidate import Range
from sccl.core.cost import Costs
from sccl.core.frontier import GATHERED, ClassFrontier, Frontier, Point, Unswept
from sccl.synth.allreduce.classes import ClassFrontier as FoundClass
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.frontier import Frontier as Swept
from sccl.synth.frontier import Point as SweptPoint
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint


def noun_of(found: Swept | LimitFrontier | AllreduceFrontier) -> Frontier:
    """Return what was found as a frontier."""
    match found:
        case AllreduceFrontier():
            return _of_classes(found)
        case Swept():
            return _of_sweep(found)
        case LimitFrontier():
            return _of_limits(found)


def _of_sweep(found: Swept) -> Frontier:
    within = None if found.every_k else found.covered
    part = _part(found, within)
    return Frontier(
        found.topology.name,
        found.spec.name,
        found.spec.root,
        Costs.of(found.topology),
        found.bounds,
        (part,),
        covered=found.covered,
        solver=found.solver,
        open=found.open,
        refuted=found.refuted,
        stopped=found.stopped,
        seconds=found.seconds,
    )


def _of_limits(found: LimitFrontier) -> Frontier:
    return Frontier(
        found.topology.name,
        found.spec.name,
        found.spec.root,
        Costs.of(found.topology),
        found.bounds,
        (_part(found, None),),
        stopped=found.stopped,
        seconds=found.seconds,
    )


def _part(found: Swept | LimitFrontier, within: Range | None) -> ClassFrontier:
    """Return the one class that a question has."""
    return ClassFrontier(
        "",
        found.scope,
        found.bounds.steps,
        found.bounds.bandwidth,
        points_of(found.points),
        found.limits,
        found.complete,
        within,
        seconds=found.seconds,
    )


def _of_classes(found: AllreduceFrontier) -> Frontier:
    return Frontier(
        found.topology.name,
        found.spec.name,
        found.spec.root,
        Costs.of(found.topology),
        found.bounds,
        tuple(map(class_noun, found.classes)),
        covered=found.covered,
        solver=found.solver,
        open=found.open,
        unswept=tuple(Unswept(name, why) for name, why in found.unswept),
        halves=tuple(map(_of_sweep, found.swept)),
        stopped=found.stopped,
        seconds=found.seconds,
    )


def class_noun(one: FoundClass) -> ClassFrontier:
    """Return what is known of a class."""
    return ClassFrontier(
        one.name,
        one.scope,
        one.steps,
        one.bandwidth,
        points_of(one.points),
        one.limits,
        one.complete,
        one.within,
        "allgather" if one.name == GATHERED else "",
        one.seconds,
    )


def points_of(points: Sequence[SweptPoint | LimitPoint]) -> tuple[Point, ...]:
    """Return points as nouns."""
    return tuple(_swept(p) if isinstance(p, SweptPoint) else _limit(p) for p in points)


def _swept(point: SweptPoint) -> Point:
    c = point.candidate
    return Point(
        c.steps,
        c.cost,
        c.chunks,
        c.rounds,
        point.optimal,
        point.proved,
        point.within,
        algorithm=point.algorithm,
        file=point.file,
        rounds_per_step=point.algorithm.rounds_per_step,
        seconds=point.seconds,
        from_store=point.from_store,
    )


def _limit(point: LimitPoint) -> Point:
    found = point.algorithm
    return Point(
        point.limit.steps,
        point.limit.upper,
        found.collective.chunks if found else None,
        found.rounds if found else None,
        point.optimal,
        point.proved,
        attained=point.attains,
        algorithm=found,
        missing=point.stopped,
        file=Path(point.file) if point.file else None,
        seconds=point.seconds,
    )
