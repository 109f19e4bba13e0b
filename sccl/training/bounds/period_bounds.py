"""Compute lower bounds on the period of a step.

There are five bounds, each with its proof:

- ``computation``: the total ticks of a stream's computations.
- ``load``: for prices of resources, their mean load in an iteration.
- ``circle``: a dependency cycle over iterations, with the fastest isolated option of each op.
- ``stretches``: such a cycle, also over stretches of a stream that are solved separately
  (:mod:`sccl.training.bounds.cycle_bounds`).
- ``spans``: dependencies and loads together, by the spans of a stream, with stretches
  (:mod:`sccl.training.bounds.span_lp`).

All of them use tightened shares. They may mix options, while a plan uses one option of each op in
all iterations. The repetition time of isolated options therefore gives a further bound. For any
limit L, a plan with a period below L uses no option with a repetition time of L or more. So the
smaller one of L, and a bound for plans without these options, is a bound for all plans.

A share above one half excludes all others above one half, but the load bound only adds up shares.
Shares are therefore replaced by a dual feasible function, as in bounds for bin packing: shares that
fit together still fit. For some p above one half, the function maps shares of p or more to 1,
shares that fit next to p to 0, and keeps the shares in between. If no share becomes 0, the
tightened problem has the same plans. Otherwise the mapped shares are added as another resource.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil

from sccl.core.bound import Bound, Measure
from sccl.solvers.effort import Effort
from sccl.training.bounds.cycle_bounds import (
    Arc,
    Cycle,
    find_critical_cycle,
    list_compute_spans,
    stretch_arcs,
)
from sccl.training.bounds.span_lp import (
    SpanPrices,
    SpanProgram,
    solve_span_bound,
    verify_span_bound,
)
from sccl.training.bounds.step_bounds import (
    load_bound,
    load_prices,
    min_durations,
    min_repeat_interval,
)
from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    CyclicProblem,
    StepMotif,
    StepOption,
    StepProblem,
)

STRETCH_EFFORT = Effort(units=2.0)
"""Default budget for the stretches of each stream."""


@dataclass(frozen=True, slots=True)
class SpanProof:
    """Prices and flows, with their program."""

    program: SpanProgram
    prices: SpanPrices


@dataclass(frozen=True, slots=True)
class PeriodProof:
    """The proof of a lower bound on the period, the mean ticks of an iteration.

    Attributes:
        kind: ``computation``, ``load``, ``circle``, ``stretches`` or ``spans``.
        evidence: Resource of the stream, prices of resources, cycle, or prices and flows of spans.
        limit: Limit in ticks: the proof omits options with this or a longer repetition time. 0: it
            covers all options.
    """

    kind: str
    evidence: int | dict[int, Fraction] | Cycle | SpanProof
    limit: int = 0


PeriodBound = Bound[int, PeriodProof]
"""A lower bound on the period, in ticks."""


def period_lower_bound(problem: CyclicProblem, effort: Effort = STRETCH_EFFORT) -> PeriodBound:
    """Return the highest of all bounds, and the simplest of equal ones.

    Args:
        effort: Budget for the stretches of each stream.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    tight = tighten_capacities(problem)
    best = max(iterate_period_bounds(tight, effort), key=lambda bound: bound.value)
    limit = _best_length_limit(tight, best.value)
    if not limit:
        return best
    faster = max(
        iterate_period_bounds(_drop_slow_options(tight, limit), effort),
        key=lambda bound: bound.value,
    )
    faster = replace(
        faster, value=min(faster.value, limit), proof=replace(faster.proof, limit=limit)
    )
    return max(best, faster, key=lambda bound: bound.value)


def _best_length_limit(problem: CyclicProblem, known_bound: int) -> int:
    """Return the limit that may give a higher bound than the known one. 0: none.

    A higher limit permits more options below it, and lowers the bound for plans with these options.
    """
    option_limits = {
        min_repeat_interval(option) for op in problem.step.ops for option in op.options
    }
    floor = max(min(map(min_repeat_interval, op.options)) for op in problem.step.ops)
    limits = sorted(limit for limit in option_limits if limit > max(known_bound, floor))

    def bound(limit: int) -> int:
        return max(
            candidate.value
            for candidate in islice(iterate_period_bounds(_drop_slow_options(problem, limit)), 3)
        )

    first = bisect_left(limits, 1, key=lambda limit: int(bound(limit) <= limit))
    near = limits[max(first - 1, 0) : first + 1]
    best = max(near, key=lambda limit: min(bound(limit), limit), default=0)
    return best if best and bound(best) > known_bound else 0


def _drop_slow_options(problem: CyclicProblem, limit: int) -> CyclicProblem:
    """Return the problem without options whose repetition time reaches the limit."""
    kept_options: dict[int, tuple[StepOption, ...]] = {}
    ops = []
    for op in problem.step.ops:
        if id(op.options) not in kept_options:
            kept_options[id(op.options)] = tuple(
                o for o in op.options if min_repeat_interval(o) < limit
            )
        ops.append(replace(op, options=kept_options[id(op.options)]))
    return CyclicProblem(StepProblem(problem.step.resources, tuple(ops)), problem.lagged_waits)


def iterate_period_bounds(
    problem: CyclicProblem, effort: Effort = STRETCH_EFFORT
) -> Iterator[PeriodBound]:
    """Yield all bounds, the simplest first.

    Args:
        effort: Budget for the stretches of each stream.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    step = problem.step
    stream, ticks = _busiest_computation(step)
    yield _make_bound(ticks, "computation", stream)
    never = [0] * len(step.resources)  # no idle ticks, because iterations overlap
    prices = load_prices(step, never)
    yield _make_bound(load_bound(step, prices, never), "load", prices)
    lengths = min_durations(step)
    waits = wait_arcs(problem, lengths)
    circle = find_critical_cycle(len(step.ops), waits)
    yield _make_bound(ceil(circle.ratio), "circle", circle)
    for spans in list_compute_spans(problem):
        arcs = stretch_arcs(problem, spans, effort)
        circle = find_critical_cycle(len(step.ops), [*waits, *arcs])
        yield _make_bound(ceil(circle.ratio), "stretches", circle)
        program = SpanProgram(problem, spans, lengths, tuple(arcs))
        ticks, multipliers = solve_span_bound(program)
        yield _make_bound(ticks, "spans", SpanProof(program, multipliers))


def _make_bound(
    ticks: int, kind: str, evidence: int | dict[int, Fraction] | Cycle | SpanProof
) -> PeriodBound:
    return Bound(Measure.TICKS, ticks, PeriodProof(kind, evidence))


def wait_arcs(problem: CyclicProblem, lengths: list[list[int]]) -> list[Arc]:
    """Return dependencies as arcs, each with the minimal duration of the first op.

    An op also depends on its previous execution, by the shortest repetition time of its options.
    """
    arcs = [Arc(before, after, min(lengths[before]), lag) for before, after, lag in problem.waits]
    for number, op in enumerate(problem.step.ops):
        again = min(map(min_repeat_interval, op.options))
        arcs.append(Arc(number, number, again, 1))
    return arcs


def find_bound_fault(problem: CyclicProblem, bound: PeriodBound) -> str:
    """Return a violation of a bound, recomputed from its proof. Empty: none."""
    proof, problem = bound.proof.evidence, tighten_capacities(problem)
    limit = bound.proof.limit
    if limit:
        problem = _drop_slow_options(problem, limit)
    step = problem.step
    if isinstance(proof, int):
        ticks = _computation_ticks(step).get(proof, 0)
    elif isinstance(proof, Cycle):
        if wrong := _find_cycle_fault(proof) or _find_arc_fault(problem, proof.arcs):
            return wrong
        ticks = ceil(proof.ratio)
    elif isinstance(proof, dict):
        ticks = load_bound(step, proof, [0] * len(step.resources))
    else:
        if wrong := _find_arc_fault(problem, proof.program.arcs):
            return wrong
        ticks = verify_span_bound(proof.program, proof.prices)
    ticks = min(ticks, limit or ticks)
    return "" if bound.value <= ticks else f"it claims {bound.value} ticks, and {ticks} are proved"


def _find_cycle_fault(circle: Cycle) -> str:
    for k, arc in enumerate(circle.arcs):
        if circle.arcs[k - 1].after != arc.before:
            return f"op {arc.before} does not go on from op {circle.arcs[k - 1].after}"
    return ""


def _find_arc_fault(problem: CyclicProblem, arcs: Sequence[Arc]) -> str:
    latest = _arc_ticks(wait_arcs(problem, min_durations(problem.step)))
    if any(arc.ticks > latest.get(arc._replace(ticks=0), -1) for arc in arcs):
        added = [
            arc
            for spans in list_compute_spans(problem)
            for arc in stretch_arcs(problem, spans, STRETCH_EFFORT)
        ]
        latest = _arc_ticks([*wait_arcs(problem, min_durations(problem.step)), *added])
    for arc in arcs:
        if arc.ticks > latest.get(arc._replace(ticks=0), -1):
            return f"op {arc.after} does not begin {arc.ticks} ticks after op {arc.before}"
    return ""


def _arc_ticks(arcs: Iterable[Arc]) -> dict[Arc, int]:
    """Return the largest ticks of each arc, by the arc with its ticks set to 0."""
    latest: dict[Arc, int] = {}
    for arc in arcs:
        key = arc._replace(ticks=0)
        latest[key] = max(latest.get(key, 0), arc.ticks)
    return latest


def _computation_ticks(step: StepProblem) -> dict[int, int]:
    """Return the total ticks of computations on each resource that they occupy completely."""
    ticks: dict[int, int] = {}
    for op in step.ops:
        for motif in () if op.communicates else op.options[0].motifs:
            for resource, part in zip(motif.uses, motif.parts, strict=True):
                if part == FULL_SHARE:
                    ticks[resource] = ticks.get(resource, 0) + motif.ticks
    return ticks


def _busiest_computation(step: StepProblem) -> tuple[int, int]:
    """Return the resource with the largest total of computation, and this total in ticks."""
    rows = sorted(_computation_ticks(step).items(), key=lambda row: (-row[1], row[0]))
    return rows[0] if rows else (0, 0)


_HALF = FULL_SHARE // 2


def tighten_capacities(problem: CyclicProblem) -> CyclicProblem:
    """Return a problem with the same plans, but larger shares and additional resources.

    Additional resources come last.
    """
    step = problem.step
    parts: list[set[int]] = [set() for _ in step.resources]
    for op in step.ops:
        for option in op.options:
            for motif in option.motifs:
                for resource, part in zip(motif.uses, motif.parts, strict=True):
                    parts[resource].add(part)
    all_from = [max(_HALF, FULL_SHARE - min(shares, default=FULL_SHARE)) + 1 for shares in parts]
    halves = [
        number
        for number, (shares, from_) in enumerate(zip(parts, all_from, strict=True))
        if any(_HALF < part < from_ for part in shares)
    ]
    more = {resource: len(step.resources) + k for k, resource in enumerate(halves)}
    cache: dict[int, tuple[StepOption, ...]] = {}
    ops = []
    for op in step.ops:
        if id(op.options) not in cache:
            cache[id(op.options)] = tuple(
                replace(
                    option, motifs=tuple(_raise_shares(m, all_from, more) for m in option.motifs)
                )
                for option in op.options
            )
        ops.append(replace(op, options=cache[id(op.options)]))
    names = (*step.resources, *(f"{step.resources[k]}, more than half" for k in halves))
    return CyclicProblem(StepProblem(names, tuple(ops)), problem.lagged_waits)


def _raise_shares(motif: StepMotif, all_from: list[int], more: dict[int, int]) -> StepMotif:
    uses, shares = list(motif.uses), list[int]()
    for resource, part in zip(motif.uses, motif.parts, strict=True):
        shares.append(FULL_SHARE if part >= all_from[resource] else part)
        if resource in more and part >= _HALF:
            uses.append(more[resource])
    shares += [
        FULL_SHARE if part > _HALF else _HALF
        for resource, part in zip(motif.uses, motif.parts, strict=True)
        if resource in more and part >= _HALF
    ]
    return replace(motif, uses=tuple(uses), shares=tuple(shares))
