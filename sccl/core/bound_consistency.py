"""The check of every result that is reported with a lower bound: none may be below it."""

from __future__ import annotations

from fractions import Fraction

from sccl.errors import ContradictionError


def require_at_least_bound(
    attained: Fraction | int,
    bound: Fraction | int | None,
    *,
    result: str,
    limit: str,
    unit: str = "",
) -> None:
    """Check that a result is not below a lower bound that is proved for it.

    Args:
        attained: Exact value of the result.
        bound: Exact value of the lower bound. None: none is known.
        result: Name of the result, such as ``"the completion time of the schedule"``.
        limit: Name of the lower bound.
        unit: Unit of both. Empty: they have none.

    Raises:
        ContradictionError: The result is below the bound.
    """
    if bound is not None and attained < bound:
        low, high = _distinct_texts(Fraction(attained), Fraction(bound))
        of = f" {unit}" if unit else ""
        raise ContradictionError(f"{result} is {low}{of}, and {limit} is {high}{of}")


def _distinct_texts(low: Fraction, high: Fraction) -> tuple[str, str]:
    """Return two different numbers as texts that differ: decimals, or fractions if these agree."""
    decimals = f"{float(low):.10g}", f"{float(high):.10g}"
    return decimals if decimals[0] != decimals[1] else (str(low), str(high))
