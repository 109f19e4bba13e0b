"""Allreduces in rounds: in each, ranks of a line of the machine exchange their partial sums.

A machine that is a product by its links (a hypercube, a torus of four by four, a DGX-1: two quads)
has coordinates, and ranks that differ in only one of them are on a line. If the ranks of a line are
linked all with all, one round completes a coordinate. After one round for each, in any order, every
rank has every contribution exactly once. Coordinates may also be halved: one rank of a line gets
the sums of the others, takes part in the other rounds for them, and sends them the result in the
end.

A round is several sends of the same bytes: in a plan they are in one slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.ids import Edge
from sccl.synth.flows.problem import FluidProblem, Tree
from sccl.synth.fluid.tables import INFINITE, Whole
from sccl.synth.network.products import Coordinates, coordinates

_MOST_RANKS = 32
"""Limit on ranks, since there are many pairs of links."""

_MOST_PLANS = 1000
"""That are priced each time, those of which most is exchanged first."""

_SLOT, _GOAL = 1e-4, 2e-8
"""Of effort, in units of some seconds, of a slot, and of a round of a plan in it."""


class RoundPlan(NamedTuple):
    """A plan.

    Attributes:
        adds: the rounds in which something is added up, by their numbers.
        tells: those after them, in which ranks are told the sum.
    """

    adds: tuple[int, ...]
    tells: tuple[int, ...]


def split(places: Coordinates) -> Iterator[Coordinates]:
    """Yield coordinates, and those with each one of four values as two of two, in all ways."""
    each = []
    for column in zip(*places, strict=True):
        ways: list[list[tuple[int, ...]]] = [[(n,) for n in column]]
        if max(column) == 3:
            for a, b in combinations((1, 2, 3), 2):
                of = {0: (0, 0), a: (1, 0), b: (0, 1), a ^ b: (1, 1)}
                ways.append([of[n] for n in column])
        each.append(ways)
    for chosen in product(*each):
        yield tuple(sum(parts, ()) for parts in zip(*chosen, strict=True))


def lines(places: Coordinates, i: int, active: Iterable[int]) -> list[Edge]:
    """Return who sends to whom where all that differ in a coordinate alone exchange.

    Args:
        i: the coordinate.
        active: the ranks that take part.
    """
    on: dict[tuple[int, ...], list[int]] = {}
    for rank in active:
        on.setdefault(places[rank][:i] + places[rank][i + 1 :], []).append(rank)
    return [pair for ranks in on.values() for pair in permutations(ranks, 2)]


class RoundPricing:
    """The cheapest allreduce in rounds.

    Attributes:
        plans: all that are looked at.
        rounds: the links of each, by its number.
        most_adds: rounds in which something is added up, of a plan.
        most_tells: rounds in which ranks are told the sum.
        known: the sends of each tree that was told, with the level of each: rounds that add are
            numbered such that the last of each plan is the last of all, and those that tell follow.
    """

    def __init__(self, problem: FluidProblem) -> None:
        self._links = {edge: i for i, edge in reversed(list(enumerate(problem.edges)))}
        self._number: dict[tuple[int, ...], int] = {}
        ranks = problem.topology.ranks
        images = {image for c in problem.commodities for _, image in c.members}
        self._alike = len(images) == ranks  # what one rank is in a plan, each is in an image of it
        plans = list(self._plans(ranks)) if 3 < ranks <= _MOST_RANKS else []
        self.plans = sorted(dict.fromkeys(plans), key=lambda p: len(p.tells))[:_MOST_PLANS]
        self.most_adds = max((len(plan.adds) for plan in self.plans), default=0)
        self.most_tells = max((len(plan.tells) for plan in self.plans), default=0)
        self.known: dict[Tree, tuple[tuple[int, int, int], ...]] = {}
        self.rounds = list(self._number)
        self._every = np.array([link for links in self.rounds for link in links], np.int64)
        self._first = np.cumsum([0, *map(len, self.rounds[:-1])])
        self._turns = np.full((len(self.plans), self.most_adds + self.most_tells), -1)
        for p, plan in enumerate(self.plans):
            self._turns[p, : len(plan.adds + plan.tells)] = plan.adds + plan.tells

    def effort(self, slots: int) -> float:
        """Return the effort for pricing rounds in a number of slots, in units of some seconds."""
        return slots * (_SLOT + _GOAL * self._turns.size) if self.plans else 0.0

    def cheapest(self, cost: Whole, arrive: Whole) -> tuple[int, Tree]:
        """Return the price of the cheapest, and its sends; INFINITE: there is none.

        Args:
            cost: shape (links, slots): of a send.
            arrive: likewise: from which slot on it is there. -1: never.
        """
        if not self.plans:
            return INFINITE, frozenset()
        slots = cost.shape[1]
        each, then = np.add.reduceat(cost[self._every], self._first, axis=0), self._then(arrive)
        least = [np.zeros((len(self.plans), slots + 1), np.int64)]
        for turn in self._turns.T:
            least.append(_after(least[-1], turn, each, then))
        best = int(least[-1][:, slots].argmin())
        price = int(least[-1][best, slots])
        if price >= INFINITE:
            return INFINITE, frozenset()
        sent, at = [], slots
        for i in reversed(range(sum(self._turns[best] >= 0))):
            number, before = self._turns[best, i], least[i][best]
            at = next(
                k
                for k in range(slots)
                if k < then[number, k] <= at
                and before[k] + each[number, k] == least[i + 1][best, at]
            )
            sent.append(at)
        return price, self._tree(self.plans[best], sent[::-1])

    def soonest(self, arrive: Whole) -> Iterator[Tree]:
        """Yield all in which everyone exchanges in each round, each round as soon as may be.

        All orders of coordinates together load a machine evenly, and are many to be found by price.
        """
        then = self._then(arrive) if self.plans else arrive
        for plan in self.plans:
            at, sent = 0, []
            for number in plan.adds if not plan.tells else ():
                k = next((k for k in range(at, arrive.shape[1]) if then[number, k] > k), -1)
                if k < 0:
                    break
                sent.append(k)
                at = int(then[number, k])
            if sent and len(sent) == len(plan.adds):
                yield self._tree(plan, sent)

    def _then(self, arrive: Whole) -> Whole:
        """Return the slot from which on the data of a round are there, shape (rounds, slots)."""
        there = arrive[self._every]
        then: Whole = np.maximum.reduceat(there, self._first, axis=0)
        then[np.minimum.reduceat(there, self._first, axis=0) < 0] = -1
        return then

    def _tree(self, plan: RoundPlan, sent: Sequence[int]) -> Tree:
        """Return a plan whose rounds are in some slots as a tree that is known."""
        first = self.most_adds - len(plan.adds)
        found = [
            (first + turn, link, k)
            for turn, (number, k) in enumerate(zip(plan.adds + plan.tells, sent, strict=True))
            for link in self.rounds[number]
        ]
        tree = frozenset((link, k) for _, link, k in found)
        self.known[tree] = tuple(sorted(found))
        return tree

    def _plans(self, ranks: int) -> Iterator[RoundPlan]:
        """Yield plans: an order of coordinates, how many of them are halved, and to which ranks."""
        for places in split(coordinates(ranks, list(self._links))):
            sizes = [max(column) + 1 for column in zip(*places, strict=True)]
            if len(set(places)) < ranks or np.prod(sizes) != ranks or not self._linked(places):
                continue
            for order in permutations(range(len(sizes))):
                for halved in range(len(sizes)):
                    yield from self._halving(places, order, halved, sizes)

    def _linked(self, places: Coordinates) -> bool:
        """Return whether all ranks that differ in one coordinate are linked."""
        every = range(len(places))
        return all(
            pair in self._links for i in range(len(places[0])) for pair in lines(places, i, every)
        )

    def _halving(
        self, places: Coordinates, order: tuple[int, ...], halved: int, sizes: Sequence[int]
    ) -> Iterator[RoundPlan]:
        """Yield plans that halve the first coordinates of an order, and exchange along the others.

        If the machine's symmetries are transitive on ranks, all halve to the same ranks.
        """
        each = (range(1 if self._alike else sizes[i]) for i in order[:halved])
        for ends in product(*each):
            adds: list[int] = []
            tells: list[int] = []
            active = list(range(len(places)))
            for i, end in zip(order, ends, strict=False):
                up = [(u, v) for u, v in lines(places, i, active) if places[v][i] == end]
                adds.append(self._round(up))
                tells.append(self._round([(v, u) for u, v in up]))
                active = [rank for rank in active if places[rank][i] == end]
            adds += [self._round(lines(places, i, active)) for i in order[halved:]]
            yield RoundPlan(tuple(adds), tuple(reversed(tells)))

    def _round(self, pairs: Sequence[Edge]) -> int:
        links = tuple(sorted(self._links[pair] for pair in pairs))
        return self._number.setdefault(links, len(self._number))


def _after(least: Whole, turn: Whole, each: Whole, then: Whole) -> Whole:
    """Return the cost of plans up to and including a round, by the slot of its arrival."""
    found = np.full_like(least, INFINITE)
    found[turn < 0] = least[turn < 0]
    rows = np.flatnonzero(turn >= 0)
    for k in range(least.shape[1] - 1):
        at = then[turn[rows], k]
        some, at = rows[at > k], at[at > k]
        price: NDArray[np.int64] = least[some, k] + each[turn[some], k]
        found[some, at] = np.minimum(found[some, at], price)
    return np.minimum.accumulate(np.minimum(found, INFINITE), axis=1)
