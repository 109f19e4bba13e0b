"""The cheapest timed tree of a commodity at given prices of (link, step): exact methods.

* few ranks to reach: dynamic programming over the sets of ranks reached;
* more: branch and bound, and CP-SAT where that takes many nodes;
* allreduce: the same for two trees, into a rank or two that exchange, and out of it.

Prices are integers, so "cheapest" is exact. Among equally cheap trees one with fewest sends is
taken: a free send costs nothing now and load later.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.synth.packing.price_pairs import PairTables, reverse_costs
from sccl.synth.packing.price_sets import WORK_EFFORT, SetTables, chunk_starts, with_start_links
from sccl.synth.packing.problem import Commodity, PackingProblem, StepTree

INFINITE = 1 << 52
"""Dearer than any tree; sums of a few stay within 64 bits."""

ELEMENT_EFFORT = 3e-9
"""Effort of one element of an array.

An estimate that does not depend on how busy a machine is, in the unit of CP-SAT's deterministic
time, which takes one to five seconds.
"""


def max_price_scale(ranks: int) -> int:
    """Return the largest integer for a price of 1 that keeps tree costs below INFINITE."""
    return INFINITE // (2 * (ranks + 1) ** 2)


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
