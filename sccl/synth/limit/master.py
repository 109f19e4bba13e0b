"""The master problem: which trees, and how often. An LP that grows by columns.

Floats come out of the LP solver; :func:`exact_solution` repeats its last basis in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sccl.solvers import lp
from sccl.synth.limit.problem import Problem, Tree, Use
from sccl.synth.limit.window import LANE


@dataclass(frozen=True, slots=True)
class Column:
    """A timed tree of a commodity; ``loads`` as :meth:`Problem.loads` counts them."""

    commodity: int
    tree: Tree
    loads: dict[Use, int]


class Master:
    """The LP over the columns so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.spent = problem, 0.0
        self.columns: list[Column] = []
        self.known: set[tuple[int, Tree]] = set()
        self.model = lp.Model()
        self.times = [self.model.add_variable(lb=0.0) for _ in problem.spreads]
        self.model.minimize(lp.fast_sum(self.times))
        self.shares: list[lp.Variable] = []
        self.whole = [self.model.add_linear_constraint(lb=1.0, ub=1.0) for _ in problem.commodities]
        self.rows: dict[Use, lp.LinearConstraint] = {}
        for i, resource in enumerate(problem.resources):
            for step in range(problem.steps):
                row = self.model.add_linear_constraint(ub=0.0)
                for spread, times in zip(problem.spreads, self.times, strict=True):
                    if spread[step]:
                        room = float(resource.chunks_per_round * spread[step])
                        row.set_coefficient(times, -room)
                self.rows[i, step] = row
        self.growing = lp.Growing(self.model)

    def add(self, commodity: int, tree: Tree) -> bool:
        """Add a tree as a column; return False if it is there already."""
        if (commodity, tree) in self.known:
            return False
        self.known.add((commodity, tree))
        loads = self.problem.loads(tree)
        column = Column(commodity, tree, loads)
        variable = self.model.add_variable(lb=0.0)
        self.whole[commodity].set_coefficient(variable, 1.0)
        for use, times in loads.items():
            self.rows[use].set_coefficient(variable, float(self.load(column, use[0], times)))
        self.columns.append(column)
        self.shares.append(variable)
        return True

    def load(self, column: Column, resource: int, times: int) -> Fraction:
        """Return the load of one constraint of a resource, per C, if the column is used wholly."""
        chunks = self.problem.commodities[column.commodity].chunks
        return chunks * times / len(self.problem.resources[resource].keys)

    def solve(self) -> Solution:
        """Return an optimal basic solution of the LP over the columns so far.

        Raises:
            SolverError: no LP solver finds one.
        """
        result = self.growing.optimum()
        pivots = result.solve_stats.simplex_iterations
        self.spent += LANE * pivots * (len(self.rows) + len(self.columns))
        duals = result.dual_values()
        prices = np.zeros((len(self.problem.resources), self.problem.steps))
        for (i, step), row in self.rows.items():
            names = len(self.problem.resources[i].keys)
            prices[i, step] = max(0.0, -duals[row]) / names
        return Solution(result, prices)


@dataclass(frozen=True, slots=True)
class Solution:
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
