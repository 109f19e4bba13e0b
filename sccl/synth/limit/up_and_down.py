"""Cheapest timed trees into a rank, or two that exchange, and then out of it."""

from __future__ import annotations

import numpy as np

from sccl.core.ids import Edge
from sccl.synth.limit.problem import Tree
from sccl.synth.limit.subsets import Integers, Ternary, arrivals, ternary
from sccl.synth.limit.turns import TurningPlace, turns_of
from sccl.synth.limit.window import INFINITE, LANE, PriceArray, Window


class UpAndDown:
    """Trees down by dynamic programming over sets of ranks. Trees up are trees down, reversed.

    Trees into some ranks within the first t steps, reversed in place and time, are trees out of
    them within the last t steps of the reversed machine. The ranks are one, or the two ends of a
    link each way, over which they exchange in a step. The ranks that reduce the chunk are reached,
    and others where they forward it.
    """

    def __init__(self, window: Window) -> None:
        self.window, self.spent = window, 0.0
        self.pairs = ternary(window.ranks, by_first=True)
        self.back = tuple((v, u) for u, v in window.edges)
        self.turns = turns_of(window.edges, range(window.ranks))

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return cheapest trees up and down and their cost, over all turning ranks and steps."""
        steps = self.window.steps
        self.spent += LANE * 2 * self.pairs.size * steps
        weights = self.window.weights(prices)
        goal = sum(1 << rank for rank in self.window.commodity.wanted)
        down = _Completion(self.window.edges, self.pairs, weights, goal)
        up = _Completion(self.back, self.pairs, weights[:, ::-1], goal)

        def cost(turn: TurningPlace, begin: int) -> int:
            """Return the cost of turning there from a step on."""
            roots = sum(1 << rank for rank in turn.ranks)
            both = up.best[steps - begin][roots] + down.best[begin + turn.steps][roots]
            return int(both) + sum(int(weights[edge, begin]) for edge in turn.links)

        best, begin, i = min(
            (cost(turn, begin), begin, i)
            for i, turn in enumerate(self.turns)
            for begin in range(steps + 1 - turn.steps)
        )
        if best >= INFINITE:
            raise ValueError(f"no tree reduces and broadcasts within {steps} steps")
        turn = self.turns[i]
        uses = down.tree(turn.ranks, begin + turn.steps)
        uses |= {(e, steps - 1 - step) for e, step in up.tree(turn.ranks, steps - begin)}
        uses |= {(edge, begin) for edge in turn.links}
        tree = frozenset(uses)
        return self.window.cost(prices, tree), tree

    quick = exact


class _Completion:
    """Lower bounds on the cost of reaching some ranks from each set of ranks, from each step on.

    Attributes:
        best: by step, and one more, the cost from each set on.
        costs: by step, the cost of going from each set to each larger one, and on from there.
    """

    def __init__(
        self, edges: tuple[Edge, ...], pairs: Ternary, weights: PriceArray, goal: int
    ) -> None:
        self.edges, self.pairs, self.weights = edges, pairs, weights
        sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
        sets = np.arange(1 << pairs.things)
        last = np.where(sets & goal == goal, 0, np.int64(INFINITE))
        self.best: list[Integers] = [last]
        self.costs: list[Integers] = []
        for added in reversed(arrivals(weights, sources, targets, pairs.things)):
            cost = np.minimum(pairs.sums(added), INFINITE) + self.best[0][pairs.after]
            least = np.minimum.reduceat(cost, pairs.starts[:-1])
            self.best.insert(0, np.minimum(least, INFINITE))
            self.costs.insert(0, cost)

    def tree(self, roots: tuple[int, ...], begin: int) -> set[tuple[int, int]]:
        """Return cheapest trees out of ``roots`` from step ``begin`` on."""
        state, uses = sum(1 << root for root in roots), set()
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
