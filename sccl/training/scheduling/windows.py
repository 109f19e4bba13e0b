"""Choose windows of a step that repeats: the begin of an iteration, and the work done ahead.

A window may begin with any computation. The computations before it then belong to the next
iteration. A collective belongs to the iteration of its dependencies and dependents, unless a
dependency leads to a later one. If several are possible, it is done as early or as late as
possible. Dependencies within a window make a step, and its plan is the plan of every window.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sccl.training.scheduling.cyclic_problem import CyclicPlan, CyclicProblem, LaggedWait
from sccl.training.scheduling.step_problem import StepPlan, StepProblem

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
        for number, (op, choice, starts) in enumerate(
            zip(self.ops, plan.options, plan.starts, strict=True)
        ):
            options[op] = choice
            rows += [(start, number, k, op) for k, start in enumerate(starts)]
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
    for number, op in enumerate(ops):
        for k in op.after:
            users[k].append(number)
    return [
        (before, after)
        for number, op in enumerate(ops)
        if op.communicates
        for before in op.after
        if not ops[before].communicates
        for after in users[number]
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
    for before, number, lag in problem.waits:
        if lag + shifts[before] - shifts[number] == 0:
            after[number].add(before)
    order = _topological_order(after, [(-shifts[k] == 0, k) for k in range(len(ops))])
    place = {op: k for k, op in enumerate(order)}
    made = [replace(ops[op], after=tuple(sorted(place[k] for k in after[op]))) for op in order]
    step = StepProblem(problem.step.resources, tuple(made))
    return StepWindow(step, tuple(order), shifts, problem.waits)


def _topological_order(after: Sequence[set[int]], keys: Sequence[tuple[bool, int]]) -> list[int]:
    """Return numbers in the order of their keys, as far as each comes after those it waits for."""
    left = [len(predecessors) for predecessors in after]
    users: list[list[int]] = [[] for _ in after]
    for number, predecessors in enumerate(after):
        for k in predecessors:
            users[k].append(number)
    ready = [(not keys[k][0], keys[k][1], k) for k, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, _, number = heapq.heappop(ready)
        order.append(number)
        for k in users[number]:
            left[k] -= 1
            if not left[k]:
                heapq.heappush(ready, (not keys[k][0], keys[k][1], k))
    return order
