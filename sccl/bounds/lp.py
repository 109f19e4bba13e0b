"""The LP solver, and the step from its floats to fractions."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

from ortools.math_opt.python import mathopt

_DENOMINATOR = 720_720  # divisible by 1..16: the duals of small machines come out exactly
_SECONDS = 10


def solve(model: mathopt.Model) -> mathopt.SolveResult | None:
    """Return the optimal solution, or None if there is none within the time limit."""
    parameters = mathopt.SolveParameters(time_limit=timedelta(seconds=_SECONDS), threads=1)
    result = mathopt.solve(model, mathopt.SolverType.GLOP, params=parameters)
    optimal = result.termination.reason is mathopt.TerminationReason.OPTIMAL
    return result if optimal else None


def rational(value: float) -> Fraction:
    """Return a dual value as a non-negative fraction near it; the certificate's check is exact."""
    return max(Fraction(0), Fraction(round(value * _DENOMINATOR), _DENOMINATOR))


def nonzero(prices: dict[str, Fraction]) -> tuple[tuple[str, Fraction], ...]:
    """Return the prices that are not zero, by name."""
    return tuple(sorted((name, price) for name, price in prices.items() if price))
