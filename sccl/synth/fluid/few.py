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

from sccl.synth.flows.problem import FluidProblem, Tree
from sccl.synth.flows.shares import TimedPacking
from sccl.synth.flows.slots import TimeSlots
from sccl.synth.fluid.inserted import insert
from sccl.synth.fluid.packing import Growth, WayPrices
from sccl.synth.fluid.pricing import TreePricing
from sccl.synth.fluid.sets import NoTreeError
from sccl.synth.fluid.tables import Whole

MOST_GOALS = 6
"""Trees to so many ranks take milliseconds, on any machine."""

_BETTERED = 0.05
"""Effort for trees to all ranks, by prices of trees to few."""

_SHORT, _STEEP, _FULLEST, _FINE = 1e-3, 6.0, 3.0, 1 << 30
"""Of the whole: a slot counts as no shorter. By how much a full one is dearer, as a logarithm; what
is no dearer for being fuller, and the dearest send as a whole number."""


def few_goals(problem: FluidProblem) -> frozenset[int]:
    """Return ranks that are hard to serve together. Empty: chunks do not all take the same paths.

    These are the farthest rank of each chassis, as each chassis has its late arrivals, and for each
    link that a chunk can begin with, a rank far from it, as late data have to leave over several.
    """
    if len(problem.commodities) != 1 or len(problem.commodities[0].members) != 1:
        return frozenset()
    one = problem.commodities[0]
    missing = sorted(one.wanted - one.holders)
    far = problem.distances(one.holders)
    found: list[int] = []
    for chassis in problem.topology.chassis:
        inside = [int(rank) for rank in chassis if rank in one.wanted]
        if inside and one.holders.isdisjoint(inside):
            found.append(max(inside, key=lambda rank: (far[rank], -rank)))
    for ranks in _late(problem, missing):
        if not ranks.intersection(found):
            found.append(min(ranks))
    return frozenset(found[:MOST_GOALS])


def _late(problem: FluidProblem, missing: list[int]) -> Iterator[frozenset[int]]:
    """Yield the ranks that a chunk comes to last by each way that it can begin with."""
    (one,) = problem.commodities
    firsts = sorted({v for u, v in problem.edges if u in one.holders and v not in one.holders})
    known = [problem.distances([first]) for first in firsts]
    most = [max(far.get(rank, Fraction(0)) for rank in missing) for far in known]
    each = [
        frozenset(rank for rank in missing if far.get(rank) == last)
        for far, last in zip(known, most, strict=True)
    ]
    for _, ranks in sorted(enumerate(each), key=lambda some: (len(some[1]), some[0])):
        yield ranks


def narrowed(problem: FluidProblem, goals: frozenset[int]) -> FluidProblem:
    """Return a problem in which only these ranks want anything."""
    few = (replace(one, wanted=one.wanted & goals) for one in problem.commodities)
    return replace(problem, commodities=tuple(few))


class JoinedTrees:
    """Trees to few ranks that everyone else joins, each where that costs the least."""

    def __init__(self, problem: FluidProblem, goals: frozenset[int]) -> None:
        self.problem = problem
        (self._one,) = problem.commodities
        ranks = problem.topology.ranks
        self._src, self._dst = np.array(problem.edges, dtype=np.int64).T.copy()
        self._since = np.full(ranks, -1)
        self._wanted, self._begun = np.zeros((2, ranks), np.int64)
        self._since[sorted(self._one.holders)] = 0
        self._wanted[sorted(self._one.wanted)] = 1
        self._begun[sorted(goals)] = 1
        self._ways = WayPrices(problem)
        self._counts = np.array([resource.count for resource in problem.resources])

    def whole(self, packing: TimedPacking, enough: float) -> TimedPacking | None:
        """Return a packing of the same slots in which trees serve everyone. None: there is none.

        Args:
            enough: microseconds at which it is not bettered.
        """
        pricing = TreePricing(self.problem, inserted=True)
        search = Growth(self.problem, packing.slots, pricing, packing.us)
        start = self._joined(packing)
        try:
            found = search.run(start=start, enough=enough, effort=_BETTERED, spread=False)
        except NoTreeError:
            return None
        return found if found.whole else None

    def _joined(self, packing: TimedPacking) -> list[tuple[int, Tree]]:
        """Return the trees of a packing, each continued to all ranks, the largest share first.

        The cost of a link in a slot grows with the load by earlier trees, relative to its length.
        """
        slots = packing.slots
        load = np.zeros((len(self._counts), slots.count))
        lengths = np.maximum(packing.lengths, _SHORT * packing.us)
        for share in packing.shares:
            self._add(load, slots, share.tree, share.part)
        found = []
        for share in sorted(packing.shares, key=lambda share: (-share.part, sorted(share.tree))):
            full = np.minimum(load[:, slots.room] / lengths, _FULLEST)
            price = np.exp(_STEEP * full) / lengths
            each = self._ways.of(price / self._counts[:, None])
            cost = np.floor(each * (_FINE / each.max())).astype(np.int64) + 2
            for use in share.tree:
                cost[use] = 1
            tree = self._tree(cost, slots.arrive)
            if tree is not None:
                self._add(load, slots, tree - share.tree, share.part)
                found.append((share.commodity, tree))
        return found

    def _add(self, load: NDArray[np.float64], slots: TimeSlots, tree: Tree, part: float) -> None:
        size = float(self._one.size) * part
        for link, slot in tree:
            load[:, slots.room[slot]] += size * self._ways.meets[:, link] / self._counts

    def _tree(self, cost: Whole, arrive: Whole) -> Tree | None:
        tree = np.zeros((len(self._since), 2), np.int64)
        ranks = (self._since, self._wanted, self._begun)
        count = insert(self._src, self._dst, cost, arrive, *ranks, tree)
        return None if count < 0 else frozenset((int(e), int(k)) for e, k in tree[:count])
