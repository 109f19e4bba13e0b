"""Runs, their median, and contenders that take turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, Literal, TypeVar

Verdict = Literal["sat", "unsat", "unknown", "failed"]

Job = TypeVar("Job")


@dataclass(frozen=True, slots=True)
class Run:
    """One contender on one job, once.

    Attributes:
        verdict: ``unknown`` where it gave up or was stopped, ``failed`` where it broke.
        seconds: encoding, solving and decoding, wall clock.
        process_seconds: of the whole process, where the contender is one.
        printed_seconds: what it says of itself, where it says anything.
        processor_seconds: of all processors in ``seconds``, which other work on the machine changes
            less; None where there is no way to know.
    """

    verdict: Verdict
    seconds: float
    process_seconds: float | None = None
    printed_seconds: float | None = None
    processor_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """The runs of one contender on one job."""

    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        """Return the median; a run without an answer counts as longer than any with one."""
        return median(r.seconds if r.verdict in ("sat", "unsat") else math.inf for r in self.runs)

    @property
    def processor_seconds(self) -> float | None:
        """Return the median of the processors' time; None where some of it is not known."""
        known = [r.processor_seconds for r in self.runs if r.processor_seconds is not None]
        return median(known) if len(known) == len(self.runs) else None

    @property
    def verdict(self) -> Verdict:
        """Return what the runs say; the rows of a table are all sat, so one unsat is news."""
        verdicts = {r.verdict for r in self.runs}
        if "unsat" in verdicts:
            return "unsat"
        if math.isfinite(self.seconds):
            return "sat"
        return "failed" if "failed" in verdicts else "unknown"

    @property
    def process_seconds(self) -> float | None:
        """Return the median of the whole process; None where it is none, or did not finish."""
        if self.verdict != "sat":
            return None
        whole = [r.process_seconds for r in self.runs if r.process_seconds is not None]
        return median(whole) if whole else None


@dataclass(frozen=True, slots=True)
class Contender(Generic[Job]):
    """Something that can be timed on a job."""

    name: str
    run: Callable[[Job], Run]


def race(job: Job, contenders: Sequence[Contender[Job]], repeat: int) -> dict[str, Timing]:
    """Return the timings by name; all contenders run once before any runs again.

    Taking turns spreads what else the machine does over all of them. Whoever finds nothing the
    first time is not asked again: it would cost a whole timeout each time to learn the same.
    """
    runs: dict[str, list[Run]] = {c.name: [] for c in contenders}
    for _ in range(repeat):
        for contender in contenders:
            had = runs[contender.name]
            if not had or had[0].verdict == "sat":
                had.append(contender.run(job))
    return {name: Timing(tuple(had)) for name, had in runs.items()}


@dataclass(frozen=True, slots=True)
class Raced(Generic[Job]):
    """A job with the timings of all contenders."""

    job: Job
    timings: dict[str, Timing]
