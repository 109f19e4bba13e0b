"""Numbers of things, as sentences say them."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction

_HUGE = Context(prec=3, Emax=10**6)


def counted(number: int, thing: str) -> str:
    """Return ``"1 chunk"``, ``"2 chunks"``, ``"3 switches"``. The plural takes an s."""
    plural = "es" if thing.endswith("tch") else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"


def runs_of(numbers: Iterable[int], *, through: str) -> list[str]:
    """Return numbers as texts, with runs of more than two joined: ``["0-3", "8"]``.

    Args:
        through: separator between first and last, such as ``"-"``.
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    found: list[str] = []
    for run in runs:
        several = len(run) > 2
        found += [f"{run[0]}{through}{run[-1]}"] if several else map(str, run)
    return found


def gap_text(gap: float) -> str:
    """Return a relative gap to a bound as text: ``"1.20%"``; never 0 for a positive gap."""
    return f"{gap:.2%}" if gap >= 0.00005 else "less than 0.01%"


def solved_as(collective: str, *, on_reversed: bool) -> str:
    """Return the solved problem as text, such as ``"broadcast on the reversed topology"``."""
    return f"{collective}{' on the reversed topology' if on_reversed else ''}"


def proved_for(within: str, origins: str = "") -> str:
    """Return the state of a proved point.

    Args:
        within: the range of k and C that the proof covers. Empty: all.
        origins: where refutations came from that the proof needs. Empty: from this process alone.
    """
    proved = f"proved ({origins})" if origins else "proved"
    return f"{proved} for {within}" if within else proved


def rounded(number: Fraction | int) -> str:
    """Return a number in three digits, however large: ``"1.23E+45"``."""
    whole = Fraction(number)
    return f"{_HUGE.divide(Decimal(whole.numerator), Decimal(whole.denominator)).normalize(_HUGE)}"
