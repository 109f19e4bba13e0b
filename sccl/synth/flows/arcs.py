"""Solve collectives without copies as a linear program of flows on links and slots.

Each part of a collective with one destination takes paths, and paths are flows. One linear program
of links and slots therefore replaces columns of paths. Commodities with the same start are one flow
(TE-CCL's LP, section 4.1), and those of all symmetric images of the start share variables. Paths
are extracted from the flows afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from sccl.solvers.lp import SparseEnd, SparseProgram, SparseResult, solve_sparse
from sccl.synth.flows.problem import FluidProblem, Tree, WayImages
from sccl.synth.flows.shares import Floats, TimedPacking, TreePart
from sccl.synth.flows.slots import TimeSlots, Whole
from sccl.topo.symmetry.permutations import Permutation

MOST_COLUMNS = 600_000
"""Largest number of columns of a program. Larger programs take minutes."""

_DETOUR = 1e-6
"""Price of all bytes for each link they pass, relative to the whole time, so that paths are
short.
"""

_LEAST = 1e-7
"""Smallest part that counts as a flow."""


def is_unicast(problem: FluidProblem) -> bool:
    """Return whether each part is wanted by one rank that has not got it, so that none copies."""
    return all(len(c.wanted - c.holders) == 1 for c in problem.commodities)


@dataclass(frozen=True, slots=True)
class _Goal:
    """A destination of a flow: the symmetric image of a commodity at the root of the flow."""

    commodity: int
    rank: int
    amount: float
    image: Permutation


@dataclass(frozen=True, slots=True)
class _Root:
    """All commodities that start at the same place.

    Attributes:
        members: how many places are images of it.
    """

    holders: frozenset[int]
    members: int
    goals: tuple[_Goal, ...]


class _Arcs:
    """The links and slots that a root's flow may use, with its columns and rows.

    Columns are flows on links in slots, then the amounts that stay at a rank from a slot to the
    next, then the amounts that start at each holder. There is a row for each rank and slot, and for
    the end.
    """

    def __init__(self, problem: FluidProblem, slots: TimeSlots, root: _Root) -> None:
        self.root, self.ranks, self.slots = root, problem.topology.ranks, slots.count
        self.edges = np.array(problem.edges, dtype=np.int64).reshape(-1, 2)
        soonest = _soonest(self.edges, slots.arrive, self.ranks, root.holders)
        sent = (slots.arrive >= 0) & (
            np.arange(self.slots)[None, :] >= soonest[self.edges[:, 0]][:, None]
        )
        self.link, self.slot = np.nonzero(sent)
        self.arrival = slots.arrive[self.link, self.slot]
        self.holders = np.array(sorted(root.holders), dtype=np.int64)

    @property
    def flows(self) -> int:
        """Return how many columns are flows."""
        return len(self.link)

    @property
    def columns(self) -> int:
        """Return how many there are."""
        return self.flows + self.ranks * self.slots + len(self.holders)

    @property
    def rows(self) -> int:
        """Return how many there are."""
        return self.ranks * (self.slots + 1)

    def conserved(self) -> tuple[Whole, Whole, Floats]:
        """Return rows, columns, and coefficients of flow conservation."""
        n, every = self.flows, np.arange(self.ranks * self.slots)
        rank, slot = np.divmod(every, max(1, self.slots))
        wide, flow, stay = self.slots + 1, np.arange(n), n + every
        source, goal = self.edges[self.link, 0], self.edges[self.link, 1]
        starts = n + len(every) + np.arange(len(self.holders))
        row = [goal * wide + self.arrival, source * wide + self.slot]
        row += [rank * wide + slot + 1, rank * wide + slot, self.holders * wide]
        column = [flow, flow, stay, stay, starts]
        signs = zip(column, (1.0, -1.0, 1.0, -1.0, 1.0), strict=True)
        value = [np.full(len(own), sign) for own, sign in signs]
        return np.concatenate(row), np.concatenate(column), np.concatenate(value)

    def asked(self) -> Floats:
        """Return the right-hand side: the demand of each rank at the end."""
        found = np.zeros((self.ranks, self.slots + 1))
        for goal in self.root.goals:
            found[goal.rank, self.slots] += goal.amount
        return found.ravel()

    def cheapest(self, prices: Floats) -> Floats:
        """Return the cost of the cheapest path to each rank.

        Args:
            prices: Shape (links, slots).
        """
        cost = np.full((self.ranks, self.slots + 1), inf)
        cost[self.holders, 0] = 0.0
        price = prices[self.link, self.slot]
        order = np.argsort(self.slot, kind="stable")
        first = np.searchsorted(self.slot[order], np.arange(self.slots + 1))
        for j in range(self.slots):
            own = order[first[j] : first[j + 1]]
            source, goal = self.edges[self.link[own], 0], self.edges[self.link[own], 1]
            there = self.arrival[own]
            while True:  # within a slot as often as anything gets cheaper
                before = cost[:, j].copy()
                np.minimum.at(cost, (goal, there), cost[source, j] + price[own])
                if np.array_equal(before, cost[:, j]):
                    break
            cost[:, j + 1] = np.minimum(cost[:, j + 1], cost[:, j])
        return cost[:, self.slots]

    def paths(self, values: Floats) -> Iterator[tuple[_Goal, Tree, float]]:
        """Yield parts of goals with the links and slots by which each goes.

        Args:
            values: of the columns.
        """
        left = values.copy()
        into: dict[tuple[int, int], list[tuple[int, tuple[int, int]]]] = {}
        for i in np.flatnonzero(left > _LEAST).tolist():
            here, there = self._ends(i)
            into.setdefault(there, []).append((i, here))
        for goal in self.root.goals:
            wanted = goal.amount
            while wanted > _LEAST * max(1.0, goal.amount):
                way = self._back(goal.rank, into, left)
                if way is None:
                    break
                some = min(wanted, *(left[i] for i in way))
                left[way] -= some
                wanted -= some
                tree = frozenset(
                    (int(self.link[i]), int(self.slot[i])) for i in way if i < self.flows
                )
                yield goal, tree, float(some)

    def _ends(self, column: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return from which rank and slot a column leads to which; (-1, 0): from nowhere."""
        if column < self.flows:
            source, goal = self.edges[self.link[column]].tolist()
            return (source, int(self.slot[column])), (goal, int(self.arrival[column]))
        column -= self.flows
        if column < self.ranks * self.slots:
            rank, slot = divmod(column, self.slots)
            return (rank, slot), (rank, slot + 1)
        return (-1, 0), (int(self.holders[column - self.ranks * self.slots]), 0)

    def _back(
        self,
        rank: int,
        into: dict[tuple[int, int], list[tuple[int, tuple[int, int]]]],
        left: Floats,
    ) -> list[int] | None:
        """Return columns by which something that is left comes to a rank. None: nothing does.

        The largest are taken. A round within a slot, which the program might have for nothing, is
        taken out.
        """
        way: list[int] = []
        at, known = (rank, self.slots), {(rank, self.slots): 0}
        while at[0] >= 0:
            i, at = max(into.get(at, ()), key=lambda one: (left[one[0]], -one[0]), default=(-1, at))
            if i < 0 or left[i] <= _LEAST / 4:
                return None
            way.append(i)
            if at in known:
                left[way[known[at] :]] -= min(left[j] for j in way[known[at] :])
                way, at, known = [], (rank, self.slots), {(rank, self.slots): 0}
            else:
                known[at] = len(way)
        return way


class FlowProgram:
    """A problem without copies, for slots of any kind."""

    def __init__(self, problem: FluidProblem) -> None:
        self.problem = problem
        self.counts = np.array([r.count for r in problem.resources], dtype=np.float64)
        uses = [
            (link, i, times / (r.count * float(r.rate)))
            for i, r in enumerate(problem.resources)
            for link, times in r.links
        ]
        uses.sort()
        self.of = np.array([i for _, i, _ in uses], dtype=np.int64)
        self.took = np.array([took for *_, took in uses])
        links = np.arange(len(problem.edges) + 1)
        self.first = np.searchsorted(np.array([link for link, *_ in uses], np.int64), links)
        self.unit = float(max(c.size for c in problem.commodities))
        self.roots = _roots(problem, self.unit)
        self._images = WayImages(problem)

    def columns(self, slots: int) -> int:
        """Return about how many there are for so many slots."""
        return len(self.roots) * slots * (len(self.problem.edges) + self.problem.topology.ranks)

    def solve(
        self,
        slots: TimeSlots,
        unit: float,
        effort: float,
        seconds: float = inf,
        solver: str = "auto",
    ) -> tuple[TimedPacking | None, SparseResult]:
        """Return the best flows in given slots, as parts on paths, and the solver's result.

        None: the slots are too few or too short, or the budget was used.

        Args:
            unit: Approximate time of the whole phase, microseconds.
            effort: Approximate time limit in seconds, counted by the solver's deterministic work.
            seconds: Time limit in seconds of wall time.
            solver: Solver instead of GLOP. Other solvers give no prices.

        Raises:
            SolverError: The solver cannot be used.
            KeyboardInterrupt: The user interrupted.
        """
        arcs = [_Arcs(self.problem, slots, root) for root in self.roots]
        program = self._program(slots, unit, arcs)
        found = solve_sparse(program, effort, seconds, solver)
        if found.end is not SparseEnd.OPTIMAL:
            return None, found
        variables, rooms = slots.grows.shape[1], len(slots.fixed)
        z = found.values[:variables] * unit
        windows = np.maximum(0.0, found.duals[: len(slots.least)])
        y = found.duals[len(slots.least) :][: len(self.counts) * rooms]
        prices = np.maximum(0.0, -y).reshape(len(self.counts), rooms) / self.counts[:, None]
        shares, column = [], variables
        for own in arcs:
            values = found.values[column : column + own.columns]
            column += own.columns
            for goal, tree, amount in own.paths(values):
                back = self._images.back(goal.image)
                here = frozenset((back[link], slot) for link, slot in tree)
                shares.append(TreePart(goal.commodity, here, amount / goal.amount))
        least = self._least(slots, unit, arcs, prices, windows)
        us = float(z.sum())
        return TimedPacking(
            slots, us, min(least, us), tuple(shares), slots.lengths(z), whole=True, prices=prices
        ), found

    def _program(self, slots: TimeSlots, unit: float, arcs: list[_Arcs]) -> SparseProgram:
        variables, rooms, things = slots.grows.shape[1], len(slots.fixed), len(self.counts)
        windows, where = np.nonzero(slots.rows)
        grown, by = np.nonzero(slots.grows)
        every = np.arange(things)[:, None]
        row: list[NDArray[np.int64]] = [
            windows,
            (len(slots.least) + every * rooms + grown[None, :]).ravel(),
        ]
        column: list[NDArray[np.int64]] = [where, np.tile(by, things)]
        value: list[Floats] = [
            slots.rows[windows, where],
            np.tile(-slots.grows[grown, by], things),
        ]
        lower = [slots.least / unit, np.full(things * rooms, -inf)]
        upper = [np.full(len(slots.least), inf), np.tile(slots.fixed / unit, things)]
        cost = [np.ones(variables)]
        at, next_row = variables, len(slots.least) + things * rooms
        asked = float(sum(own.asked().sum() for own in arcs))
        for own in arcs:
            which = slots.room[own.slot]
            many = np.diff(self.first)[own.link]
            flow = np.repeat(np.arange(own.flows), many)
            use = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            use += np.repeat(self.first[own.link], many)
            row.append(len(slots.least) + self.of[use] * rooms + which[flow])
            column.append(at + flow)
            value.append(self.took[use] * (own.root.members * self.unit / unit))
            inside, across, sign = own.conserved()
            row.append(next_row + inside)
            column.append(at + across)
            value.append(sign)
            asks = own.asked()
            lower.append(asks)
            upper.append(asks)
            prices = np.zeros(own.columns)
            prices[: own.flows] = _DETOUR / asked if variables else 1.0
            cost.append(prices)
            at, next_row = at + own.columns, next_row + own.rows
        summed = _summed(np.concatenate(row), np.concatenate(column), np.concatenate(value), at)
        return SparseProgram(
            np.concatenate(cost), np.concatenate(lower), np.concatenate(upper), *summed
        )

    def _least(
        self, slots: TimeSlots, unit: float, arcs: list[_Arcs], prices: Floats, windows: Floats
    ) -> float:
        """Return a lower bound for flows in these slots from dual prices, microseconds."""
        of_link = np.zeros((len(self.problem.edges), len(slots.fixed)))
        link = np.repeat(np.arange(len(self.problem.edges)), np.diff(self.first))
        np.add.at(of_link, link, (self.took * self.counts[self.of])[:, None] * prices[self.of])
        of_slot = of_link[:, slots.room]
        cost: float = 0.0
        for own in arcs:
            far = own.cheapest(of_slot)
            each = sum(goal.amount * float(far[goal.rank]) for goal in own.root.goals)
            cost += own.root.members * self.unit * each
        bought = self.counts @ prices
        least = cost / unit + float(windows @ slots.least - bought @ slots.fixed) / unit
        if not len(slots.rows) and slots.grows.shape[1] == 1:
            # a time T buys bought @ (fixed + grows T), which is at least what all paths cost
            buys = float(bought @ slots.grows[:, 0])
            least = least / buys if buys > 0 else 0.0
        return least * unit


def _summed(row: Whole, column: Whole, value: Floats, width: int) -> tuple[Whole, Whole, Floats]:
    """Return coefficients of which those of one row and column are one; zeros are left out."""
    key, place = np.unique(row * width + column, return_inverse=True)
    total = np.zeros(len(key))
    np.add.at(total, place, value)
    kept = total != 0
    return (key // width)[kept], (key % width)[kept], total[kept]


def _roots(problem: FluidProblem, unit: float) -> tuple[_Root, ...]:
    """Return where commodities start, one place of each orbit."""
    goals: dict[frozenset[int], list[_Goal]] = {}
    members: dict[frozenset[int], int] = {}
    for c, commodity in enumerate(problem.commodities):
        seen = {frozenset(map(int, held)): (held, want, g) for (held, want), g in commodity.members}
        first = next((holders for holders in seen if holders in goals), commodity.holders)
        held, want, image = seen[first]
        (rank,) = want - held
        goals.setdefault(first, []).append(_Goal(c, int(rank), float(commodity.size) / unit, image))
        members[first] = len(commodity.members)
    return tuple(_Root(own, members[own], tuple(its)) for own, its in goals.items())


def _soonest(edges: Whole, arrive: Whole, ranks: int, holders: frozenset[int]) -> Whole:
    """Return the first slot in which something may leave each rank."""
    slots = arrive.shape[1]
    soonest = np.full(ranks, slots, dtype=np.int64)
    soonest[sorted(holders)] = 0
    links = np.arange(len(edges))
    while True:
        before = soonest.copy()
        at = soonest[edges[:, 0]]
        there = arrive[links, np.minimum(at, slots - 1)]
        fine = (at < slots) & (there >= 0)
        np.minimum.at(soonest, edges[fine, 1], there[fine])
        if np.array_equal(before, soonest):
            return soonest
