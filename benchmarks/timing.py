"""Runs, their median, and contenders that alternate."""

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
    """Single run of a contender on a job.

    Attributes:
        verdict: ``unknown`` for a timeout or an interrupted run, ``failed`` for a crash.
        seconds: Wall-clock time of encoding, solving and decoding.
        process_seconds: Time of the whole process, if the contender is one.
        printed_seconds: Time that the contender itself reports, if any.
        processor_seconds: Processor time within ``seconds``. Other load on the machine changes it
            less. None: unknown.
    """

    verdict: Verdict
    seconds: float
    process_seconds: float | None = None
    printed_seconds: float | None = None
    processor_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Runs of one contender on one job."""

    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        """Return the median. A run without an answer counts as longer than any with one."""
        return median(r.seconds if r.verdict in ("sat", "unsat") else math.inf for r in self.runs)

    @property
    def processor_seconds(self) -> float | None:
        """Return the median processor time, or None if that of some run is unknown."""
        times = [r.processor_seconds for r in self.runs if r.processor_seconds is not None]
        return median(times) if len(times) == len(self.runs) else None

    @property
    def verdict(self) -> Verdict:
        """Return the joint verdict. All rows of a table are sat, so a single unsat decides."""
        verdicts = {r.verdict for r in self.runs}
        if "unsat" in verdicts:
            return "unsat"
        if math.isfinite(self.seconds):
            return "sat"
        return "failed" if "failed" in verdicts else "unknown"

    @property
    def process_seconds(self) -> float | None:
        """Return the median process time, or None without a process or an answer."""
        if self.verdict != "sat":
            return None
        times = [r.process_seconds for r in self.runs if r.process_seconds is not None]
        return median(times) if times else None


@dataclass(frozen=True, slots=True)
class Contender(Generic[Job]):
    """Contender that can be timed on a job."""

    name: str
    run: Callable[[Job], Run]


def race(job: Job, contenders: Sequence[Contender[Job]], repeat: int) -> dict[str, Timing]:
    """Return the timings by name, with contenders that alternate.

    Alternating spreads other load on the machine over all contenders. A contender without an answer
    in its first run does not run again, because each run would take the whole timeout.
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
