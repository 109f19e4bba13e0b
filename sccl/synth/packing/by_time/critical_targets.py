"""Trees to some of the ranks that want a chunk: they cost at most as much as trees to all.

So prices of links in slots bound the time of machines of any number of ranks, even if trees to all
of them are too many. The choice of ranks affects the strength of the bound, never its validity. If
the choice contains the hardest ranks, trees to them are the greater part of a packing: all others
join them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.synth.packing.by_time.column_generation import RoutePrices, SlotColumnGeneration
from sccl.synth.packing.by_time.pricing.insertion_heuristic import insert_targets
from sccl.synth.packing.by_time.pricing.set_tables import NoTreeError
from sccl.synth.packing.by_time.pricing.tree_pricing import TreePricing
from sccl.synth.packing.schedules.flow_problem import FlowProblem, SlotTree
from sccl.synth.packing.schedules.time_slots import TimeSlots
from sccl.synth.packing.schedules.tree_shares import TimedPacking

MAX_TARGETS = 6
"""Trees to so many ranks take milliseconds, on any machine."""

_IMPROVEMENT_EFFORT = 0.05
"""Effort for trees to all ranks, by prices of trees to few."""

_MIN_SLOT, _LOAD_EXPONENT, _MAX_LOAD, _COST_SCALE = 1e-3, 6.0, 3.0, 1 << 30
"""Of the whole: a slot counts as no shorter. By how much a full one is dearer, as a logarithm; what
is no dearer for being fuller, and the dearest send as a whole number."""


def find_critical_targets(problem: FlowProblem) -> frozenset[int]:
    """Return ranks that are hard to serve together. Empty: chunks do not all take the same paths.

    These are the farthest rank of each chassis, as each chassis has its late arrivals, and for each
    link that a chunk can begin with, a rank far from it, as late data have to leave over several.
    """
    if len(problem.commodities) != 1 or len(problem.commodities[0].members) != 1:
        return frozenset()
    commodity = problem.commodities[0]
    missing = sorted(commodity.wanted - commodity.holders)
    far = problem.distances(commodity.holders)
    goals: list[int] = []
    for chassis in problem.topology.chassis:
        inside = [int(rank) for rank in chassis if rank in commodity.wanted]
        if inside and commodity.holders.isdisjoint(inside):
            goals.append(max(inside, key=lambda rank: (far[rank], -rank)))
    for ranks in _last_reached(problem, missing):
        if not ranks.intersection(goals):
            goals.append(min(ranks))
    return frozenset(goals[:MAX_TARGETS])


def _last_reached(problem: FlowProblem, missing: list[int]) -> Iterator[frozenset[int]]:
    """Yield the ranks that a chunk comes to last by each way that it can begin with."""
    (commodity,) = problem.commodities
    firsts = sorted(
        {v for u, v in problem.edges if u in commodity.holders and v not in commodity.holders}
    )
    distances = [problem.distances([first]) for first in firsts]
    farthest = [max(far.get(rank, Fraction(0)) for rank in missing) for far in distances]
    each = [
        frozenset(rank for rank in missing if far.get(rank) == last)
        for far, last in zip(distances, farthest, strict=True)
    ]
    for _, ranks in sorted(enumerate(each), key=lambda entry: (len(entry[1]), entry[0])):
        yield ranks


def restrict_targets(problem: FlowProblem, goals: frozenset[int]) -> FlowProblem:
    """Return a problem in which only these ranks want anything."""
    few = (replace(commodity, wanted=commodity.wanted & goals) for commodity in problem.commodities)
    return replace(problem, commodities=tuple(few))


class ExtendedTrees:
    """Trees to few ranks that everyone else joins, each where that costs the least."""

    def __init__(self, problem: FlowProblem, goals: frozenset[int]) -> None:
        self.problem = problem
        (self._commodity,) = problem.commodities
        ranks = problem.topology.ranks
        self._src, self._dst = np.array(problem.edges, dtype=np.int64).T.copy()
        self._since = np.full(ranks, -1)
        self._wanted, self._targets = np.zeros((2, ranks), np.int64)
        self._since[sorted(self._commodity.holders)] = 0
        self._wanted[sorted(self._commodity.wanted)] = 1
        self._targets[sorted(goals)] = 1
        self._route_prices = RoutePrices(problem)
        self._counts = np.array([resource.count for resource in problem.resources])

    def extend_packing(self, packing: TimedPacking, target_us: float) -> TimedPacking | None:
        """Return a packing of the same slots in which trees serve everyone. None: there is none.

        Args:
            target_us: microseconds at which it is not bettered.
        """
        pricing = TreePricing(self.problem, inserted=True)
        search = SlotColumnGeneration(self.problem, packing.slots, pricing, packing.us)
        start = self._extend_trees(packing)
        try:
            result = search.run(
                start=start, target_us=target_us, effort=_IMPROVEMENT_EFFORT, spread=False
            )
        except NoTreeError:
            return None
        return result if result.is_complete else None

    def _extend_trees(self, packing: TimedPacking) -> list[tuple[int, SlotTree]]:
        """Return the trees of a packing, each continued to all ranks, the largest share first.

        The cost of a link in a slot grows with the load by earlier trees, relative to its length.
        """
        slots = packing.slots
        load = np.zeros((len(self._counts), slots.count))
        lengths = np.maximum(packing.lengths, _MIN_SLOT * packing.us)
        for share in packing.shares:
            self._add_load(load, slots, share.tree, share.part)
        trees = []
        for share in sorted(packing.shares, key=lambda share: (-share.part, sorted(share.tree))):
            full = np.minimum(load[:, slots.room] / lengths, _MAX_LOAD)
            price = np.exp(_LOAD_EXPONENT * full) / lengths
            each = self._route_prices.route_prices(price / self._counts[:, None])
            cost = np.floor(each * (_COST_SCALE / each.max())).astype(np.int64) + 2
            for use in share.tree:
                cost[use] = 1
            tree = self._extend_tree(cost, slots.arrive)
            if tree is not None:
                self._add_load(load, slots, tree - share.tree, share.part)
                trees.append((share.commodity, tree))
        return trees

    def _add_load(
        self, load: NDArray[np.float64], slots: TimeSlots, tree: SlotTree, part: float
    ) -> None:
        size = float(self._commodity.size) * part
        for link, slot in tree:
            load[:, slots.room[slot]] += size * self._route_prices.meets[:, link] / self._counts

    def _extend_tree(self, cost: IntArray, arrive: IntArray) -> SlotTree | None:
        tree = np.zeros((len(self._since), 2), np.int64)
        ranks = (self._since, self._wanted, self._targets)
        count = insert_targets(self._src, self._dst, cost, arrive, *ranks, tree)
        return None if count < 0 else frozenset((int(e), int(k)) for e, k in tree[:count])
