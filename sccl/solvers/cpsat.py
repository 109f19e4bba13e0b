"""OR-Tools CP-SAT: the one place where its solver is made, so that its answers repeat.

Workers beyond one take turns (interleaved search), and deterministic time ends a search, so the
same model, effort and strategy give the same answer on any load. Seconds may only end it sooner,
without an answer. Ctrl-C is Python's: it ends the command, and CP-SAT is asked to stop.

What suits a model is its own to say: a :class:`Strategy`, with the instances that justify it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sccl.errors import SolverError
from sccl.solvers.effort import Effort
from sccl.solvers.interrupt import run_interruptible
from sccl.solvers.pandas_late import import_without_pandas

import_without_pandas("ortools.sat.python.cp_model")

from ortools.sat.python import cp_model  # noqa: E402 - see above
from ortools.sat.python.cp_model import (  # noqa: E402
    CpModel,
    IntervalVar,
    IntVar,
    LinearExpr,
)

_ROUNDED = 1e-6
"""By which a bound, which is told as a float, may be off."""

__all__ = ["CpModel", "IntVar", "IntervalVar", "LinearExpr", "Result", "Strategy", "solve"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How CP-SAT searches.

    Attributes:
        workers: that take turns.
        linear: its linearization_level, 0 to 2: how much LP. None: its own choice.
        presolved: whether presolve probes and looks for symmetries, as it does by itself.
        conflicts: that a unit of effort allows, too. Of models whose time goes into scheduling
            constraints deterministic time counts little: one of 1,900 intervals in 5 constraints
            took 0.6 of it in 20 s. None: any number.
    """

    workers: int = 1
    linear: int | None = None
    presolved: bool = True
    conflicts: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a search.

    Attributes:
        found: whether there is a solution to be read.
        optimal: whether it is the best.
        refuted: whether it is proved that there is none.
        units: of effort that it took: deterministic time, or by conflicts, if that is more.
    """

    found: bool
    optimal: bool
    refuted: bool
    units: float
    _solver: cp_model.CpSolver

    @property
    def bound(self) -> int:
        """Return what no solution's whole objective, minimised, is less than."""
        return math.ceil(self._solver.best_objective_bound - _ROUNDED)

    def value(self, variable: IntVar) -> int:
        """Return the value of a variable in the solution."""
        return self._solver.value(variable)

    def true(self, variables: Sequence[IntVar]) -> list[int]:
        """Return the places of those variables that are true in the solution."""
        return [i for i, x in enumerate(variables) if self._solver.boolean_value(x)]


def solve(model: CpModel, effort: Effort, strategy: Strategy) -> Result:
    """Return what CP-SAT finds within an effort, whose units are its deterministic time.

    Raises:
        SolverError: it rejects the model.
        KeyboardInterrupt: the user interrupted. The solver has been stopped.
    """
    solver = _solver(effort, strategy)
    status = run_interruptible(partial(solver.solve, model), solver.stop_search)
    if status == cp_model.MODEL_INVALID:
        raise SolverError(f"CP-SAT rejects the model ({status}); this is a defect")
    by_conflicts = solver.num_conflicts / strategy.conflicts if strategy.conflicts else 0.0
    return Result(
        status in {cp_model.OPTIMAL, cp_model.FEASIBLE},
        status == cp_model.OPTIMAL,
        status == cp_model.INFEASIBLE,
        max(solver.deterministic_time, by_conflicts),
        solver,
    )


def _solver(effort: Effort, strategy: Strategy) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.catch_sigint_signal = False
    parameters.random_seed = effort.seed
    if effort.timeout_s is not None:
        parameters.max_time_in_seconds = effort.timeout_s
    if effort.units is not None:
        parameters.max_deterministic_time = effort.units
        if strategy.conflicts is not None:
            parameters.max_number_of_conflicts = max(1, int(effort.units * strategy.conflicts))
    parameters.num_workers = strategy.workers
    parameters.interleave_search = strategy.workers > 1
    if strategy.linear is not None:
        parameters.linearization_level = strategy.linear
    if not strategy.presolved:
        parameters.cp_model_probing_level = 0
        parameters.symmetry_level = 0
    return solver
