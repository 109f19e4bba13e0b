"""Cheapest pairs of timed trees where there are too many ranks for sets of them.

At a rank and a turning step the trees up and down are two questions of one root each, and those of
:mod:`sccl.synth.limit.search` answer them. Of ranks that are images of each other one is enough, as
prices are the same on images. What cannot be cheaper than what is known is not searched: each rank
but the root is entered once, going down, in no earlier step than its distance allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sccl.core.topology import Topology, distances
from sccl.synth.limit.problem import Commodity, Problem, Tree
from sccl.synth.limit.search import TreeSearch
from sccl.synth.limit.window import INFINITE, LANE, PriceArray, Window
from sccl.topo.symmetry.orbits import rank_orbits


@dataclass(frozen=True, slots=True)
class _Way:
    """A tree out of a rank within some steps; going up, of the machine reversed, and of time.

    Attributes:
        first: the step of the whole in which its own first is, or (going up) its last.
        down: whether it goes down.
    """

    search: TreeSearch
    first: int
    down: bool

    @property
    def window(self) -> Window:
        """Return where and when its sends can matter."""
        return self.search.window

    def prices(self, whole: PriceArray) -> PriceArray:
        """Return its own prices, of those of all steps."""
        if self.down:
            return whole[:, self.first :]
        return whole[:, self.first :: -1]

    def steps(self, tree: Tree) -> set[tuple[int, int]]:
        """Return a tree of it in the steps of the whole."""
        if self.down:
            return {(edge, self.first + step) for edge, step in tree}
        return {(edge, self.first - step) for edge, step in tree}

    def least(self, whole: PriceArray) -> int:
        """Return what such a tree costs at least: each rank's cheapest way in."""
        costs = np.where(self.window.usable, self.prices(whole), INFINITE).min(axis=1)
        into = np.full(self.window.ranks, INFINITE, np.int64)
        np.minimum.at(into, [v for _, v in self.window.edges], costs)
        into[list(self.window.commodity.holders)] = 0
        return int(np.minimum(into, INFINITE).sum())


class UpAndDownSearch:
    """Trees up and down from a rank of each orbit, at each turning step."""

    def __init__(self, window: Window, problem: Problem, deadline: float = math.inf) -> None:
        self.window = window
        backwards = problem.topology.reversed()
        roots = rank_orbits(problem.topology, problem.symmetries)
        self.pairs: list[tuple[_Way, _Way]] = []
        self._own = 0.0
        for root in roots:
            there, back = _farthest(backwards, root), _farthest(problem.topology, root)
            for turn in range(there, problem.steps - back + 1):
                up = _window(problem, backwards, root, turn)
                down = _window(problem, problem.topology, root, problem.steps - turn)
                ways = (
                    _Way(TreeSearch(up, deadline), turn - 1, down=False),
                    _Way(TreeSearch(down, deadline), turn, down=True),
                )
                self.pairs.append(ways)
        if not self.pairs:
            raise ValueError(f"no tree goes up and down within {problem.steps} steps")

    @property
    def spent(self) -> float:
        """Return the effort of all that has been done."""
        return self._own + sum(way.search.spent for pair in self.pairs for way in pair)

    def quick(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a pair of trees and its cost, greedily for each root and turning step."""
        return min(
            (_joined([(way, way.search.quick(way.prices(prices))[1]) for way in pair], prices)
             for pair in self.pairs),
            key=lambda found: (found[0], len(found[1])),
        )  # fmt: skip

    def exact(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return a cheapest pair of trees and its cost, whatever the rank and the turning step.

        Raises:
            TimeoutError: that took too long.
        """
        best = self.quick(prices)
        self._own += LANE * len(self.pairs) * prices.size
        least = [sum(way.least(prices) for way in pair) for pair in self.pairs]
        for i in sorted(range(len(least)), key=lambda i: (least[i], i)):
            if least[i] >= best[0]:
                break
            found: list[tuple[_Way, Tree]] = []
            cost = least[i]
            for way in self.pairs[i]:
                own = way.prices(prices)
                more, tree = way.search.exact(own)
                cost += more - way.least(prices)
                found.append((way, tree))
                if cost >= best[0]:
                    break
            if cost < best[0]:
                best = _joined(found, prices)
        return best


def _joined(ways: list[tuple[_Way, Tree]], prices: PriceArray) -> tuple[int, Tree]:
    """Return what trees up and down cost, and both as one."""
    tree = frozenset(use for way, own in ways for use in way.steps(own))
    return sum(int(prices[use]) for use in tree), tree


def _farthest(topology: Topology, root: int) -> int:
    """Return how far the farthest rank is, which has to be reached."""
    return max(distances(topology.successors(), [root]))


def _window(problem: Problem, topology: Topology, root: int, steps: int) -> Window:
    """Return the window of a tree out of a rank, over the links in the order of the problem's.

    Args:
        topology: the machine, or it reversed.
    """
    forwards = topology is problem.topology
    edges = problem.edges if forwards else tuple((v, u) for u, v in problem.edges)
    before = distances(topology.successors(), [root])
    everyone = frozenset(range(topology.ranks))
    commodity = Commodity(
        frozenset([root]),
        everyone,
        problem.commodities[0].chunks,
        tuple(before[u] if v != root else steps for u, v in edges),
        tuple(steps if v != root else 0 for _, v in edges),
        ((frozenset([root]), everyone),),
    )
    return Window(replace(problem, edges=edges, steps=steps), commodity)
