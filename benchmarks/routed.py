"""Published algorithms on rings, tori and hypercubes, beside what any takes in as many steps.

A message may pass several links in one step, and loads each (``routed:ring:8``): so Swing,
Trivance, Bine trees, PAT and recursive doubling are counted where they were published. An algorithm
is on the Pareto frontier if the limit of R/C for its S, over all k and C, is its R/C, and that of a
step less is more. Limits are proved by prices that are checked in exact arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from sccl.collectives import named
from sccl.core.limit import StepLimit
from sccl.errors import InputError
from sccl.prove.bounds import lower_bounds
from sccl.synth.baselines import make, on_machine
from sccl.synth.contract import Request
from sccl.synth.limit.steps import step_limit
from sccl.topo import machine_model, resolve

ALGORITHMS = (
    "swing",
    "trivance",
    "bine",
    "pat",
    "recursive-doubling",
    "bruck",
    "binomial-tree",
    "double-binary-tree",
)
MOST_SECONDS = 60.0
MOST_STEPS = 6
"""Limits of more steps are not asked for: they take minutes."""


@dataclass(frozen=True, slots=True)
class RoutedCase:
    """A collective on a machine."""

    machine: str
    collective: str


@dataclass(frozen=True, slots=True)
class RoutedResult:
    """An algorithm there.

    Attributes:
        chunks, steps, rounds: C, S and R.
        lower, upper: what the limit of R/C for S lies between; None: it was not asked for.
        before: what that for S - 1 is at least; None: there is no algorithm of so few steps.
        seconds: of the limits of this machine so far.
    """

    case: RoutedCase
    algorithm: str
    chunks: int
    steps: int
    rounds: int
    lower: Fraction | None
    upper: Fraction | None
    before: Fraction | None
    seconds: float

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(self.rounds, self.chunks)

    @property
    def verdict(self) -> str:
        """Return whether it is on the frontier, in words."""
        if self.lower is None or self.upper is None:
            return "not asked"
        if self.upper < self.cost:
            return f"no: {float(self.cost / self.upper - 1):.0%} above the limit"
        if self.lower < self.cost:
            return "open"
        return "yes" if self.before is None or self.before > self.cost else "no: a step too many"


def _cases(collective: str, *machines: str) -> tuple[RoutedCase, ...]:
    return tuple(RoutedCase(f"routed:{machine}", collective) for machine in machines)


PARTS = {
    "rings": _cases("allgather", *(f"ring:{n}" for n in (4, 5, 6, 7, 8, 9, 10, 12, 16))),
    "tori": _cases("allgather", "torus:3x3", "torus:4x2", "torus:4x4"),
    "hypercubes": _cases("allgather", "hypercube:2", "hypercube:3", "hypercube:4"),
    "broadcast": _cases("broadcast", *(f"ring:{n}" for n in range(4, 9)), "hypercube:3"),
}


def run(cases: Sequence[RoutedCase]) -> Iterator[RoutedResult]:
    """Yield every algorithm that a machine has, with the limits of its steps."""
    for case in cases:
        yield from _on(case)


def _on(case: RoutedCase) -> Iterator[RoutedResult]:
    machine = machine_model(resolve(case.machine)).topology
    spec = named(case.collective, machine.ranks)
    bounds, began = lower_bounds(machine, spec), time.perf_counter()

    @cache
    def limit(steps: int) -> StepLimit | None:
        """Return the limit of so many steps; None: there are too few, or too many."""
        if not bounds.steps <= steps <= MOST_STEPS:
            return None
        return step_limit(machine, spec, steps, bounds, MOST_SECONDS).limit

    for name in ALGORITHMS:
        try:
            made = on_machine(make(name, Request(machine, spec, 2**20)), machine)
        except InputError:
            continue  # it does not serve so many ranks, or the collective
        here, before = limit(made.steps), limit(made.steps - 1)
        yield RoutedResult(
            case,
            name,
            made.collective.chunks,
            made.steps,
            made.rounds,
            here.lower if here else None,
            here.upper if here else None,
            before.lower if before else None,
            round(time.perf_counter() - began, 2),
        )
