"""Classes of allreduces: what is known of each, and the best of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.collectives import Spec, dual_of
from sccl.core.bounds import Bounds
from sccl.core.candidate import Range
from sccl.core.limit import StepLimit
from sccl.synth.frontier import Frontier, Point
from sccl.synth.limit import allreduce
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint

COMPOSED, TREES, GATHERED = "composed", "trees", "gathered"

SCOPES = {
    COMPOSED: "reducescatter-then-allgather compositions",
    TREES: allreduce.TREES,
    GATHERED: allreduce.GATHER,
}


@dataclass(frozen=True, slots=True)
class ClassFrontier:
    """What is known of one class of algorithms.

    Attributes:
        name: ``"composed"``, ``"trees"`` or ``"gathered"``.
        scope: the class, in words.
        steps: no algorithm of the class has fewer steps,
        bandwidth: nor a smaller R/C.
        points: its Pareto frontier, by ascending S.
        limits: what holds for every k and C, by number of steps.
        complete: whether this is the whole frontier of the class,
        within: as far as k and C go that are searched; None: for all.
    """

    name: str
    scope: str
    steps: int
    bandwidth: Fraction
    points: tuple[Point | LimitPoint, ...]
    limits: tuple[StepLimit, ...]
    complete: bool
    within: Range | None
    seconds: float

    def bounded(self, bounds: Bounds) -> ClassFrontier:
        """Return it with bounds that are no weaker than those of all algorithms."""
        steps, bandwidth = max(self.steps, bounds.steps), max(self.bandwidth, bounds.bandwidth)
        return replace(self, steps=steps, bandwidth=bandwidth)


def has_classes(spec: Spec) -> bool:
    """Return whether a collective is an allreduce, which several classes of algorithms do."""
    return spec.name == "allreduce" and dual_of(spec).phases == 2


def cost_of(point: Point | LimitPoint) -> tuple[int, Fraction]:
    """Return (S, R/C) of a point; of a limit's, the limit."""
    if isinstance(point, Point):
        return point.candidate.steps, point.candidate.cost
    return point.limit.steps, point.limit.upper


def staircase(
    classes: Iterable[ClassFrontier], bounds: Bounds
) -> tuple[tuple[str, Point | LimitPoint], ...]:
    """Return the points that none of any class dominates, each with the name of its class.

    Of equal ones there is the first class's.

    ``optimal`` is then about all allreduces, and ``proved`` still about the point's class.
    """
    every = [(cost_of(p), i, one.name, p) for i, one in enumerate(classes) for p in one.points]
    found: list[tuple[str, Point | LimitPoint]] = []
    for (steps, cost), _, name, point in sorted(every, key=lambda item: item[:2]):
        if not found or cost < cost_of(found[-1][1])[1]:
            met = (("latency", steps == bounds.steps), ("bandwidth", cost == bounds.bandwidth))
            optimal = tuple(what for what, is_met in met if is_met)
            found.append((name, replace(point, optimal=optimal)))
    return tuple(found)


def gathered(found: Frontier | LimitFrontier) -> ClassFrontier:
    """Return the class of gathering: what is found of an allgather."""
    within = None
    if isinstance(found, Frontier) and not found.every_k:
        within = found.covered
    restricted = f", {within.k}-synchronous" if within else ""
    return ClassFrontier(
        GATHERED,
        SCOPES[GATHERED] + restricted,
        found.bounds.steps,
        found.bounds.bandwidth,
        found.points,
        found.limits,
        found.complete,
        within,
        found.seconds,
    )


def why_stopped(classes: Sequence[ClassFrontier]) -> str:
    """Return why nothing more was looked at in the end, unless the user interrupted."""
    return "bandwidth-bound" if all(one.complete for one in classes) else "max-steps"
