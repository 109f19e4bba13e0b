"""Allreduce as one packing: reduction trees to a root rank, then broadcast trees from it.

Each plan chooses its root and the time at which the root starts to broadcast. So all links can be
busy from the start until one alpha before the end. With two separate phases, some links are idle
for an alpha in each phase. A reduction tree is a broadcast tree over reversed links and backwards
in time: the same tables price both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf

from sccl.collectives import Spec, dual_of, named_spec
from sccl.core.bound import Bound, Measure
from sccl.core.outcome import Solution
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.synth.common.contract import Request
from sccl.synth.packing.by_time.packing_search import FEW_DISTANCES, PackingSearch
from sccl.synth.packing.flow_problem import (
    FlowCommodity,
    FlowProblem,
    SlotTree,
    build_flow_problem,
)
from sccl.synth.packing.price_pairs import TreePairPricing
from sccl.synth.packing.price_rounds import RoundPricing
from sccl.synth.packing.schedule_builder import ReduceBroadcastRoutes, ScheduleBuilder
from sccl.synth.packing.send_plans import PlacementDirection
from sccl.synth.packing.slots import TimedPacking, TimeSlots, TreePart


def is_tree_allreduce(topology: Topology, spec: Spec) -> bool:
    """Return whether all ranks contribute to all chunks, want all sums, and links have alphas.

    With a positive alpha on every link, an arrival and its forwarding are never planned for the
    same moment.
    """
    alike = spec == named_spec("allreduce", topology.ranks) and not spec.counts
    return alike and topology.ranks > 1 and all(link.alpha_us for link in topology.links)


def merge_roots(problem: FlowProblem) -> FlowProblem:
    """Return an allgather's problem with one commodity for all bytes of an allreduce.

    Each class of chunks can be any share of these bytes. Its symmetry maps the plan of the first
    class to it.
    """
    ranks = range(problem.topology.ranks)
    members = tuple(member for commodity in problem.commodities for member in commodity.members)
    far = [max(problem.distances([rank], hops=True).values()) for rank in ranks]
    middle = min(ranks, key=lambda rank: far[rank])
    size = sum(
        (commodity.size * len(commodity.members) for commodity in problem.commodities), Fraction(0)
    )
    commodity = FlowCommodity(frozenset([middle]), frozenset(ranks), size / len(members), members)
    return replace(problem, commodities=(commodity,))


def build_two_phase_problem(
    problem: FlowProblem, rounds: RoundPricing
) -> tuple[FlowProblem, ReduceBroadcastRoutes]:
    """Return an allgather's problem with nodes for both phases, and the meaning of its routes.

    Each rank becomes two nodes: the rank while it adds contributions (first kind), and the rank
    once it has the sum (second kind). The routes are, in this order:

    - all routes between nodes of the first kind,
    - all routes from the first to the second kind, over which ranks exchange their sums,
    - all routes between nodes of the second kind,
    - for each rank, a route from its first to its second node,
    - for each round, all routes again, from the end of the previous round to the end of this one.
    """
    ranks, count = problem.topology.ranks, len(problem.edges)
    steps = [(0, 0), (0, ranks), (ranks, ranks)]
    edges = [(u + up, v + down) for up, down in steps for u, v in problem.edges]
    edges += [(rank, rank + ranks) for rank in range(ranks)]
    paths = (*(problem.routes * len(steps)), *((),) * ranks)
    alpha = (*(problem.alpha * len(steps)), *(Fraction(0),) * ranks)
    indices = tuple(range(count))
    turned = (*(indices * len(steps)), *(-1,) * ranks)
    levels = rounds.max_reduce_rounds + rounds.max_broadcast_rounds
    for level in range(levels):
        edges += [(2 * ranks + level, 2 * ranks + level + 1)] * count
    first = [-1] * count + [0] * count + [-1] * (count + ranks)
    exchanged = [*first, *(1 + i // count for i in range(levels * count))]
    adds = [*(i < 2 * count for i in range(len(first)))]
    adds += [i < rounds.max_reduce_rounds * count for i in range(levels * count)]
    doubled = replace(
        problem,
        edges=tuple(edges),
        routes=paths + problem.routes * levels,
        alpha=alpha + problem.alpha * levels,
    )
    return doubled, ReduceBroadcastRoutes(turned + indices * levels, tuple(adds), tuple(exchanged))


def separate_phases(
    problem: FlowProblem, slots: TimeSlots, tree: SlotTree, rounds: RoundPricing
) -> SlotTree:
    """Return a tree, or the rounds it stands for, as sends of :func:`build_two_phase_problem`."""
    count, ranks = len(problem.edges), problem.topology.ranks
    if tree in rounds.round_sends:
        first = 3 * count + ranks
        return frozenset((first + k * count + e, slot) for k, e, slot in rounds.round_sends[tree])
    everyone = (1 << ranks) - 1
    parts = [[(0, 1 << rank)] for rank in range(ranks)]  # (first slot, contributions as bits)
    up: dict[int, tuple[int, int, int]] = {}
    sends: set[tuple[int, int]] = set()
    turns: dict[int, int] = {}
    for slot, link in sorted((slot, link) for link, slot in tree):
        u, v = problem.edges[link]
        has = 0
        for since, mask in parts[u]:
            has |= mask if since <= slot else 0
        parts[v].append((int(slots.arrive[link, slot]), has))
        if has == everyone:
            sends.add((2 * count + link, slot))
            turns.setdefault(u, slot)
        else:
            up[u] = (v, link, slot)
    for u, (v, link, slot) in up.items():
        exchanged = v in up and up[v][0] == u
        sends.add((count + link if exchanged else link, slot))
    down = {problem.edges[link - 2 * count][1] for link, _ in sends if link >= 2 * count}
    sends |= {(3 * count + rank, slot) for rank, slot in turns.items() if rank not in down}
    return frozenset(sends)


def split_by_root(
    problem: FlowProblem, packing: TimedPacking, rounds: RoundPricing
) -> TimedPacking:
    """Return a packing of the merged problem with its trees assigned to the classes in order.

    Args:
        problem: Problem of the allgather.
    """
    count = len(problem.commodities)
    shares: list[TreePart] = []
    total, before = sum(share.part for share in packing.shares), 0.0
    for share in packing.shares:
        tree = separate_phases(problem, packing.slots, share.tree, rounds)
        after = before + share.part / total * count
        for c in range(int(before), min(count, ceil(after))):
            part = min(after, c + 1) - max(before, c)
            if part > 0:
                shares.append(TreePart(c, tree, part))
        before = after
    return replace(packing, shares=tuple(shares))


@dataclass
class AllreducePackingSearch(PackingSearch):
    """A search for the minimum time of pairs of reduction and broadcast trees, and of rounds."""

    def _strategies(self) -> tuple[Callable[[], object], ...]:
        # The distance leads to a rank and from it.
        if 2 * self.lower_bound <= FEW_DISTANCES * self._max_distance(hops=False):
            return (self._pack_bordered, self._pack_fallback)
        return (self._pack_free_lengths, self._pack_steady, self._pack_bordered)

    def _pack_fallback(self) -> None:
        """Try slots of any lengths if bordered slots gave no packing: there were too many borders.

        Otherwise other slots hardly improve on it, because only bordered slots can be shorter than
        an alpha.
        """
        if self.best is None:
            self._pack_free_lengths()
            self._pack_steady()

    def _pack_critical_targets(self) -> bool:
        return False

    def _max_distance(self, *, hops: bool) -> Fraction:
        return 2 * super()._max_distance(hops=hops)


def pack_allreduce(  # noqa: PLR0913, PLR0917 - independent inputs
    request: Request,
    phases: Solution | None,
    floor: Fraction,
    gap: float,
    units: float,
    deadline: float,
    on_progress: Callable[[float, float], None],
) -> tuple[Solution | None, bool]:
    """Return the better of a two-phase schedule and tree pairs, and whether the user interrupted.

    Args:
        phases: Two-phase schedule. None: there is none.
        floor: Lower bound in microseconds.
        gap: Allowed relative gap to the bound.
        units: Limit on the effort.
        deadline: Deadline on the clock of ``time.perf_counter()``.
        on_progress: Function that receives (bound, best time so far) in microseconds.

    Raises:
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    problem = build_flow_problem(request.topology, dual_of(request.spec), request.size_bytes)
    pooled_problem = merge_roots(problem)
    try:
        pricing = TreePairPricing(pooled_problem)
    except TooLargeError:
        return phases, False
    deadline_passed = lambda: time.perf_counter() > deadline  # noqa: E731
    doubled, paths = build_two_phase_problem(problem, pricing.rounds)
    directions = (PlacementDirection(request.topology, paths.machine_routes),)
    placing = ScheduleBuilder(doubled, dual_of(request.spec), directions, deadline_passed, paths)

    def place(packing: TimedPacking, target_us: float, thorough: bool) -> float:
        """Assign the trees to classes of chunks and build schedules."""
        return placing.schedule_packing(
            split_by_root(problem, packing, pricing.rounds), target_us, thorough
        )

    search = AllreducePackingSearch(
        pooled_problem, pricing, floor, gap, units, deadline, on_progress, place
    )
    search.schedule_us = float(phases.objective) if phases is not None else inf
    interrupted = False
    try:
        search.run()
    except TooLargeError:
        pass  # too many slots: keep the bound of fewer slots
    except KeyboardInterrupt:
        if placing.plan is None and phases is None:
            raise
        interrupted = True
    if placing.plan is None:
        return phases, interrupted
    schedule = placing.schedule(request.topology, request.spec)
    candidates = [
        Solution(schedule, schedule.finish_us, Bound(Measure.TIME_US, floor, ()), "tree pairs"),
        *([phases] if phases else []),
    ]
    return min(candidates, key=lambda candidate: candidate.objective), interrupted
