"""Cheapest pairs of timed trees: one into a rank, then one out of it."""

from __future__ import annotations

import numpy as np

from sccl.core.ids import Edge
from sccl.synth.limit.problem import Tree
from sccl.synth.limit.subsets import Integers, Ternary, arrivals, ternary
from sccl.synth.limit.window import INFINITE, LANE, PriceArray, Window


class UpAndDown:
    """Trees down by dynamic programming over sets of ranks; trees up are trees down, turned round.

    A tree into rank r within the first t steps, turned round in place and time, is a tree out of r
    within the last t steps of the reversed machine.
    """

    def __init__(self, window: Window) -> None:
        self.window, self.spent = window, 0.0
        self.pairs = ternary(window.ranks, by_first=True)
        self.back = tuple((v, u) for u, v in window.edges)

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a cheapest pair of trees and its cost, whatever the rank and the turning step."""
        steps = self.window.steps
        self.spent += LANE * 2 * self.pairs.size * steps
        weights = self.window.weights(prices)
        down = _Completion(self.window.edges, self.pairs, weights)
        up = _Completion(self.back, self.pairs, weights[:, ::-1])
        best, turn, root = min(
            (int(up.best[steps - t][1 << r] + down.best[t][1 << r]), t, r)
            for t in range(steps + 1)
            for r in range(self.window.ranks)
        )
        if best >= INFINITE:
            raise ValueError(f"no tree goes up and down within {steps} steps")
        uses = down.tree(root, turn)
        uses |= {(edge, steps - 1 - step) for edge, step in up.tree(root, steps - turn)}
        tree = frozenset(uses)
        return self.window.cost(prices, tree), tree

    quick = exact


class _Completion:
    """What it costs at least to reach all ranks from each set of ranks, from each step on.

    Attributes:
        best: by step, and one more, what it costs from each set on.
        costs: by step, what it costs to go from each set to each larger one, and on from there.
    """

    def __init__(self, edges: tuple[Edge, ...], pairs: Ternary, weights: PriceArray) -> None:
        self.edges, self.pairs, self.weights = edges, pairs, weights
        sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
        last = np.full(1 << pairs.things, INFINITE, np.int64)
        last[-1] = 0
        self.best: list[Integers] = [last]
        self.costs: list[Integers] = []
        for added in reversed(arrivals(weights, sources, targets, pairs.things)):
            cost = np.minimum(pairs.sums(added), INFINITE) + self.best[0][pairs.after]
            least = np.minimum.reduceat(cost, pairs.starts[:-1])
            self.best.insert(0, np.minimum(least, INFINITE))
            self.costs.insert(0, cost)

    def tree(self, root: int, begin: int) -> set[tuple[int, int]]:
        """Return a cheapest tree out of ``root`` from step ``begin`` on."""
        state, uses = 1 << root, set()
        for step in range(begin, len(self.costs)):
            own = self.pairs.group(state)
            then = int(self.pairs.after[own][int(np.argmin(self.costs[step][own]))])
            for rank in range(self.pairs.things):
                if (then & ~state) >> rank & 1:
                    into = [
                        e for e, (u, v) in enumerate(self.edges) if v == rank and state >> u & 1
                    ]
                    uses.add((min(into, key=lambda e: int(self.weights[e, step])), step))
            state = then
        return uses
