"""Choose the windows of a step that repeats, and compute the period of its plan.

A window may begin with any computation. The computations before it then belong to the next
iteration. A collective belongs to the iteration of its dependencies and dependents, unless a
dependency leads to a later one. If several are possible, it is done as early or as late as
possible. Dependencies within a window make a step, and its plan is the plan of every window.

In a window communication starts in the plan's order, each motif no earlier than those before it, as
soon as its dependencies have ended and its shares of resources are free. Resources serve in the
plan's order, so computations keep the order of their stream. Each window thus follows from those
before it. Once a window is a shifted copy of an earlier one, with everything that it depends on,
windows repeat forever, and the shift gives the period.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, compiled_in_place, number
from sccl.core.arrays import IntArray
from sccl.training.scheduling.list_scheduling import earliest_fit, empty_profile, reserve
from sccl.training.scheduling.step_problem import (
    CyclicPlan,
    CyclicProblem,
    LaggedWait,
    StepArrays,
    StepPlan,
    StepProblem,
    WaitArrays,
    motifs_in_order,
)

_WINDOWS = 24
_MAX_WINDOWS = 384
_MAX_CYCLE = 4
"""Windows that are run at first, and at the most, and after how many a plan may repeat."""


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The behavior of a plan.

    Attributes:
        period: Ticks from a window to the next, once it repeats, rounded up.
        steady: Whether repetition was observed. Otherwise the period is that of the last windows.
        window: First window that repeats.
        cycle: Number of windows after which it repeats.
        starts: Starts in each window, by place in the order. -1: of an iteration before the first.
    """

    period: int
    steady: bool
    window: int
    cycle: int
    starts: IntArray

    def finish(self, problem: CyclicProblem, plan: CyclicPlan, iterations: int = 2) -> int:
        """Return the tick by which so many iterations have ended, the first ones."""
        motifs = motifs_in_order(problem.step, plan)
        return max(
            int(self.starts[iteration - shift + max(plan.shifts), place]) + motif.ticks
            for iteration in range(iterations)
            for place, (shift, motif) in enumerate(zip(plan.shifts, motifs, strict=True))
        )


def find_steady_state(problem: CyclicProblem, plan: CyclicPlan) -> SteadyState:
    """Return the behavior of a valid plan."""
    arrays = _build_arrays(problem, plan)
    back = int(arrays.waits[1].max()) + 1
    windows = max(_WINDOWS, 4 * back)
    while True:
        starts = _run_windows(arrays, windows)
        for apart in (np.zeros(len(plan.order), dtype=np.int64), _find_components(arrays)):
            for cycle in range(1, _MAX_CYCLE + 1):
                if result := _detect_cycle(starts, back, cycle, apart):
                    return result
        if windows >= max(_MAX_WINDOWS, 4 * back):
            half = windows // 2
            period = -(-int((starts[-1] - starts[half - 1]).max()) // (windows - half))
            return SteadyState(period, steady=False, window=half, cycle=1, starts=starts)
        windows *= 4


def _detect_cycle(starts: IntArray, back: int, cycle: int, apart: IntArray) -> SteadyState | None:
    """Return the repetition after some windows, if enough windows at the end repeat.

    Args:
        apart: For each place, the first of its connected component. Separate components may repeat
            sooner than the rest.
    """
    later = starts[cycle:] - starts[:-cycle]
    matches = (later == later[:, apart]).all(axis=1) & (later == later[-1]).all(axis=1)
    shown = len(matches) if matches.all() else int(np.argmin(matches[::-1]))
    if shown < back + cycle:
        return None
    period = -(-int(later[-1].max()) // cycle)
    return SteadyState(period, steady=True, window=len(matches) - shown, cycle=cycle, starts=starts)


class _WindowArrays(NamedTuple):
    """A window for compiled loops, by place in the order.

    Attributes:
        ticks: of each motif.
        calls: whether it communicates.
        shift: of how many iterations ahead.
        use_first: where its uses begin.
        use: resources.
        share: of these.
        wait_first: where those begin that it waits for.
        waits: places, and how many windows before.
        resources: how many, as an array of one number.
    """

    ticks: IntArray
    calls: IntArray
    shift: IntArray
    use_first: IntArray
    use: IntArray
    share: IntArray
    wait_first: IntArray
    waits: IntArray
    resources: IntArray


def _build_arrays(problem: CyclicProblem, plan: CyclicPlan) -> _WindowArrays:
    """Return the arrays of a window, whose motifs depend on the last motifs of other ops."""
    step, order = problem.step.arrays, np.array(plan.order, dtype=np.int64).reshape(-1, 2)
    choice, shifts = (np.array(row, dtype=np.int64) for row in (plan.options, plan.shifts))
    op = order[:, 0].copy()
    motif = step.motif_first[step.option_first[op] + choice[op]] + order[:, 1]
    uses = step.use_first[motif + 1] - step.use_first[motif]
    use_first = np.concatenate([[0], np.cumsum(uses)])
    rows = np.arange(use_first[-1]) + np.repeat(step.use_first[motif] - use_first[:-1], uses)
    place, wait_first = np.full(len(step.ticks), -1), np.zeros(len(motif) + 1, dtype=np.int64)
    place[motif] = np.arange(len(motif))
    waits = np.empty((2, 0), dtype=np.int64)
    for _ in range(2):  # first they are counted
        count = _write_waits(
            *(step, problem.wait_arrays, choice, shifts, op, motif, place), wait_first, waits
        )
        waits = np.empty((2, count), dtype=np.int64) if not waits.size else waits
    return _WindowArrays(
        step.ticks[motif],
        step.communicates[op],
        shifts,
        use_first,
        step.use[rows],
        step.share[rows],
        wait_first,
        waits,
        step.resources,
    )


@compiled_in_place
def _write_waits(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    waits: WaitArrays,
    choice: IntArray,
    shifts: IntArray,
    op: IntArray,
    motif: IntArray,
    place: IntArray,
    first: IntArray,
    entries: IntArray,
) -> int:
    """Write for whom each place waits, as far as there is room; return how many that are.

    Args:
        shifts: of each place.
        op: of each place.
        motif: of each place.
        place: of each motif.
        first: of each place, where its waits begin. One more at the end.
        entries: places, and how many windows before.
    """
    count = number(0)
    for k in range(len(motif)):
        count = _write_wait(entries, count, k, number(1))  # it follows upon itself
        for j in range(step.wait_first[motif[k]], step.wait_first[motif[k] + 1]):
            awaited_place = place[step.wait[j]]
            count = _write_wait(entries, count, awaited_place, shifts[awaited_place] - shifts[k])
        if step.wait_first[motif[k] + 1] == step.wait_first[motif[k]]:
            for j in range(waits.first[op[k]], waits.first[op[k] + 1]):
                before = waits.before[j]
                option = step.option_first[before] + choice[before]
                for index in range(step.motif_first[option], step.motif_first[option + 1]):
                    if step.next_first[index + 1] == step.next_first[index]:  # the last of its own
                        awaited_place = place[index]
                        windows = waits.lag[j] + shifts[awaited_place] - shifts[k]
                        count = _write_wait(entries, count, awaited_place, windows)
        first[k + 1] = count
    return count


@compiled_in_place
def _write_wait(entries: IntArray, count: int, place: int, windows: int) -> int:
    """Write a wait, if there is room; return how many there are."""
    if count < entries.shape[1]:
        entries[0, count], entries[1, count] = place, windows
    return count + 1


@compiled
def _find_components(arrays: _WindowArrays) -> IntArray:
    """Return of each place the first of those that it has to do with.

    They wait for one another, use the same, or are issued in one order, however indirectly.
    """
    places, caller = len(arrays.ticks), -1
    first, user = np.arange(places), np.full(arrays.resources[0], -1, dtype=np.int64)
    for place in range(places):
        joined = place
        for k in range(arrays.wait_first[place], arrays.wait_first[place + 1]):
            joined = _union_components(first, joined, arrays.waits[0, k])
        if arrays.ticks[place]:
            for k in range(arrays.use_first[place], arrays.use_first[place + 1]):
                resource = arrays.use[k]
                if user[resource] < 0:
                    user[resource] = place
                joined = _union_components(first, joined, user[resource])
        if arrays.calls[place]:
            if caller < 0:
                caller = place
            joined = _union_components(first, joined, caller)
    for place in range(places):
        first[place] = _union_components(first, place, place)
    return first


@compiled_in_place
def _union_components(first: IntArray, place: int, other_place: int) -> int:
    """Join those of which two are part; return the first of them."""
    while first[place] != place:
        first[place] = first[first[place]]
        place = first[place]
    while first[other_place] != other_place:
        first[other_place] = first[first[other_place]]
        other_place = first[other_place]
    joined = min(place, other_place)
    first[place] = first[other_place] = joined
    return joined


@compiled
def _run_windows(arrays: _WindowArrays, windows: int) -> IntArray:
    """Return when motifs start, window by window."""
    places, resources = len(arrays.ticks), arrays.resources[0]
    starts = np.full((windows, places), -1, dtype=np.int64)
    room = empty_profile(resources, arrays.share)
    ahead, issued = number(0), number(0)
    for shift in arrays.shift:
        ahead = max(ahead, shift)
    for window in range(windows):
        for place in range(places):
            if window + arrays.shift[place] < ahead:
                continue  # of an iteration before the first
            start = issued if arrays.calls[place] else number(0)
            for k in range(arrays.wait_first[place], arrays.wait_first[place + 1]):
                awaited_place, then = arrays.waits[0, k], window - arrays.waits[1, k]
                if then >= 0 and starts[then, awaited_place] >= 0:
                    start = max(start, starts[then, awaited_place] + arrays.ticks[awaited_place])
            if arrays.ticks[place]:
                first, last = arrays.use_first[place], arrays.use_first[place + 1]
                start = earliest_fit(room, arrays.use, arrays.share, first, last, start)
                end = start + arrays.ticks[place]
                reserve(room, arrays.use, arrays.share, first, last, start, end)
            if arrays.calls[place]:
                issued = start
            starts[window, place] = start
    return starts


_EVEN_CUTS = 6
"""Places at which windows begin, beside those where few waits lead across."""

_MIN_CROSSED_CUTS = 2


@dataclass(frozen=True, slots=True)
class StepWindow:
    """A step that is done in each window.

    Attributes:
        step: its ops in an order in which each comes after those that it waits for.
        ops: of each op of the step: which of the problem it is.
        shifts: of each op of the problem: of how many iterations ahead it is done.
        waits: of the problem.
    """

    step: StepProblem
    ops: tuple[int, ...]
    shifts: tuple[int, ...]
    waits: tuple[LaggedWait, ...]

    def to_cyclic_plan(self, plan: StepPlan) -> CyclicPlan:
        """Return the plan of all windows that a plan of one is: motifs in the order of starts."""
        options = [0] * len(self.ops)
        rows = []
        for index, (op, choice, starts) in enumerate(
            zip(self.ops, plan.options, plan.starts, strict=True)
        ):
            options[op] = choice
            rows += [(start, index, k, op) for k, start in enumerate(starts)]
        rows.sort()
        order = tuple((op, k) for _, _, k, op in rows)
        return CyclicPlan(tuple(options), order, tuple(self.shifts[op] for op, _ in order))


def identity_window(problem: CyclicProblem) -> StepWindow:
    """Return the window that is an iteration, from its first computation to its last."""
    return _build_window(problem, (0,) * len(problem.step.ops))


def iterate_windows(problem: CyclicProblem) -> Iterator[StepWindow]:
    """Yield windows, each once; first the iteration as it is."""
    seen = set[tuple[int, ...]]()
    for cut in _candidate_cuts(problem):
        for early in (False, True):
            shifts = _op_shifts(problem, cut, early=early)
            if shifts is not None and shifts not in seen:
                seen.add(shifts)
                yield _build_window(problem, shifts)


def _candidate_cuts(problem: CyclicProblem) -> list[int]:
    """Return with which computations windows begin, by their place among all computations."""
    computations = [k for k, op in enumerate(problem.step.ops) if not op.communicates]
    count = len(computations)
    cuts = [0]
    if count < 2:
        return cuts
    place = {op: k for k, op in enumerate(computations)}
    across = [0] * count  # waits between computations before a cut and after it, through calls
    direct = _spanned_computations(problem)
    for before, after in direct:
        for cut in range(place[before] + 1, place[after] + 1):
            across[cut] += 1
    cuts += sorted(range(1, count), key=lambda cut: (across[cut], cut))[:_MIN_CROSSED_CUTS]
    cuts += [count * k // _EVEN_CUTS for k in range(1, _EVEN_CUTS)]
    return [cut for cut in dict.fromkeys(cuts) if cut < count]


def _spanned_computations(problem: CyclicProblem) -> list[tuple[int, int]]:
    """Return the pairs of computations of one iteration that a collective leads across."""
    ops = problem.step.ops
    users: list[list[int]] = [[] for _ in ops]
    for index, op in enumerate(ops):
        for k in op.after:
            users[k].append(index)
    return [
        (before, after)
        for index, op in enumerate(ops)
        if op.communicates
        for before in op.after
        if not ops[before].communicates
        for after in users[index]
        if not ops[after].communicates
    ]


def _op_shifts(problem: CyclicProblem, cut: int, *, early: bool) -> tuple[int, ...] | None:
    """Return of how many iterations ahead each op is done. None: there is no way."""
    ops, fixed, seen = problem.step.ops, list[int | None](), 0
    for op in ops:
        if op.communicates:
            fixed.append(None)
            continue
        fixed.append(1 if seen < cut else 0)
        seen += 1
    shifts = [(1 if early else 0) if shift is None else shift for shift in fixed]
    moved = True
    while moved:
        moved = False
        for before, after, lag in problem.waits:
            if lag + shifts[before] - shifts[after] >= 0:
                continue
            moving_op, wanted = (
                (after, lag + shifts[before]) if early else (before, shifts[after] - lag)
            )
            if fixed[moving_op] is not None or not 0 <= wanted <= 1:
                return None
            shifts[moving_op], moved = wanted, True
    return tuple(shifts)


def _build_window(problem: CyclicProblem, shifts: tuple[int, ...]) -> StepWindow:
    """Return the window in which ops are done of iterations so far ahead."""
    ops = problem.step.ops
    after: list[set[int]] = [set() for _ in ops]
    for before, index, lag in problem.waits:
        if lag + shifts[before] - shifts[index] == 0:
            after[index].add(before)
    order = _topological_order(after, [(-shifts[k] == 0, k) for k in range(len(ops))])
    place = {op: k for k, op in enumerate(order)}
    made = [replace(ops[op], after=tuple(sorted(place[k] for k in after[op]))) for op in order]
    step = StepProblem(problem.step.resources, tuple(made))
    return StepWindow(step, tuple(order), shifts, problem.waits)


def _topological_order(after: Sequence[set[int]], keys: Sequence[tuple[bool, int]]) -> list[int]:
    """Return numbers in the order of their keys, as far as each comes after those it waits for."""
    left = [len(predecessors) for predecessors in after]
    users: list[list[int]] = [[] for _ in after]
    for index, predecessors in enumerate(after):
        for k in predecessors:
            users[k].append(index)
    ready = [(not keys[k][0], keys[k][1], k) for k, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, _, index = heapq.heappop(ready)
        order.append(index)
        for k in users[index]:
            left[k] -= 1
            if not left[k]:
                heapq.heappush(ready, (not keys[k][0], keys[k][1], k))
    return order
