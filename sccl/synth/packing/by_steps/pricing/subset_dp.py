"""Cheapest timed trees by dynamic programming over the sets of ranks that hold the chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.synth.packing.by_steps.packing_problem import StepTree
from sccl.synth.packing.by_steps.pricing.time_windows import (
    ELEMENT_EFFORT,
    INFINITE,
    PricedTimeWindow,
)


@dataclass(frozen=True, slots=True)
class SubsetPairs:
    """All (A, B) with A within B within n things, grouped by B, or by A.

    Attributes:
        items: n.
        before: A as bits.
        after: B as bits.
        starts: where the pairs of each group start, and where the last one ends.
        low, high: where the sums of the lower and of the upper half of B without A stand in tables
            of shape (sets, sums of a half).
    """

    items: int
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    starts: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Return for how many pairs times things it stands, which measures the effort."""
        return self.items * len(self.before)

    def group(self, state: int) -> slice:
        """Return where the pairs of a group stand."""
        return slice(int(self.starts[state]), int(self.starts[state + 1]))

    def addition_costs(self, costs: IntArray) -> IntArray:
        """Return, by pair, the cost of adding all of B that is not in A to A.

        Two numbers are looked up for a pair and added, instead of n.

        Args:
            costs: shape (things, sets): cost of adding a thing to a set.
        """
        half = self.items // 2
        return _addition_table(costs[:half])[self.low] + _addition_table(costs[half:])[self.high]


def _addition_table(costs: IntArray) -> IntArray:
    """Return, for every set and then every set of some things, the cost of adding them to it."""
    table = np.zeros((costs.shape[1], 1), np.int64)
    for row in costs:
        table = np.concatenate([table, table + row[:, None]], axis=1)
    return table.ravel()


@lru_cache(maxsize=4)
def subset_pairs(n: int, *, by_first: bool = False) -> SubsetPairs:
    """Return all pairs of sets, one within the other, grouped by the second or by the first."""
    before, after = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for i in range(n):
        bit = 1 << i
        before = np.concatenate([before, before | bit, before])
        after = np.concatenate([after, after | bit, after | bit])
    keys = (after, before) if by_first else (before, after)
    order = np.lexsort(keys)
    before, after = before[order], after[order]
    starts = np.searchsorted(keys[1][order], np.arange((1 << n) + 1))
    half, fresh = n // 2, after & ~before
    low = (before << half) + (fresh & (1 << half) - 1)
    high = (before << n - half) + (fresh >> half)
    return SubsetPairs(n, before, after, starts.astype(np.int64), low, high)


def arrival_costs(weights: IntArray, sources: IntArray, targets: IntArray, things: int) -> IntArray:
    """Return, shape (steps, things, sets), the cost of each thing's cheapest link from each set.

    Args:
        weights: shape (links, steps).
        sources: start of each link. ``things`` stands for the element of every set.
        targets: end of each link.
        things: their number.
    """
    links = np.full((things, things + 1, weights.shape[1]), INFINITE, np.int64)
    np.minimum.at(links, (targets, sources), weights)
    by_step = np.moveaxis(links, 2, 0)
    cheapest = by_step[..., things:]
    for source in range(things):  # sets without it, then the same with it
        with_it = np.minimum(cheapest, by_step[..., source : source + 1])
        cheapest = np.concatenate([cheapest, with_it], axis=2)
    return cheapest


class SubsetPricer:
    """Dynamic programming over the sets of ranks that hold the chunk.

    ``best[s][A]`` is the least cost to have reached exactly A (beside the holders) before step s.
    In a step each new rank takes its cheapest link from A or the holders.
    """

    def __init__(self, window: PricedTimeWindow) -> None:
        self.window, self.spent = window, 0.0
        free = [r for r in range(window.ranks) if r not in window.commodity.holders]
        self.bit = {r: 1 << i for i, r in enumerate(free)}
        self.goal = sum(self.bit[r] for r in window.commodity.wanted if r in self.bit)
        number = {r: i for i, r in enumerate(free)}
        self.pairs = subset_pairs(len(free))
        self.links = [
            (e, number.get(u, len(free)), number[v])
            for e, (u, v) in enumerate(window.edges)
            if v in number and window.usable[e].any()
        ]

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a cheapest tree and its cost."""
        weights, pairs = self.window.weights(prices), self.pairs
        self.spent += ELEMENT_EFFORT * pairs.size * self.window.steps
        used, sources, targets = np.array(self.links, np.int64).reshape(-1, 3).T
        best = np.full(1 << pairs.items, INFINITE, np.int64)
        best[0] = 0
        costs = []
        for added in arrival_costs(weights[used], sources, targets, pairs.items):
            cost = best[pairs.before] + pairs.addition_costs(added)
            best = np.minimum(np.minimum.reduceat(cost, pairs.starts[:-1]), INFINITE)
            costs.append(cost)
        sets = np.arange(1 << pairs.items)
        final = np.where((sets & self.goal) == self.goal, best, np.int64(INFINITE))
        tree = self._reconstruct_tree(int(np.argmin(final)), costs, weights)
        return self.window.cost(prices, tree), tree

    quick = exact

    def _reconstruct_tree(self, state: int, costs: list[IntArray], weights: IntArray) -> StepTree:
        uses = set()
        for step in reversed(range(self.window.steps)):
            state_pairs = self.pairs.group(state)
            previous = int(self.pairs.before[state_pairs][int(np.argmin(costs[step][state_pairs]))])
            fresh = state & ~previous
            for thing in (i for i in range(self.pairs.items) if fresh >> i & 1):
                held = [
                    e
                    for e, source, target in self.links
                    if target == thing and (source == self.pairs.items or previous >> source & 1)
                ]
                uses.add((min(held, key=lambda e: int(weights[e, step])), step))
            state = previous
        return frozenset(uses)
