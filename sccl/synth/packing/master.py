"""The master problem: which trees, and how often. An LP that grows by columns.

Floats come out of the LP solver; :func:`exact_solution` repeats its last basis in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from sccl.solvers import lp
from sccl.solvers.lp import BasisStatus
from sccl.synth.packing.price_branching import ELEMENT_EFFORT
from sccl.synth.packing.problem import LinkStep, PackingProblem, StepTree


@dataclass(frozen=True, slots=True)
class Column:
    """A timed tree of a commodity; ``loads`` as :meth:`Problem.loads` counts them."""

    commodity: int
    tree: StepTree
    loads: dict[LinkStep, int]


class Master:
    """The LP over the columns so far."""

    def __init__(self, problem: PackingProblem) -> None:
        self.problem, self.spent = problem, 0.0
        self.columns: list[Column] = []
        self.column_keys: set[tuple[int, StepTree]] = set()
        self.model = lp.Model()
        self.round_variables = [self.model.add_variable(lb=0.0) for _ in problem.round_spreads]
        self.model.minimize(lp.fast_sum(self.round_variables))
        self.shares: list[lp.Variable] = []
        self.convexity_rows = [
            self.model.add_linear_constraint(lb=1.0, ub=1.0) for _ in problem.commodities
        ]
        self.rows: dict[LinkStep, lp.LinearConstraint] = {}
        for i, resource in enumerate(problem.resources):
            for step in range(problem.steps):
                row = self.model.add_linear_constraint(ub=0.0)
                for spread, times in zip(problem.round_spreads, self.round_variables, strict=True):
                    if spread[step]:
                        room = float(resource.chunks_per_round * spread[step])
                        row.set_coefficient(times, -room)
                self.rows[i, step] = row
        self.program = lp.IncrementalProgram(self.model)

    def add(self, commodity: int, tree: StepTree) -> bool:
        """Add a tree as a column; return False if it is there already."""
        if (commodity, tree) in self.column_keys:
            return False
        self.column_keys.add((commodity, tree))
        loads = self.problem.loads(tree)
        column = Column(commodity, tree, loads)
        variable = self.model.add_variable(lb=0.0)
        self.convexity_rows[commodity].set_coefficient(variable, 1.0)
        for use, times in loads.items():
            self.rows[use].set_coefficient(variable, float(self.load(column, use[0], times)))
        self.columns.append(column)
        self.shares.append(variable)
        return True

    def load(self, column: Column, resource: int, times: int) -> Fraction:
        """Return the load of one constraint of a resource, per C, if the column is used wholly."""
        chunks = self.problem.commodities[column.commodity].chunks
        return chunks * times / len(self.problem.resources[resource].keys)

    def solve(self) -> MasterSolution:
        """Return an optimal basic solution of the LP over the columns so far.

        Raises:
            SolverError: no LP solver finds one.
        """
        result = self.program.solve()
        pivots = result.solve_stats.simplex_iterations
        self.spent += ELEMENT_EFFORT * pivots * (len(self.rows) + len(self.columns))
        duals = result.dual_values()
        prices = np.zeros((len(self.problem.resources), self.problem.steps))
        for (i, step), row in self.rows.items():
            names = len(self.problem.resources[i].keys)
            prices[i, step] = max(0.0, -duals[row]) / names
        return MasterSolution(result, prices)


@dataclass(frozen=True, slots=True)
class MasterSolution:
    """The result of the LP solver.

    Attributes:
        prices: shape (resources, steps): the price of one of a resource's constraints in a step.
    """

    result: lp.SolveResult
    prices: NDArray[np.float64]

    @property
    def value(self) -> float:
        """Return the objective: R/C."""
        return float(self.result.objective_value())


_DENOMINATOR = 10**6
"""Largest denominator of a share that is rounded from floating point."""


@dataclass(frozen=True, slots=True)
class ExactSolution:
    """A packing and prices, exact.

    Attributes:
        value: R/C of the packing.
        parts: by column of the LP.
        prices: by resource and step, of one of its constraints; together at most 1 in each step.
    """

    value: Fraction
    parts: tuple[Fraction, ...]
    prices: tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class _Basis:
    """A basis: the square system that the solution solves.

    Attributes:
        columns: basic columns of the LP, by number.
        spreads: the spreads of rounds that are basic, by number.
        commodities: commodities whose row is tight.
        uses: (resource, step) whose row is tight.
    """

    columns: list[int]
    spreads: list[int]
    commodities: list[int]
    uses: list[LinkStep]

    @property
    def size(self) -> int:
        """Return how many rows and columns it has."""
        return len(self.columns) + len(self.spreads)


def exact_solution(master: Master, solution: MasterSolution) -> ExactSolution | None:
    """Return the basic solution and its prices as fractions; None if the basis is none exactly."""
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
    prices = [[Fraction(0)] * master.problem.steps for _ in resources]
    for row, (i, step) in enumerate(basis.uses, start=len(basis.commodities)):
        prices[i][step] = -_to_fraction(dual[row, 0]) / len(resources[i].keys)
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
        Fraction(max(values.get(share, 0.0), 0.0)).limit_denominator(_DENOMINATOR)
        for share in master.shares
    ]
    totals = [Fraction(0)] * len(master.problem.commodities)
    for column, part in zip(master.columns, parts, strict=True):
        totals[column.commodity] += part
    parts = [
        part / totals[column.commodity] for column, part in zip(master.columns, parts, strict=True)
    ]
    return _packing_value(master, parts), tuple(parts)


def _is_feasible(master: Master, parts: list[Fraction], prices: list[list[Fraction]]) -> bool:
    """Return whether the parts of each commodity add up to 1, and prices buy at most 1.

    A basis whose rows of that kind do not bind would not see to it.
    """
    problem = master.problem
    totals = [Fraction(0)] * len(problem.commodities)
    for column, part in zip(master.columns, parts, strict=True):
        totals[column.commodity] += part
    capacity = [len(r.keys) * r.chunks_per_round for r in problem.resources]
    bought = [
        sum((row[s] * n for row, n in zip(prices, capacity, strict=True)), Fraction(0))
        for s in range(problem.steps)
    ]
    spent = (
        sum(b * n for b, n in zip(bought, spread, strict=True)) for spread in problem.round_spreads
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
        # columns that came after the solution, before time ran out, are not in its basis
        [j for j, x in enumerate(master.shares) if variables.get(x) == basic],
        [s for s, x in enumerate(master.round_variables) if variables[x] == basic],
        [k for k, row in enumerate(master.convexity_rows) if rows[row] != basic],
        [use for use, row in master.rows.items() if rows[row] != basic],
    )
    return basis if basis.size == len(basis.commodities) + len(basis.uses) else None


def _basis_matrix(master: Master, basis: _Basis) -> fmpq_mat:
    """Return the rows that bind, by basic variables."""
    matrix = fmpq_mat(basis.size, basis.size)
    row_of_whole = {k: i for i, k in enumerate(basis.commodities)}
    row_of_use = {use: i for i, use in enumerate(basis.uses, start=len(basis.commodities))}
    for j, index in enumerate(basis.columns):
        column = master.columns[index]
        if column.commodity in row_of_whole:
            matrix[row_of_whole[column.commodity], j] = fmpq(1)
        for use, times in column.loads.items():
            if use in row_of_use:
                load = master.load(column, use[0], times)
                matrix[row_of_use[use], j] = fmpq(load.numerator, load.denominator)
    for j, number in enumerate(basis.spreads, start=len(basis.columns)):
        spread = master.problem.round_spreads[number]
        for (i, step), row in row_of_use.items():
            room = master.problem.resources[i].chunks_per_round * spread[step]
            matrix[row, j] = fmpq(-room)
    return matrix


def _packing_value(master: Master, parts: list[Fraction]) -> Fraction:
    """Return the value of a packing: the sum over steps of its maximum load."""
    problem = master.problem
    load: dict[tuple[int, int], Fraction] = {}
    for column, part in zip(master.columns, parts, strict=True):
        if part:
            for use, times in column.loads.items():
                more = part * master.load(column, use[0], times)
                load[use] = load.get(use, Fraction(0)) + more
    rounds = [Fraction(0)] * problem.steps
    for (i, step), carried in load.items():
        rounds[step] = max(rounds[step], carried / problem.resources[i].chunks_per_round)
    if problem.rounds is None:
        return sum(rounds, Fraction(0))
    return max(used / have for used, have in zip(rounds, problem.rounds, strict=True))


def _to_fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))
