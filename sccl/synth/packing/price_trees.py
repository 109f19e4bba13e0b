"""The cheapest timed trees of all commodities at given prices."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import BoolArray, IntArray
from sccl.errors import TooLargeError
from sccl.synth.packing.flow_problem import FlowCommodity, FlowProblem, SlotTree, has_ports
from sccl.synth.packing.price_branching import TreeSearch, insert_targets, tree_network
from sccl.synth.packing.price_sets import (
    INFINITE,
    MAX_RANKS,
    WORK_EFFORT,
    NoTreeError,
    SetTables,
    chunk_starts,
    rank_partitions,
    with_start_links,
)

MAX_WORK = 15 * 10**8
"""Pairs of sets times slots times nodes: a second for each time that trees are priced."""

MAX_PARTITION_WORK = 3 * 10**8
"""Likewise, of a machine's ranks in groups: tenths of a second."""

MAX_LIGHT_WORK = 10**6
"""Likewise for tables that are considered in addition to others: milliseconds at most."""

_LIGHT_FACTOR = 2
"""Largest work of a light table relative to the smallest. Others are used if these find nothing."""

_SEED_RANKS = 4
"""Ranks with which trees are begun at first, where all take long."""

_TREE_EFFORT = 0.5
"""Limit on the effort of CP-SAT for a tree that branching does not find. Without searched trees,
the lower bound of an allgather of 4 KB per rank on torus:4x4@50,25GB falls from 2.84 to 2.83 us.
"""

_COST_SCALE = 1 << 30
"""The largest cost of a send as an integer: sums stay far below 64 bits."""


class TreePricing:
    """Tables for the trees of a problem.

    Attributes:
        is_exact: Whether the price that it returns is a lower bound for all trees. Otherwise it is
            one for the trees that it considers.
        light_tables: Tables with little work that cover all commodities.
        is_searched: Whether cheapest trees are searched by branching: if that is requested and no
            table covers all trees.
        search_effort: Effort of these searches so far, in units of some seconds.

    Raises:
        TooLargeError: there are too many sets of ranks to look at.
    """

    def __init__(
        self, problem: FlowProblem, *, exactly: bool = False, inserted: bool = False
    ) -> None:
        self.problem = problem
        self.starts = chunk_starts(problem)
        self.tables: list[_PricingTable] = (
            [_InsertionTable(problem)] if inserted else _build_tables(problem)
        )
        self.is_exact = all(part.is_exact for part in self.tables)
        self.search_effort, self.is_searched = 0.0, exactly and not self.is_exact
        if self.is_searched:
            self.is_exact, self.tables = True, [_InsertionTable(problem)]
        self.light_tables = _light_tables(self.tables, len(problem.commodities))
        self.check_size(2)

    @property
    def has_heavy_tables(self) -> bool:
        """Return whether there are trees that are not looked at lightly."""
        return len(self.light_tables) < len(self.tables) or self.is_searched

    def check_size(self, slots: int) -> None:
        """Check that trees of so many slots can be priced.

        Raises:
            TooLargeError: that would take minutes.
        """
        if sum(part.work(slots) for part in self.tables) > MAX_WORK:
            topology = self.problem.topology
            raise TooLargeError(
                f"topology {topology.name!r}: the lower bound over all chunkings enumerates sets "
                f"of ranks, of which {self.problem.collective.name} among {topology.ranks} has "
                f"too many; this version supports up to {MAX_RANKS} ranks, or chassis of that "
                "size"
            )

    def effort(self, slots: int, *, lightly: bool = False) -> float:
        """Return the effort for pricing trees in a number of slots, in units of some seconds."""
        parts = self.light_tables if lightly else self.tables
        return WORK_EFFORT * sum(part.work(slots) for part in parts)

    def rounding_error(self, prices: NDArray[np.float64]) -> float:
        """Return by how much a tree that is found may be dearer than another one.

        Sends are priced in whole parts of the dearest one, each rounded down by less than a part,
        and a send more is a 64th of one: so by no more parts than trees have sends.
        """
        sends = 3 * (self.problem.topology.ranks + len(self.starts))
        return sends * (float(prices.max(initial=0.0)) or 1.0) / _COST_SCALE

    def cheapest(
        self, prices: NDArray[np.float64], arrive: IntArray, *, lightly: bool = False
    ) -> list[tuple[float, SlotTree]]:
        """Return, for each commodity, a tree that is the cheapest but for rounding, and its price.

        Args:
            prices: shape (links, slots): of a byte.
            arrive: likewise: from which slot on it is there. -1: it is not sent.
            lightly: whether only in the light tables.

        Raises:
            NoTreeError: something has none.
        """
        link_count = len(prices)
        dearest = float(prices.max(initial=0.0)) or 1.0
        # Free sends get a small cost, which excludes loops.
        cost = np.floor(prices * (_COST_SCALE / dearest)).astype(np.int64) * 64 + 1
        cost, arrive = with_start_links(self.starts, cost, arrive)
        results: list[tuple[float, SlotTree] | None] = [None] * len(self.problem.commodities)
        for part in self.light_tables if lightly else self.tables:
            part.fill(cost, arrive)
            for c in part.commodities:
                entry = self.problem.commodities[c]
                try:
                    tree = part.tree(entry, self.starts[entry.holders], cost, arrive)
                except NoTreeError:  # trees that enter a group once may still arrive in time
                    continue
                tree = frozenset(use for use in tree if use[0] < link_count)
                price = float(sum(prices[use] for use in sorted(tree)))
                best = results[c]
                if best is None or price < best[0]:
                    results[c] = (price, tree)
        if self.is_searched and not lightly:
            sends = cost[:link_count], arrive[:link_count]
            for c, commodity in enumerate(self.problem.commodities):
                best = results[c]
                searched, lower_bound = self._search_tree(commodity, *sends)
                cheapest = searched or (best and best[1])
                # each send costs 1 more than its price
                proved = max(0, lower_bound - self.problem.topology.ranks)
                price = proved * dearest / _COST_SCALE / 64
                results[c] = (price, cheapest) if cheapest else None
        trees = [entry for entry in results if entry is not None]
        if len(trees) < len(results):
            raise NoTreeError
        return trees

    def _search_tree(
        self, commodity: FlowCommodity, cost: IntArray, arrive: IntArray
    ) -> tuple[SlotTree | None, int]:
        """Return the cheapest tree that is found, and a lower bound on the cost of trees."""
        ranks = self.problem.topology.ranks
        network = tree_network(self.problem.edges, ranks, commodity, arrive)
        search = TreeSearch(network, _TREE_EFFORT)
        result = search.cheapest(np.where(arrive < 0, INFINITE, cost))
        self.search_effort += search.spent
        return result


class _PricingTable(Protocol):
    commodities: tuple[int, ...]
    is_exact: bool

    def work(self, slots: int) -> float:
        """Return about how many operations filling it takes."""
        ...

    def fill(self, cost: IntArray, arrive: IntArray) -> None: ...

    def tree(
        self, commodity: FlowCommodity, start: int, cost: IntArray, arrive: IntArray
    ) -> SlotTree:
        """Return a cheapest tree, by the costs that it is filled in for.

        Raises:
            NoTreeError: there is none.
        """
        ...


def _light_tables(parts: list[_PricingTable], commodities: int) -> list[_PricingTable]:
    """Return the tables that take little work, if each serves everything. Otherwise all of them."""
    if any(len(part.commodities) < commodities for part in parts):
        return parts
    min_work = min(part.work(2) for part in parts)
    return [part for part in parts if part.work(2) <= _LIGHT_FACTOR * min_work]


class _InsertionTable:
    """No table: a cheap tree of each commodity, see :func:`.price_branching.insert_targets`."""

    is_exact = False

    def __init__(self, problem: FlowProblem, begun: int = 0) -> None:
        """Store the demands of a problem.

        Args:
            begun: number of ranks with which to begin a tree, one after the other. 0: all.
        """
        self.problem = problem
        self.commodities = tuple(range(len(problem.commodities)))
        self._tree = np.zeros((problem.topology.ranks, 2), np.int64)
        self._seeds = [
            _spaced_ranks(problem, commodity, begun) for commodity in problem.commodities
        ]

    def work(self, slots: int) -> float:
        begun = sum(int(ranks.sum()) for ranks in self._seeds)
        return 3.0 * begun * self.problem.topology.ranks * len(self.problem.edges) * slots

    def fill(self, cost: IntArray, arrive: IntArray) -> None:
        """Do nothing: there is no table."""

    def tree(
        self, commodity: FlowCommodity, start: int, cost: IntArray, arrive: IntArray
    ) -> SlotTree:
        del start  # it may be a node of its own, which links lead from to all who hold the chunk
        problem, links = self.problem, len(self.problem.edges)
        network = tree_network(problem.edges, problem.topology.ranks, commodity, arrive[:links])
        begun = self._seeds[problem.commodities.index(commodity)]
        count = insert_targets(network, cost[:links], begun, self._tree)
        if count < 0:
            raise NoTreeError
        return frozenset((int(e), int(t)) for e, t in self._tree[:count])


def _spaced_ranks(problem: FlowProblem, commodity: FlowCommodity, max_count: int) -> BoolArray:
    """Return whether each rank is one of so many that want something, near ones and far. 0: all."""
    far = problem.distances(commodity.holders)
    missing = sorted(commodity.wanted - commodity.holders, key=lambda rank: (-far[rank], rank))
    apart = -(-len(missing) // max_count) if max_count else 1
    return np.isin(np.arange(problem.topology.ranks), missing[::apart])


def _build_tables(problem: FlowProblem) -> list[_PricingTable]:
    """Return the tables that are needed: one for each destination, or one for all."""
    commodities, topology = problem.commodities, problem.topology
    missing = [c.wanted - c.holders for c in commodities]
    if all(len(ranks) == 1 for ranks in missing):
        by_goal: dict[int, list[int]] = {}
        for i, (goal,) in enumerate(missing):
            by_goal.setdefault(goal, []).append(i)
        return [SetTables(problem, [[goal]], tuple(all_)) for goal, all_ in by_goal.items()]
    all_goals = sorted(frozenset().union(*missing))
    all_indices = tuple(range(len(commodities)))
    if len(all_goals) > MAX_RANKS and all(len(c.wanted) == topology.ranks for c in commodities):
        parted: list[_PricingTable] = [
            SetTables(problem, groups, all_indices) for groups in rank_partitions(problem)
        ]
        light = [part for part in parted if part.work(2) <= MAX_PARTITION_WORK]
        large = max(map(len, topology.chassis), default=0) > MAX_RANKS
        if not topology.chassis or (large and not has_ports(problem)):
            few = [part for part in light if part.work(2) <= MAX_LIGHT_WORK]
            inserted = _InsertionTable(problem)
            dear = inserted.work(2) > MAX_LIGHT_WORK
            return [*few, *([_InsertionTable(problem, _SEED_RANKS)] if dear else []), inserted]
        return light or parted[:1]
    return [SetTables(problem, [all_goals], all_indices)]
