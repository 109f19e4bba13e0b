"""The lab's channels: what they carry, beside the rates that are asked for.

A transfer takes two seconds at its rate. Headers of packets are a part of what a channel carries,
and connecting is a part of the time: so a little less than the rate is right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sccl.core.formatting import format_count
from sccl.errors import ToolError
from sccl.runtime.lab import LabRun, Limiter, RankLine, choose_method, parse_channels, run_lab

PATTERNS = ("alone", "into", "out")
"""One rank to another; all to one, whose receiving is limited; one to all, whose sending is."""

_SECONDS = 2.0
_RANKS = 4


@dataclass(frozen=True, slots=True)
class RateCase:
    """A channel of some rate, and who sends to whom over it.

    Attributes:
        rate: as ``--channels`` takes it.
    """

    limiter: Limiter
    pattern: str
    rate: str
    seconds: float = _SECONDS


@dataclass(frozen=True, slots=True)
class RateResult:
    """What a channel carried.

    Attributes:
        bits_per_s: by repetition.
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
    "bucket": _cases(Limiter.BUCKET, ("alone", "out")),  # it limits who sends
}
SMOKE = RateCase(Limiter.BUCKET, "alone", "10Mb", 0.1)


def run(cases: Sequence[RateCase], repeat: int) -> Iterator[RateResult]:
    """Yield what each channel carried.

    Raises:
        ToolError: a rank failed, or there are no namespaces here.
    """
    for case in cases:
        channels = parse_channels(f"wire={case.rate}")
        size = round(channels[0].bits_per_s / 8 * case.seconds)
        program = str(Path(__file__).with_name("lab_rank.py"))
        lab = LabRun(
            (sys.executable, program, case.pattern, str(size)),
            channels,
            _RANKS,
            choose_method(case.limiter),
        )
        found = tuple(_once(lab) for _ in range(repeat))
        asked = channels[0].bits_per_s
        yield RateResult(case.limiter.value, case.pattern, case.rate, asked, found)


def _once(lab: LabRun) -> float:
    heard: list[RankLine] = []
    end = run_lab(lab, heard.append)
    lines = [one.text for one in heard if one.stream == "out"]
    if end.code or len(lines) != 1:
        told = " ".join(one.text for one in heard if one.stream == "err")[-300:]
        raise ToolError(f"the lab of {format_count(lab.ranks, 'rank')} failed: {told}")
    return float(lines[0])
