"""Sixteen ranks, twice the paper's: one algorithm each that meets both lower bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from benchmarks import rows
from benchmarks.paper import PaperRow
from benchmarks.timing import Contender, Timing, Verdict, race
from sccl import backends
from sccl.bounds import lower_bounds


@dataclass(frozen=True, slots=True)
class ScaleSpec:
    """An allgather to find."""

    topology: str
    chunks: int
    steps: int
    rounds: int

    @property
    def row(self) -> PaperRow:
        """Return it as a row, though no paper has it."""
        return PaperRow(
            self.topology, "allgather", self.chunks, self.steps, self.rounds, "both", 0.0
        )


FULL = (ScaleSpec("torus:4x4", 4, 4, 15), ScaleSpec("hypercube:4", 4, 4, 15))
SMOKE = (ScaleSpec("hypercube:3", 3, 3, 7),)


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """What was found, and whether anything could be better.

    Attributes:
        steps_bound: no algorithm has fewer steps.
        bandwidth_bound: no algorithm has a smaller R/C.
        bounds_seconds: what both bounds with their certificates took.
        optimal: whether an algorithm was found and both bounds are met.
    """

    spec: ScaleSpec
    solver: str
    timing: Timing
    steps_bound: int
    bandwidth_bound: Fraction
    bounds_seconds: float
    optimal: bool

    @property
    def verdict(self) -> Verdict:
        """Return what came out; an algorithm short of the bounds would make the row a wrong one."""
        found = self.timing.verdict
        return "unsat" if found == "sat" and not self.optimal else found


def solve(spec: ScaleSpec, contender: Contender[PaperRow], repeat: int) -> ScaleResult:
    """Return one machine's result with a solver of :mod:`benchmarks.rows`."""
    asked = rows.question(spec.row)
    begin = time.perf_counter()
    bounds = lower_bounds(asked.topology, asked.dual.original)
    bounds_seconds = time.perf_counter() - begin
    timing = race(spec.row, [contender], repeat)[contender.name]
    met = (spec.steps, Fraction(spec.rounds, spec.chunks)) == (bounds.steps, bounds.bandwidth)
    return ScaleResult(
        spec=spec,
        solver=contender.name,
        timing=timing,
        steps_bound=bounds.steps,
        bandwidth_bound=bounds.bandwidth,
        bounds_seconds=bounds_seconds,
        optimal=met and timing.verdict == "sat",
    )


default_contender = partial(rows.contender, backends.DEFAULT)
"""Takes the timeout in seconds."""
