"""Time ``sccl pareto`` as a whole process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median

from benchmarks.process import measure


@dataclass(frozen=True, slots=True)
class FrontierSpec:
    """A frontier to sweep."""

    collective: str
    topology: str
    k: int = 5


FULL = (FrontierSpec("allgather", "dgx1"), FrontierSpec("allgather", "z52"))
SMOKE = (FrontierSpec("allgather", "z52"),)


@dataclass(frozen=True, slots=True)
class FoundPoint:
    """A point of a frontier, ``proved`` if no open candidate could dominate it."""

    chunks: int
    steps: int
    rounds: int
    proved: bool


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """Points and times of a sweep.

    Attributes:
        refuted: Number of candidates that were proved impossible.
        open: Number of undecided candidates.
        complete: Whether a point meets the bandwidth bound and no candidate is open.
        seconds: Median time of the whole process.
    """

    spec: FrontierSpec
    points: tuple[FoundPoint, ...]
    refuted: int
    open: int
    complete: bool
    seconds: float
    runs: tuple[float, ...]


def sweep(spec: FrontierSpec, repeat: int) -> FrontierResult:
    """Return the times of one frontier, and the points of its last run.

    Raises:
        ScclError: The command failed.
    """
    options = ("--collective", spec.collective, "--topo", spec.topology, "--k", str(spec.k))
    runs, text = [], ""
    for _ in range(repeat):
        done = measure("pareto", *options, "--no-store", "--json")
        runs.append(done.seconds)
        text = done.text
    document = json.loads(text)
    fields = ("chunks", "steps", "rounds", "proved")
    return FrontierResult(
        spec=spec,
        points=tuple(FoundPoint(**{name: p[name] for name in fields}) for p in document["points"]),
        refuted=len(document["unsat"]),
        open=len(document["open"]),
        complete=document["complete"],
        seconds=median(runs),
        runs=tuple(runs),
    )
