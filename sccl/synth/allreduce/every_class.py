"""Allreduce over all of its classes: what a sweep and a limit frontier find, in one shape."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

from sccl.collectives import Spec, dual_of, named
from sccl.core.algorithm import Algorithm
from sccl.core.candidate import Candidate, Range
from sccl.core.frontier import Open
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds import AnyBounds, any_bounds, lower_bounds
from sccl.synth.ahead import Expect
from sccl.synth.allreduce.classes import (
    COMPOSED,
    GATHERED,
    SCOPES,
    TREES,
    ClassFrontier,
    cost_of,
    staircase,
)
from sccl.synth.allreduce.composed import LimitHalf, SweptHalf, composed, composed_limits
from sccl.synth.allreduce.quick_trees import quick_trees
from sccl.synth.ask import Solve
from sccl.synth.candidates import EXTRA_STEPS, settled
from sccl.synth.events import Begun, Event
from sccl.synth.folder import Folder
from sccl.synth.frontier import Frontier, Point
from sccl.synth.ksync.sweep import LIMIT_EFFORT, sweep
from sccl.synth.limit.allreduce import MAX_RANKS, TreeFrontier, fewest_tree_steps, tree_frontier
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint, limit_frontier
from sccl.synth.oracle import LimitOracle


@dataclass(frozen=True, slots=True)
class AllreduceFrontier:
    """What is known of allreduce on a machine.

    Attributes:
        covered: k and C of the sweep; None: the limits, over all of them.
        bounds: what holds for every class.
        classes: those that were looked at, each with its own frontier and bounds.
        unswept: the names of those that were not, and why.
        halves: the sweeps of which the first class is composed.
        trees: as its certificate wants it.
    """

    topology: Topology
    spec: Spec
    covered: Range | None
    solver: str
    bounds: AnyBounds
    classes: tuple[ClassFrontier, ...]
    unswept: tuple[tuple[str, str], ...]
    halves: tuple[Frontier | LimitFrontier, ...]
    trees: TreeFrontier | None
    stopped: str
    seconds: float

    @property
    def stairs(self) -> tuple[tuple[str, Point | LimitPoint], ...]:
        """Return what no point of any class dominates, with the names of classes."""
        return staircase(self.classes, self.bounds)

    @property
    def points(self) -> tuple[Point | LimitPoint, ...]:
        """Return what no point of any class dominates."""
        return tuple(point for _, point in self.stairs)

    @property
    def complete(self) -> bool:
        """Return whether every class was looked at, and nothing of any is missing."""
        return not self.unswept and all(one.complete for one in self.classes)

    @property
    def every_k(self) -> bool:
        """Return whether that is so for all k and C."""
        return self.complete and all(one.within is None for one in self.classes)

    @property
    def scope(self) -> str:
        """Return the classes in words."""
        return "; ".join(one.scope for one in self.classes)

    @property
    def compositions(self) -> tuple[Algorithm, ...]:
        """Return the compositions that are written out."""
        parts = (one for one in self.classes if one.name == COMPOSED)
        found = (point.algorithm for one in parts for point in one.points)
        return tuple(a for a in found if isinstance(a, Algorithm))

    @property
    def swept(self) -> tuple[Frontier, ...]:
        """Return the halves that are of a sweep."""
        return tuple(half for half in self.halves if isinstance(half, Frontier))

    @property
    def open(self) -> tuple[Open, ...]:
        """Return what was not decided: candidates of a half, with the quickest other half."""
        halves = self.swept
        found = []
        for half, other in zip(halves, reversed(halves), strict=True):
            for one in half.open:
                best = other.points[0].candidate if other.points else one.candidate
                found.append(Open(_together(one.candidate, half, best, other), one.reason))
        return tuple(sorted(found, key=lambda one: one.candidate))

    @property
    def refuted(self) -> int:
        """Return how many candidates of the halves have no algorithm."""
        return sum(len(half.refuted) for half in self.swept)


def _together(a: Candidate, first: Frontier, b: Candidate, then: Frontier) -> Candidate:
    """Return two halves as a candidate of allreduce."""
    ranks = first.topology.ranks
    chunks = [
        c.chunks * (ranks if half.spec.name == "allgather" else 1)
        for c, half in ((a, first), (b, then))
    ]
    both = lcm(*chunks)
    rounds = a.rounds * both // chunks[0] + b.rounds * both // chunks[1]
    return Candidate(Fraction(rounds, both), both, a.steps + b.steps, rounds)


def has_classes(spec: Spec) -> bool:
    """Return whether a collective is an allreduce, which several classes of algorithms do."""
    return spec.name == "allreduce" and dual_of(spec).phases == 2


@dataclass(frozen=True, slots=True)
class _Steps:
    """The numbers of steps that halves are looked at for."""

    scatter: int
    gather: int
    asked: int | None

    @property
    def both(self) -> int:
        """Return the fewest steps of a composition."""
        return self.scatter + self.gather

    @property
    def last(self) -> int:
        """Return the last S of a composition."""
        return self.both + 2 * EXTRA_STEPS if self.asked is None else self.asked

    def of_scatter(self) -> int | None:
        """Return the last S of the reducescatter."""
        return None if self.asked is None else self.asked - self.gather


def _steps(bounds: AnyBounds, asked: int | None, what: str) -> _Steps:
    if asked is not None and asked < bounds.steps:
        raise ParameterError(
            f"max-steps is {asked}, but {what} takes at least {bounds.steps} steps here: give at "
            "least that many"
        )
    # Turned round, each chunk goes the same ways: the greatest distance is that of both.
    return _Steps(bounds.steps, bounds.steps, asked)


def sweep_allreduce(  # noqa: PLR0913 - what a sweep is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    solver: str,
    covered: Range,
    limits: LimitOracle | None = None,
    limit_effort: float = LIMIT_EFFORT,
    folder: Folder | None = None,
    notify: Callable[[Event], None] = lambda _: None,
    expect: Expect = lambda _: None,
) -> AllreduceFrontier:
    """Return the frontier of allreduce over its classes, as far as they are found.

    Args:
        spec: allreduce.
        solve: answers an instance.
        solver: its name, for the record.
        covered: k of each half, last S, largest C.
        limits: who knows limits of R/C; None: the sweep does without.
        limit_effort: how much to work on the limit of each number of steps.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every event, for progress.
        expect: told what is likely to be asked next.

    Raises:
        InputError: some rank cannot be reached, or the range has nothing in it.
    """
    begin = time.perf_counter()
    bounds = any_bounds(topology)
    steps = _steps(bounds, covered.max_steps, spec.name)
    _refuse_few_chunks(spec, covered)
    if folder:
        folder.prepare()
    given: dict[str, Any] = {
        "solver": solver, "limits": limits, "limit_effort": limit_effort, "notify": notify,
        "expect": expect,
    }  # fmt: skip
    alike = topology.reversed().carries_like(topology)
    k = covered.k if alike else _common_k(topology, covered)
    gathers = covered.max_chunks is None
    few = None if gathers else (covered.max_chunks or 0) // topology.ranks
    notify(Begun("allgather, as a half of allreduce and for gathering:"))
    gather = sweep(
        topology,
        named("allgather", topology.ranks),
        solve,
        covered=Range(k, steps.asked, few),
        folder=folder if gathers else None,
        **given,
    )
    halves: tuple[Frontier, ...] = (gather,)
    if not alike and steps.last >= steps.both and gather.stopped != "interrupted":
        notify(Begun("reducescatter, as a half of allreduce:"))
        wanted = Range(k, steps.of_scatter(), covered.max_chunks)
        scatter = named("reducescatter", topology.ranks)
        halves = (sweep(topology, scatter, solve, covered=wanted, **given), gather)
    covered = replace(covered, k=gather.covered.k)
    classes = [_composed(spec, halves, covered, steps, folder)] if alike or len(halves) > 1 else []
    classes += [_gathered(gather)] if gathers else []
    stopped = "interrupted" if any(h.stopped == "interrupted" for h in halves) else ""
    unswept = [] if gathers else [(GATHERED, "--max-chunks is given")]
    if why := _no_trees(topology, covered, stopped):
        unswept.append((TREES, why))
    else:
        notify(Begun("trees:"))
        try:
            last = min(steps.last, 2 * bounds.steps + 2 * EXTRA_STEPS)
            others = [cost_of(point) for one in classes for point in one.points]
            classes.insert(1, quick_trees(topology, last, others, folder))
        except KeyboardInterrupt:
            stopped = "interrupted"
            unswept.append((TREES, "interrupted"))
    return AllreduceFrontier(
        topology,
        spec,
        covered,
        solver,
        bounds,
        tuple(_bounded(one, bounds) for one in classes),
        tuple(unswept),
        halves,
        None,
        stopped or _why(classes),
        time.perf_counter() - begin,
    )


def _bounded(one: ClassFrontier, bounds: AnyBounds) -> ClassFrontier:
    """Return a class with bounds that are no weaker than those of all algorithms."""
    steps, bandwidth = max(one.steps, bounds.steps), max(one.bandwidth, bounds.bandwidth)
    return replace(one, steps=steps, bandwidth=bandwidth)


def _why(classes: Sequence[ClassFrontier]) -> str:
    return "bandwidth-bound" if all(one.complete for one in classes) else "max-steps"


def _common_k(topology: Topology, covered: Range) -> int | None:
    """Return a k for both halves: that of the one whose bandwidth bound takes the larger."""
    found = []
    for name in ("allgather", "reducescatter"):
        spec = named(name, topology.ranks)
        found.append(settled(Range(covered.k), dual_of(spec), lower_bounds(topology, spec)).k)
    return max(k for k in found if k is not None)


def _refuse_few_chunks(spec: Spec, covered: Range) -> None:
    if covered.max_chunks is not None and covered.max_chunks < spec.ranks:
        raise ParameterError(
            f"max-chunks is {covered.max_chunks}, but the chunks of {spec.name} come in multiples "
            f"of {spec.ranks}: give at least that many"
        )


def _no_trees(topology: Topology, covered: Range | None, stopped: str) -> str:
    """Return why trees are not looked at; empty: they are."""
    if stopped == "interrupted":
        return "interrupted"
    if topology.ranks > MAX_RANKS:
        return f"more than {MAX_RANKS} ranks"
    return "--max-chunks is given" if covered and covered.max_chunks is not None else ""


def _composed(
    spec: Spec,
    halves: Sequence[Frontier],
    covered: Range,
    steps: _Steps,
    folder: Folder | None,
) -> ClassFrontier:
    first, then = halves[0], halves[-1]
    ranks = spec.ranks
    ends = [
        half.bounds.steps + EXTRA_STEPS
        if half.covered.max_steps is None
        else half.covered.max_steps
        for half in (first, then)
    ]
    alone = len(halves) == 1
    return composed(
        spec,
        SweptHalf(first, ranks if alone else 1, ends[0], backwards=alone),
        SweptHalf(then, ranks, ends[1], backwards=False),
        covered,
        steps.last,
        folder,
    )


def _gathered(found: Frontier | LimitFrontier) -> ClassFrontier:
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


def _trees(topology: Topology, found: TreeFrontier) -> ClassFrontier:
    return ClassFrontier(
        TREES,
        found.scope,
        fewest_tree_steps(topology),
        found.floor,
        found.points,
        found.limits,
        found.complete,
        None,
        found.seconds,
    )


def limit_allreduce(  # noqa: PLR0913 - what is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: Callable[[StepLimit | LimitPoint], None] = lambda _: None,
) -> AllreduceFrontier:
    """Return the limit frontier of allreduce over its classes.

    Args:
        spec: allreduce.
        solve: answers an instance within little time; asked for algorithms of few chunks.
        max_steps: last S; None: a few more than the latency bound.
        seconds: for each limit; by default effort alone ends them.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every limit and every point, for progress.

    Raises:
        InputError: some rank cannot be reached.
    """
    begin = time.perf_counter()
    bounds = any_bounds(topology)
    steps = _steps(bounds, max_steps, spec.name)
    if folder:
        folder.prepare()
    alike = topology.reversed().carries_like(topology)
    given: dict[str, Any] = {"seconds": seconds, "notify": notify}
    all_to_all = named("allgather", topology.ranks)
    gather = limit_frontier(
        topology, all_to_all, solve, max_steps=steps.asked, folder=folder, **given
    )
    halves: tuple[LimitFrontier, ...] = (gather,)
    if not alike and steps.last >= steps.both and gather.stopped != "interrupted":
        scatter = named("reducescatter", topology.ranks)
        wanted = steps.of_scatter()
        halves = (limit_frontier(topology, scatter, solve, max_steps=wanted, **given), gather)
    classes = []
    if alike or len(halves) > 1:
        first = LimitHalf(halves[0], topology.ranks if alike else 1, backwards=alike)
        then = LimitHalf(gather, topology.ranks, backwards=False)
        classes.append(composed_limits(spec, first, then, steps.last, folder))
    classes.append(_gathered(gather))
    stopped = "interrupted" if any(h.stopped == "interrupted" for h in halves) else ""
    unswept, trees = [], None
    if why := _no_trees(topology, None, stopped):
        unswept.append((TREES, why))
    else:
        trees = tree_frontier(
            topology, max_steps=max_steps, seconds=seconds, folder=folder, notify=notify
        )
        classes.insert(1, _trees(topology, trees))
        stopped = "interrupted" if trees.stopped == "interrupted" else ""
    return AllreduceFrontier(
        topology,
        spec,
        None,
        "",
        bounds,
        tuple(_bounded(one, bounds) for one in classes),
        tuple(unswept),
        halves,
        trees,
        stopped or _why(classes),
        time.perf_counter() - begin,
    )
