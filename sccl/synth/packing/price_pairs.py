"""The cheapest pairs of timed trees: one into a root, or two roots that exchange, and one out.

A tree up is a tree down on reversed links and in reversed time, so tables of the same kind price
both. The tables contain the costs for all ranks and slots at once.
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
    TIME_PRICE_SCALE,
)
from sccl.synth.packing.flow_problem import FlowProblem, SlotTree
from sccl.synth.packing.price_rounds import RoundPricing
from sccl.synth.packing.price_sets import NoTreeError, SetTables, TreeProblem
from sccl.synth.packing.price_trees import TreePricing
from sccl.synth.packing.problem import root_choices


class _RootChoice(NamedTuple):
    """A root, or two that exchange, at which trees up end and trees down begin.

    Attributes:
        ranks: The root, or two ranks that exchange their sums.
        links: Links of the exchange.
        goals: Sets that each rank may serve, as bit masks. Sets with the same index together
            contain all ranks.
    """

    ranks: tuple[int, ...]
    links: tuple[int, ...]
    goals: tuple[IntArray, ...]


class _SendCosts(NamedTuple):
    """Costs and arrival slots of sends, shape (links, slots). Arrival -1: it never arrives."""

    cost: IntArray
    arrive: IntArray


class _PairCosts(NamedTuple):
    """Costs of trees down, and of trees up.

    Attributes:
        down: Costs of trees from a root.
        up: Costs of trees to a root, on the reversed links and in reversed time.
        slot_of: Slot in normal time of a send of a tree to a root, shape (links, slots).
    """

    down: _SendCosts
    up: _SendCosts
    slot_of: IntArray


class _CheapestPair(NamedTuple):
    """The cheapest root for a pair of trees, with its slots.

    Attributes:
        price: Cost of both trees.
        root: The root.
        until: Slot by which all contributions have arrived.
        since: Slot from which the sum is broadcast.
    """

    price: int
    root: _RootChoice
    until: int
    since: int


class PairTables:
    """Tables of trees down and trees up, and the possible roots."""

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
        ranks = problem.topology.ranks
        choices = root_choices(problem.edges, range(ranks))
        if (len(choices) - ranks) * max(self._full_goal) > MAX_MODEL:
            choices = choices[:ranks]
        self.roots = [_RootChoice(c.ranks, c.links, self._goals(*c.ranks)) for c in choices]
        self.goals = sum(len(turn.goals[0]) for turn in self.roots)

    def effort(self, slots: int) -> float:
        """Return the effort for pricing trees in a number of slots, in units of some seconds."""
        work = self.down.work(slots) + self.up.work(slots)
        return ELEMENT_EFFORT * (work + slots * self.goals)

    def _goals(self, u: int, v: int | None = None) -> tuple[IntArray, ...]:
        """Return the sets of a rank, or the pairs of sets of two, that contain all ranks."""
        if v is None:
            return (np.array([self._full_goal[u]]),)
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
        """Compute the tables for given costs, and return the root of the cheapest trees."""
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
        """Return the cheapest trees as one. The tables must have been computed."""
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
    """Return the total cost of all ranks of a root, by index of their sets, and slot."""
    first, *others = (
        tables.prices(rank, slots)[goals]
        for rank, goals in zip(turn.ranks, turn.goals, strict=True)
    )
    return sum(others, start=first)


class TreePairPricing(TreePricing):
    """Pricing of an allreduce: trees up and down from tables, and rounds of exchanges.

    Raises:
        TooLargeError: There are too many sets of ranks for tables, and no rounds.
    """

    def __init__(self, problem: FlowProblem) -> None:
        self.problem, self.starts = problem, {}
        self.is_exact = self.is_searched = False
        self.search_effort, self._first = 0.0, []
        ranks = list(range(problem.topology.ranks))
        groupings = [[ranks]] if len(ranks) <= MAX_SUBSET else list(_rank_partitions(problem))
        if max(map(len, problem.topology.chassis), default=0) > MAX_SUBSET:
            groupings = []  # parts of a chassis are no groups: such trees price too few
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
        """Return the price and the sends of the cheapest trees up and down, or of some rounds.

        See :class:`TreePricing`.
        """
        del lightly  # there is no search
        cost = np.floor(prices * (TIME_PRICE_SCALE / (float(prices.max(initial=0.0)) or 1.0)))
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
    """Return costs of trees down, and of trees on reversed links in reversed time.

    A send that must arrive by a slot leaves in the slot from which it arrives by then. If there are
    several such slots, the cheapest counts.

    Args:
        cost: Cost of a send, shape (links, slots).
        arrive: Later slot from which the chunk has arrived, shape (links, slots). -1: never.
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
    """Yield partitions of the ranks: by chassis and rails, or else into rows and columns of grids.

    Each partition excludes other trees, so several partitions are useful.
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
    """Divide ranks into groups of a size: rows of a grid, or columns of another."""
    count = len(ranks) // size
    if rows:
        return [list(ranks[at * size : (at + 1) * size]) for at in range(count)]
    return [list(ranks[at::count]) for at in range(count)]


def _is_connected(problem: FlowProblem, groups: list[list[int]]) -> bool:
    """Return whether in each group the first rank reaches all others by links within the group."""
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
