"""Bound the period by dependency cycles over iterations, and by stretches of a stream.

Along a cycle each op begins no earlier than the end of the previous one. The last dependency leads
back to the first op, in a later iteration: the lags of the cycle add up to the number of iterations
between. So these iterations take at least the duration of the ops on the cycle.

The computations of a stream may form a chain of dependencies, in which the first depends on the
last of the previous iteration. Such a chain divides time into spans, alternately gaps and
computations. The times of spans depend on the plan, but their order is fixed. Consider an op that
depends on one of these computations and that a later one depends on. In every plan it runs in the
spans between both.

A stretch is the time from the end of one of these computations to the start of a later one. It
contains, in every plan, the computations between, and each op that depends on the first computation
and that the last one depends on. Take a stretch as a step of its own, without other work and
dependencies. A lower bound on the completion time of this step is a lower bound on the length of
the stretch. Differences of starts add up along a cycle, whether or not stretches overlap, so a
stretch is an arc like a dependency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from sccl.solvers.effort import Effort, EffortMeter
from sccl.training.bounds.step_bounds import finish_lower_bound
from sccl.training.scheduling.cpsat_models import solve_step
from sccl.training.scheduling.search_strategies import search_by_annealing
from sccl.training.scheduling.step_problem import CyclicProblem, LaggedWait, StepOption, StepProblem


class Arc(NamedTuple):
    """A minimal difference between the starts of two ops.

    Attributes:
        before: Number of the first op.
        after: Number of the second op.
        ticks: Minimal ticks from the start of the first op to the start of the second.
        lag: Number of iterations from the first op to the second.
    """

    before: int
    after: int
    ticks: int
    lag: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """A closed sequence of arcs: each begins at the end of the one before, cyclically."""

    arcs: tuple[Arc, ...]

    @property
    def ratio(self) -> Fraction:
        """Return the ticks per iteration, or 0 if there are no arcs."""
        lag = sum(arc.lag for arc in self.arcs)
        return Fraction(sum(arc.ticks for arc in self.arcs), lag) if lag else Fraction(0)


def find_critical_cycle(count: int, arcs: Sequence[Arc]) -> Cycle:
    """Return the cycle with the largest ticks per iteration. Without arcs: an empty cycle.

    Every cycle must have a positive lag. Arcs are weighted by ticks minus the best ratio times lag.
    Bellman-Ford then finds a cycle of positive length as long as a slower cycle exists.

    Args:
        count: Number of nodes.
        arcs: Arcs between nodes 0 to ``count - 1``.
    """
    arcs = sorted(arcs, key=lambda arc: (arc.lag, arc.before))
    best = Cycle(())
    while circle := _find_slower_cycle(count, arcs, best.ratio):
        best = circle
    return best


def _find_slower_cycle(count: int, arcs: Sequence[Arc], than: Fraction) -> Cycle | None:
    far = [0] * count
    came: list[Arc | None] = [None] * count
    changed = True
    while changed:
        changed = False
        for arc in arcs:
            then = far[arc.before] + arc.ticks * than.denominator - arc.lag * than.numerator
            if then > far[arc.after]:
                far[arc.after], came[arc.after], changed = then, arc, True
        if changed and (circle := _extract_cycle(came)):
            return circle
    return None


def _extract_cycle(came: Sequence[Arc | None]) -> Cycle | None:
    """Return a cycle of the predecessor arcs, which has positive length. None: there is none."""
    seen = [-1] * len(came)
    for begun in range(len(came)):
        at, arc = begun, came[begun]
        while arc is not None and seen[at] < 0:
            seen[at], at = begun, arc.before
            arc = came[at]
        if arc is not None and seen[at] == begun:
            around = [arc]
            while around[-1].before != at:
                then = came[around[-1].before]
                assert then is not None
                around.append(then)
            return Cycle(tuple(reversed(around)))
    return None


@dataclass(frozen=True, slots=True)
class ComputeSpans:
    """The spans of a stream: gap 0, computation 0, gap 1, computation 1, and so on.

    Span numbers continue in the next iteration, and are negative in previous ones.

    Attributes:
        row: Ops of the stream's computations, in order.
        windows: First and last possible span of each op. None: any span is possible.
    """

    row: tuple[int, ...]
    windows: tuple[tuple[int, int] | None, ...]

    @property
    def count(self) -> int:
        """Return the number of spans per iteration."""
        return 2 * len(self.row)

    def spans_of_op(self, op: int) -> range:
        """Return the possible spans of an op, at most those of one iteration."""
        window = self.windows[op]
        if window is None or window[1] - window[0] + 1 >= self.count:
            return range(self.count)
        return range(window[0], window[1] + 1)


def list_compute_spans(problem: CyclicProblem) -> list[ComputeSpans]:
    """Return the spans of all streams whose computations form a chain of dependencies."""
    ops = problem.step.ops
    streams: dict[int, list[int]] = {}
    for number, op in enumerate(ops):
        motifs = op.options[0].motifs
        if not op.communicates and len(motifs) == 1 and len(motifs[0].uses) == 1:
            streams.setdefault(motifs[0].uses[0], []).append(number)
    all_spans = []
    for row in streams.values():
        early = _last_predecessors(len(ops), problem.waits, row)
        turned = [LaggedWait(after, before, lag) for before, after, lag in reversed(problem.waits)]
        latest = [
            None if k is None else len(row) - 1 - k
            for k in _last_predecessors(len(ops), turned, row[::-1])
        ]
        if len(row) == 1 or all(early[op] == k - 1 for k, op in enumerate(row)):
            windows = [_span_window(*both) for both in zip(early, latest, strict=True)]
            for k, computation in enumerate(row):
                windows[computation] = (2 * k + 1, 2 * k + 1)
            all_spans.append(ComputeSpans(tuple(row), tuple(windows)))
    return all_spans


def _span_window(early: int | None, latest: int | None) -> tuple[int, int] | None:
    return None if early is None or latest is None else (2 * early + 2, 2 * latest)


def _last_predecessors(
    count: int, waits: Sequence[LaggedWait], row: Sequence[int]
) -> list[int | None]:
    """Return the last direct or indirect predecessor in a row for each op. None: there is none.

    The result is the predecessor's place in the row, minus the length of the row for each iteration
    before.
    """
    place = {op: k for k, op in enumerate(row)}
    nearest: list[int | None] = [None] * count
    changed = True
    while changed:
        changed = False
        for before, after, lag in waits:
            then = place.get(before, nearest[before])
            if then is None:
                continue
            then -= lag * len(row)
            current = nearest[after]
            if current is None or then > current:
                nearest[after], changed = then, True
    return nearest


MAX_MOTIFS = 120
"""Largest number of motifs of all options of a stretch for CP-SAT."""

_MAX_LENGTH = 8
"""Largest number of computations within a stretch."""

_PROPOSALS = 200
_UNITS = 0.5
"""Proposals of annealing before CP-SAT, and budget of CP-SAT, for each stretch."""


def stretch_arcs(problem: CyclicProblem, spans: ComputeSpans, effort: Effort) -> list[Arc]:
    """Return the arcs of all stretches that contain more than computations.

    Short stretches come first. Equal stretches, such as those of equal layers, are solved once.

    Args:
        effort: Budget for all stretches.

    Raises:
        KeyboardInterrupt: The user interrupted.
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
                continue  # nothing but the computations of the stretch
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
    """Return the ops whose window begins in each span of iteration 0.

    Each op is given by its number, its iteration, and its last span.
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
    """Return the ops between the gap before one computation and the gap before another.

    Each op is given by iteration and number. They are sorted, so an op comes after its
    predecessors.
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
