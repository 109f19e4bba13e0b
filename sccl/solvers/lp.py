"""Solve linear programs with OR-Tools MathOpt, and convert floating-point duals to fractions.

GLOP is limited by deterministic time and runs in one thread, so prices are the same on every
machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from fractions import Fraction
from functools import partial
from math import inf

import numpy as np
from ortools.math_opt.model_pb2 import ModelProto
from ortools.math_opt.python import mathopt
from ortools.math_opt.python.mathopt import (
    BasisStatus,
    LinearConstraint,
    Model,
    SolveResult,
    Variable,
    fast_sum,
)
from ortools.util.python.solve_interrupter import SolveInterrupter

from sccl.core.arrays import FloatArray, IntArray
from sccl.errors import SolverError
from sccl.solvers.effort import Effort, run_interruptible

__all__ = [
    "BasisStatus",
    "IncrementalProgram",
    "LinearConstraint",
    "Model",
    "SolveResult",
    "SparseProgram",
    "SparseResult",
    "SparseStatus",
    "Variable",
    "fast_sum",
    "solve",
    "solve_sparse",
    "to_fraction",
]

_DENOMINATOR = 720_720  # divisible by 1..16, so the duals of small machines are exact
_MAX_EFFORT = 10.0
"""Limit on GLOP's deterministic time, in units of about a second."""


def solve(model: Model) -> SolveResult | None:
    """Return the optimal solution, or None if GLOP does not find it within its budget.

    Raises:
        KeyboardInterrupt: The user interrupted, and GLOP has stopped.
    """
    parameters = mathopt.SolveParameters(threads=1)
    parameters.glop.max_deterministic_time = _MAX_EFFORT
    ctrl_c = SolveInterrupter()
    work = partial(
        mathopt.solve, model, mathopt.SolverType.GLOP, params=parameters, interrupter=ctrl_c
    )
    result = run_interruptible(work, ctrl_c.interrupt)
    optimal = result.termination.reason is mathopt.TerminationReason.OPTIMAL
    return result if optimal else None


class IncrementalProgram:
    """A linear program that is solved repeatedly while it grows, each time from its last basis."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._solver = mathopt.IncrementalSolver(model, mathopt.SolverType.GLOP)

    def solve(self) -> SolveResult:
        """Return the optimum, by GLOP from the last basis, else from scratch, else by HiGHS.

        GLOP sometimes ends abnormally, and MathOpt reports that in several ways.

        Raises:
            SolverError: None of these attempts succeeds.
            KeyboardInterrupt: The user interrupted, and GLOP has stopped.
        """
        failure = "no reason given"
        ctrl_c = SolveInterrupter()
        glop, highs = mathopt.SolverType.GLOP, mathopt.SolverType.HIGHS
        for attempt, stop in (
            (partial(self._solver.solve, interrupter=ctrl_c), ctrl_c.interrupt),
            (partial(mathopt.solve, self.model, glop, interrupter=ctrl_c), ctrl_c.interrupt),
            (partial(mathopt.solve, self.model, highs), None),  # HiGHS ignores interrupts
        ):
            try:
                result = run_interruptible(attempt, stop)
            except Exception as error:  # noqa: BLE001 - on any failure the next solver is tried
                failure = f"{type(error).__name__}: {error}"
                continue
            if result.termination.reason is mathopt.TerminationReason.OPTIMAL and result.solutions:
                return result
            failure = str(result.termination.reason)
        raise SolverError(f"no solver finds the optimum of a linear program ({failure})")


def to_fraction(value: float) -> Fraction:
    """Return a dual value, rounded to a non-negative fraction. Proofs check fractions exactly."""
    return max(Fraction(0), Fraction(round(value * _DENOMINATOR), _DENOMINATOR))


@dataclass(frozen=True, slots=True, eq=False)
class SparseProgram:
    """The linear program: minimize ``cost @ x`` subject to ``lower <= A @ x <= upper``, ``x >= 0``.

    The nonzero coefficients of A are listed in any order, each once.

    Attributes:
        cost: objective coefficients, shape (columns,).
        lower: lower limits of rows, shape (rows,).
        upper: upper limits of rows, shape (rows,).
        row: row of each coefficient, shape (coefficients,).
        column: column of each coefficient, shape (coefficients,).
        value: value of each coefficient, shape (coefficients,).
    """

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    row: IntArray
    column: IntArray
    value: FloatArray

    def to_model(self) -> Model:
        """Return the program as a MathOpt model."""
        proto, columns, rows = ModelProto(), len(self.cost), len(self.lower)
        order = np.lexsort((self.column, self.row))
        proto.variables.ids.extend(range(columns))
        proto.variables.lower_bounds.extend([0.0] * columns)
        proto.variables.upper_bounds.extend([inf] * columns)
        proto.variables.integers.extend([False] * columns)
        costly = np.flatnonzero(self.cost)
        proto.objective.linear_coefficients.ids.extend(costly.tolist())
        proto.objective.linear_coefficients.values.extend(self.cost[costly].tolist())
        proto.linear_constraints.ids.extend(range(rows))
        proto.linear_constraints.lower_bounds.extend(self.lower.tolist())
        proto.linear_constraints.upper_bounds.extend(self.upper.tolist())
        matrix = proto.linear_constraint_matrix
        matrix.row_ids.extend(self.row[order].tolist())
        matrix.column_ids.extend(self.column[order].tolist())
        matrix.coefficients.extend(self.value[order].tolist())
        return Model.from_model_proto(proto)


class SparseStatus(Enum):
    """The termination status of a sparse program."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class SparseResult:
    """The result of a sparse program.

    Attributes:
        status: termination status.
        values: values of the columns, empty unless the status is optimal.
        duals: duals of the rows, empty unless the status is optimal.
        pivots: number of simplex pivots.
    """

    status: SparseStatus
    values: FloatArray
    duals: FloatArray
    pivots: int


def solve_sparse(
    program: SparseProgram, effort: float, seconds: float = inf, solver: str = "auto"
) -> SparseResult:
    """Solve a sparse program with GLOP's dual simplex, or with another solver.

    Args:
        program: Linear program.
        effort: Limit on deterministic time, in units of about a second.
        seconds: Time limit in seconds.
        solver: ``auto``, ``glop`` or ``cp-sat``: GLOP. A name of
            :class:`sccl.solvers.milp.Engine`: that solver, in a child process. It returns zeros
            instead of duals.

    Raises:
        SolverError: The solver is not available.
        KeyboardInterrupt: The user interrupted, and GLOP has stopped.
    """
    if solver not in {"auto", "glop", "cp-sat"}:  # CP-SAT solves no linear programs
        return _solve_with_engine(program, solver, effort, seconds)
    parameters = mathopt.SolveParameters(
        threads=1,
        lp_algorithm=mathopt.LPAlgorithm.DUAL_SIMPLEX,
        time_limit=None if seconds == inf else timedelta(seconds=max(seconds, 0.0)),
    )
    parameters.glop.max_deterministic_time = effort
    model, ctrl_c = program.to_model(), SolveInterrupter()
    work = partial(
        mathopt.solve, model, mathopt.SolverType.GLOP, params=parameters, interrupter=ctrl_c
    )
    result = run_interruptible(work, ctrl_c.interrupt)
    pivots, empty = result.solve_stats.simplex_iterations, np.zeros(0)
    reason = result.termination.reason
    if reason is mathopt.TerminationReason.OPTIMAL and result.solutions:
        values = np.array(result.variable_values(list(model.variables())))
        duals = np.array(result.dual_values(list(model.linear_constraints())))
        return SparseResult(SparseStatus.OPTIMAL, values, duals, pivots)
    infeasible = reason is mathopt.TerminationReason.INFEASIBLE
    return SparseResult(
        SparseStatus.INFEASIBLE if infeasible else SparseStatus.UNKNOWN, empty, empty, pivots
    )


def _solve_with_engine(
    program: SparseProgram, solver: str, effort: float, seconds: float
) -> SparseResult:
    from sccl.solvers import milp  # noqa: PLC0415 - GLOP needs no other solver

    timeout = None if seconds == inf else max(seconds, 1e-3)
    result = milp.solve(
        program.to_model(), Effort(timeout, units=effort), engine=milp.Engine(solver)
    )
    rows, columns = len(program.lower), len(program.cost)
    if result.has_solution and result.is_optimal:
        values = np.array([result.value_by_index(i) for i in range(columns)])
        return SparseResult(SparseStatus.OPTIMAL, values, np.zeros(rows), 0)
    end = SparseStatus.INFEASIBLE if result.is_infeasible else SparseStatus.UNKNOWN
    return SparseResult(end, np.zeros(0), np.zeros(0), 0)
