"""The cheapest timed tree of a commodity at given prices of (link, step), by exact methods.

* Few ranks to reach: dynamic programming over the sets of reached ranks.
* More ranks: branch and bound, and CP-SAT if that takes many nodes.
* Allreduce: the same methods for two trees, into and out of a rank or two that exchange.

Prices are integers, so "cheapest" is exact. Ties are broken by the fewest sends, because a free
send now may be a load later.
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
    """Return the largest integer for a price of 1 at which tree costs stay below their limit."""
    return MAX_CAPACITY // (2 * (ranks + 1) ** 2)


class PricedTimeWindow:
    """The links and steps in which sends of a commodity can be useful."""

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
        """Return price * (ranks + 1) + 1 of each send, so that ties go to trees with fewer sends.

        The weight of a useless send is INFINITE.
        """
        weights: NDArray[np.int64] = np.where(
            self.usable, prices * (self.ranks + 1) + 1, np.int64(INFINITE)
        )
        return weights

    def cost(self, prices: IntArray, tree: StepTree) -> int:
        """Return the cost of a tree."""
        return sum(int(prices[use]) for use in tree)


class SetPricer:
    """Pricing by dynamic programming over the sets of ranks to reach."""

    is_searched = False

    def __init__(self, window: PricedTimeWindow, problem: PackingProblem) -> None:
        self.window, self.spent = window, 0.0
        single = replace(problem, commodities=(window.commodity,))
        goals = sorted(window.commodity.wanted - window.commodity.holders)
        self.tables, self.starts = SetTables(single, [goals], (0,)), chunk_starts(single)

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of a cheapest tree, and the tree."""
        window, commodity = self.window, self.window.commodity
        self.spent += WORK_EFFORT * self.tables.work(window.steps)
        costs = with_start_links(self.starts, window.weights(prices), window.arrive)
        self.tables.fill(*costs)
        tree = self.tables.tree(commodity, self.starts[commodity.holders], *costs)
        tree = frozenset(use for use in tree if use[0] < len(window.edges))
        return window.cost(prices, tree), tree

    quick = exact


class PairPricer:
    """Pricing of trees up and down by dynamic programming over sets of ranks, for all roots.

    The trees reach the ranks that reduce the chunk. Other ranks only forward it.
    """

    is_searched = False

    def __init__(self, window: PricedTimeWindow, problem: PackingProblem) -> None:
        self.window, self.spent = window, 0.0
        goals = sorted(window.commodity.wanted)
        rooted = replace(window.commodity, holders=frozenset(goals[:1]))
        self.tables = PairTables(replace(problem, commodities=(rooted,)), [goals])

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of the cheapest trees up and down, and their union."""
        self.spent += self.tables.effort(self.window.steps)
        costs = reverse_costs(self.window.weights(prices), self.window.arrive)
        cheapest = self.tables.cheapest(costs)
        if cheapest.price >= INFINITE:
            raise ValueError(f"no tree reduces and broadcasts within {self.window.steps} steps")
        tree = self.tables.tree(cheapest, costs)
        return self.window.cost(prices, tree), tree

    quick = exact


class SearchPricer:
    """Pricing by branch and bound, if dynamic programming has too many ranks.

    Raises:
        TooLargeError: The search for a single tree would take too long.
    """

    is_searched = True

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
        """Return the effort so far."""
        return self.search.spent

    def lower_bound(self, prices: IntArray) -> int:
        """Return a lower bound on the cost of trees."""
        return self.search.lower_bound(self.window.weights(prices)) // (self.window.ranks + 1)

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of a cheapest tree, and the tree.

        Raises:
            TimeoutError: The effort for a tree, or the time, was not enough.
        """
        cheapest = self.cheapest_below(prices, MAX_CAPACITY)
        assert cheapest is not None, "each rank can be reached in the steps that there are"
        return cheapest

    def cheapest_below(self, prices: IntArray, below: int) -> tuple[int, StepTree] | None:
        """Return the cost of a cheapest tree, and the tree. None: no tree is below the limit.

        Args:
            prices: Prices of sends.
            below: Upper limit on the cost, exclusive.

        Raises:
            TimeoutError: The effort for a tree, or the time, was not enough.
        """
        weights = self.window.weights(prices)
        max_weight = below * (self.window.ranks + 1)  # a tree's weight counts its sends as well
        tree, lower_bound = self.search.cheapest(weights, max_weight)
        if lower_bound < (max_weight if tree is None else self.window.cost(weights, tree)):
            raise TimeoutError("the search for a cheapest timed tree ran out of time")
        return None if tree is None else (self.window.cost(prices, tree), tree)

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of a greedily grown tree (Takahashi and Matsuyama), and the tree."""
        tree = self.search.grow(self.window.weights(prices))
        return self.window.cost(prices, tree), tree
