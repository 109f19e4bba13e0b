"""Allreduce by trees within a small effort, as part of a sweep.

The effort is counted without a clock, so the result is the same on every machine. The limits are
the full computation (:func:`sccl.synth.packing.by_steps.allreduce_trees.tree_frontier`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.bound import AlgorithmBounds
from sccl.core.frontier import TREES, ClassFrontier, Point
from sccl.core.step_limit import StepLimit
from sccl.core.topology import Topology
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.sweep_events import (
    BoundsComputed,
    LimitComputed,
    LimitStarted,
    PointDecided,
    SweepEvent,
)
from sccl.synth.limits import (
    FEW_CHUNKS,
    MAX_MULTIPLIED_CHUNKS,
    MAX_SUBSET,
    TRIAL_EFFORT,
)
from sccl.synth.packing.by_steps.allreduce_trees import (
    any_class_proof,
    tree_bounds,
)
from sccl.synth.packing.by_steps.limits_by_steps import MAX_PAIRS_WORK

if TYPE_CHECKING:
    from sccl.synth.packing.by_steps.solve import Packing


def quick_tree_family(  # noqa: PLR0913, PLR0917 - independent inputs
    topology: Topology,
    spec: Spec,
    last: int,
    others: Sequence[tuple[int, Fraction]],
    folder: AlgorithmFolder | None = None,
    notify: Callable[[SweepEvent], None] = lambda _: None,
) -> ClassFrontier:
    """Return quick results for allreduce by trees: limits, and algorithms with few chunks at them.

    Args:
        topology: Machine with at most
            :data:`sccl.synth.limits.MAX_CUT_RANKS` ranks.
        spec: Allreduce, of all ranks or in process groups.
        last: Largest S.
        others: (S, R/C) of other families. Values that are no better are not searched for long.
        folder: Folder for the algorithms. None: none.
        notify: Called with bounds, every limit, and every point, for progress.
    """
    begin = since = time.perf_counter()
    bounds = tree_bounds(topology, spec)
    notify(BoundsComputed(bounds))
    points: list[Point] = []
    limits: list[StepLimit] = []
    searched_in_vain = False  # then the next searches are likely to fail, too
    for packing in _packings_by_steps(topology, spec, bounds, last, notify):
        steps = packing.problem.steps
        limits.append(StepLimit(steps, packing.lower, packing.upper))
        notify(LimitComputed(limits[-1]))
        if points and packing.upper >= points[-1].cost:
            continue
        better = all(packing.upper < cost for s, cost in others if s <= steps)
        better = better and topology.ranks <= MAX_SUBSET
        algorithm = _algorithm_near_limit(packing, search=better and not searched_in_vain)
        if better and algorithm and algorithm.bandwidth_cost > packing.upper:
            searched_in_vain = True
        if algorithm and (not points or algorithm.bandwidth_cost < points[-1].cost):
            fewer = all(x.lower > algorithm.bandwidth_cost for x in limits[:-1])
            best = fewer and algorithm.bandwidth_cost == packing.lower
            point, now = _make_point(algorithm, bounds, folder, proved=best), time.perf_counter()
            points.append(replace(point, seconds=now - since))
            notify(PointDecided(points[-1]))
            since = now
    met = bool(points) and points[-1].cost == bounds.bandwidth
    costs = {point.cost for point in points}
    return ClassFrontier(
        TREES,
        bounds.scope,
        bounds.steps,
        bounds.bandwidth,
        tuple(points),
        tuple(limits),
        met and all(x.lower == x.upper and x.lower in costs for x in limits),
        seconds=time.perf_counter() - begin,
    )


def _packings_by_steps(
    topology: Topology,
    spec: Spec,
    bounds: AlgorithmBounds,
    last: int,
    notify: Callable[[SweepEvent], None],
) -> Iterator[Packing]:
    """Yield the packings at the limits of as many numbers of steps as the work limit allows."""
    from sccl.synth.packing.by_steps.solve import solve_packing  # noqa: PLC0415
    from sccl.synth.packing.problem import build_allreduce_problem  # noqa: PLC0415 - loads the LP solver

    unit = spec.at(spec.unit)
    few, work, effort = topology.ranks <= MAX_SUBSET, MAX_PAIRS_WORK, TRIAL_EFFORT
    packing: Packing | None = None
    groups = len(build_allreduce_problem(topology, unit, bounds.steps).commodities)
    for steps in range(bounds.steps, last + 1):
        of_a_round = groups * steps * 3**topology.ranks if few else 0
        if work < of_a_round or effort <= 0 or (packing and packing.upper == bounds.bandwidth):
            return
        notify(LimitStarted(steps))
        problem = build_allreduce_problem(topology, unit, steps)
        if few:
            max_rounds = work // of_a_round
            packing = solve_packing(
                problem, bounds.bandwidth, earlier=packing, most_rounds=max_rounds
            )
            work -= packing.rounds * of_a_round
        else:
            cuts = any_class_proof(topology, spec, steps, bounds)
            floor = cuts.bound if cuts else bounds.bandwidth
            packing = solve_packing(problem, floor, earlier=packing, effort=effort)
            effort -= packing.effort
        yield packing


def _algorithm_near_limit(packing: Packing, *, search: bool) -> Algorithm | None:
    """Return an algorithm at or near a limit. None: none is found quickly."""
    from sccl.synth.packing.by_steps.round_steps import (  # noqa: PLC0415 - loads solvers
        multiply_out,
        round_to_multiple,
        round_to_palindrome,
    )

    algorithm = multiply_out(packing, MAX_MULTIPLIED_CHUNKS)
    if algorithm is None and search:
        algorithm = round_to_palindrome(packing)
    return algorithm or round_to_multiple(packing, FEW_CHUNKS)


def _make_point(
    algorithm: Algorithm, bounds: AlgorithmBounds, folder: AlgorithmFolder | None, *, proved: bool
) -> Point:
    """Return the point of an algorithm.

    Args:
        algorithm: The algorithm.
        bounds: Lower bounds of the family.
        folder: Folder for the algorithm. None: none.
        proved: Whether no algorithm of the family dominates it.
    """
    optimal = bounds.bounds_met(algorithm.steps, algorithm.bandwidth_cost)
    claims = (*optimal, *(("pareto",) if proved else ()))
    algorithm = replace(algorithm, scope=bounds.scope, proved=claims)
    file = folder.save(algorithm, TREES) if folder else None
    point = Point.from_algorithm(algorithm)
    return replace(point, optimal=optimal, is_proved=proved, file=file, found_by="packing")
