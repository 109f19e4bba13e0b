"""Cheapest timed trees by dynamic programming over the sets of ranks that hold the chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sccl.synth.limit.problem import Tree
from sccl.synth.limit.window import INFINITE, LANE, PriceArray, Window


@dataclass(frozen=True, slots=True)
class Ternary:
    """All (A, B) with A within B within n things, grouped by B.

    Attributes:
        before: A as bits.
        after: B as bits.
        starts: where the pairs of each B start.
        fresh: shape (n, pairs): whether a thing is in B and not in A.
    """

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    starts: NDArray[np.int64]
    fresh: NDArray[np.bool_]


@lru_cache(maxsize=4)
def ternary(n: int) -> Ternary:
    """Return all pairs of sets, one within the other."""
    before, after = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for i in range(n):
        bit = 1 << i
        before = np.concatenate([before, before | bit, before])
        after = np.concatenate([after, after | bit, after | bit])
    order = np.lexsort((before, after))
    before, after = before[order], after[order]
    starts = np.searchsorted(after, np.arange(1 << n))
    fresh = np.array([(after & ~before) >> i & 1 for i in range(n)], dtype=bool)
    return Ternary(before, after, starts.astype(np.int64), fresh.reshape(n, len(before)))


class Subsets:
    """Dynamic programming over the sets of ranks that hold the chunk.

    ``best[s][A]`` is the least cost to have reached exactly A (beside the holders) before step s.
    In a step each new rank takes its cheapest link from A or the holders.
    """

    def __init__(self, window: Window) -> None:
        self.window, self.spent = window, 0.0
        self.free = [r for r in range(window.ranks) if r not in window.commodity.holders]
        self.bit = {r: 1 << i for i, r in enumerate(self.free)}
        self.goal = sum(self.bit[r] for r in window.commodity.wanted if r in self.bit)
        self.into: list[list[tuple[int, int]]] = [[] for _ in self.free]
        for e, (u, v) in enumerate(window.edges):
            if v in self.bit and window.usable[e].any():
                self.into[self.free.index(v)].append((e, self.bit.get(u, 0)))

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a cheapest tree and its cost."""
        weights, steps = self.window.weights(prices), self.window.steps
        pairs, sets = ternary(len(self.free)), np.arange(1 << len(self.free))
        self.spent += LANE * pairs.fresh.size * steps
        best = np.full(len(sets), INFINITE, np.int64)
        best[0] = 0
        history, arrivals = [best], []
        for step in range(steps):
            cheapest = self._arrivals(weights[:, step], sets)
            cost = best[pairs.before]
            for i in range(len(self.free)):
                cost = cost + np.where(pairs.fresh[i], cheapest[i][pairs.before], 0)
            best = np.minimum(np.minimum.reduceat(cost, pairs.starts), INFINITE)
            history.append(best)
            arrivals.append(cheapest)
        final = np.where((sets & self.goal) == self.goal, history[-1], np.int64(INFINITE))
        tree = self._walk_back(int(np.argmin(final)), history, arrivals, weights)
        return self.window.cost(prices, tree), tree

    quick = exact

    def _arrivals(
        self, weights: NDArray[np.int64], sets: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return, per rank, the cost of its cheapest link from each set."""
        found = []
        for links in self.into:
            least = np.full(len(sets), INFINITE, np.int64)
            for e, bit in links:
                reaches = np.where((sets & bit) == bit, weights[e], np.int64(INFINITE))
                least = np.minimum(least, reaches)
            found.append(least)
        return found

    def _walk_back(
        self,
        state: int,
        history: list[NDArray[np.int64]],
        arrivals: list[list[NDArray[np.int64]]],
        weights: NDArray[np.int64],
    ) -> Tree:
        pairs = ternary(len(self.free))
        uses = set()
        for step in reversed(range(self.window.steps)):
            own = slice(int(pairs.starts[state]), int(np.searchsorted(pairs.after, state, "right")))
            before = pairs.before[own]
            cost = history[step][before]
            for i in range(len(self.free)):
                cost = cost + np.where(pairs.fresh[i][own], arrivals[step][i][before], 0)
            previous = int(before[int(np.argmin(cost))])
            for i, links in enumerate(self.into):
                if (state & ~previous) >> i & 1:
                    held = [e for e, bit in links if previous & bit == bit]
                    uses.add((min(held, key=lambda e: int(weights[e, step])), step))
            state = previous
        return frozenset(uses)
