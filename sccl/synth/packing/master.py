"""The restricted master LP: shares of the known trees, and lengths of slots.

The LP solver returns floats. :func:`exact_solution` solves its last basis in fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

import numpy as np
from flint import fmpq, fmpq_mat

from sccl.core.arrays import FloatArray
from sccl.solvers import lp
from sccl.solvers.lp import BasisStatus
from sccl.synth.limits import ELEMENT_EFFORT, TOLERANCE
from sccl.synth.packing.flow_problem import FlowResource, SlotTree
from sccl.synth.packing.price_sets import TreeProblem
from sccl.synth.packing.problem import Resource
from sccl.synth.packing.slots import TimeSlots

SMOOTHING = 0.6
"""Weight of the best prices so far (Wentges 1997), which keeps prices from oscillating. With 0.7
the allgather on ``z52-pcie`` with S = 6 loses an optimal algorithm."""

_MISSING_COST = 1000.0
"""Cost of a commodity without a tree, in multiples of the time, so that no optimal packing has
one."""

RoomUse = tuple[int, int]
"""A resource and a room of slots, by number."""


@dataclass(frozen=True, slots=True)
class Column:
    """A timed tree of a commodity.

    Attributes:
        commodity: Number of the commodity.
        tree: The tree.
        variable: Share of the commodity that the tree carries.
        loads: Number of uses of each (resource, room).
    """

    commodity: int
    tree: SlotTree
    variable: lp.Variable
    loads: dict[RoomUse, int]


@dataclass(frozen=True, slots=True)
class MasterSolution:
    """The result of the LP solver.

    Attributes:
        result: Result of the solver.
        prices: Price of a unit of time on one member of a resource, shape (resources, rooms).
        windows: Prices of the rows of the slots.
    """

    result: lp.SolveResult
    prices: FloatArray
    windows: FloatArray

    @property
    def value(self) -> float:
        """Return the objective: the completion time, in units."""
        return float(self.result.objective_value())


class Master:
    """The linear program over the trees so far. Its unit is about the completion time.

    ::

        minimize sum(z) subject to
            sum of parts of trees of a commodity = 1
            slots.rows @ z >= slots.row_minima
            sum of part * load <= slots.fixed + slots.grows @ z   for each resource and room

    Args:
        problem: The problem.
        slots: The slots.
        unit: Unit of times, microseconds.
        has_missing: Whether a commodity may be left out, at a high cost.
        round_effort: Effort for each row and column of a solution, in addition to its pivots.
    """

    def __init__(
        self,
        problem: TreeProblem,
        slots: TimeSlots,
        unit: float = 1.0,
        *,
        has_missing: bool = False,
        round_effort: float = 0.0,
    ) -> None:
        self.problem, self.slots, self.unit = problem, slots, unit
        self.round_effort, self.spent = round_effort, 0.0
        self.counts = np.array([r.count for r in problem.resources], dtype=np.float64)
        self.fixed = slots.fixed / unit
        self.min_windows = slots.row_minima / unit
        self.model = model = lp.Model()
        self.z = [model.add_variable(lb=0.0) for _ in range(slots.grows.shape[1])]
        served = problem.commodities if has_missing else ()
        self.missing = [model.add_variable(lb=0.0) for _ in served]
        model.minimize(lp.fast_sum([*self.z, *(_MISSING_COST * x for x in self.missing)]))
        self.windows = []
        for row, lower_bound in zip(slots.rows, self.min_windows, strict=True):
            window = model.add_linear_constraint(lb=float(lower_bound))
            for j in np.flatnonzero(row):
                window.set_coefficient(self.z[j], float(row[j]))
            self.windows.append(window)
        self.convexity_rows = [
            model.add_linear_constraint(lb=1.0, ub=1.0) for _ in problem.commodities
        ]
        for missing, row in zip(self.missing, self.convexity_rows, strict=False):
            row.set_coefficient(missing, 1.0)
        self.rooms: dict[RoomUse, lp.LinearConstraint] = {}
        for i in range(len(problem.resources)):
            for k in range(len(self.fixed)):
                room = model.add_linear_constraint(ub=float(self.fixed[k]))
                for j in np.flatnonzero(slots.grows[k]):
                    room.set_coefficient(self.z[j], -float(slots.grows[k, j]))
                self.rooms[i, k] = room
        self._uses: list[list[tuple[int, int]]] = [[] for _ in problem.edges]
        resources: Sequence[FlowResource | Resource] = problem.resources
        for i, resource in enumerate(resources):
            for link, times in resource.links:
                self._uses[link].append((i, times))
        self.columns: list[Column] = []
        self._keys: set[tuple[int, SlotTree]] = set()
        self._holds: list[tuple[int, list[int], list[float]]] = []
        self._program = lp.IncrementalProgram(model)

    @property
    def trees(self) -> tuple[tuple[int, SlotTree], ...]:
        """Return the trees so far, each with its commodity."""
        return tuple((column.commodity, column.tree) for column in self.columns)

    def add(self, commodity: int, tree: SlotTree) -> bool:
        """Add a tree. Return False if the program already has it."""
        if (commodity, tree) in self._keys:
            return False
        self._keys.add((commodity, tree))
        variable = self.model.add_variable(lb=0.0)
        self.convexity_rows[commodity].set_coefficient(variable, 1.0)
        loads: dict[RoomUse, int] = {}
        rooms = self.slots.room.tolist()
        for link, slot in sorted(tree):
            for i, times in self._uses[link]:
                loads[i, rooms[slot]] = loads.get((i, rooms[slot]), 0) + times
        amount = float(self.problem.commodities[commodity].amount) / self.unit
        rows, holds = [], []
        for (i, room), times in loads.items():
            resource = self.problem.resources[i]
            hold = times / float(resource.rate)
            self.rooms[i, room].set_coefficient(variable, amount * hold / resource.count)
            rows.append(i * len(self.fixed) + room)
            holds.append(hold)
        self.columns.append(Column(commodity, tree, variable, loads))
        self._holds.append((commodity, rows, holds))
        return True

    def cheapest(self, prices: FloatArray) -> FloatArray:
        """Return the cost per unit of the cheapest known tree of each commodity."""
        costs = np.full(len(self.problem.commodities), np.inf)
        if self._holds:
            commodities, rows, holds = zip(*self._holds, strict=True)
            first = np.cumsum([0, *map(len, rows[:-1])])
            each = prices.ravel()[list(chain(*rows))] * list(chain(*holds))
            np.minimum.at(costs, list(commodities), np.add.reduceat(each, first))
        return costs

    def load(self, column: Column, use: RoomUse) -> Fraction:
        """Return the time for which a column of share 1 occupies a member of a resource."""
        resource = self.problem.resources[use[0]]
        amount = self.problem.commodities[column.commodity].amount
        return amount * column.loads[use] / (resource.rate * resource.count)

    def solve(self) -> MasterSolution:
        """Return an optimal basic solution of the LP over the columns so far.

        Raises:
            SolverError: No LP solver finds one.
        """
        result = self._program.solve()
        pivots = result.solve_stats.simplex_iterations
        effort = ELEMENT_EFFORT * pivots + self.round_effort
        self.spent += effort * (len(self.rooms) + len(self.columns))
        duals = result.dual_values()
        prices = np.zeros((len(self.problem.resources), len(self.fixed)))
        for (i, k), row in self.rooms.items():
            prices[i, k] = max(0.0, -duals[row]) / self.counts[i]
        return MasterSolution(result, prices, np.array([max(0.0, duals[w]) for w in self.windows]))


@dataclass(frozen=True, slots=True)
class ExactSolution:
    """A packing and its prices as fractions.

    Attributes:
        value: R/C of the packing.
        parts: Share of each column of the LP.
        prices: Price of one unit of data on a member of a resource, by resource and room.
    """

    value: Fraction
    parts: tuple[Fraction, ...]
    prices: tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class _Basis:
    """A basis: the square system that the solution solves.

    Attributes:
        columns: Numbers of the basic columns.
        lengths: Numbers of the basic variables of slot lengths.
        commodities: Commodities whose row is tight.
        uses: (resource, room) pairs whose row is tight.
    """

    columns: list[int]
    lengths: list[int]
    commodities: list[int]
    uses: list[RoomUse]

    @property
    def size(self) -> int:
        """Return the number of its rows, which is also the number of its columns."""
        return len(self.columns) + len(self.lengths)


def exact_solution(master: Master, solution: MasterSolution) -> ExactSolution | None:
    """Return the basic solution and its prices as fractions. None: the basis is not exactly one.

    Args:
        master: LP whose slots have no fixed lengths and no rows, and grow by whole numbers.
        solution: Its solution.
    """
    basis = _read_basis(master, solution)
    if basis is None:
        return None
    right, costs = fmpq_mat(basis.size, 1), fmpq_mat(basis.size, 1)
    for i in range(len(basis.commodities)):
        right[i, 0] = fmpq(1)
    for j in range(len(basis.columns), basis.size):
        costs[j, 0] = fmpq(1)
    matrix = _basis_matrix(master, basis)
    try:
        primal, dual = matrix.solve(right), matrix.transpose().solve(costs)
    except ZeroDivisionError:
        return None
    parts = [Fraction(0)] * len(master.columns)
    for j, index in enumerate(basis.columns):
        parts[index] = _to_fraction(primal[j, 0])
    resources = master.problem.resources
    prices = [[Fraction(0)] * len(master.fixed) for _ in resources]
    for row, (i, room) in enumerate(basis.uses, start=len(basis.commodities)):
        per_member = -_to_fraction(dual[row, 0]) / resources[i].count
        prices[i][room] = per_member / resources[i].rate
    if min(parts) < 0 or any(p < 0 for row in prices for p in row):
        return None
    if not _is_feasible(master, parts, prices):
        return None
    return ExactSolution(
        _packing_value(master, parts), tuple(parts), tuple(tuple(row) for row in prices)
    )


def nearby_packing(
    master: Master, solution: MasterSolution
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return the value and the parts of an exact packing near a solution, for any basis."""
    values = solution.result.variable_values()
    parts = [
        Fraction(max(values.get(share, 0.0), 0.0)).limit_denominator(round(1 / TOLERANCE))
        for share in (column.variable for column in master.columns)
    ]
    totals = [Fraction(0)] * len(master.problem.commodities)
    for column, part in zip(master.columns, parts, strict=True):
        totals[column.commodity] += part
    parts = [
        part / totals[column.commodity] for column, part in zip(master.columns, parts, strict=True)
    ]
    return _packing_value(master, parts), tuple(parts)


def _is_feasible(master: Master, parts: list[Fraction], prices: list[list[Fraction]]) -> bool:
    """Return whether the shares of each commodity add up to 1, and prices buy at most 1.

    A basis does not ensure this if rows of these kinds are not tight.
    """
    totals = [Fraction(0)] * len(master.problem.commodities)
    for column, part in zip(master.columns, parts, strict=True):
        totals[column.commodity] += part
    capacity = [r.count * r.rate for r in master.problem.resources]
    bought = [
        sum((price * n for price, n in zip(column, capacity, strict=True)), Fraction(0))
        for column in zip(*prices, strict=True)
    ]
    spent = (
        sum(b * int(n) for b, n in zip(bought, grows, strict=True))
        for grows in master.slots.grows.T
    )
    return all(w == 1 for w in totals) and all(total <= 1 for total in spent)


def _read_basis(master: Master, solution: MasterSolution) -> _Basis | None:
    solver_basis = solution.result.solutions[0].basis
    if solver_basis is None:
        return None
    basic, variables, rows = (
        BasisStatus.BASIC,
        solver_basis.variable_status,
        solver_basis.constraint_status,
    )
    basis = _Basis(
        # columns that were added after the solution are not in its basis
        [j for j, x in enumerate(master.columns) if variables.get(x.variable) == basic],
        [j for j, x in enumerate(master.z) if variables[x] == basic],
        [k for k, row in enumerate(master.convexity_rows) if rows[row] != basic],
        [use for use, row in master.rooms.items() if rows[row] != basic],
    )
    return basis if basis.size == len(basis.commodities) + len(basis.uses) else None


def _basis_matrix(master: Master, basis: _Basis) -> fmpq_mat:
    """Return the coefficients of the basic variables in the tight rows."""
    matrix = fmpq_mat(basis.size, basis.size)
    row_of_whole = {k: i for i, k in enumerate(basis.commodities)}
    row_of_use = {use: i for i, use in enumerate(basis.uses, start=len(basis.commodities))}
    for j, index in enumerate(basis.columns):
        column = master.columns[index]
        if column.commodity in row_of_whole:
            matrix[row_of_whole[column.commodity], j] = fmpq(1)
        for use in column.loads:
            if use in row_of_use:
                load = master.load(column, use)
                matrix[row_of_use[use], j] = fmpq(load.numerator, load.denominator)
    for j, number in enumerate(basis.lengths, start=len(basis.columns)):
        for (_, room), row in row_of_use.items():
            matrix[row, j] = fmpq(-int(master.slots.grows[room, number]))
    return matrix


def _packing_value(master: Master, parts: list[Fraction]) -> Fraction:
    """Return the completion time of a packing if each room is as long as its loads require."""
    load: dict[RoomUse, Fraction] = {}
    for column, part in zip(master.columns, parts, strict=True):
        for use in column.loads if part else ():
            load[use] = load.get(use, Fraction(0)) + part * master.load(column, use)
    lengths = [Fraction(0)] * len(master.fixed)
    for (_, room), taken in load.items():
        lengths[room] = max(lengths[room], taken)
    return sum(
        (
            max(taken / int(n) for taken, n in zip(lengths, grows, strict=True) if n)
            for grows in master.slots.grows.T
        ),
        Fraction(0),
    )


def _to_fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))
