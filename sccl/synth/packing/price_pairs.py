"""The cheapest pairs of timed trees: one into a rank, or two that exchange, and one out of it.

A tree up is a tree down, over reversed links and backwards in time, so the same tables price both:
for all ranks and slots at once, as these contain all costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.errors import TooLargeError
from sccl.synth.limits import (
    ELEMENT_EFFORT,
    INFINITE,
    MAX_MODEL,
    MAX_SUBSET,
    MAX_TABLE_WORK,
    PRICE_SCALE,
)
from sccl.synth.packing.flow_problem import FlowProblem, SlotTree
from sccl.synth.packing.price_rounds import RoundPricing
from sccl.synth.packing.price_sets import NoTreeError, SetTables, TreeProblem
from sccl.synth.packing.price_trees import TreePricing


class _RootChoice(NamedTuple):
    """A place where trees up end and trees down begin.

    Attributes:
        ranks: one, or two that exchange their sums.
        links: the links of the exchange.
        goals: by rank: the sets that it may serve, such that together they serve everything.
    """

    ranks: tuple[int, ...]
    links: tuple[int, ...]
    goals: tuple[IntArray, ...]


class _SendCosts(NamedTuple):
    """Shape (links, slots): the cost of a send, and the slot of its arrival. -1: never."""

    cost: IntArray
    arrive: IntArray


class _PairCosts(NamedTuple):
    """Costs of trees down, and of trees up.

    Attributes:
        down: Costs of trees from a root.
        up: Costs of trees to a root, on the reversed links and in reversed time.
        slot_of: shape (links, slots): slot, in normal time, of a send of a tree to a root.
    """

    down: _SendCosts
    up: _SendCosts
    slot_of: IntArray


class _CheapestPair(NamedTuple):
    """The cheapest turn of trees, and its slots.

    Attributes:
        until: the slot by which all contributions have come.
        since: the slot from which on the sum goes down.
    """

    price: int
    root: _RootChoice
    until: int
    since: int


class PairTables:
    """Tables of trees down, and of trees up, and where these may turn."""

    def __init__(self, problem: TreeProblem, groups: list[list[int]]) -> None:
        self.problem = problem
        backwards = replace(problem, edges=tuple((v, u) for u, v in problem.edges))
        self.down, self.up = (
            SetTables(directed, groups, (0,)) for directed in (problem, backwards)
        )
        demand = replace(problem.commodities[0], holders=frozenset())
        self._full_goal = [
            self.down.goal_set(demand, rank) for rank in range(problem.topology.ranks)
        ]
        number = {edge: i for i, edge in enumerate(problem.edges)}
        self.roots = [
            _RootChoice((rank,), (), (np.array([goal]),))
            for rank, goal in enumerate(self._full_goal)
        ]
        both = [(u, v) for u, v in number if u < v and (v, u) in number]
        if len(both) * max(self._full_goal) <= MAX_MODEL:
            self.roots += [
                _RootChoice((u, v), (number[u, v], number[v, u]), self._shared_goals(u, v))
                for u, v in both
            ]
        self.goals = sum(len(turn.goals[0]) for turn in self.roots)

    def effort(self, slots: int) -> float:
        """Return the effort for pricing trees in a number of slots, in units of some seconds."""
        work = self.down.work(slots) + self.up.work(slots)
        return ELEMENT_EFFORT * (work + slots * self.goals)

    def _shared_goals(self, u: int, v: int) -> tuple[IntArray, IntArray]:
        """Return the sets of two ranks that together are everything."""
        groups = self.down.groups
        g, h = int(groups.group[u]), int(groups.group[v])
        if g == h:
            free = self._full_goal[u]
            parts = np.array([s for s in range(free + 1) if not s & ~free])
            return parts, free ^ parts
        mine, theirs = int(groups.ranks[g]), int(groups.ranks[h])
        free = self._full_goal[u] >> mine & ~(1 << int(groups.place[h]))
        parts = np.array([s for s in range(free + 1) if not s & ~free])
        local_mask, their = (1 << mine) - 1, (1 << theirs) - 1
        return parts << mine | local_mask, (free ^ parts) << theirs | their

    def cheapest(self, costs: _PairCosts) -> _CheapestPair:
        """Fill the tables in for some costs, and return where the cheapest trees turn."""
        down, slots = costs.down, costs.down.cost.shape[1]
        self.up.fill(*costs.up)
        self.down.fill(*down)
        best = _CheapestPair(INFINITE, self.roots[0], 0, 0)
        for turn in self.roots:
            until = _joint_costs(turn, self.up, slots)[:, ::-1].min(axis=0)
            since = _joint_costs(turn, self.down, slots).min(axis=0)
            sent = then = np.arange(slots + 1)
            if turn.links:
                arrivals, links = down.arrive[list(turn.links)], list(turn.links)
                sent = np.flatnonzero((arrivals >= 0).all(axis=0))
                then = arrivals[:, sent].max(axis=0)
                until[sent] += down.cost[links][:, sent].sum(axis=0)
            price = until[sent] + since[then]
            if len(price) and price.min() < best.price:
                i = int(price.argmin())
                best = _CheapestPair(int(price[i]), turn, int(sent[i]), int(then[i]))
        return best

    def tree(self, at: _CheapestPair, costs: _PairCosts) -> SlotTree:
        """Return the cheapest trees as one. The tables are filled in."""
        slots, turn = costs.down.cost.shape[1], at.root
        uses = {(link, at.until) for link in turn.links}
        above = int(_joint_costs(turn, self.up, slots)[:, slots - at.until].argmin())
        below = int(_joint_costs(turn, self.down, slots)[:, at.since].argmin())
        for rank, goals in zip(turn.ranks, turn.goals, strict=True):
            uses |= self.down.tree_from(int(goals[below]), rank, at.since, *costs.down)
            first = self.up.tree_from(int(goals[above]), rank, slots - at.until, *costs.up)
            uses |= {(link, int(costs.slot_of[link, s])) for link, s in first}
        return frozenset(uses)


def _joint_costs(turn: _RootChoice, tables: SetTables, slots: int) -> IntArray:
    """Return the total cost of all ranks of a place, by the set of each, and slot."""
    first, *others = (
        tables.prices(rank, slots)[goals]
        for rank, goals in zip(turn.ranks, turn.goals, strict=True)
    )
    return sum(others, start=first)


class TreePairPricing(TreePricing):
    """Tables for trees up and down, wherever and whenever they turn, and rounds.

    Raises:
        TooLargeError: there are too many sets of ranks to look at, and no rounds.
    """

    def __init__(self, problem: FlowProblem) -> None:
        self.problem, self.starts = problem, {}
        self.is_exact = self.is_searched = False
        self.search_effort, self._first = 0.0, []
        ranks = list(range(problem.topology.ranks))
        groupings = [[ranks]] if len(ranks) <= MAX_SUBSET else list(_rank_partitions(problem))
        if max(map(len, problem.topology.chassis), default=0) > MAX_SUBSET:
            groupings = []  # parts of chassis are no gates, and say too little
        small = [g for g in groupings if SetTables(problem, g, (0,)).work(2) <= MAX_TABLE_WORK]
        self._pairs = [PairTables(problem, groups) for groups in small]
        self.rounds = RoundPricing(problem)
        self.tables = [part for pair in self._pairs for part in (pair.up, pair.down)]
        if not self._pairs and not self.rounds.plans:
            raise TooLargeError(
                f"topology {problem.topology.name!r}: trees into ranks and out of them look at too "
                f"many sets of its {len(ranks)} ranks"
            )

    def effort(self, slots: int) -> float:
        """Return the effort for pricing trees in a number of slots. See :class:`TreePricing`."""
        return sum(pair.effort(slots) for pair in self._pairs) + self.rounds.effort(slots)

    def cheapest(
        self, prices: NDArray[np.float64], arrive: IntArray, *, lightly: bool = False
    ) -> list[tuple[float, SlotTree]]:
        """Return the cheapest trees up and down as one, or all sends of some rounds, and the price.

        See :class:`TreePricing`.
        """
        del lightly  # there is no search
        cost = np.floor(prices * (PRICE_SCALE / (float(prices.max(initial=0.0)) or 1.0)))
        costs = reverse_costs(cost.astype(np.int64) * 64 + 1, arrive)
        price, tree = self.rounds.cheapest(*costs.down)
        candidates = [(pair.cheapest(costs), pair) for pair in self._pairs]
        if candidates:
            at, pair = min(candidates, key=lambda candidate: candidate[0].price)
            if at.price <= price and at.price < INFINITE:
                price, tree = at.price, pair.tree(at, costs)
        if price >= INFINITE:
            raise NoTreeError
        return [(float(sum(prices[use] for use in sorted(tree))), tree)]


def reverse_costs(cost: IntArray, arrive: IntArray) -> _PairCosts:
    """Return costs of trees down, and of trees over reversed links in reversed time.

    A send that has to be there by a slot leaves in the slot from which it comes by then. Among
    several the cheapest is taken.

    Args:
        cost: shape (links, slots): cost of a send.
        arrive: shape (links, slots): the later slot from which on it is there. -1: never.
    """
    links, slots = cost.shape
    back, arrivals = np.full((links, slots), INFINITE), np.full((links, slots), -1, np.int64)
    slot_of = np.full((links, slots), -1, np.int64)
    for k in range(slots):
        sent = np.flatnonzero(arrive[:, k] > k)
        at = slots - arrive[sent, k]
        better = cost[sent, k] <= back[sent, at]
        sent, at = sent[better], at[better]
        back[sent, at], arrivals[sent, at], slot_of[sent, at] = cost[sent, k], slots - k, k
    return _PairCosts(_SendCosts(cost, arrive), _SendCosts(back, arrivals), slot_of)


def _rank_partitions(problem: FlowProblem) -> Iterator[list[list[int]]]:
    """Yield all ranks in groups: by chassis, or, if there are none, as rows and columns of grids.

    The trees of each leave out others, so it is good to have several.
    """
    topology, ranks = problem.topology, problem.topology.ranks
    if len(topology.chassis) > 1:
        apart = {rank for inside in topology.chassis for rank in inside}
        singletons = [[rank] for rank in range(ranks) if rank not in apart]
        chassis = [sorted(inside) for inside in topology.chassis]
        yield chassis + singletons
        large = max(map(len, chassis))
        rails = [list(rail) for rail in zip(*chassis, strict=False)]
        if all(len(inside) == large for inside in chassis) and _is_connected(problem, rails):
            yield rails + singletons
        return
    for size in range(2, ranks // 2 + 1):
        if ranks % size == 0:
            both = (_split_ranks(range(ranks), size, rows=rows) for rows in (True, False))
            yield from (groups for groups in both if _is_connected(problem, groups))


def _split_ranks(ranks: Sequence[int], size: int, *, rows: bool) -> list[list[int]]:
    """Return ranks in groups of a size: rows of a grid, or columns of another."""
    count = len(ranks) // size
    if rows:
        return [list(ranks[at * size : (at + 1) * size]) for at in range(count)]
    return [list(ranks[at::count]) for at in range(count)]


def _is_connected(problem: FlowProblem, groups: list[list[int]]) -> bool:
    """Return whether in each group all are reached from the first by links within it."""
    successors: dict[int, list[int]] = {}
    for u, v in problem.edges:
        successors.setdefault(u, []).append(v)
    for inside in groups:
        reached = [inside[0]]
        for rank in reached:  # grows while it is walked
            reached += [n for n in successors.get(rank, ()) if n in inside and n not in reached]
        if len(reached) < len(inside):
            return False
    return True
