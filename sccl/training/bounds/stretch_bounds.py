"""Bound stretches of a stream by solving them separately.

A stretch goes from the end of one of the stream's computations to the begin of a later one. An op
that depends on the first, and that the second depends on, lies completely in it, in every plan, and
so do the computations between. As a step of its own, a stretch leaves out all other work and
dependencies, so a lower bound for the step is a lower bound for the stretch. Differences of begins
add up along a cycle, whether or not stretches overlap, so they are arcs like any other.
"""

from __future__ import annotations

from dataclasses import replace

from sccl.solvers.effort import Effort, EffortMeter
from sccl.training.bounds.cycle_ratio import Arc
from sccl.training.bounds.step_bounds import finish_lower_bound
from sccl.training.bounds.stream_spans import ComputeSpans
from sccl.training.scheduling.cpsat_models import solve_step
from sccl.training.scheduling.search_strategies import search_by_annealing
from sccl.training.scheduling.step_problem import CyclicProblem, LaggedWait, StepOption, StepProblem

MAX_MOTIFS = 120
"""Largest number of motifs of all options of a stretch for CP-SAT."""

_MAX_LENGTH = 8
"""Computations within a stretch, at the most."""

_PROPOSALS = 200
_UNITS = 0.5
"""Budget of annealing before CP-SAT, and of CP-SAT for a stretch."""


def stretch_arcs(problem: CyclicProblem, spans: ComputeSpans, effort: Effort) -> list[Arc]:
    """Return by how much computations begin after others, where more than these is in between.

    Short ones come first. Those that are alike, as those of layers are, are solved once.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    row, spending, ops = spans.row, EffortMeter(effort), problem.step.ops
    cache: dict[tuple[object, ...], int] = {}
    kinds: dict[tuple[StepOption, ...], int] = {}
    kind = [kinds.setdefault(op.options, len(kinds)) for op in ops]
    waits: list[list[LaggedWait]] = [[] for _ in ops]
    for wait in problem.waits:
        waits[wait.after].append(wait)
    arcs, placed = [], ops_by_first_span(spans)
    for longer in range(min(_MAX_LENGTH, len(row) - 1) + 1):
        for first in range(len(row)):
            last = first + longer
            inside = ops_inside(spans, placed, first, last)
            if len(inside) <= longer + 1:
                continue  # computations, and one that lies between two of them
            place = {item: k for k, item in enumerate(inside)}
            rows = [
                {place[t - w.lag, w.before] for w in waits[op] if (t - w.lag, w.before) in place}
                for t, op in inside
            ]
            after = [tuple(sorted(value)) for value in rows]
            key = tuple((kind[op], value) for (_, op), value in zip(inside, after, strict=True))
            if key not in cache:
                alike = [
                    replace(ops[op], after=value)
                    for (_, op), value in zip(inside, after, strict=True)
                ]
                cache[key] = _stretch_lower_bound(
                    StepProblem(problem.step.resources, tuple(alike)), spending
                )
            begun = row[first - 1]
            value = ops[begun].options[0].motifs[0].ticks
            lag = last // len(row) - (first - 1) // len(row)
            arcs.append(Arc(begun, row[last % len(row)], value + cache[key], lag))
    return arcs


def ops_by_first_span(spans: ComputeSpans) -> list[list[tuple[int, int, int]]]:
    """Return, for each span of iteration 0, the ops that may begin there.

    Each is given by its number, its iteration, and its last span.
    """
    by_span: list[list[tuple[int, int, int]]] = [[] for _ in range(spans.count)]
    for op, window in enumerate(spans.windows):
        if window is not None:
            low, high = window
            back, at = divmod(low, spans.count)
            by_span[at].append((op, -back, high - back * spans.count))
    return by_span


def ops_inside(
    spans: ComputeSpans, placed: list[list[tuple[int, int, int]]], first: int, last: int
) -> list[tuple[int, int]]:
    """Return the ops that lie between the gap before one computation and that before another.

    Each is given by iteration and number, so that it comes after its dependencies.
    """
    inside: list[tuple[int, int]] = []
    for span in range(2 * first, 2 * last + 1):
        iteration, at = divmod(span, spans.count)
        inside += [
            (iteration + ahead, op)
            for op, ahead, until in placed[at]
            if until + iteration * spans.count <= 2 * last
        ]
    return sorted(inside)


def _stretch_lower_bound(step: StepProblem, spending: EffortMeter) -> int:
    bound = finish_lower_bound(step).value
    motifs = sum(len(option.motifs) for op in step.ops for option in op.options)
    left = spending.remaining(_UNITS)
    if motifs > MAX_MOTIFS or left is None or spending.is_exhausted():
        return bound
    plan = search_by_annealing(step, _PROPOSALS, target=bound)
    if plan.finish(step) <= bound:
        return bound
    result = solve_step(step, left, plan)
    spending.units += _UNITS if not result.proved else 0.0
    return max(bound, result.bound)
