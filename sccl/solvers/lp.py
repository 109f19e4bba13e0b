"""The LP solver, and the step from its floats to fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from ortools.math_opt.python import mathopt
from ortools.util.python.solve_interrupter import SolveInterrupter

from sccl.solvers.interrupt import run_interruptible

_DENOMINATOR = 720_720  # divisible by 1..16: the duals of small machines come out exactly
_EFFORT = 10.0
"""Deterministic time of GLOP's, a unit near a second: bounds are the same on every machine."""


def solve(model: mathopt.Model) -> mathopt.SolveResult | None:
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


def rational(value: float) -> Fraction:
    """Return a dual value as a non-negative fraction near it; the certificate's check is exact."""
    return max(Fraction(0), Fraction(round(value * _DENOMINATOR), _DENOMINATOR))


def nonzero(prices: dict[str, Fraction]) -> tuple[tuple[str, Fraction], ...]:
    """Return the prices that are not zero, by name."""
    return tuple(sorted((name, price) for name, price in prices.items() if price))
