"""The cheapest timed tree of a commodity at given prices of (link, step): three exact methods.

* one destination: a shortest path through time;
* up to :data:`SUBSET_RANKS` ranks to reach: dynamic programming over the sets of ranks reached;
* more: branch and bound, and CP-SAT where that takes many nodes.

Prices are integers, so "cheapest" is exact. Among equally cheap trees one with fewest sends is
taken: a free send costs nothing now and load later.
"""

from __future__ import annotations

import math
from typing import Protocol

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.synth.limit.problem import SUBSET_RANKS, Commodity, Problem, Tree
from sccl.synth.limit.subsets import Subsets
from sccl.synth.limit.up_and_down import UpAndDown
from sccl.synth.limit.window import INFINITE, STEP, PriceArray, Window


class Pricer(Protocol):
    """Finds cheap timed trees of one commodity."""

    @property
    def spent(self) -> float:
        """Return the effort of all that has been done, the same on every machine."""
        ...

    def exact(self, prices: PriceArray) -> tuple[int, Tree, *tuple[Tree, ...]]:
        """Return the cost of a cheapest tree, the tree, and perhaps other cheap trees.

        Raises:
            TimeoutError: that took too long.
        """
        ...

    def quick(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a tree and its cost, at little effort. Not always a cheapest."""
        ...


def needs_no_search(topology: Topology, collective: Collective) -> bool:
    """Return whether all trees of a collective are priced without a search."""
    return all(
        len(wanted - holders) <= 1 or topology.ranks - len(holders) <= SUBSET_RANKS
        for holders, wanted in collective.classes()
    )


def pricer(
    problem: Problem,
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
    window = Window(problem, commodity)
    if problem.up_and_down and problem.topology.ranks <= SUBSET_RANKS:
        return UpAndDown(window)
    if problem.up_and_down:
        from sccl.synth.limit.up_and_down_search import UpAndDownSearch  # noqa: PLC0415 - likewise

        return UpAndDownSearch(window, problem, deadline)
    if len(commodity.wanted - commodity.holders) == 1:
        return _Paths(window)
    if problem.topology.ranks - len(commodity.holders) <= SUBSET_RANKS:
        return Subsets(window)
    from sccl.synth.limit.search import TreeSearch  # noqa: PLC0415 - CP-SAT is slow to load

    return TreeSearch(window, deadline)


class _Paths:
    """Shortest paths through time, for one destination."""

    def __init__(self, window: Window) -> None:
        self.window, self.spent = window, 0.0
        (self.target,) = window.commodity.wanted - window.commodity.holders
        self.order = sorted(
            (v, e, u) for e, (u, v) in enumerate(window.edges) if window.usable[e].any()
        )

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a cheapest path and its cost."""
        self.spent += STEP * self.window.steps * len(self.order)
        weights = self.window.weights(prices).tolist()
        far = [
            0 if r in self.window.commodity.holders else INFINITE for r in range(self.window.ranks)
        ]
        came: list[dict[int, int]] = []
        for step in range(self.window.steps):
            then, through = list(far), {}
            for v, e, u in self.order:
                there = far[u] + weights[e][step]
                if there < then[v]:
                    then[v], through[v] = there, e
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
