"""Choose the windows of a step that repeats, and compute the period of its plan.

A window is the work of one period. It may begin with any computation. The computations before this
one then belong to the next iteration. The iteration of a collective is limited by its predecessors
and successors. If two iterations are possible, one window has the earlier one and another window
the later one. The dependencies within a window define a step, and a plan of this step is repeated
in every window.

Within a window communication starts in the plan's order. Each motif starts no earlier than those
before it, as soon as its predecessors have ended and its shares of resources are free. Resources
serve motifs in the plan's order, so computations keep the order of their stream. Each window is
thus determined by those before it. Once a window, with everything that it depends on, is a shifted
copy of an earlier one, windows repeat forever, and the shift gives the period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, compiled_in_place, number
from sccl.core.arrays import IntArray
from sccl.core.graphs import topological_order
from sccl.training.scheduling.list_scheduling import earliest_fit, empty_profile, reserve
from sccl.training.scheduling.step_problem import (
    CyclicPlan,
    CyclicProblem,
    LaggedWait,
    StepArrays,
    StepPlan,
    StepProblem,
    WaitArrays,
)

_WINDOWS = 24
_MAX_WINDOWS = 384
_MAX_CYCLE = 4
"""First and largest number of simulated windows, and the longest detected cycle in windows."""


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The repetition of a plan.

    Attributes:
        period: Mean ticks from one window to the next in the steady state, rounded up.
        steady: Whether repetition was observed. Otherwise the period is measured over the second
            half of the windows.
        window: First window of the cycle.
        starts: Start ticks, shape (windows, places in the order). -1: the motif would belong to an
            iteration before the first.
    """

    period: int
    steady: bool
    window: int
    starts: IntArray


def find_steady_state(problem: CyclicProblem, plan: CyclicPlan) -> SteadyState:
    """Return the steady state of a valid plan, by simulation."""
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
            return SteadyState(period, steady=False, window=half, starts=starts)
        windows *= 4


def _detect_cycle(starts: IntArray, back: int, cycle: int, apart: IntArray) -> SteadyState | None:
    """Return the steady state, if enough windows at the end repeat those ``cycle`` before.

    Args:
        back: Number of windows on which a window depends.
        apart: First place of the connected component of each place. Separate components may have
            different periods.
    """
    later = starts[cycle:] - starts[:-cycle]
    matches = (later == later[:, apart]).all(axis=1) & (later == later[-1]).all(axis=1)
    shown = len(matches) if matches.all() else int(np.argmin(matches[::-1]))
    if shown < back + cycle:
        return None
    period = -(-int(later[-1].max()) // cycle)
    return SteadyState(period, steady=True, window=len(matches) - shown, starts=starts)


class _WindowArrays(NamedTuple):
    """A window in compressed sparse rows for compiled loops, by place in the order.

    Attributes:
        ticks: Duration of each motif.
        calls: 1 for each motif that communicates, 0 for computations.
        shift: Number of iterations ahead of each motif.
        use_first: Offset in ``use`` and ``share`` for each motif, and the total at the end.
        use: Used resources.
        share: Share of each used resource.
        wait_first: Offset in ``waits`` for each motif, and the total at the end.
        waits: Place of each predecessor, and how many windows earlier it runs. Shape (2, waits).
        resources: Number of resources, shape (1,).
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
    """Return the arrays of a window. An op's first motifs wait for last motifs of other ops."""
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
    for _ in range(2):  # the first pass only counts the waits
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
    """Write the predecessors of each place, as far as ``entries`` has space. Return their number.

    Args:
        shifts: Number of iterations ahead of each place.
        op: Op of each place.
        motif: Motif of each place.
        place: Place of each motif.
        first: Offset of the predecessors of each place, and the total at the end. Updated.
        entries: Place of each predecessor, and how many windows earlier it runs. Updated.
    """
    count = number(0)
    for k in range(len(motif)):
        count = _write_wait(entries, count, k, number(1))  # its own previous execution
        for j in range(step.wait_first[motif[k]], step.wait_first[motif[k] + 1]):
            awaited_place = place[step.wait[j]]
            count = _write_wait(entries, count, awaited_place, shifts[awaited_place] - shifts[k])
        if step.wait_first[motif[k] + 1] == step.wait_first[motif[k]]:
            for j in range(waits.first[op[k]], waits.first[op[k] + 1]):
                before = waits.before[j]
                option = step.option_first[before] + choice[before]
                for index in range(step.motif_first[option], step.motif_first[option + 1]):
                    if step.next_first[index + 1] == step.next_first[index]:  # without successors
                        awaited_place = place[index]
                        windows = waits.lag[j] + shifts[awaited_place] - shifts[k]
                        count = _write_wait(entries, count, awaited_place, windows)
        first[k + 1] = count
    return count


@compiled_in_place
def _write_wait(entries: IntArray, count: int, place: int, windows: int) -> int:
    """Append a predecessor, if there is space. Return the number of predecessors."""
    if count < entries.shape[1]:
        entries[0, count], entries[1, count] = place, windows
    return count + 1


@compiled
def _find_components(arrays: _WindowArrays) -> IntArray:
    """Return the first place of the connected component of each place.

    Two places are connected if one waits for the other, if they share a resource, or if both
    communicate and are therefore issued in order.
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
    """Merge the components of two places. Return the first place of the result."""
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
    """Simulate windows. Return the starts of motifs, shape (windows, places)."""
    places, resources = len(arrays.ticks), arrays.resources[0]
    starts = np.full((windows, places), -1, dtype=np.int64)
    profile = empty_profile(resources, arrays.share)
    ahead, issued = number(0), number(0)
    for shift in arrays.shift:
        ahead = max(ahead, shift)
    for window in range(windows):
        for place in range(places):
            if window + arrays.shift[place] < ahead:
                continue  # the iteration would be before the first
            start = issued if arrays.calls[place] else number(0)
            for k in range(arrays.wait_first[place], arrays.wait_first[place + 1]):
                awaited_place, then = arrays.waits[0, k], window - arrays.waits[1, k]
                if then >= 0 and starts[then, awaited_place] >= 0:
                    start = max(start, starts[then, awaited_place] + arrays.ticks[awaited_place])
            if arrays.ticks[place]:
                first, last = arrays.use_first[place], arrays.use_first[place + 1]
                start = earliest_fit(profile, arrays.use, arrays.share, first, last, start)
                end = start + arrays.ticks[place]
                reserve(profile, arrays.use, arrays.share, first, last, start, end)
            if arrays.calls[place]:
                issued = start
            starts[window, place] = start
    return starts


_EVEN_CUTS = 6
"""Number of equal parts of the computations at whose ends windows are cut, in addition to the cuts
with the fewest crossing dependencies."""

_MIN_CROSSED_CUTS = 2


@dataclass(frozen=True, slots=True)
class StepWindow:
    """A window as a step.

    Attributes:
        step: Step with the ops in topological order.
        ops: Index in the problem of each op of the step.
        shifts: Number of iterations ahead of each op of the problem.
        waits: Dependencies of the problem.
    """

    step: StepProblem
    ops: tuple[int, ...]
    shifts: tuple[int, ...]
    waits: tuple[LaggedWait, ...]

    def to_cyclic_plan(self, plan: StepPlan) -> CyclicPlan:
        """Return the cyclic plan that repeats a plan of the window, with motifs by start."""
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
    """Return the window that equals one iteration, without shifts."""
    return _build_window(problem, (0,) * len(problem.step.ops))


def iterate_windows(problem: CyclicProblem) -> Iterator[StepWindow]:
    """Yield distinct windows, beginning with the unshifted iteration."""
    seen = set[tuple[int, ...]]()
    for cut in _candidate_cuts(problem):
        for early in (False, True):
            shifts = _op_shifts(problem, cut, early=early)
            if shifts is not None and shifts not in seen:
                seen.add(shifts)
                yield _build_window(problem, shifts)


def _candidate_cuts(problem: CyclicProblem) -> list[int]:
    """Return the first computations of windows, as indices among all computations."""
    computations = [k for k, op in enumerate(problem.step.ops) if not op.communicates]
    count = len(computations)
    cuts = [0]
    if count < 2:
        return cuts
    place = {op: k for k, op in enumerate(computations)}
    across = [0] * count  # dependencies through collectives that cross each cut
    direct = _spanned_computations(problem)
    for before, after in direct:
        for cut in range(place[before] + 1, place[after] + 1):
            across[cut] += 1
    cuts += sorted(range(1, count), key=lambda cut: (across[cut], cut))[:_MIN_CROSSED_CUTS]
    cuts += [count * k // _EVEN_CUTS for k in range(1, _EVEN_CUTS)]
    return [cut for cut in dict.fromkeys(cuts) if cut < count]


def _spanned_computations(problem: CyclicProblem) -> list[tuple[int, int]]:
    """Return the pairs of computations of one iteration with a collective between them."""
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
    """Return the number of iterations ahead of each op. None: the cut is infeasible."""
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
    """Return the window with the given shift of each op."""
    ops = problem.step.ops
    after: list[set[int]] = [set() for _ in ops]
    for before, index, lag in problem.waits:
        if lag + shifts[before] - shifts[index] == 0:
            after[index].add(before)
    order = topological_order(dict(enumerate(after)), key=lambda k: (shifts[k] != 0, k))
    place = {op: k for k, op in enumerate(order)}
    made = [replace(ops[op], after=tuple(sorted(place[k] for k in after[op]))) for op in order]
    step = StepProblem(problem.step.resources, tuple(made))
    return StepWindow(step, tuple(order), shifts, problem.waits)
