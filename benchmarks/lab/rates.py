"""Compare the rates of the lab's channels with the configured rates.

A transfer takes two seconds at its rate. Packet headers use a part of the channel, and connecting
takes a part of the time. Results slightly below the configured rate are therefore correct.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.lab import LabRun, Limiter, RankLine, choose_method, parse_channels, run_lab
from sccl.core.formatting import format_count
from sccl.errors import ToolError

PATTERNS = ("alone", "into", "out")
"""One rank to another, all to one (limited by its receiving), one to all (by its sending)."""

_SECONDS = 2.0
_RANKS = 4


@dataclass(frozen=True, slots=True)
class RateCase:
    """A channel with a rate, and the pattern of its senders and receivers.

    Attributes:
        rate: Rate as in ``--channels``.
    """

    limiter: Limiter
    pattern: str
    rate: str
    seconds: float = _SECONDS


@dataclass(frozen=True, slots=True)
class RateResult:
    """Rates of a channel.

    Attributes:
        bits_per_s: Measured rate of each repetition.
    """

    limiter: str
    pattern: str
    rate: str
    asked_bits_per_s: int
    bits_per_s: tuple[float, ...]


def _cases(limiter: Limiter, patterns: Sequence[str]) -> tuple[RateCase, ...]:
    rates = ("10Mb", "50Mb", "100Mb", "1Gb")
    return tuple(RateCase(limiter, pattern, rate) for pattern in patterns for rate in rates)


PARTS = {
    "namespaces": _cases(Limiter.NAMESPACES, PATTERNS),
    "bucket": _cases(Limiter.BUCKET, ("alone", "out")),  # limits senders
}
SMOKE = RateCase(Limiter.BUCKET, "alone", "10Mb", 0.1)


def run(cases: Sequence[RateCase], repeat: int) -> Iterator[RateResult]:
    """Yield the rates of each channel.

    Raises:
        ToolError: A rank failed, or the machine has no namespaces.
    """
    for case in cases:
        channels = parse_channels(f"wire={case.rate}")
        size = round(channels[0].bits_per_s / 8 * case.seconds)
        lab = LabRun(
            (sys.executable, "-m", "benchmarks.lab.rate_rank", case.pattern, str(size)),
            channels,
            _RANKS,
            choose_method(case.limiter),
        )
        rates = tuple(_once(lab) for _ in range(repeat))
        configured = channels[0].bits_per_s
        yield RateResult(case.limiter.value, case.pattern, case.rate, configured, rates)


def _once(lab: LabRun) -> float:
    rank_lines: list[RankLine] = []
    end = run_lab(lab, rank_lines.append)
    lines = [line.text for line in rank_lines if line.stream == "out"]
    if end.code or len(lines) != 1:
        errors = " ".join(line.text for line in rank_lines if line.stream == "err")[-300:]
        raise ToolError(f"the lab of {format_count(lab.ranks, 'rank')} failed: {errors}")
    return float(lines[0])
