"""Totals of a table, by contender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from benchmarks.paper import PaperRow
from benchmarks.timing import Raced


@dataclass(frozen=True, slots=True)
class Total:
    """Total time of a contender.

    Attributes:
        seconds: Sum over the solved rows. Compare contenders only if they solved equally many rows.
        slowest: Solved row with the longest time, or an empty string.
    """

    name: str
    solved: int
    rows: int
    seconds: float
    slowest: str
    slowest_seconds: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of the times of two contenders, row by row.

    Attributes:
        median: Median over the rows that both solved. None: There is no such row.
        geometric_mean: Geometric mean over these rows.
        least: Minimum over these rows.
        processor: Geometric mean of the processor time ratios. None: Some times are unknown.
    """

    numerator: str
    denominator: str
    median: float | None
    rows: int
    geometric_mean: float | None = None
    least: float | None = None
    processor: float | None = None


def total(name: str, results: Sequence[Raced[PaperRow]]) -> Total:
    """Return the total of one contender."""
    timings = [(r.timings[name], r.job) for r in results]
    solved = [(t.seconds, str(row)) for t, row in timings if t.verdict == "sat"]
    return _total(name, solved, len(results))


def paper_total(results: Sequence[Raced[PaperRow]]) -> Total:
    """Return the total of the published seconds."""
    return _total("paper", [(r.job.seconds, str(r.job)) for r in results], len(results))


def ratio(numerator: str, denominator: str, results: Sequence[Raced[PaperRow]]) -> Ratio:
    """Return ``numerator`` / ``denominator`` over the rows that both solved."""
    raced = [(r.timings[numerator], r.timings[denominator]) for r in results]
    pairs = [(a, b) for a, b in raced if a.verdict == b.verdict == "sat"]
    if not pairs:
        return Ratio(numerator, denominator, None, 0)
    quotients = [a.seconds / b.seconds for a, b in pairs]
    processor_pairs = [(a.processor_seconds, b.processor_seconds) for a, b in pairs]
    processor_ratios = [a / b for a, b in processor_pairs if a and b]
    return Ratio(
        numerator,
        denominator,
        median(quotients),
        len(pairs),
        geometric_mean(quotients),
        min(quotients),
        geometric_mean(processor_ratios) if len(processor_ratios) == len(pairs) else None,
    )


def _total(name: str, solved: Sequence[tuple[float, str]], rows: int) -> Total:
    seconds, row = max(solved, default=(0.0, ""))
    return Total(name, len(solved), rows, sum(s for s, _ in solved), row, seconds)
