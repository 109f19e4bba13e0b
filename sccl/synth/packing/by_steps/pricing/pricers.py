"""The cheapest timed tree of a commodity at given prices of (link, step): three exact methods.

* one destination: a shortest path through time;
* up to :data:`MAX_SUBSET_RANKS` ranks to reach: dynamic programming over the sets of ranks reached;
* more: branch and bound, and CP-SAT where that takes many nodes.

Prices are integers, so "cheapest" is exact. Among equally cheap trees one with fewest sends is
taken: a free send costs nothing now and load later.
"""

from __future__ import annotations

import math
from typing import Protocol

from sccl.core.arrays import IntArray
from sccl.synth.packing.by_steps.packing_problem import (
    MAX_SUBSET_RANKS,
    Commodity,
    PackingProblem,
    StepTree,
)
from sccl.synth.packing.by_steps.pricing.reduce_broadcast_trees import ReduceBroadcastTrees
from sccl.synth.packing.by_steps.pricing.subset_dp import SubsetPricer
from sccl.synth.packing.by_steps.pricing.time_windows import INFINITE, STEP_EFFORT, PricedTimeWindow


class Pricer(Protocol):
    """Finds cheap timed trees of one commodity."""

    @property
    def spent(self) -> float:
        """Return the effort of all that has been done, the same on every machine."""
        ...

    def exact(self, prices: IntArray) -> tuple[int, StepTree, *tuple[StepTree, ...]]:
        """Return the cost of a cheapest tree, the tree, and perhaps other cheap trees.

        Raises:
            TimeoutError: that took too long.
        """
        ...

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a tree and its cost, at little effort. Not always a cheapest."""
        ...


def make_pricer(
    problem: PackingProblem,
    commodity: Commodity,
    *,
    deadline: float = math.inf,
) -> Pricer:
    """Return an exact pricer for the trees of a commodity.

    Args:
        deadline: time of ``time.perf_counter()`` after which no search continues.

    Raises:
        TooLargeError: a search would take too long for a single tree.
    """
    window = PricedTimeWindow(problem, commodity)
    if problem.has_tree_pairs and problem.topology.ranks <= MAX_SUBSET_RANKS:
        return ReduceBroadcastTrees(window)
    if problem.has_tree_pairs:
        from sccl.synth.packing.by_steps.pricing.reduce_broadcast_search import (  # noqa: PLC0415 - loads a solver
            ReduceBroadcastSearch,
        )

        return ReduceBroadcastSearch(window, problem, deadline)
    if len(commodity.wanted - commodity.holders) == 1:
        return _PathPricer(window)
    if problem.topology.ranks - len(commodity.holders) <= MAX_SUBSET_RANKS:
        return SubsetPricer(window)
    from sccl.synth.packing.by_steps.pricing.tree_search import TreeSearch  # noqa: PLC0415 - CP-SAT is slow to load

    return TreeSearch(window, deadline)


class _PathPricer:
    """Shortest paths through time, for one destination."""

    def __init__(self, window: PricedTimeWindow) -> None:
        self.window, self.spent = window, 0.0
        (self.target,) = window.commodity.wanted - window.commodity.holders
        self.order = sorted(
            (v, e, u) for e, (u, v) in enumerate(window.edges) if window.usable[e].any()
        )

    def exact(self, prices: IntArray) -> tuple[int, StepTree]:
        self.spent += STEP_EFFORT * self.window.steps * len(self.order)
        weights = self.window.weights(prices).tolist()
        far = [
            0 if r in self.window.commodity.holders else INFINITE for r in range(self.window.ranks)
        ]
        came: list[dict[int, int]] = []
        for step in range(self.window.steps):
            then, through = list(far), {}
            for v, e, u in self.order:
                cost = far[u] + weights[e][step]
                if cost < then[v]:
                    then[v], through[v] = cost, e
            far = then
            came.append(through)
        uses, at = set(), self.target
        for step in reversed(range(self.window.steps)):
            if at in came[step]:
                edge = came[step][at]
                uses.add((edge, step))
                at = self.window.edges[edge][0]
        tree = frozenset(uses)
        return self.window.cost(prices, tree), tree

    quick = exact
