"""What a plan of a step that repeats comes to: windows one after the other, and its period.

In a window communication starts in the plan's order, each motif no earlier than those before it, as
soon as what it waits for has ended and its shares of resources are free. Resources serve in the
plan's order, so that computations run in the order of their stream. So each window is told by those
before it; once all of it is as much later as what it depends on, it is so for ever: that is the
period.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.train.cyclic import CyclicPlan, CyclicProblem, WaitArrays, motifs_in_order
from sccl.train.problem import StepArrays, Whole
from sccl.train.sharing import free_for, nobody_has, take

_WINDOWS = 24
_MOST_WINDOWS = 384
_LONGEST_CYCLE = 4
"""Windows that are run at first, and at the most, and after how many a plan may repeat."""

Windows = NDArray[np.int64]
"""Ticks, by window and by place in the order."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a plan comes to.

    Attributes:
        period: ticks from a window to the next, once it repeats; rounded up.
        steady: whether it was seen to repeat; else the period is that of the last windows.
        window: from which on it repeats.
        cycle: after how many windows it repeats.
        starts: of each window that was run, by place in the order; -1: of an iteration before the
            first.
    """

    period: int
    steady: bool
    window: int
    cycle: int
    starts: Windows

    def finish(self, problem: CyclicProblem, plan: CyclicPlan, iterations: int = 2) -> int:
        """Return the tick by which so many iterations have ended, the first ones."""
        motifs = motifs_in_order(problem.step, plan)
        return max(
            int(self.starts[iteration - plan.shifts[op] + max(plan.shifts), place]) + motif.ticks
            for iteration in range(iterations)
            for place, ((op, _), motif) in enumerate(zip(plan.order, motifs, strict=True))
        )


def repeated(problem: CyclicProblem, plan: CyclicPlan) -> Repeated:
    """Return what a plan comes to, which is not wrong."""
    arrays = _arrays(problem, plan)
    back = max(arrays.wait_windows.tolist()) + 1
    windows = max(_WINDOWS, 4 * back)
    while True:
        starts = _run(arrays, windows)
        for apart in (np.zeros(len(plan.order), dtype=np.int64), _apart(arrays)):
            for cycle in range(1, _LONGEST_CYCLE + 1):
                if found := _steady(starts, back, cycle, apart):
                    return found
        if windows >= max(_MOST_WINDOWS, 4 * back):
            half = windows // 2
            period = -(-int((starts[-1] - starts[half - 1]).max()) // (windows - half))
            return Repeated(period, steady=False, window=half, cycle=1, starts=starts)
        windows *= 4


def _steady(starts: Windows, back: int, cycle: int, apart: Whole) -> Repeated | None:
    """Return what repeats after some windows, if as many do so at the end as any depends on.

    Args:
        apart: of each place, the first of those that it has to do with: what has nothing to do with
            the rest may repeat sooner than that.
    """
    later = starts[cycle:] - starts[:-cycle]
    same = (later == later[:, apart]).all(axis=1) & (later == later[-1]).all(axis=1)
    shown = len(same) if same.all() else int(np.argmin(same[::-1]))
    if shown < back + cycle:
        return None
    period = -(-int(later[-1].max()) // cycle)
    return Repeated(period, steady=True, window=len(same) - shown, cycle=cycle, starts=starts)


class _Arrays(NamedTuple):
    """A window for compiled loops, by place in the order.

    Attributes:
        ticks: of each motif.
        calls: whether it communicates.
        shift: of its op.
        use_first: where its uses begin.
        use: resources.
        share: of these.
        wait_first: where those begin that it waits for.
        wait: places.
        wait_windows: how many windows before.
        resources: how many, as an array of one number.
    """

    ticks: Whole
    calls: Whole
    shift: Whole
    use_first: Whole
    use: Whole
    share: Whole
    wait_first: Whole
    wait: Whole
    wait_windows: Whole
    resources: Whole


def _arrays(problem: CyclicProblem, plan: CyclicPlan) -> _Arrays:
    order = np.array(plan.order, dtype=np.int64).reshape(-1, 2)
    choice, shifts = (np.array(row, dtype=np.int64) for row in (plan.options, plan.shifts))
    return _woven(problem.step.arrays, problem.wait_arrays, choice, shifts, order)


@compiled
def _woven(  # noqa: PLR0912 - loops
    step: StepArrays, waits: WaitArrays, choice: Whole, shifts: Whole, order: Windows
) -> _Arrays:
    """Return a window, whose motifs wait for the last ones of what their op waits for."""
    places = len(order)
    motif, place = np.empty(places, dtype=np.int64), np.full(len(step.ticks), -1, dtype=np.int64)
    for k in range(places):
        op = order[k, 0]
        motif[k] = step.motif_first[step.option_first[op] + choice[op]] + order[k, 1]
        place[motif[k]] = k
    uses = step.use_first[motif + 1] - step.use_first[motif]
    use_first = np.zeros(places + 1, dtype=np.int64)
    use_first[1:] = np.cumsum(uses)
    use = np.empty(use_first[-1], dtype=np.int64)
    share = np.empty(use_first[-1], dtype=np.int64)
    for k in range(places):
        from_, to = step.use_first[motif[k]], step.use_first[motif[k] + 1]
        use[use_first[k] : use_first[k + 1]] = step.use[from_:to]
        share[use_first[k] : use_first[k + 1]] = step.share[from_:to]
    wait_first = np.zeros(places + 1, dtype=np.int64)
    wait = np.empty(0, dtype=np.int64)
    windows = np.empty(0, dtype=np.int64)
    for writes in (False, True):
        count = 0
        for k in range(places):
            one, op = motif[k], order[k, 0]
            if writes:
                wait[count], windows[count] = k, 1  # it follows upon itself
            count += 1
            for j in range(step.wait_first[one], step.wait_first[one + 1]):
                if writes:
                    wait[count], windows[count] = place[step.wait[j]], 0
                count += 1
            if step.wait_first[one + 1] == step.wait_first[one]:
                for j in range(waits.first[op], waits.first[op + 1]):
                    before = waits.before[j]
                    option = step.option_first[before] + choice[before]
                    for other in range(step.motif_first[option], step.motif_first[option + 1]):
                        if step.next_first[other + 1] > step.next_first[other]:
                            continue  # others of it end later
                        if writes:
                            wait[count] = place[other]
                            windows[count] = waits.lag[j] + shifts[before] - shifts[op]
                        count += 1
            wait_first[k + 1] = count
        if not writes:
            wait, windows = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    return _Arrays(
        step.ticks[motif],
        step.communicates[order[:, 0]],
        shifts[order[:, 0]],
        use_first,
        use,
        share,
        wait_first,
        wait,
        windows,
        step.resources,
    )


@compiled
def _apart(arrays: _Arrays) -> Whole:
    """Return of each place the first of those that it has to do with.

    They wait for one another, use the same, or are issued in one order, however indirectly.
    """
    places, caller = len(arrays.ticks), -1
    first, user = np.arange(places), np.full(arrays.resources[0], -1, dtype=np.int64)
    for place in range(places):
        joined = place
        for k in range(arrays.wait_first[place], arrays.wait_first[place + 1]):
            joined = _joined(first, joined, arrays.wait[k])
        if arrays.ticks[place]:
            for k in range(arrays.use_first[place], arrays.use_first[place + 1]):
                resource = arrays.use[k]
                if user[resource] < 0:
                    user[resource] = place
                joined = _joined(first, joined, user[resource])
        if arrays.calls[place]:
            if caller < 0:
                caller = place
            joined = _joined(first, joined, caller)
    for place in range(places):
        first[place] = _joined(first, place, place)
    return first


@compiled
def _joined(first: Whole, one: int, other: int) -> int:
    """Join those of which two are part; return the first of them."""
    while first[one] != one:
        first[one] = first[first[one]]
        one = first[one]
    while first[other] != other:
        first[other] = first[first[other]]
        other = first[other]
    joined = min(one, other)
    first[one] = first[other] = joined
    return joined


@compiled
def _run(arrays: _Arrays, windows: int) -> Windows:
    """Return when motifs start, window by window."""
    places, resources = len(arrays.ticks), arrays.resources[0]
    starts = np.full((windows, places), -1, dtype=np.int64)
    room = nobody_has(resources, arrays.share.min() if len(arrays.share) else 1)
    ahead, issued = arrays.shift.max(), 0
    for window in range(windows):
        for place in range(places):
            if window + arrays.shift[place] < ahead:
                continue  # of an iteration before the first
            start = issued if arrays.calls[place] else 0
            for k in range(arrays.wait_first[place], arrays.wait_first[place + 1]):
                other, then = arrays.wait[k], window - arrays.wait_windows[k]
                if then >= 0 and starts[then, other] >= 0:
                    start = max(start, int(starts[then, other] + arrays.ticks[other]))
            if arrays.ticks[place]:
                first, last = arrays.use_first[place], arrays.use_first[place + 1]
                start = free_for(room, arrays.use, arrays.share, first, last, start)
                end = start + arrays.ticks[place]
                take(room, arrays.use, arrays.share, first, last, start, end)
            if arrays.calls[place]:
                issued = start
            starts[window, place] = start
    return starts
