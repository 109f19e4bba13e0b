"""Define steps that repeat, with dependencies between iterations, and plans of them.

A plan lists the work of each window: ops of the current iteration, or, shifted, of a later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray
from sccl.errors import ParameterError
from sccl.training.scheduling.step_problem import StepMotif, StepProblem

MAX_LAG = 1000


class LaggedWait(NamedTuple):
    """A wait across iterations.

    Attributes:
        before: op that ends before, in an iteration.
        after: op that begins after it, so many iterations later.
        lag: 1 or more.
    """

    before: int
    after: int
    lag: int


class WaitArrays(NamedTuple):
    """Waits for compiled loops.

    Attributes:
        first: of each op: where its waits begin, and the end.
        before: op for which it waits.
        lag: how many iterations before.
    """

    first: IntArray
    before: IntArray
    lag: IntArray


@dataclass(frozen=True)
class CyclicProblem:
    """A step that repeats.

    Attributes:
        step: One iteration.
        lagged_waits: Dependencies between iterations. Each motif also depends on its previous
            execution.

    Raises:
        ParameterError: A dependency is of no op, or has no lag.
    """

    step: StepProblem
    lagged_waits: tuple[LaggedWait, ...] = ()

    def __post_init__(self) -> None:
        for before, after, lag in self.lagged_waits:
            count = len(self.step.ops)
            if not (0 <= before < count and 0 <= after < count and 1 <= lag <= MAX_LAG):
                raise ParameterError(
                    f"op {after} waits for op {before} of {lag} iterations before: expected ops "
                    f"from 0 to {count - 1}, and a lag of 1 to {MAX_LAG}"
                )

    @cached_property
    def waits(self) -> tuple[LaggedWait, ...]:
        """Return all waits, those within an iteration with lag 0."""
        waits = [
            LaggedWait(k, number, 0) for number, op in enumerate(self.step.ops) for k in op.after
        ]
        return (*waits, *self.lagged_waits)

    @cached_property
    def wait_arrays(self) -> WaitArrays:
        """Return all waits for compiled loops, by who waits."""
        count = len(self.step.ops)
        rows = np.array(self.waits, dtype=np.int64).reshape(-1, 3)
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        first = np.searchsorted(rows[:, 1], np.arange(count + 1))
        return WaitArrays(first.astype(np.int64), rows[:, 0].copy(), rows[:, 2].copy())


@dataclass(frozen=True, slots=True)
class CyclicPlan:
    """The work of each window.

    Attributes:
        options: Option of each op.
        order: Order of issue of a window: an op and a motif of its option.
        shifts: For each place in the order: number of iterations ahead.
    """

    options: tuple[int, ...]
    order: tuple[tuple[int, int], ...]
    shifts: tuple[int, ...]


def motifs_in_order(step: StepProblem, plan: CyclicPlan) -> list[StepMotif]:
    """Return the motifs that a plan issues, in its order."""
    return [step.ops[op].options[plan.options[op]].motifs[motif] for op, motif in plan.order]


def find_cyclic_plan_fault(problem: CyclicProblem, plan: CyclicPlan) -> str:
    """Return a violation of a plan. Empty: none, and all its windows end."""
    return _find_choice_fault(problem.step, plan) or _find_order_fault(problem, plan)


def _find_choice_fault(step: StepProblem, plan: CyclicPlan) -> str:
    if len(plan.options) != len(step.ops):
        return f"it has {len(plan.options)} operations, and the step has {len(step.ops)}"
    for op, choice in zip(step.ops, plan.options, strict=True):
        if not 0 <= choice < len(op.options):
            return f"op {op.name!r} takes option {choice}, and has {len(op.options)}"
    for (number, k), shift in zip(plan.order, plan.shifts, strict=True):
        if not 0 <= shift <= MAX_LAG:
            where = f"motif {k} of op {number}"
            return f"{where} is done {shift} iterations ahead, expected 0 to {MAX_LAG}"
    wanted = [
        (number, k)
        for number, (op, choice) in enumerate(zip(step.ops, plan.options, strict=True))
        for k in range(len(op.options[choice].motifs))
    ]
    if sorted(plan.order) == wanted:
        return ""
    missing = sorted(set(wanted) - set(plan.order))
    if missing:
        return f"its order leaves out motif {missing[0][1]} of op {step.ops[missing[0][0]].name!r}"
    return "its order has a motif twice, or an unknown one"


def _find_order_fault(problem: CyclicProblem, plan: CyclicPlan) -> str:
    ops = problem.step.ops
    when = {  # of motifs of iteration 0: how many windows later, and at which place there
        item: (-shift, k)
        for k, (item, shift) in enumerate(zip(plan.order, plan.shifts, strict=True))
    }
    first, last = list[tuple[int, int]](), list[tuple[int, int]]()
    for number, (op, choice) in enumerate(zip(ops, plan.options, strict=True)):
        places = [when[number, k] for k in range(len(op.options[choice].motifs))]
        first.append(min(places))
        last.append(max(places))
        for k, motif in enumerate(op.options[choice].motifs):
            if misplaced := [j for j in motif.after if places[j] > places[k]]:
                return f"op {op.name!r}: motif {k} comes before {misplaced[0]}, which it waits for"
    for before, after, lag in problem.waits:
        window, place = first[after]
        windows = lag + window - last[before][0]
        names = f"op {ops[after].name!r} waits for {ops[before].name!r}"
        if windows < 0:
            return f"{names}, and is done {-windows} iterations before it"
        if windows == 0 and last[before][1] > place:
            return f"{names}, and comes before it: this deadlocks"
    return ""
