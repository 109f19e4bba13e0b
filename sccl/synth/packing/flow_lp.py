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

from sccl.core.arrays import FloatArray, IntArray
from sccl.solvers.lp import SparseProgram, SparseResult, SparseStatus, solve_sparse
from sccl.synth.limits import TOLERANCE
from sccl.synth.packing.flow_problem import FlowProblem, RouteImages, SlotTree
from sccl.synth.packing.slots import TimedPacking, TimeSlots, TreePart
from sccl.topo.symmetry.permutations import Permutation

_MIN_FLOW = 1e-7
"""Smallest flow: a tenth of the tolerance of GLOP."""


def is_unicast(problem: FlowProblem) -> bool:
    """Return whether each commodity goes to only one rank, so that nothing is copied."""
    return all(len(c.wanted - c.holders) == 1 for c in problem.commodities)


@dataclass(frozen=True, slots=True)
class _FlowGoal:
    """A destination of a flow: the symmetric image of a commodity at the root of the flow."""

    commodity: int
    rank: int
    amount: float
    image: Permutation


@dataclass(frozen=True, slots=True)
class _FlowRoot:
    """All commodities that start at the same ranks.

    Attributes:
        holders: The ranks at which they start.
        members: Number of symmetric images of these ranks.
        goals: Destinations of the flow.
    """

    holders: frozenset[int]
    members: int
    goals: tuple[_FlowGoal, ...]


class _RootArcs:
    """The links and slots that a root's flow may use, with its columns and rows.

    Columns are flows on links in slots, then the amounts that stay at a rank from a slot to the
    next, then the amounts that start at each holder. There is a row for each rank and slot, and for
    the end.
    """

    def __init__(self, problem: FlowProblem, slots: TimeSlots, root: _FlowRoot) -> None:
        self.root, self.ranks, self.slots = root, problem.topology.ranks, slots.count
        self.edges = np.array(problem.edges, dtype=np.int64).reshape(-1, 2)
        soonest = _earliest_slots(self.edges, slots.arrive, self.ranks, root.holders)
        sent = (slots.arrive >= 0) & (
            np.arange(self.slots)[None, :] >= soonest[self.edges[:, 0]][:, None]
        )
        self.link, self.slot = np.nonzero(sent)
        self.arrival = slots.arrive[self.link, self.slot]
        self.holders = np.array(sorted(root.holders), dtype=np.int64)

    @property
    def flows(self) -> int:
        return len(self.link)

    @property
    def columns(self) -> int:
        return self.flows + self.ranks * self.slots + len(self.holders)

    @property
    def rows(self) -> int:
        return self.ranks * (self.slots + 1)

    def conservation_rows(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return rows, columns, and coefficients of flow conservation."""
        n, cells = self.flows, np.arange(self.ranks * self.slots)
        rank, slot = np.divmod(cells, max(1, self.slots))
        wide, flow, stay = self.slots + 1, np.arange(n), n + cells
        source, goal = self.edges[self.link, 0], self.edges[self.link, 1]
        starts = n + len(cells) + np.arange(len(self.holders))
        row = [goal * wide + self.arrival, source * wide + self.slot]
        row += [rank * wide + slot + 1, rank * wide + slot, self.holders * wide]
        column = [flow, flow, stay, stay, starts]
        signs = zip(column, (1.0, -1.0, 1.0, -1.0, 1.0), strict=True)
        value = [np.full(len(entries), sign) for entries, sign in signs]
        return np.concatenate(row), np.concatenate(column), np.concatenate(value)

    def demands(self) -> FloatArray:
        """Return the right-hand side: the demand of each rank at the end."""
        demands = np.zeros((self.ranks, self.slots + 1))
        for goal in self.root.goals:
            demands[goal.rank, self.slots] += goal.amount
        return demands.ravel()

    def cheapest(self, prices: FloatArray) -> FloatArray:
        """Return the cost of the cheapest path to each rank.

        Args:
            prices: Price of a send, shape (links, slots).
        """
        cost = np.full((self.ranks, self.slots + 1), inf)
        cost[self.holders, 0] = 0.0
        price = prices[self.link, self.slot]
        order = np.argsort(self.slot, kind="stable")
        first = np.searchsorted(self.slot[order], np.arange(self.slots + 1))
        for j in range(self.slots):
            slot_arcs = order[first[j] : first[j + 1]]
            source, goal = self.edges[self.link[slot_arcs], 0], self.edges[self.link[slot_arcs], 1]
            arrivals = self.arrival[slot_arcs]
            while True:  # repeat within a slot until no cost decreases
                before = cost[:, j].copy()
                np.minimum.at(cost, (goal, arrivals), cost[source, j] + price[slot_arcs])
                if np.array_equal(before, cost[:, j]):
                    break
            cost[:, j + 1] = np.minimum(cost[:, j + 1], cost[:, j])
        return cost[:, self.slots]

    def paths(self, values: FloatArray) -> Iterator[tuple[_FlowGoal, SlotTree, float]]:
        """Yield paths of the flow: the destination, the links and slots, and the amount.

        Args:
            values: Value of each column.
        """
        left = values.copy()
        into: dict[tuple[int, int], list[tuple[int, tuple[int, int]]]] = {}
        for i in np.flatnonzero(left > _MIN_FLOW).tolist():
            source, target = self._column_ends(i)
            into.setdefault(target, []).append((i, source))
        for goal in self.root.goals:
            wanted = goal.amount
            while wanted > _MIN_FLOW * max(1.0, goal.amount):
                path = self._trace_back(goal.rank, into, left)
                if path is None:
                    break
                amount = min(wanted, *(left[i] for i in path))
                left[path] -= amount
                wanted -= amount
                tree = frozenset(
                    (int(self.link[i]), int(self.slot[i])) for i in path if i < self.flows
                )
                yield goal, tree, float(amount)

    def _column_ends(self, column: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the (rank, slot) that a column leaves and the one it enters. (-1, 0): a start."""
        if column < self.flows:
            source, goal = self.edges[self.link[column]].tolist()
            return (source, int(self.slot[column])), (goal, int(self.arrival[column]))
        column -= self.flows
        if column < self.ranks * self.slots:
            rank, slot = divmod(column, self.slots)
            return (rank, slot), (rank, slot + 1)
        return (-1, 0), (int(self.holders[column - self.ranks * self.slots]), 0)

    def _trace_back(
        self,
        rank: int,
        into: dict[tuple[int, int], list[tuple[int, tuple[int, int]]]],
        left: FloatArray,
    ) -> list[int] | None:
        """Return the columns of a path with flow, back from a rank. None: no flow is left.

        The path follows the largest flows. Cycles within a slot, which cost the program nothing,
        are removed from the flow.
        """
        path: list[int] = []
        at, positions = (rank, self.slots), {(rank, self.slots): 0}
        while at[0] >= 0:
            i, at = max(
                into.get(at, ()), key=lambda entry: (left[entry[0]], -entry[0]), default=(-1, at)
            )
            if i < 0 or left[i] <= _MIN_FLOW / 4:
                return None
            path.append(i)
            if at in positions:
                left[path[positions[at] :]] -= min(left[j] for j in path[positions[at] :])
                path, at, positions = [], (rank, self.slots), {(rank, self.slots): 0}
            else:
                positions[at] = len(path)
        return path


class FlowProgram:
    """The linear program of a problem without copies, for slots of any kind."""

    def __init__(self, problem: FlowProblem) -> None:
        self.problem = problem
        self.counts = np.array([r.count for r in problem.resources], dtype=np.float64)
        uses = [
            (link, i, times / (r.count * float(r.rate)))
            for i, r in enumerate(problem.resources)
            for link, times in r.links
        ]
        uses.sort()
        self.resource_of_use = np.array([i for _, i, _ in uses], dtype=np.int64)
        self.use_counts = np.array([took for *_, took in uses])
        links = np.arange(len(problem.edges) + 1)
        self.first = np.searchsorted(np.array([link for link, *_ in uses], np.int64), links)
        self.unit = float(max(c.size for c in problem.commodities))
        self.roots = _build_roots(problem, self.unit)
        self._images = RouteImages(problem)

    def columns(self, slots: int) -> int:
        """Return the approximate number of columns for a number of slots."""
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
            slots: The slots.
            unit: Approximate time of the whole phase, microseconds.
            effort: Approximate time limit in seconds, counted by the solver's deterministic work.
            seconds: Time limit in seconds of wall time.
            solver: Solver instead of GLOP. Other solvers give no prices.

        Raises:
            SolverError: The solver cannot be used.
            KeyboardInterrupt: The user interrupted.
        """
        arcs = [_RootArcs(self.problem, slots, root) for root in self.roots]
        program = self._program(slots, unit, arcs)
        result = solve_sparse(program, effort, seconds, solver)
        if result.status is not SparseStatus.OPTIMAL:
            return None, result
        variables, rooms = slots.grows.shape[1], len(slots.fixed)
        z = result.values[:variables] * unit
        windows = np.maximum(0.0, result.duals[: len(slots.row_minima)])
        y = result.duals[len(slots.row_minima) :][: len(self.counts) * rooms]
        prices = np.maximum(0.0, -y).reshape(len(self.counts), rooms) / self.counts[:, None]
        shares, column = [], variables
        for root_arcs in arcs:
            values = result.values[column : column + root_arcs.columns]
            column += root_arcs.columns
            for goal, tree, amount in root_arcs.paths(values):
                back = self._images.preimages(goal.image)
                mapped_tree = frozenset((back[link], slot) for link, slot in tree)
                shares.append(TreePart(goal.commodity, mapped_tree, amount / goal.amount))
        lower_bound = self._lower_bound(slots, unit, arcs, prices, windows)
        us = float(z.sum())
        return TimedPacking(
            slots,
            us,
            min(lower_bound, us),
            tuple(shares),
            slots.lengths(z),
            is_complete=True,
            prices=prices,
        ), result

    def _program(self, slots: TimeSlots, unit: float, arcs: list[_RootArcs]) -> SparseProgram:
        variables, rooms, resources = slots.grows.shape[1], len(slots.fixed), len(self.counts)
        windows, where = np.nonzero(slots.rows)
        grown, by = np.nonzero(slots.grows)
        resource_indices = np.arange(resources)[:, None]
        row: list[NDArray[np.int64]] = [
            windows,
            (len(slots.row_minima) + resource_indices * rooms + grown[None, :]).ravel(),
        ]
        column: list[NDArray[np.int64]] = [where, np.tile(by, resources)]
        value: list[FloatArray] = [
            slots.rows[windows, where],
            np.tile(-slots.grows[grown, by], resources),
        ]
        lower = [slots.row_minima / unit, np.full(resources * rooms, -inf)]
        upper = [np.full(len(slots.row_minima), inf), np.tile(slots.fixed / unit, resources)]
        cost = [np.ones(variables)]
        at, next_row = variables, len(slots.row_minima) + resources * rooms
        asked = float(sum(root_arcs.demands().sum() for root_arcs in arcs))
        for root_arcs in arcs:
            which = slots.room[root_arcs.slot]
            many = np.diff(self.first)[root_arcs.link]
            flow = np.repeat(np.arange(root_arcs.flows), many)
            use = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            use += np.repeat(self.first[root_arcs.link], many)
            row.append(len(slots.row_minima) + self.resource_of_use[use] * rooms + which[flow])
            column.append(at + flow)
            value.append(self.use_counts[use] * (root_arcs.root.members * self.unit / unit))
            inside, across, sign = root_arcs.conservation_rows()
            row.append(next_row + inside)
            column.append(at + across)
            value.append(sign)
            asks = root_arcs.demands()
            lower.append(asks)
            upper.append(asks)
            prices = np.zeros(root_arcs.columns)
            prices[: root_arcs.flows] = TOLERANCE / asked if variables else 1.0
            cost.append(prices)
            at, next_row = at + root_arcs.columns, next_row + root_arcs.rows
        summed = _sum_duplicates(
            np.concatenate(row), np.concatenate(column), np.concatenate(value), at
        )
        return SparseProgram(
            np.concatenate(cost), np.concatenate(lower), np.concatenate(upper), *summed
        )

    def _lower_bound(
        self,
        slots: TimeSlots,
        unit: float,
        arcs: list[_RootArcs],
        prices: FloatArray,
        windows: FloatArray,
    ) -> float:
        """Return a lower bound for flows in these slots from dual prices, microseconds."""
        of_link = np.zeros((len(self.problem.edges), len(slots.fixed)))
        link = np.repeat(np.arange(len(self.problem.edges)), np.diff(self.first))
        np.add.at(
            of_link,
            link,
            (self.use_counts * self.counts[self.resource_of_use])[:, None]
            * prices[self.resource_of_use],
        )
        of_slot = of_link[:, slots.room]
        cost: float = 0.0
        for root_arcs in arcs:
            far = root_arcs.cheapest(of_slot)
            each = sum(goal.amount * float(far[goal.rank]) for goal in root_arcs.root.goals)
            cost += root_arcs.root.members * self.unit * each
        bought = self.counts @ prices
        lower_bound = cost / unit + float(windows @ slots.row_minima - bought @ slots.fixed) / unit
        if not len(slots.rows) and slots.grows.shape[1] == 1:
            # a time T buys bought @ (fixed + grows T), which is at least the cost of all paths
            buys = float(bought @ slots.grows[:, 0])
            lower_bound = lower_bound / buys if buys > 0 else 0.0
        return lower_bound * unit


def _sum_duplicates(
    row: IntArray, column: IntArray, value: FloatArray, width: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Add up the coefficients of each row and column, and drop zeros."""
    key, place = np.unique(row * width + column, return_inverse=True)
    total = np.zeros(len(key))
    np.add.at(total, place, value)
    kept = total != 0
    return (key // width)[kept], (key % width)[kept], total[kept]


def _build_roots(problem: FlowProblem, unit: float) -> tuple[_FlowRoot, ...]:
    """Return the roots of all flows: one root of each orbit, with its destinations."""
    goals: dict[frozenset[int], list[_FlowGoal]] = {}
    members: dict[frozenset[int], int] = {}
    for c, commodity in enumerate(problem.commodities):
        seen = {frozenset(map(int, held)): (held, want, g) for (held, want), g in commodity.members}
        first = next((holders for holders in seen if holders in goals), commodity.holders)
        held, want, image = seen[first]
        (rank,) = want - held
        goals.setdefault(first, []).append(
            _FlowGoal(c, int(rank), float(commodity.size) / unit, image)
        )
        members[first] = len(commodity.members)
    return tuple(_FlowRoot(origin, members[origin], tuple(its)) for origin, its in goals.items())


def _earliest_slots(
    edges: IntArray, arrive: IntArray, ranks: int, holders: frozenset[int]
) -> IntArray:
    """Return the first slot in which data can leave each rank."""
    slots = arrive.shape[1]
    soonest = np.full(ranks, slots, dtype=np.int64)
    soonest[sorted(holders)] = 0
    links = np.arange(len(edges))
    while True:
        before = soonest.copy()
        at = soonest[edges[:, 0]]
        arrivals = arrive[links, np.minimum(at, slots - 1)]
        fine = (at < slots) & (arrivals >= 0)
        np.minimum.at(soonest, edges[fine, 1], arrivals[fine])
        if np.array_equal(before, soonest):
            return soonest
