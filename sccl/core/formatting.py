"""Format numbers, counts and states for messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction

_HUGE = Context(prec=3, Emax=10**6)


def format_count(number: int, noun: str) -> str:
    """Return ``"1 chunk"``, ``"2 chunks"``, ``"3 switches"``. The plural takes an s."""
    plural = "es" if noun.endswith("tch") else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def format_runs(numbers: Iterable[int], *, through: str) -> list[str]:
    """Return sorted numbers as texts, with runs of three or more joined: ``["0-3", "8"]``.

    Args:
        through: separator between first and last, such as ``"-"``.
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts: list[str] = []
    for run in runs:
        several = len(run) > 2
        texts += [f"{run[0]}{through}{run[-1]}"] if several else map(str, run)
    return texts


def printable(text: str) -> str:
    """Return text from a file shortened and escaped, such that it fits in a line."""
    cut = text if len(text) <= 200 else f"{text[:200]}..."
    return cut if cut.isprintable() else ascii(cut)


def format_gap(gap: float) -> str:
    """Return a relative gap to a bound as text: ``"1.20%"``; never 0 for a positive gap."""
    return f"{gap:.2%}" if gap >= 0.00005 else "less than 0.01%"


def describe_dual(collective: str, *, on_reversed: bool) -> str:
    """Return the solved problem as text, such as ``"broadcast on the reversed topology"``."""
    return f"{collective}{' on the reversed topology' if on_reversed else ''}"


def describe_proof_scope(within: str, origins: str = "") -> str:
    """Return the state of a proved point.

    Args:
        within: Range of k and C that the proof covers. Empty: all.
        origins: Origins of the refutations that the proof needs. Empty: this process only.
    """
    proved = f"proved ({origins})" if origins else "proved"
    return f"{proved} for {within}" if within else proved


def format_rounded(number: Fraction | int) -> str:
    """Return a number of any size in three digits: ``"1.23E+45"``."""
    value = Fraction(number)
    return f"{_HUGE.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(_HUGE)}"


def single_line(value: object) -> str:
    """Return a name with escaped line ends, which names of files and machines may contain."""
    return str(value).replace("\n", "\\n")


def join_first(names: Sequence[object], limit: int) -> str:
    """Return the first names, separated by commas, with an ellipsis if there are more."""
    return ", ".join(map(str, names[:limit])) + (", ..." if len(names) > limit else "")
