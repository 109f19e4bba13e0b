"""``sccl pareto`` from start to end, as a user runs it."""

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
    """A point of a frontier; ``proved`` if nothing open could dominate it."""

    chunks: int
    steps: int
    rounds: int
    proved: bool


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """What a sweep found and took.

    Attributes:
        refuted: how many candidates were proved impossible.
        open: how many stayed undecided.
        complete: whether the bandwidth bound was met and nothing is open.
        seconds: median of the whole process.
    """

    spec: FrontierSpec
    points: tuple[FoundPoint, ...]
    refuted: int
    open: int
    complete: bool
    seconds: float
    runs: tuple[float, ...]


def sweep(spec: FrontierSpec, repeat: int) -> FrontierResult:
    """Return the timing of one frontier, and what its last run found.

    Raises:
        ScclError: the command failed.
    """
    options = ("--collective", spec.collective, "--topo", spec.topology, "--k", str(spec.k))
    runs, text = [], ""
    for _ in range(repeat):
        done = measure("pareto", *options, "--no-store", "--json")
        runs.append(done.seconds)
        text = done.text
    found = json.loads(text)
    kept = ("chunks", "steps", "rounds", "proved")
    return FrontierResult(
        spec=spec,
        points=tuple(FoundPoint(**{name: p[name] for name in kept}) for p in found["points"]),
        refuted=len(found["unsat"]),
        open=len(found["open"]),
        complete=found["complete"],
        seconds=median(runs),
        runs=tuple(runs),
    )
