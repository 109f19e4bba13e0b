"""Allreduce beyond reducescatter followed by allgather: two more classes, with their limits.

* Trees: each chunk goes up one timed tree to some rank and down another, within S steps in all;
  where it turns may differ from chunk to chunk, so that nothing waits between two phases.
* Gathering: every contribution goes to every rank, which reduces them itself. That is allgather,
  with the same (C, S, R); it takes the fewest steps there can be, and the most bandwidth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.collectives import named
from sccl.core.algorithm import Algorithm
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology, distances
from sccl.synth.ask import Solve
from sccl.synth.candidates import EXTRA_STEPS
from sccl.synth.folder import Folder
from sccl.synth.limit.attain import near
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint
from sccl.synth.limit.steps import proof_of
from sccl.synth.limit.sweep import limit_frontier

if TYPE_CHECKING:
    from sccl.synth.limit.solve import Packing

TREES = "allreduce by a timed tree up and one down for each chunk"
GATHER = "allreduce by gathering all contributions and reducing locally"
MAX_RANKS = 10
"""For trees: they are priced by dynamic programming over sets of ranks, too many beyond."""

_FEW_CHUNKS = 64  # beyond, an algorithm with fewer is worth a search


@dataclass(frozen=True, slots=True)
class TreeFrontier:
    """The limit frontier of the class of trees.

    Attributes:
        floor: no algorithm of the class has a smaller R/C: each chunk takes 2 (P - 1) sends.
        complete: whether every limit is known, and the last meets ``floor``.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``.
    """

    points: tuple[LimitPoint, ...]
    limits: tuple[StepLimit, ...]
    floor: Fraction
    complete: bool
    seconds: float
    scope: str = TREES
    stopped: str = "max-steps"


def fewest_tree_steps(topology: Topology) -> int:
    """Return the fewest steps in which a tree can go up to some rank and another down from it."""
    successors = topology.successors()
    predecessors = topology.reversed().successors()
    return min(
        max(distances(predecessors, [r])) + max(distances(successors, [r]))
        for r in range(topology.ranks)
    )


def tree_floor(topology: Topology) -> Fraction:
    """Return what R/C is at least by trees, whatever S: each chunk takes 2 (P - 1) sends."""
    return Fraction(2 * (topology.ranks - 1), sum(topology.lanes().values()))


def tree_frontier(
    topology: Topology,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: Callable[[StepLimit | LimitPoint], None] = lambda _: None,
) -> TreeFrontier:
    """Return the limit frontier of allreduce by trees.

    Args:
        topology: of at most :data:`MAX_RANKS` ranks.
        max_steps: last S; None: six more than the fewest.
        seconds: for each limit; by default effort alone ends them. Where time has run out, nothing
            is written from a packing, there or for more steps.
    """
    from sccl.synth.limit.problem import pose_allreduce  # noqa: PLC0415 - loads the LP solver
    from sccl.synth.limit.solve import solve_packing  # noqa: PLC0415

    begin = time.perf_counter()
    least = fewest_tree_steps(topology)
    floor = tree_floor(topology)
    unit = named("allreduce", topology.ranks).at(topology.ranks)
    packings: list[Packing] = []
    limits: list[StepLimit] = []
    points: list[LimitPoint] = []
    stopped = "max-steps"
    try:
        for steps in range(least, (max_steps or least + 2 * EXTRA_STEPS) + 1):
            started = time.perf_counter()
            late = any(packing.timed_out for packing in packings)
            before = packings[-1] if packings and not late else None
            problem = pose_allreduce(topology, unit, steps)
            packing = solve_packing(problem, floor, seconds, earlier=before)
            packings.append(packing)
            limit = StepLimit(steps, packing.lower, packing.upper, (proof_of(packing),))
            limits.append(limit)
            notify(limit)
            if not points or limit.upper < points[-1].limit.upper:
                met = (("latency", steps == least), ("bandwidth", limit.upper == floor))
                optimal = tuple(what for what, is_met in met if is_met)
                points.append(LimitPoint(limit, None, optimal, 0.0, stopped="interrupted"))
                late |= packing.timed_out
                points[-1] = _point(points[-1], packing, started, folder, late=late)
                notify(points[-1])
            if limit.upper == floor:
                stopped = "bandwidth-bound"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    complete = stopped == "bandwidth-bound" and all(limit.known for limit in limits)
    return TreeFrontier(
        tuple(points),
        tuple(limits),
        floor,
        complete,
        time.perf_counter() - begin,
        stopped=stopped,
    )


def _point(
    point: LimitPoint, packing: Packing, started: float, folder: Folder | None, *, late: bool
) -> LimitPoint:
    """Return a point with its algorithm, if there is one.

    Args:
        late: whether seconds decided what the packing is, so that it is not written down.
    """
    algorithm = None if late else _attain(packing, point.optimal)
    return replace(
        point,
        algorithm=algorithm,
        seconds=time.perf_counter() - started,
        file=str(folder.save(algorithm, "trees")) if folder and algorithm else None,
        stopped="timeout" if late else "",
    )


def _attain(packing: Packing, optimal: tuple[str, ...]) -> Algorithm | None:
    from sccl.synth.limit.multiply import multiply_out  # noqa: PLC0415 - loads solvers
    from sccl.synth.limit.palindrome import palindrome  # noqa: PLC0415

    found = multiply_out(packing)
    if found is None or found.collective.chunks > _FEW_CHUNKS:
        found = palindrome(packing) or found or near(packing)
    if found is not None and found.bandwidth_cost == packing.lower:
        return replace(found, scope=TREES, proved=(*optimal, "pareto"))
    return found and replace(found, scope=TREES)


def gather_frontier(
    topology: Topology,
    solve: Solve,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
) -> LimitFrontier:
    """Return the limit frontier of allreduce by gathering: that of allgather."""
    found = limit_frontier(
        topology,
        named("allgather", topology.ranks),
        solve,
        max_steps=max_steps,
        seconds=seconds,
        folder=folder,
    )
    return replace(found, scope=GATHER)
