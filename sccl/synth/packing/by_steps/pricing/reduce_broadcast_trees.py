"""Cheapest timed trees into a rank, or two that exchange, and then out of it."""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.synth.packing.by_steps.packing_problem import StepTree
from sccl.synth.packing.by_steps.pricing.subset_dp import SubsetPairs, arrival_costs, subset_pairs
from sccl.synth.packing.by_steps.pricing.time_windows import (
    ELEMENT_EFFORT,
    INFINITE,
    PricedTimeWindow,
)
from sccl.synth.packing.by_steps.roots import RootOrPair, root_choices


class ReduceBroadcastTrees:
    """Trees down by dynamic programming over sets of ranks. Trees up are trees down, reversed.

    Trees into some ranks within the first t steps, reversed in place and time, are trees out of
    them within the last t steps of the reversed machine. The ranks are one, or the two ends of a
    link each way, over which they exchange in a step. The ranks that reduce the chunk are reached,
    and others where they forward it.
    """

    def __init__(self, window: PricedTimeWindow) -> None:
        self.window, self.spent = window, 0.0
        self.pairs = subset_pairs(window.ranks, by_first=True)
        self.reversed_links = tuple((v, u) for u, v in window.edges)
        self.roots = root_choices(window.edges, range(window.ranks))

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return cheapest trees up and down and their cost, over all turning ranks and steps."""
        steps = self.window.steps
        self.spent += ELEMENT_EFFORT * 2 * self.pairs.size * steps
        weights = self.window.weights(prices)
        goal = sum(1 << rank for rank in self.window.commodity.wanted)
        down = _CompletionCosts(self.window.edges, self.pairs, weights, goal)
        up = _CompletionCosts(self.reversed_links, self.pairs, weights[:, ::-1], goal)

        def cost(turn: RootOrPair, begin: int) -> int:
            roots = sum(1 << rank for rank in turn.ranks)
            both = up.best[steps - begin][roots] + down.best[begin + turn.steps][roots]
            return int(both) + sum(int(weights[edge, begin]) for edge in turn.links)

        best, begin, i = min(
            (cost(turn, begin), begin, i)
            for i, turn in enumerate(self.roots)
            for begin in range(steps + 1 - turn.steps)
        )
        if best >= INFINITE:
            raise ValueError(f"no tree reduces and broadcasts within {steps} steps")
        turn = self.roots[i]
        uses = down.tree(turn.ranks, begin + turn.steps)
        uses |= {(e, steps - 1 - step) for e, step in up.tree(turn.ranks, steps - begin)}
        uses |= {(edge, begin) for edge in turn.links}
        tree = frozenset(uses)
        return self.window.cost(prices, tree), tree

    quick = exact


class _CompletionCosts:
    """Lower bounds on the cost of reaching some ranks from each set of ranks, from each step on.

    Attributes:
        best: by step, and one more, the cost from each set on.
        costs: by step, the cost of going from each set to each larger one, and on from there.
    """

    def __init__(
        self, edges: tuple[Edge, ...], pairs: SubsetPairs, weights: IntArray, goal: int
    ) -> None:
        self.edges, self.pairs, self.weights = edges, pairs, weights
        sources, targets = np.array(edges, np.int64).reshape(-1, 2).T
        sets = np.arange(1 << pairs.items)
        last = np.where(sets & goal == goal, 0, np.int64(INFINITE))
        self.best: list[IntArray] = [last]
        self.costs: list[IntArray] = []
        for added in reversed(arrival_costs(weights, sources, targets, pairs.items)):
            cost = np.minimum(pairs.addition_costs(added), INFINITE) + self.best[0][pairs.after]
            cheapest = np.minimum.reduceat(cost, pairs.starts[:-1])
            self.best.insert(0, np.minimum(cheapest, INFINITE))
            self.costs.insert(0, cost)

    def tree(self, roots: tuple[int, ...], begin: int) -> set[tuple[int, int]]:
        """Return cheapest trees out of ``roots`` from step ``begin`` on."""
        state, uses = sum(1 << root for root in roots), set()
        for step in range(begin, len(self.costs)):
            state_pairs = self.pairs.group(state)
            then = int(self.pairs.after[state_pairs][int(np.argmin(self.costs[step][state_pairs]))])
            for rank in range(self.pairs.items):
                if (then & ~state) >> rank & 1:
                    into = [
                        e for e, (u, v) in enumerate(self.edges) if v == rank and state >> u & 1
                    ]
                    uses.add((min(into, key=lambda e: int(self.weights[e, step])), step))
            state = then
        return uses
