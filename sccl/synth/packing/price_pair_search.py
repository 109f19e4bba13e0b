"""Cheapest pairs of timed trees, if dynamic programming has too many ranks.

A pair consists of a tree up into a root, and a tree down from it. For a given root and step of the
reversal the two trees are separate problems, and :mod:`sccl.synth.packing.price_branching` solves
each. Pairs whose lower bound is not below the cost of a known pair are skipped. Each rank except
the roots is entered once on the way down, no earlier than its distance allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sccl.core.arrays import IntArray
from sccl.core.graphs import UNREACHED, distances
from sccl.core.topology import Topology, to_ranks
from sccl.synth.limits import ELEMENT_EFFORT
from sccl.synth.packing.price_steps import PricedTimeWindow, SearchPricer
from sccl.synth.packing.problem import (
    Commodity,
    LinkStep,
    PackingProblem,
    StepTree,
    farthest_distance,
    root_choices,
)
from sccl.topo.symmetry.permutations import set_orbits


@dataclass(frozen=True, slots=True)
class _TreeDirection:
    """Trees out of roots in some steps. Trees up are on the reversed machine, in reversed time.

    Attributes:
        search: Pricing of the trees.
        first: Step of the problem that is the first step of the tree. For trees up it is the last.
        is_broadcast: Whether the trees go down.
    """

    search: SearchPricer
    first: int
    is_broadcast: bool

    @property
    def window(self) -> PricedTimeWindow:
        """Return the links and steps that its trees can use."""
        return self.search.window

    def prices(self, all_prices: IntArray) -> IntArray:
        if self.is_broadcast:
            return all_prices[:, self.first :]
        return all_prices[:, self.first :: -1] if self.first >= 0 else all_prices[:, :0]

    def steps(self, tree: StepTree) -> set[tuple[int, int]]:
        if self.is_broadcast:
            return {(edge, self.first + step) for edge, step in tree}
        return {(edge, self.first - step) for edge, step in tree}

    def lower_bound(self, all_prices: IntArray) -> int:
        return self.search.lower_bound(self.prices(all_prices))


@dataclass(frozen=True, slots=True)
class _TreePair:
    """Trees up and down with the same root, or pair of roots, and step of the reversal.

    Attributes:
        up: Trees into the root.
        down: Trees out of it.
        exchange_sends: (link, step) of the exchange between two roots.
    """

    up: _TreeDirection
    down: _TreeDirection
    exchange_sends: tuple[LinkStep, ...]

    def lower_bound(self, prices: IntArray) -> int:
        return (
            self.up.lower_bound(prices)
            + self.down.lower_bound(prices)
            + self.exchange_price(prices)
        )

    def exchange_price(self, prices: IntArray) -> int:
        return sum(int(prices[use]) for use in self.exchange_sends)

    def join_trees(self, up: StepTree, down: StepTree, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of a tree up and a tree down, and their union.

        A root outside the group that receives no contribution has nothing to exchange.
        """
        edges, knows = self.down.window.edges, set(self.down.window.commodity.wanted)
        knows |= {edges[edge][1] for edge, _ in up}
        exchanged = {use for use in self.exchange_sends if edges[use[0]][0] in knows}
        tree = frozenset(self.up.steps(up) | self.down.steps(down) | exchanged)
        return sum(int(prices[use]) for use in tree), tree

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of trees up and down that are grown greedily, and their union."""
        up, down = (w.search.quick(w.prices(prices))[1] for w in (self.up, self.down))
        return self.join_trees(up, down, prices)

    def cheapest(self, prices: IntArray, below: int) -> tuple[int, StepTree] | None:
        """Return the cost of the cheapest trees up and down, and their union. None: not below.

        Args:
            prices: Prices of sends.
            below: Upper limit on the cost, exclusive.

        Raises:
            TimeoutError: The search took too long.
        """
        spent = self.lower_bound(prices)
        trees: list[StepTree] = []
        for half in (self.up, self.down):
            lower_bound = half.lower_bound(prices)
            cheapest = half.search.cheapest_below(half.prices(prices), below - spent + lower_bound)
            if cheapest is None:
                return None
            cost, tree = cheapest
            spent += cost - lower_bound
            trees.append(tree)
        up, down = trees
        return self.join_trees(up, down, prices)


class ReduceBroadcastSearch:
    """Trees up and down, for one root or pair of roots of each orbit, and each step."""

    is_searched = True

    def __init__(
        self, window: PricedTimeWindow, problem: PackingProblem, deadline: float = math.inf
    ) -> None:
        self.window = window
        self.pairs = tuple(_candidate_pairs(problem, window.commodity, deadline))
        self._pricing_effort = 0.0
        if not self.pairs:
            raise ValueError(f"no tree reduces and broadcasts within {problem.steps} steps")

    @property
    def spent(self) -> float:
        """Return the effort so far."""
        halves = (half for pair in self.pairs for half in (pair.up, pair.down))
        return self._pricing_effort + sum(half.search.spent for half in halves)

    def _ranked_pairs(self, prices: IntArray) -> list[tuple[int, int]]:
        """Return a lower bound on the cost of each pair, and its number, in ascending order."""
        self._pricing_effort += ELEMENT_EFFORT * 4 * len(self.pairs) * prices.size
        return sorted((pair.lower_bound(prices), i) for i, pair in enumerate(self.pairs))

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return the cost of greedily grown trees up and down, and their union."""
        best: tuple[int, StepTree] | None = None
        for lower_bound, i in self._ranked_pairs(prices):
            if best is not None and lower_bound >= best[0]:
                break
            candidate = self.pairs[i].quick(prices)
            if best is None or candidate[0] < best[0]:
                best = candidate
        assert best is not None
        return best

    def exact(self, prices: IntArray) -> tuple[int, StepTree, *tuple[StepTree, ...]]:
        """Return the cost of the cheapest trees up and down, their union, and earlier incumbents.

        The earlier incumbents of the search are useful columns, too. They halve the number of
        rounds of a packing.

        Raises:
            TimeoutError: The search took too long.
        """
        cost, tree = self.quick(prices)
        before: list[StepTree] = []
        for lower_bound, i in self._ranked_pairs(prices):
            if lower_bound >= cost:
                break
            if candidate := self.pairs[i].cheapest(prices, cost):
                before.append(tree)
                cost, tree = candidate
        return cost, tree, *before


def _candidate_pairs(
    problem: PackingProblem, commodity: Commodity, deadline: float
) -> Iterator[_TreePair]:
    """Yield one pair of each orbit, because prices are equal on images.

    Only symmetries that preserve the set of ranks that reduce the chunk count.
    """
    topology, backwards = problem.topology, problem.topology.reversed()
    turns = {to_ranks(t.ranks): t for t in root_choices(problem.edges, range(topology.ranks))}
    wanted = commodity.wanted
    keeping = (s for s in problem.symmetries if all(s[rank] in wanted for rank in wanted))
    for first in set_orbits(turns, keeping):
        turn = turns[first]
        up_steps, back = (
            farthest_distance(machine, turn.ranks, wanted) for machine in (backwards, topology)
        )
        if UNREACHED in {up_steps, back}:
            continue
        for begin in range(up_steps, problem.steps - back - turn.steps + 1):
            end = begin + turn.steps
            up = _build_window(problem, backwards, turn.ranks, wanted, begin)
            down = _build_window(problem, topology, turn.ranks, wanted, problem.steps - end)
            yield _TreePair(
                _TreeDirection(SearchPricer(up, deadline), begin - 1, is_broadcast=False),
                _TreeDirection(SearchPricer(down, deadline), end, is_broadcast=True),
                tuple((edge, begin) for edge in turn.links),
            )


def _build_window(
    problem: PackingProblem,
    topology: Topology,
    roots: Sequence[int],
    wanted: frozenset[int],
    steps: int,
) -> PricedTimeWindow:
    """Return the window of trees out of roots, over links in the order of the problem's edges.

    Args:
        problem: The problem.
        topology: The machine, or its reverse.
        roots: Ranks that hold the chunk.
        wanted: Destinations.
        steps: Number of steps.
    """
    forwards = topology is problem.topology
    edges = problem.edges if forwards else tuple((v, u) for u, v in problem.edges)
    before = distances(topology.successors(), roots)
    held = frozenset(roots)
    commodity = Commodity(
        held,
        wanted,
        problem.commodities[0].amount,
        tuple(steps if v in held or before[u] == UNREACHED else before[u] for u, v in edges),
        tuple(0 if v in held else steps for _, v in edges),
        ((held, wanted),),
    )
    return PricedTimeWindow(replace(problem, edges=edges, steps=steps), commodity)
