"""Linear programs on OR-Tools MathOpt, and the step from the solver's floats to fractions.

GLOP works within deterministic time in one thread: prices are the same on every machine.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

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

from sccl.errors import SolverError
from sccl.solvers.interrupt import run_interruptible

__all__ = [
    "BasisStatus",
    "Growing",
    "LinearConstraint",
    "Model",
    "SolveResult",
    "Variable",
    "fast_sum",
    "rational",
    "solve",
]

_DENOMINATOR = 720_720  # divisible by 1..16: the duals of small machines come out exactly
_EFFORT = 10.0
"""Deterministic time of GLOP's, a unit near a second: bounds are the same on every machine."""


def solve(model: Model) -> SolveResult | None:
    """Return the optimal solution, or None if there is none within the effort.

    Raises:
        KeyboardInterrupt: the user interrupted; the solver has been stopped.
    """
    parameters = mathopt.SolveParameters(threads=1)
    parameters.glop.max_deterministic_time = _EFFORT
    ctrl_c = SolveInterrupter()
    work = partial(
        mathopt.solve, model, mathopt.SolverType.GLOP, params=parameters, interrupter=ctrl_c
    )
    result = run_interruptible(work, ctrl_c.interrupt)
    optimal = result.termination.reason is mathopt.TerminationReason.OPTIMAL
    return result if optimal else None


class Growing:
    """A program that is solved again and again while it grows, each time from its last basis."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._solver = mathopt.IncrementalSolver(model, mathopt.SolverType.GLOP)

    def optimum(self) -> SolveResult:
        """Return the optimum, by GLOP from the last basis; afresh, or by HiGHS, if that fails.

        GLOP ends abnormally now and then, and MathOpt reports that in several ways.

        Raises:
            SolverError: none of them finds it.
            KeyboardInterrupt: the user interrupted; GLOP has been stopped.
        """
        failure = "no reason given"
        ctrl_c = SolveInterrupter()
        glop, highs = mathopt.SolverType.GLOP, mathopt.SolverType.HIGHS
        for attempt, stop in (
            (partial(self._solver.solve, interrupter=ctrl_c), ctrl_c.interrupt),
            (partial(mathopt.solve, self.model, glop, interrupter=ctrl_c), ctrl_c.interrupt),
            (partial(mathopt.solve, self.model, highs), None),  # it does not listen
        ):
            try:
                result = run_interruptible(attempt, stop)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next one is asked
                failure = f"{type(error).__name__}: {error}"
                continue
            if result.termination.reason is mathopt.TerminationReason.OPTIMAL and result.solutions:
                return result
            failure = str(result.termination.reason)
        raise SolverError(f"no solver finds the optimum of a linear program ({failure})")


def rational(value: float) -> Fraction:
    """Return a dual value as a non-negative fraction near it; the proof's check is exact."""
    return max(Fraction(0), Fraction(round(value * _DENOMINATOR), _DENOMINATOR))
