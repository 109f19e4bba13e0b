"""Cheapest pairs of timed trees, for too many ranks for dynamic programming.

For a given place and time of the turn, the trees up and down are two separate problems, and
:mod:`sccl.synth.limit.search` solves each. Pairs that cannot be cheaper than a known one are
skipped: each rank but the roots is entered once, going down, in no earlier step than its distance
allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sccl.core.topology import UNREACHED, Topology, distances
from sccl.synth.limit.problem import Commodity, Problem, Tree, Use
from sccl.synth.limit.search import TreeSearch
from sccl.synth.limit.turns import farthest, turns_of
from sccl.synth.limit.window import LANE, PriceArray, Window
from sccl.topo.symmetry.orbits import Orbits


@dataclass(frozen=True, slots=True)
class _Way:
    """Trees out of ranks within some steps; going up, of the machine reversed, and of time.

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
        return whole[:, self.first :: -1] if self.first >= 0 else whole[:, :0]

    def steps(self, tree: Tree) -> set[tuple[int, int]]:
        """Return a tree of it in the steps of the whole."""
        if self.down:
            return {(edge, self.first + step) for edge, step in tree}
        return {(edge, self.first - step) for edge, step in tree}

    def least(self, whole: PriceArray) -> int:
        """Return a lower bound on the cost of such trees."""
        return self.search.least(self.prices(whole))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Trees up and down that turn somewhere, from a step on.

    Attributes:
        exchanged: (link, step) of the exchanges at the turn.
    """

    up: _Way
    down: _Way
    exchanged: tuple[Use, ...]

    def least(self, prices: PriceArray) -> int:
        """Return a lower bound on their cost."""
        return self.up.least(prices) + self.down.least(prices) + self.turning(prices)

    def turning(self, prices: PriceArray) -> int:
        """Return the cost of the exchanges."""
        return sum(int(prices[use]) for use in self.exchanged)

    def joined(self, up: Tree, down: Tree, prices: PriceArray) -> tuple[int, Tree]:
        """Return the cost of trees up and down, and both as one.

        A rank of no group that has received no contribution has nothing to exchange.
        """
        edges, knows = self.down.window.edges, set(self.down.window.commodity.wanted)
        knows |= {edges[edge][1] for edge, _ in up}
        exchanged = {use for use in self.exchanged if edges[use[0]][0] in knows}
        tree = frozenset(self.up.steps(up) | self.down.steps(down) | exchanged)
        return sum(int(prices[use]) for use in tree), tree

    def quick(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return trees up and down and their cost, greedily."""
        up, down = (w.search.quick(w.prices(prices))[1] for w in (self.up, self.down))
        return self.joined(up, down, prices)

    def cheapest(self, prices: PriceArray, below: int) -> tuple[int, Tree] | None:
        """Return cheapest trees up and down and their cost. None: that is not below something.

        Raises:
            TimeoutError: that took too long.
        """
        spent = self.least(prices)
        found: list[Tree] = []
        for way in (self.up, self.down):
            least = way.least(prices)
            cheapest = way.search.cheaper(way.prices(prices), below - spent + least)
            if cheapest is None:
                return None
            cost, tree = cheapest
            spent += cost - least
            found.append(tree)
        up, down = found
        return self.joined(up, down, prices)


class UpAndDownSearch:
    """Trees up and down that turn in each orbit of ranks, and of links, from each step on."""

    def __init__(self, window: Window, problem: Problem, deadline: float = math.inf) -> None:
        self.window = window
        self.pairs = tuple(_pairs(problem, window.commodity, deadline))
        self._own = 0.0
        if not self.pairs:
            raise ValueError(f"no tree reduces and broadcasts within {problem.steps} steps")

    @property
    def spent(self) -> float:
        """Return the effort of all that has been done."""
        ways = (way for pair in self.pairs for way in (pair.up, pair.down))
        return self._own + sum(way.search.spent for way in ways)

    def _promising(self, prices: PriceArray) -> list[tuple[int, int]]:
        """Return a lower bound on the cost of each pair, and its number, in ascending order."""
        self._own += LANE * 4 * len(self.pairs) * prices.size
        return sorted((pair.least(prices), i) for i, pair in enumerate(self.pairs))

    def quick(self, prices: PriceArray) -> tuple[int, Tree]:
        """Return trees up and down and their cost, greedily, where they may be cheapest."""
        best: tuple[int, Tree] | None = None
        for least, i in self._promising(prices):
            if best is not None and least >= best[0]:
                break
            found = self.pairs[i].quick(prices)
            if best is None or found[0] < best[0]:
                best = found
        assert best is not None
        return best

    def exact(self, prices: PriceArray) -> tuple[int, Tree, *tuple[Tree, ...]]:
        """Return the cost of cheapest trees up and down, wherever and whenever they turn, and them.

        With those that were the cheapest so far, on the way: they are of use to a packing, too, and
        let it end after half the rounds.

        Raises:
            TimeoutError: that took too long.
        """
        cost, tree = self.quick(prices)
        before: list[Tree] = []
        for least, i in self._promising(prices):
            if least >= cost:
                break
            if found := self.pairs[i].cheapest(prices, cost):
                before.append(tree)
                cost, tree = found
        return cost, tree, *before


def _pairs(problem: Problem, commodity: Commodity, deadline: float) -> Iterator[_Pair]:
    """Yield one pair of trees of each orbit, as prices are equal on images.

    Only symmetries that keep the ranks which reduce the chunks count.
    """
    topology, backwards = problem.topology, problem.topology.reversed()
    turns = {frozenset(t.ranks): t for t in turns_of(problem.edges, range(topology.ranks))}
    orbits = Orbits(turns)
    wanted = commodity.wanted
    keeping = (s for s in problem.symmetries if all(s[rank] in wanted for rank in wanted))
    for image in keeping:
        for ranks in turns:
            orbits.join(ranks, frozenset(image[rank] for rank in ranks))
    for turn in (turns[first] for first in orbits.members()):
        there, back = (farthest(machine, turn.ranks, wanted) for machine in (backwards, topology))
        if UNREACHED in {there, back}:
            continue
        for begin in range(there, problem.steps - back - turn.steps + 1):
            end = begin + turn.steps
            up = _window(problem, backwards, turn.ranks, wanted, begin)
            down = _window(problem, topology, turn.ranks, wanted, problem.steps - end)
            yield _Pair(
                _Way(TreeSearch(up, deadline), begin - 1, down=False),
                _Way(TreeSearch(down, deadline), end, down=True),
                tuple((edge, begin) for edge in turn.links),
            )


def _window(
    problem: Problem,
    topology: Topology,
    roots: Sequence[int],
    wanted: frozenset[int],
    steps: int,
) -> Window:
    """Return the window of trees out of ranks to others, over links in the order of the problem's.

    Args:
        topology: the machine, or it reversed.
    """
    forwards = topology is problem.topology
    edges = problem.edges if forwards else tuple((v, u) for u, v in problem.edges)
    before = distances(topology.successors(), roots)
    held = frozenset(roots)
    commodity = Commodity(
        held,
        wanted,
        problem.commodities[0].chunks,
        tuple(steps if v in held or before[u] == UNREACHED else before[u] for u, v in edges),
        tuple(0 if v in held else steps for _, v in edges),
        ((held, wanted),),
    )
    return Window(replace(problem, edges=edges, steps=steps), commodity)
