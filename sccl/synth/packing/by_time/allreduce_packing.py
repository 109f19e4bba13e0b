"""Allreduce as one packing: contributions go up a tree to a rank, and the sum down another.

Each plan has its place and time of the turn. So all links can be busy from the first moment to an
alpha before the last one, whereas in each of two phases some are idle for an alpha. A tree up is a
tree down, over reversed links and backwards in time: the same tables price both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf

from sccl.collectives import Spec, dual_of, named_spec
from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US
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
    """Return whether bytes may turn: all ranks contribute to them, and all want them.

    Every link has an alpha: an arrival and its forwarding are never planned for the same moment.
    """
    alike = spec == named_spec("allreduce", topology.ranks) and not spec.counts
    return alike and topology.ranks > 1 and all(link.alpha_us for link in topology.links)


def merge_roots(problem: FlowProblem) -> FlowProblem:
    """Return an allgather's problem with one commodity for all of an allreduce's bytes.

    Each class of chunks is any part of these, and its symmetry maps the plan of the first to it.
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
    """Return an allgather's problem as one of up and down, and the meaning of its ways.

    Each rank occurs twice: while it adds contributions, and once it has the sum. A way leads from
    rank to rank of the first kind, or of the second, or from the first to the second, where ranks
    exchange their sums. Then comes, for each rank, the way from the one to the other, and last, for
    each round, all ways again: from the end of the round before to its end.
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
    """Return sends up and down, or in rounds, as sends of :func:`build_two_phase_problem`."""
    count, ranks = len(problem.edges), problem.topology.ranks
    if tree in rounds.round_sends:
        first = 3 * count + ranks
        return frozenset((first + k * count + e, slot) for k, e, slot in rounds.round_sends[tree])
    everyone = (1 << ranks) - 1
    parts = [[(0, 1 << rank)] for rank in range(ranks)]  # since when, of whom
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
    """Return a packing of the pooled problem with its trees dealt out to classes, one by one.

    Args:
        problem: an allgather's.
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
    """A search for the least time of trees up and down, and of rounds."""

    def _strategies(self) -> tuple[Callable[[], object], ...]:
        # The distance leads to a rank and from it.
        if 2 * self.lower_bound <= FEW_DISTANCES * self._max_distance(hops=False):
            return (self._pack_bordered, self._pack_fallback)
        return (self._pack_free_lengths, self._pack_steady, self._pack_bordered)

    def _pack_fallback(self) -> None:
        """Look at slots of any lengths, where there are too many borders for all to be looked at.

        Else these are as good as any, or nearly so, and each slot but theirs is an alpha or longer.
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
    """Return the better of two phases and trees up and down, and whether the user interrupted.

    Args:
        phases: None: there are none.
        floor: lower bound, microseconds.
        gap: allowed relative gap to it.
        units: limit on effort.
        deadline: time by ``time.perf_counter()``.
        on_progress: called with (bound, best so far), microseconds.

    Raises:
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    problem = build_flow_problem(request.topology, dual_of(request.spec), request.size_bytes)
    pooled_problem = merge_roots(problem)
    try:
        pricing = TreePairPricing(pooled_problem)
    except TooLargeError:
        return phases, False
    deadline_passed = lambda: time.perf_counter() > deadline  # noqa: E731
    doubled, paths = build_two_phase_problem(problem, pricing.rounds)
    readings = (PlacementDirection(request.topology, paths.machine_routes),)
    placing = ScheduleBuilder(doubled, dual_of(request.spec), readings, deadline_passed, paths)

    def place(packing: TimedPacking, target_us: float, thorough: bool) -> float:
        """Make schedules of trees that are dealt out to classes of chunks."""
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
        pass  # with more slots, keep the bound of fewer
    except KeyboardInterrupt:
        if placing.plan is None and phases is None:
            raise
        interrupted = True
    if placing.plan is None:
        return phases, interrupted
    schedule = placing.schedule(request.topology, request.spec)
    attained = Fraction(schedule.finish * schedule.tick_ps, PS_PER_US)
    candidates = [
        Solution(schedule, attained, Bound(Measure.TIME_US, floor, ()), "tree pairs"),
        *([phases] if phases else []),
    ]
    return min(candidates, key=lambda candidate: candidate.objective), interrupted
