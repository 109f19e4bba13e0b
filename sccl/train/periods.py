"""What no plan of a step repeats faster than.

Bounds of the period, each with what proves it:

- ``computation``: the ticks of a stream;
- ``load``: for prices of resources, the mean of what each needs in an iteration;
- ``circle``: a circle of waits over iterations, each op as long as its fastest option alone;
- ``stretches``: such a circle, also over stretches of a stream that are solved by themselves
  (:mod:`sccl.train.stretches`);
- ``spans``: waits and loads together, by the spans of a stream, and stretches with them
  (:mod:`sccl.train.span_loads`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from sccl.solvers.effort import Effort
from sccl.train.bounds import lengths_of, load_bound, load_prices
from sccl.train.cycles import Arc, Circle, slowest_circle
from sccl.train.cyclic import CyclicProblem
from sccl.train.problem import WHOLE, StepProblem
from sccl.train.span_loads import SpanPrices, SpanProgram, proved_by, span_bound
from sccl.train.spans import spans_of
from sccl.train.stretches import stretches

STRETCHED = Effort(units=2.0)
"""For stretches, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class SpanProof:
    """Prices and flows, with what they are of."""

    program: SpanProgram
    prices: SpanPrices


@dataclass(frozen=True, slots=True)
class PeriodBound:
    """A lower bound of the period.

    Attributes:
        ticks: that every plan takes for each iteration, on average.
        binds: ``computation``, ``load``, ``circle``, ``stretches`` or ``spans``.
        proof: the stream's resource; prices of resources; the circle; prices and flows over
            spans.
    """

    ticks: int
    binds: str
    proof: int | dict[int, Fraction] | Circle | SpanProof


def least_period(problem: CyclicProblem, effort: Effort = STRETCHED) -> PeriodBound:
    """Return the highest of all bounds; of those that are as high, the simplest.

    Args:
        effort: for stretches, of each stream.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    return max(period_bounds(problem, effort), key=lambda bound: bound.ticks)


def period_bounds(problem: CyclicProblem, effort: Effort = STRETCHED) -> Iterator[PeriodBound]:
    """Yield all bounds.

    Args:
        effort: for stretches, of each stream.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    step = problem.step
    stream, ticks = _computation(step)
    yield PeriodBound(ticks, "computation", stream)
    never = [0] * len(step.resources)  # a resource need not stand still: iterations overlap
    prices = load_prices(step, never)
    yield PeriodBound(load_bound(step, prices, never), "load", prices)
    lengths = lengths_of(step)
    waits = arcs_of(problem, lengths)
    circle = slowest_circle(len(step.ops), waits)
    yield PeriodBound(ceil(circle.ratio), "circle", circle)
    for spans in spans_of(problem):
        arcs = stretches(problem, spans, effort)
        circle = slowest_circle(len(step.ops), [*waits, *arcs])
        yield PeriodBound(ceil(circle.ratio), "stretches", circle)
        program = SpanProgram(problem, spans, lengths, tuple(arcs))
        ticks, found = span_bound(program)
        yield PeriodBound(ticks, "spans", SpanProof(program, found))


def arcs_of(problem: CyclicProblem, lengths: list[list[int]]) -> list[Arc]:
    """Return waits as arcs: each with the ticks of what is waited for, at the least.

    A motif follows upon itself: so does an op, after the longest motif of some option.
    """
    arcs = [Arc(before, after, min(lengths[before]), lag) for before, after, lag in problem.waits]
    for number, op in enumerate(problem.step.ops):
        again = min(max(motif.ticks for motif in option.motifs) for option in op.options)
        arcs.append(Arc(number, number, again, 1))
    return arcs


def wrong_in_bound(problem: CyclicProblem, bound: PeriodBound, effort: Effort = STRETCHED) -> str:
    """Return what is wrong with a bound, computed anew from its proof; empty: nothing.

    Args:
        effort: with which stretches were solved; they are so again.
    """
    proof, step = bound.proof, problem.step
    if isinstance(proof, int):
        ticks = _ticks_on(step).get(proof, 0)
    elif isinstance(proof, Circle):
        if wrong := _wrong_circle(proof) or _wrong_arcs(problem, proof.arcs, effort):
            return wrong
        ticks = ceil(proof.ratio)
    elif isinstance(proof, dict):
        ticks = load_bound(step, proof, [0] * len(step.resources))
    else:
        if wrong := _wrong_arcs(problem, proof.program.arcs, effort):
            return wrong
        ticks = proved_by(proof.program, proof.prices)
    return "" if bound.ticks <= ticks else f"it says {bound.ticks} ticks, and {ticks} are proved"


def _wrong_circle(circle: Circle) -> str:
    for k, arc in enumerate(circle.arcs):
        if circle.arcs[k - 1].after != arc.before:
            return f"op {arc.before} does not go on from op {circle.arcs[k - 1].after}"
    return ""


def _wrong_arcs(problem: CyclicProblem, arcs: Sequence[Arc], effort: Effort) -> str:
    known = set(arcs_of(problem, lengths_of(problem.step)))
    if not known.issuperset(arcs):
        known.update(arc for own in spans_of(problem) for arc in stretches(problem, own, effort))
    for arc in arcs:
        if arc not in known:
            return f"op {arc.after} does not begin {arc.ticks} ticks after op {arc.before}"
    return ""


def _ticks_on(step: StepProblem) -> dict[int, int]:
    """Return of each resource that has all of a computation's the ticks of these."""
    found: dict[int, int] = {}
    for op in step.ops:
        for motif in () if op.communicates else op.options[0].motifs:
            for resource, part in zip(motif.uses, motif.parts, strict=True):
                if part == WHOLE:
                    found[resource] = found.get(resource, 0) + motif.ticks
    return found


def _computation(step: StepProblem) -> tuple[int, int]:
    """Return the resource whose computations take most, and their ticks."""
    rows = sorted(_ticks_on(step).items(), key=lambda row: (-row[1], row[0]))
    return rows[0] if rows else (0, 0)
