"""Compute lower bounds on the period of a step.

Each bound has its proof:

- ``computation``: the ticks of a stream.
- ``load``: for prices of resources, the mean of their loads in an iteration.
- ``circle``: a dependency cycle over iterations, each op with its fastest option alone.
- ``stretches``: such a cycle, also over stretches of a stream that are solved separately
  (:mod:`sccl.train.stretches`).
- ``spans``: dependencies and loads together, by the spans of a stream, with stretches
  (:mod:`sccl.train.span_loads`).

All of them use shares from :mod:`sccl.train.tightened`. They may mix options, while a plan uses one
option of each op in all iterations. Therefore the repetition time of each option alone is used as
well: a plan faster than some limit uses no option with a longer repetition time. The smaller of the
bound for plans without these options, and the limit, is a bound for all plans.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil

from sccl.solvers.effort import Effort
from sccl.train.bounds import again_after, lengths_of, load_bound, load_prices
from sccl.train.cycles import Arc, Circle, slowest_circle
from sccl.train.cyclic import CyclicProblem
from sccl.train.problem import WHOLE, StepOption, StepProblem
from sccl.train.span_loads import SpanPrices, SpanProgram, proved_by, span_bound
from sccl.train.spans import spans_of
from sccl.train.stretches import stretches
from sccl.train.tightened import tightened

STRETCHED = Effort(units=2.0)
"""For stretches, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class SpanProof:
    """Prices and flows, with their program."""

    program: SpanProgram
    prices: SpanPrices


@dataclass(frozen=True, slots=True)
class PeriodBound:
    """A lower bound of the period.

    Attributes:
        ticks: that every plan takes for each iteration, on average.
        binds: ``computation``, ``load``, ``circle``, ``stretches`` or ``spans``.
        proof: the stream's resource; prices of resources. The circle; prices and flows over
            spans.
        limit: ticks: it is of plans without options that take as long alone. 0: of all.
    """

    ticks: int
    binds: str
    proof: int | dict[int, Fraction] | Circle | SpanProof
    limit: int = 0


def least_period(problem: CyclicProblem, effort: Effort = STRETCHED) -> PeriodBound:
    """Return the highest of all bounds; of those that are as high, the simplest.

    Args:
        effort: for stretches, of each stream.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    tight = tightened(problem)
    best = max(period_bounds(tight, effort), key=lambda bound: bound.ticks)
    limit = _best_limit(tight, best.ticks)
    if not limit:
        return best
    faster = max(period_bounds(_faster(tight, limit), effort), key=lambda bound: bound.ticks)
    faster = replace(faster, ticks=min(faster.ticks, limit), limit=limit)
    return max(best, faster, key=lambda bound: bound.ticks)


def _best_limit(problem: CyclicProblem, known: int) -> int:
    """Return the limit that may give a higher bound than the known one. 0: none.

    A higher limit permits more options below it, and lowers the bound for plans with these options.
    """
    own = {again_after(option) for op in problem.step.ops for option in op.options}
    every = max(min(map(again_after, op.options)) for op in problem.step.ops)
    limits = sorted(limit for limit in own if limit > max(known, every))

    def bound(limit: int) -> int:
        return max(one.ticks for one in islice(period_bounds(_faster(problem, limit)), 3))

    first = bisect_left(limits, 1, key=lambda limit: int(bound(limit) <= limit))
    near = limits[max(first - 1, 0) : first + 1]
    found = max(near, key=lambda limit: min(bound(limit), limit), default=0)
    return found if found and bound(found) > known else 0


def _faster(problem: CyclicProblem, limit: int) -> CyclicProblem:
    """Return a problem without the options that take so long alone, or longer."""
    known: dict[int, tuple[StepOption, ...]] = {}
    ops = []
    for op in problem.step.ops:
        if id(op.options) not in known:
            known[id(op.options)] = tuple(o for o in op.options if again_after(o) < limit)
        ops.append(replace(op, options=known[id(op.options)]))
    return CyclicProblem(StepProblem(problem.step.resources, tuple(ops)), problem.lagged)


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
    """Return dependencies as arcs, each with the minimal length of the first op.

    An op also depends on its previous execution, by the shortest repetition time of its options.
    """
    arcs = [Arc(before, after, min(lengths[before]), lag) for before, after, lag in problem.waits]
    for number, op in enumerate(problem.step.ops):
        again = min(map(again_after, op.options))
        arcs.append(Arc(number, number, again, 1))
    return arcs


def wrong_in_bound(problem: CyclicProblem, bound: PeriodBound, effort: Effort = STRETCHED) -> str:
    """Return a violation of a bound, recomputed from its proof. Empty: none.

    Args:
        effort: Budget with which stretches were solved. It is used again.
    """
    proof, problem = bound.proof, tightened(problem)
    if bound.limit:
        problem = _faster(problem, bound.limit)
    step = problem.step
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
    ticks = min(ticks, bound.limit or ticks)
    return "" if bound.ticks <= ticks else f"it claims {bound.ticks} ticks, and {ticks} are proved"


def _wrong_circle(circle: Circle) -> str:
    for k, arc in enumerate(circle.arcs):
        if circle.arcs[k - 1].after != arc.before:
            return f"op {arc.before} does not go on from op {circle.arcs[k - 1].after}"
    return ""


def _wrong_arcs(problem: CyclicProblem, arcs: Sequence[Arc], effort: Effort) -> str:
    known = _latest(arcs_of(problem, lengths_of(problem.step)))
    if any(arc.ticks > known.get(arc._replace(ticks=0), -1) for arc in arcs):
        own = [arc for spans in spans_of(problem) for arc in stretches(problem, spans, effort)]
        known = _latest([*arcs_of(problem, lengths_of(problem.step)), *own])
    for arc in arcs:
        if arc.ticks > known.get(arc._replace(ticks=0), -1):
            return f"op {arc.after} does not begin {arc.ticks} ticks after op {arc.before}"
    return ""


def _latest(arcs: Iterable[Arc]) -> dict[Arc, int]:
    """Return by how many ticks something begins after something else, by arcs without ticks."""
    found: dict[Arc, int] = {}
    for arc in arcs:
        key = arc._replace(ticks=0)
        found[key] = max(found.get(key, 0), arc.ticks)
    return found


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
