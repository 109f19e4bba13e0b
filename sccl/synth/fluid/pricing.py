"""The cheapest timed trees of all commodities at given prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sccl.errors import TooLargeError
from sccl.synth.flows.matched import has_ports
from sccl.synth.flows.problem import FluidCommodity, FluidProblem, Tree
from sccl.synth.fluid.alike import AlikeGroups, alike_groups, fill_alike, walk_alike
from sccl.synth.fluid.inserted import insert
from sccl.synth.fluid.partitions import MOST_RANKS, partitions
from sccl.synth.fluid.searched import SearchedTrees
from sccl.synth.fluid.sets import NoTreeError, SetTables, starts_of
from sccl.synth.fluid.tables import Whole

MOST_WORK = 15 * 10**8
"""Pairs of sets times slots times nodes: a second for each time that trees are priced."""

MOST_PARTED = 3 * 10**8
"""Likewise, of a machine's ranks in groups: tenths of a second."""

MOST_BESIDE = 10**6
"""Likewise, of what is looked at beside other trees: no more than milliseconds."""

_LIGHT = 2
"""Times the least work of a table: others are looked at when light ones have no better trees."""

_BEGUN = 4
"""Ranks with which trees are begun at first, where all take long."""

_SEARCH = 0.05
"""Effort of a searched tree, in units of some seconds."""

_FINE = 1 << 30
"""The largest cost of a send as an integer: sums stay far below 64 bits."""


class TreePricing:
    """Tables for the trees of a problem.

    Attributes:
        exact: whether no trees at all are cheaper than it tells. Otherwise none that it looks at.
        light: of the tables some by which everything is served, in less work.
        searched: where no tables say of all trees which is the cheapest, and it is asked for.

    Raises:
        TooLargeError: there are too many sets of ranks to look at.
    """

    def __init__(
        self, problem: FluidProblem, *, exactly: bool = False, inserted: bool = False
    ) -> None:
        self.problem = problem
        self.starts = starts_of(problem)
        self.parts: list[_Part] = [_Inserted(problem)] if inserted else _parts(problem)
        self.exact, self.searched = all(part.exact for part in self.parts), None
        if exactly and not self.exact:
            self.exact, self.parts = True, [_Inserted(problem)]
            self.searched = SearchedTrees(problem)
        self.light = _light(self.parts, len(problem.commodities))
        self.check(2)

    @property
    def has_more(self) -> bool:
        """Return whether there are trees that are not looked at lightly."""
        return len(self.light) < len(self.parts) or self.searched is not None

    def check(self, slots: int) -> None:
        """Check that trees of so many slots can be priced.

        Raises:
            TooLargeError: that would take minutes.
        """
        if sum(part.work(slots) for part in self.parts) > MOST_WORK:
            topology = self.problem.topology
            raise TooLargeError(
                f"topology {topology.name!r}: the lower bound over all chunkings enumerates sets "
                f"of ranks, of which {self.problem.collective.name} among {topology.ranks} has "
                f"too many; this version supports up to {MOST_RANKS} ranks, or chassis of that "
                "size"
            )

    def effort(self, slots: int, *, lightly: bool = False) -> float:
        """Return the effort for pricing trees in a number of slots, in units of some seconds."""
        parts = self.light if lightly else self.parts
        took = 5e-10 * sum(part.work(slots) for part in parts)
        if self.searched is None or lightly:
            return took
        return took + _SEARCH * len(self.problem.commodities)

    def rounded(self, prices: NDArray[np.float64]) -> float:
        """Return by how much a tree that is found may be dearer than another one.

        Sends are priced in whole parts of the dearest one, each rounded down by less than a part,
        and a send more is a 64th of one: so by no more parts than trees have sends.
        """
        sends = 3 * (self.problem.topology.ranks + len(self.starts))
        return sends * (float(prices.max(initial=0.0)) or 1.0) / _FINE

    def cheapest(
        self, prices: NDArray[np.float64], arrive: Whole, *, lightly: bool = False
    ) -> list[tuple[float, Tree]]:
        """Return, for each commodity, a tree that is the cheapest but for rounding, and its price.

        Args:
            prices: shape (links, slots): of a byte.
            arrive: likewise: from which slot on it is there. -1: it is not sent.
            lightly: whether only in the light tables.

        Raises:
            NoTreeError: something has none.
        """
        slots, own = prices.shape[1], len(self.problem.edges)
        more = sum(len(holders) for holders in self.starts if len(holders) > 1)
        prices = np.concatenate([prices, np.zeros((more, slots))])
        arrive = np.concatenate([arrive, np.tile(np.arange(slots), (more, 1))])
        dearest = float(prices.max(initial=0.0)) or 1.0
        # a send costs a little even where it is free: it may cost something later, and ends loops
        cost = np.floor(prices * (_FINE / dearest)).astype(np.int64) * 64 + 1
        found: list[tuple[float, Tree] | None] = [None] * len(self.problem.commodities)
        for part in self.light if lightly else self.parts:
            part.fill(cost, arrive)
            for c in part.commodities:
                one = self.problem.commodities[c]
                try:
                    tree = part.tree(one, self.starts[one.holders], cost, arrive)
                except NoTreeError:  # it may be that others, which enter a group once, come sooner
                    continue
                tree = frozenset(use for use in tree if use[0] < own)
                price = float(sum(prices[use] for use in sorted(tree)))
                best = found[c]
                if best is None or price < best[0]:
                    found[c] = (price, tree)
        if self.searched is not None and not lightly:
            part_of_price = dearest / _FINE / 64
            for c, best in enumerate(found):
                hint = best[1] if best is not None else None
                better, least = self.searched.cheapest(c, cost[:own], arrive[:own], hint)
                better = hint if better is None else better
                # each send is dearer by 1 than its price
                price = max(0.0, least - self.problem.topology.ranks) * part_of_price
                found[c] = None if better is None else (price, better)
        there = [one for one in found if one is not None]
        if len(there) < len(found):
            raise NoTreeError
        return there


class _Part(Protocol):
    """A table, and the commodities that it serves."""

    commodities: tuple[int, ...]
    exact: bool

    def work(self, slots: int) -> float:
        """Return about how many operations filling it takes."""
        ...

    def fill(self, cost: Whole, arrive: Whole) -> None:
        """Fill it in for some costs."""
        ...

    def tree(self, commodity: FluidCommodity, start: int, cost: Whole, arrive: Whole) -> Tree:
        """Return a cheapest tree, by the costs that it is filled in for.

        Raises:
            NoTreeError: there is none.
        """
        ...


def _light(parts: list[_Part], commodities: int) -> list[_Part]:
    """Return the tables that take little work, if each serves everything. Otherwise all of them."""
    if any(len(part.commodities) < commodities for part in parts):
        return parts
    least = min(part.work(2) for part in parts)
    return [part for part in parts if part.work(2) <= _LIGHT * least]


class _Alike:
    """Sets of ranks of a group, and how many other groups. See :mod:`sccl.synth.fluid.alike`."""

    exact = False

    def __init__(
        self,
        joined: AlikeGroups,
        ways: Mapping[tuple[int, int, int], int],
        commodities: tuple[int, ...],
    ) -> None:
        self.joined, self.ways, self.commodities = joined, ways, commodities
        self._table = np.zeros(0, np.int64)
        self._tree = np.zeros((4 * joined.nodes * joined.groups + 256, 4), np.int64)

    def work(self, slots: int) -> float:
        pairs = self.joined.groups * (self.joined.groups + 1) / 2
        return float(3.0**self.joined.nodes * pairs * self.joined.nodes * (slots + 1) / 2)

    def fill(self, cost: Whole, arrive: Whole) -> None:
        j, slots = self.joined, cost.shape[1]
        size = (j.groups << j.nodes) * (slots + 1) * j.nodes
        if len(self._table) != size:
            self._table = np.zeros(size, np.int64)
        own = (cost[j.link], arrive[j.link])
        fill_alike(j.nodes, j.groups, slots, j.src, j.dst, j.inside, *own, self._table)

    def tree(self, commodity: FluidCommodity, start: int, cost: Whole, arrive: Whole) -> Tree:
        j, slots = self.joined, cost.shape[1]
        group, node = divmod(start, j.nodes)
        own = sum(
            1 << rank % j.nodes
            for rank in commodity.wanted
            if rank != start and rank // j.nodes == group
        )
        count = walk_alike(
            j.nodes,
            j.groups,
            slots,
            j.src,
            j.dst,
            j.inside,
            cost[j.link],
            arrive[j.link],
            self._table,
            group,
            node,
            own,
            self._tree,
        )
        if count < 0:
            raise NoTreeError
        return frozenset(
            (self.ways[int(kind), int(here), int(there)], int(slot))
            for kind, slot, here, there in self._tree[:count]
        )


class _Inserted:
    """No table: a cheap tree of each commodity, see :mod:`sccl.synth.fluid.inserted`."""

    exact = False

    def __init__(self, problem: FluidProblem, begun: int = 0) -> None:
        """Store the demands of a problem.

        Args:
            begun: number of ranks with which to begin a tree, one after the other. 0: all.
        """
        self.problem = problem
        self.commodities = tuple(range(len(problem.commodities)))
        self._src, self._dst = np.array(problem.edges, dtype=np.int64).T.copy()
        self._tree = np.zeros((problem.topology.ranks, 2), np.int64)
        self._begun = [_spaced(problem, one, begun) for one in problem.commodities]

    def work(self, slots: int) -> float:
        begun = sum(int(ranks.sum()) for ranks in self._begun)
        return 3.0 * begun * self.problem.topology.ranks * len(self._src) * slots

    def fill(self, cost: Whole, arrive: Whole) -> None:
        """Do nothing: there is no table."""

    def tree(self, commodity: FluidCommodity, start: int, cost: Whole, arrive: Whole) -> Tree:
        del start  # it may be a node of its own, which links lead from to all who hold the chunk
        since = np.full(self.problem.topology.ranks, -1, np.int64)
        since[sorted(commodity.holders)] = 0
        wanted = np.zeros(len(since), np.int64)
        wanted[sorted(commodity.wanted)] = 1
        own = len(self._src)
        begun = self._begun[self.problem.commodities.index(commodity)]
        ends = (self._src, self._dst)
        count = insert(*ends, cost[:own], arrive[:own], since, wanted, begun, self._tree)
        if count < 0:
            raise NoTreeError
        return frozenset((int(e), int(t)) for e, t in self._tree[:count])


def _spaced(problem: FluidProblem, one: FluidCommodity, most: int) -> Whole:
    """Return whether each rank is one of so many that want something, near ones and far. 0: all."""
    far = problem.distances(one.holders)
    missing = sorted(one.wanted - one.holders, key=lambda rank: (-far[rank], rank))
    apart = -(-len(missing) // most) if most else 1
    found = np.zeros(problem.topology.ranks, np.int64)
    found[missing[::apart]] = 1
    return found


def _parts(problem: FluidProblem) -> list[_Part]:
    """Return the tables that are needed: one for each destination, or one for all."""
    commodities, topology = problem.commodities, problem.topology
    missing = [c.wanted - c.holders for c in commodities]
    if all(len(ranks) == 1 for ranks in missing):
        by_goal: dict[int, list[int]] = {}
        for i, (goal,) in enumerate(missing):
            by_goal.setdefault(goal, []).append(i)
        return [SetTables(problem, [[goal]], tuple(all_)) for goal, all_ in by_goal.items()]
    every = sorted(frozenset().union(*missing))
    whole = tuple(range(len(commodities)))
    if len(every) > MOST_RANKS and all(len(c.wanted) == topology.ranks for c in commodities):
        single = all(len(c.holders) == 1 for c in commodities)
        alike = alike_groups(problem) if single else None
        groupings = list(partitions(problem))
        parted: list[_Part] = [SetTables(problem, groups, whole) for groups in groupings]
        if alike is not None:  # the first partition, by chassis, in less work
            rest = parted[1:] if len(groupings) > 1 else []
            few = [part for part in rest if part.work(2) <= MOST_BESIDE]
            return [_Alike(*alike, whole), *few]
        light = [part for part in parted if part.work(2) <= MOST_PARTED]
        large = max(map(len, topology.chassis), default=0) > MOST_RANKS
        if not topology.chassis or (large and not has_ports(problem)):
            few = [part for part in light if part.work(2) <= MOST_BESIDE]
            inserted = _Inserted(problem)
            dear = inserted.work(2) > MOST_BESIDE
            return [*few, *([_Inserted(problem, _BEGUN)] if dear else []), inserted]
        return light or parted[:1]
    return [SetTables(problem, [every], whole)]
