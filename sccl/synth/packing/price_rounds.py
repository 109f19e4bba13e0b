"""Allreduce in rounds: in each round, ranks on a line of the machine exchange partial sums.

Some machines are products by their links: a hypercube, a 4x4 torus, or a DGX-1 (two quads). Their
ranks have coordinates, and ranks that differ in only one coordinate form a line. If all ranks of a
line are linked pairwise, one round completes a coordinate. After one round for each coordinate, in
any order, every rank has every contribution exactly once. A coordinate may also be halved: one rank
of each line receives the sums of the others, takes part in the other rounds for them, and sends
them the result at the end.

A round consists of several sends with the same bytes. In a plan they are in one slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.ids import Edge
from sccl.synth.limits import (
    ELEMENT_EFFORT,
    INFINITE,
    MAX_ITERATIONS,
    MAX_SEARCH_RANKS,
    OPERATION_EFFORT,
)
from sccl.synth.network.product_coordinates import Coordinates, find_coordinates
from sccl.synth.packing.flow_problem import FlowProblem, SlotTree


class RoundPlan(NamedTuple):
    """An allreduce as a sequence of rounds.

    Attributes:
        reduce_rounds: Numbers of the rounds that reduce partial sums.
        broadcast_rounds: Numbers of the later rounds, which distribute the sum.
    """

    reduce_rounds: tuple[int, ...]
    broadcast_rounds: tuple[int, ...]


def split_coordinates(places: Coordinates) -> Iterator[Coordinates]:
    """Yield the coordinates, with each one of four values unchanged or split into two of two."""
    each = []
    for column in zip(*places, strict=True):
        options: list[list[tuple[int, ...]]] = [[(n,) for n in column]]
        if max(column) == 3:
            for a, b in combinations((1, 2, 3), 2):
                of = {0: (0, 0), a: (1, 0), b: (0, 1), a ^ b: (1, 1)}
                options.append([of[n] for n in column])
        each.append(options)
    for chosen in product(*each):
        yield tuple(sum(parts, ()) for parts in zip(*chosen, strict=True))


def line_exchanges(places: Coordinates, i: int, active: Iterable[int]) -> list[Edge]:
    """Return the (sender, receiver) pairs if ranks that differ only in one coordinate exchange.

    Args:
        places: Coordinates of each rank.
        i: Index of the coordinate.
        active: Ranks that take part.
    """
    on: dict[tuple[int, ...], list[int]] = {}
    for rank in active:
        on.setdefault(places[rank][:i] + places[rank][i + 1 :], []).append(rank)
    return [pair for ranks in on.values() for pair in permutations(ranks, 2)]


class RoundPricing:
    """The cheapest allreduce in rounds.

    Attributes:
        plans: All plans that are priced.
        rounds: Links of each round, by its number.
        max_reduce_rounds: Largest number of reducing rounds of a plan.
        max_broadcast_rounds: Largest number of distributing rounds of a plan.
        round_sends: Sends of each returned tree, with the level of each send. The last reducing
            round of every plan has the same level, and distributing rounds have the next ones.
    """

    def __init__(self, problem: FlowProblem) -> None:
        self._links = {edge: i for i, edge in reversed(list(enumerate(problem.edges)))}
        self._number: dict[tuple[int, ...], int] = {}
        ranks = problem.topology.ranks
        images = {image for c in problem.commodities for _, image in c.members}
        self._is_transitive = (
            len(images) == ranks
        )  # then each rank has a given role in some image of the plan
        plans = list(self._plans(ranks)) if 3 < ranks <= MAX_SEARCH_RANKS else []
        self.plans = sorted(dict.fromkeys(plans), key=lambda p: len(p.broadcast_rounds))[
            :MAX_ITERATIONS
        ]
        self.max_reduce_rounds = max((len(plan.reduce_rounds) for plan in self.plans), default=0)
        self.max_broadcast_rounds = max(
            (len(plan.broadcast_rounds) for plan in self.plans), default=0
        )
        self.round_sends: dict[SlotTree, tuple[tuple[int, int, int], ...]] = {}
        self.rounds = list(self._number)
        self._round_links = np.array([link for links in self.rounds for link in links], np.int64)
        self._first = np.cumsum([0, *map(len, self.rounds[:-1])])
        self._plan_rounds = np.full(
            (len(self.plans), self.max_reduce_rounds + self.max_broadcast_rounds), -1
        )
        for p, plan in enumerate(self.plans):
            self._plan_rounds[p, : len(plan.reduce_rounds + plan.broadcast_rounds)] = (
                plan.reduce_rounds + plan.broadcast_rounds
            )

    def effort(self, slots: int) -> float:
        """Return the effort for pricing rounds in a number of slots, in units of some seconds."""
        _, rounds = self._plan_rounds.shape
        return slots * (OPERATION_EFFORT * rounds + ELEMENT_EFFORT * self._plan_rounds.size)

    def cheapest(self, cost: IntArray, arrive: IntArray) -> tuple[int, SlotTree]:
        """Return the price and the sends of the cheapest plan. INFINITE: there is none.

        Args:
            cost: Cost of a send, shape (links, slots).
            arrive: Slot from which a send has arrived, shape (links, slots). -1: never.
        """
        if not self.plans:
            return INFINITE, frozenset()
        slots = cost.shape[1]
        each, then = (
            np.add.reduceat(cost[self._round_links], self._first, axis=0),
            self._next_slots(arrive),
        )
        costs = [np.zeros((len(self.plans), slots + 1), np.int64)]
        for turn in self._plan_rounds.T:
            costs.append(_extend_costs(costs[-1], turn, each, then))
        best = int(costs[-1][:, slots].argmin())
        price = int(costs[-1][best, slots])
        if price >= INFINITE:
            return INFINITE, frozenset()
        sent, at = [], slots
        for i in reversed(range(sum(self._plan_rounds[best] >= 0))):
            number, before = self._plan_rounds[best, i], costs[i][best]
            at = next(
                k
                for k in range(slots)
                if k < then[number, k] <= at
                and before[k] + each[number, k] == costs[i + 1][best, at]
            )
            sent.append(at)
        return price, self._register_tree(self.plans[best], sent[::-1])

    def _next_slots(self, arrive: IntArray) -> IntArray:
        """Return the slot from which the data of a round have arrived, shape (rounds, slots)."""
        arrivals = arrive[self._round_links]
        then: IntArray = np.maximum.reduceat(arrivals, self._first, axis=0)
        then[np.minimum.reduceat(arrivals, self._first, axis=0) < 0] = -1
        return then

    def _register_tree(self, plan: RoundPlan, sent: Sequence[int]) -> SlotTree:
        """Return the tree of a plan whose rounds are in given slots, and remember its sends."""
        first = self.max_reduce_rounds - len(plan.reduce_rounds)
        sends = [
            (first + turn, link, k)
            for turn, (number, k) in enumerate(
                zip(plan.reduce_rounds + plan.broadcast_rounds, sent, strict=True)
            )
            for link in self.rounds[number]
        ]
        tree = frozenset((link, k) for _, link, k in sends)
        self.round_sends[tree] = tuple(sorted(sends))
        return tree

    def _plans(self, ranks: int) -> Iterator[RoundPlan]:
        """Yield plans for each order of coordinates, number of halved ones, and receiving ranks."""
        for places in split_coordinates(find_coordinates(ranks, list(self._links))):
            sizes = [max(column) + 1 for column in zip(*places, strict=True)]
            if len(set(places)) < ranks or np.prod(sizes) != ranks or not self._is_linked(places):
                continue
            for order in permutations(range(len(sizes))):
                for halved in range(len(sizes)):
                    yield from self._halving(places, order, halved, sizes)

    def _is_linked(self, places: Coordinates) -> bool:
        """Return whether all ranks that differ in one coordinate are linked."""
        all_ranks = range(len(places))
        return all(
            pair in self._links
            for i in range(len(places[0]))
            for pair in line_exchanges(places, i, all_ranks)
        )

    def _halving(
        self, places: Coordinates, order: tuple[int, ...], halved: int, sizes: Sequence[int]
    ) -> Iterator[RoundPlan]:
        """Yield plans that halve the first coordinates of an order, and exchange along the others.

        If the machine's symmetries are transitive on ranks, one choice of the receiving ranks
        suffices.
        """
        each = (range(1 if self._is_transitive else sizes[i]) for i in order[:halved])
        for ends in product(*each):
            adds: list[int] = []
            tells: list[int] = []
            active = list(range(len(places)))
            for i, end in zip(order, ends, strict=False):
                up = [(u, v) for u, v in line_exchanges(places, i, active) if places[v][i] == end]
                adds.append(self._round_number(up))
                tells.append(self._round_number([(v, u) for u, v in up]))
                active = [rank for rank in active if places[rank][i] == end]
            adds += [self._round_number(line_exchanges(places, i, active)) for i in order[halved:]]
            yield RoundPlan(tuple(adds), tuple(reversed(tells)))

    def _round_number(self, pairs: Sequence[Edge]) -> int:
        links = tuple(sorted(self._links[pair] for pair in pairs))
        return self._number.setdefault(links, len(self._number))


def _extend_costs(costs: IntArray, turn: IntArray, each: IntArray, then: IntArray) -> IntArray:
    """Return the cost of plans up to and including a round, by plan and slot of arrival."""
    result = np.full_like(costs, INFINITE)
    result[turn < 0] = costs[turn < 0]
    rows = np.flatnonzero(turn >= 0)
    for k in range(costs.shape[1] - 1):
        at = then[turn[rows], k]
        kept_rows, at = rows[at > k], at[at > k]
        price: NDArray[np.int64] = costs[kept_rows, k] + each[turn[kept_rows], k]
        result[kept_rows, at] = np.minimum(result[kept_rows, at], price)
    return np.minimum.accumulate(np.minimum(result, INFINITE), axis=1)
