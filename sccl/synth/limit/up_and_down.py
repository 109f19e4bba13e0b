"""Cheapest pairs of timed trees: one into a rank, then one out of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.ids import Edge
from sccl.synth.limit.problem import Tree
from sccl.synth.limit.subsets import ternary
from sccl.synth.limit.window import INFINITE, LANE, PriceArray, Window


class UpAndDown:
    """Trees down by dynamic programming over sets of ranks; trees up are trees down, turned round.

    A tree into rank r within the first t steps, turned round in place and time, is a tree out of r
    within the last t steps of the reversed machine.
    """

    def __init__(self, window: Window) -> None:
        self.window, self.spent = window, 0.0
        self.down = _Completion(window.edges, window.ranks, window.steps)
        self.up = _Completion(tuple((v, u) for u, v in window.edges), window.ranks, window.steps)

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a cheapest pair of trees and its cost, whatever the rank and the turning step."""
        steps = self.window.steps
        self.spent += LANE * 2 * self.down.fresh.size * steps
        weights = self.window.weights(prices)
        down = self.down.values(weights)
        up = self.up.values(weights[:, ::-1])
        best, turn, root = min(
            (int(up[steps - t][1 << r] + down[t][1 << r]), t, r)
            for t in range(steps + 1)
            for r in range(self.window.ranks)
        )
        if best >= INFINITE:
            raise ValueError(f"no tree goes up and down within {steps} steps")
        uses = self.down.tree(weights, down, root, turn)
        turned = self.up.tree(weights[:, ::-1], up, root, steps - turn)
        uses |= {(edge, steps - 1 - step) for edge, step in turned}
        tree = frozenset(uses)
        return self.window.cost(prices, tree), tree

    quick = exact


class _Completion:
    """What it costs at least to reach all ranks from each set of ranks, from each step on."""

    def __init__(self, edges: tuple[Edge, ...], ranks: int, steps: int) -> None:
        self.edges, self.ranks, self.steps = edges, ranks, steps
        pairs = ternary(ranks)
        order = np.lexsort((pairs.after, pairs.before))
        self.before, self.after = pairs.before[order], pairs.after[order]
        self.fresh = pairs.fresh[:, order]
        self.starts = np.searchsorted(self.before, np.arange(1 << ranks))
        self.sets = np.arange(1 << ranks)

    def arrivals(self, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, shape (ranks, sets), what each rank's cheapest link from each set costs."""
        found = np.full((self.ranks, 1 << self.ranks), INFINITE, np.int64)
        for e, (u, v) in enumerate(self.edges):
            has = self.sets >> u & 1 == 1
            found[v, has] = np.minimum(found[v, has], weights[e])
        return found

    def moves(self, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what it costs to go from each set to each larger one in a step."""
        arrivals = self.arrivals(weights)
        cost = np.zeros(len(self.before), np.int64)
        for rank in range(self.ranks):
            cost += np.where(self.fresh[rank], arrivals[rank][self.before], 0)
        return np.minimum(cost, INFINITE)

    def values(self, weights: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return, by step and set, the least cost to reach everyone by the end."""
        last = np.full(1 << self.ranks, INFINITE, np.int64)
        last[-1] = 0
        values = [last]
        for step in reversed(range(self.steps)):
            cost = self.moves(weights[:, step]) + values[0][self.after]
            values.insert(0, np.minimum(np.minimum.reduceat(cost, self.starts), INFINITE))
        return values

    def tree(
        self,
        weights: NDArray[np.int64],
        values: list[NDArray[np.int64]],
        root: int,
        begin: int,
    ) -> set[tuple[int, int]]:
        """Return a cheapest tree out of ``root`` from step ``begin`` on."""
        state, uses = 1 << root, set()
        for step in range(begin, self.steps):
            end = int(np.searchsorted(self.before, state, "right"))
            own = slice(int(self.starts[state]), end)
            cost = self.moves(weights[:, step])[own] + values[step + 1][self.after[own]]
            then = int(self.after[own][int(np.argmin(cost))])
            for rank in range(self.ranks):
                if (then & ~state) >> rank & 1:
                    into = [
                        e for e, (u, v) in enumerate(self.edges) if v == rank and state >> u & 1
                    ]
                    uses.add((min(into, key=lambda e: int(weights[e, step])), step))
            state = then
        return uses
