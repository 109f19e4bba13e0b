"""The cheapest timed tree of a commodity at given prices of (link, step): exact methods.

* few ranks to reach: dynamic programming over the sets of ranks reached;
* more: branch and bound, and CP-SAT where that takes many nodes;
* allreduce: the same for two trees, into a rank or two that exchange, and out of it.

Prices are integers, so "cheapest" is exact. Among equally cheap trees one with fewest sends is
taken: a free send costs nothing now and load later.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.errors import TooLargeError
from sccl.synth.limits import INFINITE, LIMIT_EFFORT, MAX_CAPACITY, MAX_TABLE_WORK
from sccl.synth.packing.price_branching import TreeSearch, tree_network
from sccl.synth.packing.price_pairs import PairTables, reverse_costs
from sccl.synth.packing.price_sets import WORK_EFFORT, SetTables, chunk_starts, with_start_links
from sccl.synth.packing.problem import Commodity, PackingProblem, StepTree


def max_price_scale(ranks: int) -> int:
    """Return the largest integer for a price of 1 that keeps tree costs below the largest."""
    return MAX_CAPACITY // (2 * (ranks + 1) ** 2)


class PricedTimeWindow:
    """The places and times at which a commodity's sends can matter."""

    def __init__(self, problem: PackingProblem, commodity: Commodity) -> None:
        self.edges: tuple[Edge, ...] = problem.edges
        self.ranks, self.steps = problem.topology.ranks, problem.steps
        self.commodity = commodity
        when = np.arange(self.steps)[None, :]
        first = np.array(commodity.first_step)[:, None]
        end = np.array(commodity.end_step)[:, None]
        self.usable = (first <= when) & (when < end)
        self.arrive = np.where(self.usable, when + 1, -1)

    def weights(self, prices: IntArray) -> NDArray[np.int64]:
        """Return prices, then sends, as one number; INFINITE where a send is of no use."""
        weights: NDArray[np.int64] = np.where(
            self.usable, prices * (self.ranks + 1) + 1, np.int64(INFINITE)
        )
        return weights

    def cost(self, prices: IntArray, tree: StepTree) -> int:
        """Return the cost of a tree."""
        return sum(int(prices[use]) for use in tree)


class SetPricer:
    """Dynamic programming over the sets of ranks to reach."""

    def __init__(self, window: PricedTimeWindow, problem: PackingProblem) -> None:
        self.window, self.spent = window, 0.0
        single = replace(problem, commodities=(window.commodity,))
        goals = sorted(window.commodity.wanted - window.commodity.holders)
        self.tables, self.starts = SetTables(single, [goals], (0,)), chunk_starts(single)

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a cheapest tree and its cost."""
        window, commodity = self.window, self.window.commodity
        self.spent += WORK_EFFORT * self.tables.work(window.steps)
        costs = with_start_links(self.starts, window.weights(prices), window.arrive)
        self.tables.fill(*costs)
        tree = self.tables.tree(commodity, self.starts[commodity.holders], *costs)
        tree = frozenset(use for use in tree if use[0] < len(window.edges))
        return window.cost(prices, tree), tree

    quick = exact


class PairPricer:
    """Trees up and down by dynamic programming over sets of ranks, over all roots and steps.

    The ranks that reduce the chunk are reached, and others where they forward it.
    """

    def __init__(self, window: PricedTimeWindow, problem: PackingProblem) -> None:
        self.window, self.spent = window, 0.0
        goals = sorted(window.commodity.wanted)
        rooted = replace(window.commodity, holders=frozenset(goals[:1]))
        self.tables = PairTables(replace(problem, commodities=(rooted,)), [goals])

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return cheapest trees up and down as one, and their cost."""
        self.spent += self.tables.effort(self.window.steps)
        costs = reverse_costs(self.window.weights(prices), self.window.arrive)
        cheapest = self.tables.cheapest(costs)
        if cheapest.price >= INFINITE:
            raise ValueError(f"no tree reduces and broadcasts within {self.window.steps} steps")
        tree = self.tables.tree(cheapest, costs)
        return self.window.cost(prices, tree), tree

    quick = exact


class SearchPricer:
    """Trees by branching, for too many ranks for dynamic programming.

    Raises:
        TooLargeError: a search would take too long for a single tree.
    """

    def __init__(self, window: PricedTimeWindow, deadline: float = math.inf) -> None:
        self.window = window
        network = tree_network(window.edges, window.ranks, window.commodity, window.arrive)
        self.search = TreeSearch(network, LIMIT_EFFORT, deadline)
        links = len(self.search.useful)
        if window.ranks * window.steps * links > MAX_TABLE_WORK:
            raise TooLargeError(
                f"a limit over all k for {window.ranks} ranks, {links} links and {window.steps} "
                "steps is too large to compute; the bounds and a sweep over k work"
            )

    @property
    def spent(self) -> float:
        """Return the effort of all that has been done."""
        return self.search.spent

    def lower_bound(self, prices: IntArray) -> int:
        """Return a lower bound on the cost of trees."""
        return self.search.lower_bound(self.window.weights(prices)) // (self.window.ranks + 1)

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a cheapest tree and its cost.

        Raises:
            TimeoutError: it was not found with the effort for a tree, or before the deadline.
        """
        cheapest = self.cheapest_below(prices, MAX_CAPACITY)
        assert cheapest is not None, "each rank can be reached in the steps that there are"
        return cheapest

    def cheapest_below(self, prices: IntArray, below: int) -> tuple[int, StepTree] | None:
        """Return a cheapest tree and its cost. None: that is not below something.

        Raises:
            TimeoutError: it was not found with the effort for a tree, or before the deadline.
        """
        weights = self.window.weights(prices)
        max_weight = below * (self.window.ranks + 1)  # a tree's weight counts its sends as well
        tree, lower_bound = self.search.cheapest(weights, max_weight)
        if lower_bound < (max_weight if tree is None else self.window.cost(weights, tree)):
            raise TimeoutError("the search for a cheapest timed tree ran out of time")
        return None if tree is None else (self.window.cost(prices, tree), tree)

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a tree and its cost: the rank that is cheapest to reach is joined next."""
        tree = self.search.grow(self.window.weights(prices))
        return self.window.cost(prices, tree), tree
