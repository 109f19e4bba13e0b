"""The master problem: which trees, and how often. An LP that grows by columns.

Floats come out of the LP solver; :func:`exact_solution` repeats its last basis in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sccl.solvers import lp
from sccl.synth.packing.by_steps.packing_problem import LinkStep, PackingProblem, StepTree
from sccl.synth.packing.by_steps.pricing.time_windows import ELEMENT_EFFORT


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
