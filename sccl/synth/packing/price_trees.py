"""The cheapest timed trees of all commodities at given prices.

For few ranks to reach, there are tables of all sets of these ranks. For more ranks, trees grow
greedily. Once such trees no longer improve a packing, branch and bound searches for cheapest ones.
"""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import BoolArray, FloatArray, IntArray
from sccl.errors import TooLargeError
from sccl.synth.limits import INFINITE, MAX_SUBSET, QUICK_EFFORT, TIME_PRICE_SCALE
from sccl.synth.packing.flow_problem import FlowCommodity, FlowProblem, SlotTree
from sccl.synth.packing.price_branching import TreeSearch, insert_targets, tree_network
from sccl.synth.packing.price_sets import (
    WORK_EFFORT,
    NoTreeError,
    SetTables,
    chunk_starts,
    with_start_links,
)

MAX_WORK = 15 * 10**8
"""Pairs of sets times slots times nodes: pricing all trees once takes a second."""

_MAX_GROWTH_WORK = 10**6
"""The same product, up to which trees are grown from each rank in turn: milliseconds."""

_SEED_RANKS = 4
"""Ranks from which trees are grown if all of them take long."""


class TreePricing:
    """Cheapest trees by tables of sets of ranks, or by growing and searching trees.

    Args:
        problem: The problem.
        is_grown: Whether trees are only grown, so that cheaper ones may exist.

    Attributes:
        is_exact: Whether the price that it returns is a lower bound for all trees, unless trees are
            priced lightly.
        is_searched: Whether cheapest trees are searched by branching, unless priced lightly.
        search_effort: Effort of these searches so far, in units of some seconds.

    Raises:
        TooLargeError: Pricing would take minutes.
    """

    def __init__(self, problem: FlowProblem, *, is_grown: bool = False) -> None:
        self.problem, self.starts = problem, chunk_starts(problem)
        self.tables = [] if is_grown else _set_tables(problem)
        self.is_exact, self.is_searched = not is_grown, not (is_grown or self.tables)
        self.search_effort = 0.0
        self._tree = np.zeros((problem.topology.ranks, 2), np.int64)
        self._first: list[BoolArray] = []
        for max_seeds in (problem.topology.ranks, _SEED_RANKS) if not self.tables else ():
            self._first = [_spaced_ranks(problem, c, max_seeds) for c in problem.commodities]
            if self._work(2) <= _MAX_GROWTH_WORK:
                break
        self.check_size(2)

    def _work(self, slots: int) -> float:
        """Return the approximate number of operations of pricing, without a search."""
        begun = sum(int(ranks.sum()) for ranks in self._first)
        growth = 3.0 * begun * self.problem.topology.ranks * len(self.problem.edges) * slots
        return growth + sum(table.work(slots) for table in self.tables)

    def check_size(self, slots: int) -> None:
        """Check that trees in a number of slots can be priced.

        Raises:
            TooLargeError: Pricing would take minutes.
        """
        if self._work(slots) > MAX_WORK:
            topology = self.problem.topology
            raise TooLargeError(
                f"topology {topology.name!r}: the lower bound over all chunkings prices trees, of "
                f"which {self.problem.collective.name} among {topology.ranks} ranks has too many; "
                f"this version supports up to {MAX_SUBSET} ranks to reach, or few links"
            )

    def effort(self, slots: int) -> float:
        """Return the effort for pricing trees in a number of slots, in units of some seconds.

        The effort of searches is not included, because it is not known in advance.
        """
        return WORK_EFFORT * self._work(slots)

    def rounding_error(self, prices: FloatArray) -> float:
        """Return the largest difference between the prices of the returned tree and a cheaper one.

        The price of a send is rounded down to a multiple of a part of the highest price. The added
        1 is a 64th of that part. So a tree's error is at most its number of sends, in parts.
        """
        sends = 3 * (self.problem.topology.ranks + len(self.starts))
        return sends * (float(prices.max(initial=0.0)) or 1.0) / TIME_PRICE_SCALE

    def cheapest(
        self, prices: FloatArray, arrive: IntArray, *, lightly: bool = False
    ) -> list[tuple[float, SlotTree]]:
        """Return, for each commodity, the price of a cheapest tree, up to rounding, and the tree.

        If a search does not end, the price is a lower bound on the price of all trees.

        Args:
            prices: Price of a byte, shape (links, slots).
            arrive: Slot from which a send has arrived, shape (links, slots). -1: it cannot be sent.
            lightly: Whether to price without a search.

        Raises:
            NoTreeError: A commodity has no tree.
        """
        links = len(prices)
        max_price = float(prices.max(initial=0.0)) or 1.0
        # Free sends get a small cost, which excludes loops.
        cost = np.floor(prices * (TIME_PRICE_SCALE / max_price)).astype(np.int64) * 64 + 1
        if not self.tables:
            trees = [
                self._grow_tree(c, cost, arrive, lightly=lightly)
                for c in range(len(self.problem.commodities))
            ]
            # each send costs 1 more than its price
            part, sends = max_price / TIME_PRICE_SCALE / 64, self.problem.topology.ranks
            return [
                (
                    sum(prices[use] for use in sorted(tree))
                    if lower_bound is None
                    else max(0, lower_bound - sends) * part,
                    tree,
                )
                for tree, lower_bound in trees
            ]
        cost, arrive = with_start_links(self.starts, cost, arrive)
        results: dict[int, tuple[float, SlotTree]] = {}
        for table in self.tables:
            table.fill(cost, arrive)
            for c in table.commodities:
                commodity = self.problem.commodities[c]
                tree = table.tree(commodity, self.starts[commodity.holders], cost, arrive)
                tree = frozenset(use for use in tree if use[0] < links)
                results[c] = (float(sum(prices[use] for use in sorted(tree))), tree)
        return [results[c] for c in range(len(results))]

    def _grow_tree(
        self, number: int, cost: IntArray, arrive: IntArray, *, lightly: bool
    ) -> tuple[SlotTree, int | None]:
        """Return a cheap tree of a commodity, and a lower bound on the cost of trees if searched.

        Raises:
            NoTreeError: No tree exists.
        """
        problem, commodity = self.problem, self.problem.commodities[number]
        network = tree_network(problem.edges, problem.topology.ranks, commodity, arrive)
        count = insert_targets(network, cost, self._first[number], self._tree)
        if count < 0:
            raise NoTreeError
        tree = frozenset((int(e), int(k)) for e, k in self._tree[:count])
        if lightly or not self.is_searched:
            return tree, None
        search = TreeSearch(network, QUICK_EFFORT)
        below = sum(int(cost[use]) for use in tree)
        cheaper, lower_bound = search.cheapest(np.where(arrive < 0, INFINITE, cost), below)
        self.search_effort += search.spent
        return cheaper or tree, lower_bound


def _spaced_ranks(problem: FlowProblem, commodity: FlowCommodity, max_count: int) -> BoolArray:
    """Return whether each rank is one of at most ``max_count`` destinations, far and near ones."""
    far = problem.distances(commodity.holders)
    missing = sorted(commodity.wanted - commodity.holders, key=lambda rank: (-far[rank], rank))
    apart = -(-len(missing) // max_count)
    return np.isin(np.arange(problem.topology.ranks), missing[::apart])


def _set_tables(problem: FlowProblem) -> list[SetTables]:
    """Return a table per destination, or one for few destinations. Empty: there are too many."""
    missing = [c.wanted - c.holders for c in problem.commodities]
    if all(len(ranks) == 1 for ranks in missing):
        by_goal: dict[int, list[int]] = {}
        for i, (goal,) in enumerate(missing):
            by_goal.setdefault(goal, []).append(i)
        return [SetTables(problem, [[goal]], tuple(all_)) for goal, all_ in by_goal.items()]
    goals = sorted(frozenset().union(*missing))
    few = len(goals) <= MAX_SUBSET
    return [SetTables(problem, [goals], tuple(range(len(missing))))] if few else []
