"""Define problems of training steps, once or repeated, and plans of them.

A step is a list of ops. Each op has alternative options. An option consists of motifs with
dependencies, and each motif occupies shares of resources (a compute stream, links of one kind) for
a fixed time. Several motifs may use a resource at once if their shares add up to at most 1. Sharing
never slows a motif down. Times are whole ticks, so nothing is rounded again.

A repeated step also has dependencies between iterations. Its plan lists the work of one window:
motifs of the current iteration or, shifted, of a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray
from sccl.errors import ParameterError
from sccl.training.types.training_plan import isolated_finish

FULL_SHARE = 1000
"""Capacity of a resource, in shares."""

MAX_MOTIFS = 10**6
MAX_TICKS = 2**50


@dataclass(frozen=True, slots=True)
class StepMotif:
    """A part of an op that is issued as a unit.

    Attributes:
        ticks: Its duration.
        uses: Numbers of the resources that it uses.
        after: Predecessors among the motifs of the same option.
        shares: Share of each used resource, in units of 1/:data:`FULL_SHARE`. Empty: all of it.
    """

    ticks: int
    uses: tuple[int, ...]
    after: tuple[int, ...] = ()
    shares: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[int, ...]:
        """Return its share of each used resource, in units of 1/:data:`FULL_SHARE`."""
        return self.shares or (FULL_SHARE,) * len(self.uses)


@dataclass(frozen=True, slots=True)
class StepOption:
    """An alternative for an op.

    Attributes:
        name: Recipe and carriers.
        motifs: Motifs in topological order.
    """

    name: str
    motifs: tuple[StepMotif, ...]

    @property
    def critical_path_ticks(self) -> int:
        """Return the length of the critical path in ticks, without contention for resources."""
        ends: list[int] = []
        for motif in self.motifs:
            ends.append(motif.ticks + max((ends[k] for k in motif.after), default=0))
        return max(ends)

    @property
    def isolated_duration(self) -> int:
        """Return the duration in ticks of the option alone, with motifs issued in their order."""
        return isolated_finish(
            [motif.ticks for motif in self.motifs],
            [motif.after for motif in self.motifs],
            [dict(zip(motif.uses, motif.parts, strict=True)) for motif in self.motifs],
        )

    def resource_ticks(self) -> dict[int, int]:
        """Return the load of each used resource: the sum of ticks times shares."""
        ticks: dict[int, int] = {}
        for motif in self.motifs:
            for resource, part in zip(motif.uses, motif.parts, strict=True):
                ticks[resource] = ticks.get(resource, 0) + motif.ticks * part
        return ticks


@dataclass(frozen=True, slots=True)
class StepOp:
    """A computation or a collective.

    Attributes:
        options: Alternatives, of which one is chosen.
        after: Predecessors: ops that end before this one begins.
        communicates: Whether it is a collective. A computation has one option.
    """

    name: str
    options: tuple[StepOption, ...]
    after: tuple[int, ...] = ()
    communicates: bool = True


class StepArrays(NamedTuple):
    """A step problem in compressed sparse rows, for compiled loops.

    An array of offsets (``option_first`` etc.) has one more entry, the total, at its end.

    Attributes:
        option_first: Offset of the first option of each op.
        motif_first: Offset of the first motif of each option.
        ticks: Duration of each motif.
        use_first: Offset in ``use`` and ``share`` for each motif.
        use: Used resources.
        share: Share of each used resource, in units of 1/:data:`FULL_SHARE`.
        motif_class: Class of each motif. Motifs of a class have the same resources and shares.
        wait_first: Offset in ``wait`` for each motif.
        wait: Predecessor motifs in the same option.
        next_first: Offset in ``next`` for each motif.
        next: Successor motifs in the same option.
        op: Op of each motif.
        before_first: Offset in ``before`` for each op.
        before: Predecessor ops.
        later_first: Offset in ``later`` for each op.
        later: Successor ops.
        communicates: 1 for each op that communicates, 0 for computations.
        resources: Number of resources, shape (1,).
    """

    option_first: IntArray
    motif_first: IntArray
    ticks: IntArray
    use_first: IntArray
    use: IntArray
    share: IntArray
    motif_class: IntArray
    wait_first: IntArray
    wait: IntArray
    next_first: IntArray
    next: IntArray
    op: IntArray
    before_first: IntArray
    before: IntArray
    later_first: IntArray
    later: IntArray
    communicates: IntArray
    resources: IntArray


@dataclass(frozen=True)
class StepProblem:
    """The problem of scheduling one step.

    Attributes:
        resources: Names of the resources.
        ops: Ops in the order of submission, each after its predecessors.

    Raises:
        ParameterError: An op depends on a later one, or uses an unknown resource.
    """

    resources: tuple[str, ...]
    ops: tuple[StepOp, ...]

    def __post_init__(self) -> None:
        if not self.ops:
            raise ParameterError("a step has no ops: expected one at least")
        motifs = sum(len(option.motifs) for op in self.ops for option in op.options)
        if motifs > MAX_MOTIFS:
            raise ParameterError(
                f"options have {motifs} motifs in all, expected {MAX_MOTIFS} at the most"
            )
        for number, op in enumerate(self.ops):
            if not op.options or (len(op.options) > 1 and not op.communicates):
                raise ParameterError(
                    f"op {op.name!r} has {len(op.options)} options, expected one"
                    + (" or more" if op.communicates else ", as it computes")
                )
            if wrong := [k for k in op.after if not 0 <= k < number]:
                raise ParameterError(f"op {op.name!r} waits for op {wrong[0]}, which is not before")
            for option in op.options:
                self._check(op, option)
        total = sum(max(_total_ticks(option) for option in op.options) for op in self.ops)
        if total > MAX_TICKS:  # thousands of iterations must fit into 63 bits
            raise ParameterError(
                f"all motifs of the step take {total:.3g} ticks one after the other, expected "
                f"{MAX_TICKS:.3g} at the most"
            )

    def _check(self, op: StepOp, option: StepOption) -> None:
        where = f"op {op.name!r}, option {option.name!r}"
        if not option.motifs:
            raise ParameterError(f"{where} has no motifs, expected one at least")
        for number, motif in enumerate(option.motifs):
            if not 0 <= motif.ticks <= MAX_TICKS:
                raise ParameterError(
                    f"{where}: motif {number} takes {motif.ticks} ticks, expected 0 to {MAX_TICKS}"
                )
            if any(not 0 <= k < number for k in motif.after):
                raise ParameterError(f"{where}: motif {number} waits for one that is not before it")
            uses = set(motif.uses)
            if len(uses) < len(motif.uses) or not uses <= set(range(len(self.resources))):
                raise ParameterError(
                    f"{where}: motif {number} uses resources {list(motif.uses)!s:.60}, expected "
                    f"different ones from 0 to {len(self.resources) - 1}"
                )
            parts = motif.parts
            if len(parts) != len(motif.uses) or any(not 1 <= part <= FULL_SHARE for part in parts):
                raise ParameterError(
                    f"{where}: motif {number} has shares {list(parts)!s:.60} of "
                    f"{len(motif.uses)} resources, expected one of each, of 1 to {FULL_SHARE}"
                )

    @cached_property
    def isolated_durations(self) -> tuple[tuple[int, ...], ...]:
        """Return the isolated duration in ticks of each option of each op."""
        lengths: dict[int, tuple[int, ...]] = {}  # equal ops share one tuple of options
        for op in self.ops:
            if id(op.options) not in lengths:
                lengths[id(op.options)] = tuple(option.isolated_duration for option in op.options)
        return tuple(lengths[id(op.options)] for op in self.ops)

    @cached_property
    def arrays(self) -> StepArrays:
        """Return the problem as arrays for compiled loops."""
        options = [option for op in self.ops for option in op.options]
        motifs = [motif for option in options for motif in option.motifs]
        first = _row_offsets([len(option.motifs) for option in options])
        waits = [
            [int(first[k]) + earlier for earlier in motif.after]
            for k, option in enumerate(options)
            for motif in option.motifs
        ]
        uses, before = [motif.uses for motif in motifs], [op.after for op in self.ops]
        later, then = _reverse_waits(before), _reverse_waits(waits)
        classes: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        motif_class = [
            classes.setdefault((motif.uses, motif.parts), len(classes)) for motif in motifs
        ]
        owners = [k for k, op in enumerate(self.ops) for o in op.options for _ in o.motifs]
        return StepArrays(
            option_first=_row_offsets([len(op.options) for op in self.ops]),
            motif_first=first,
            ticks=_int_row([motif.ticks for motif in motifs]),
            use_first=_row_offsets([len(row) for row in uses]),
            use=_int_row([k for row in uses for k in row]),
            share=_int_row([part for motif in motifs for part in motif.parts]),
            motif_class=_int_row(motif_class),
            wait_first=_row_offsets([len(row) for row in waits]),
            wait=_int_row([k for row in waits for k in row]),
            next_first=_row_offsets([len(row) for row in then]),
            next=_int_row([k for row in then for k in row]),
            op=_int_row(owners),
            before_first=_row_offsets([len(row) for row in before]),
            before=_int_row([k for row in before for k in row]),
            later_first=_row_offsets([len(row) for row in later]),
            later=_int_row([k for row in later for k in row]),
            communicates=_int_row([int(op.communicates) for op in self.ops]),
            resources=_int_row([len(self.resources)]),
        )

    def plan_of(self, choice: IntArray, starts: IntArray) -> StepPlan:
        """Return the plan with the given option of each op and start of each motif."""
        first = self.arrays.motif_first
        rows = self.arrays.option_first[:-1] + choice
        spans = zip(first[rows].tolist(), first[rows + 1].tolist(), strict=True)
        return StepPlan(
            options=tuple(choice.tolist()),
            starts=tuple(tuple(starts[a:b].tolist()) for a, b in spans),
        )


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A plan: the option of each op, and the starts of its motifs.

    Attributes:
        options: Chosen option of each op.
        starts: For each op, start ticks of the motifs of its option.
    """

    options: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]

    def finish(self, problem: StepProblem) -> int:
        """Return the completion time in ticks."""
        return max(
            start + motif.ticks
            for op, option, starts in zip(problem.ops, self.options, self.starts, strict=True)
            for motif, start in zip(op.options[option].motifs, starts, strict=True)
        )


def _total_ticks(option: StepOption) -> int:
    """Return the sum of the durations of all motifs, in ticks."""
    return sum(motif.ticks for motif in option.motifs)


def _reverse_waits(waits: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the successors of each node, given its predecessors."""
    waiters: list[list[int]] = [[] for _ in waits]
    for number, awaited in enumerate(waits):
        for k in awaited:
            waiters[k].append(number)
    return waiters


def _row_offsets(counts: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))]).astype(np.int64)


def _int_row(numbers: list[int]) -> IntArray:
    return np.array(numbers, dtype=np.int64)


MAX_LAG = 1000


class LaggedWait(NamedTuple):
    """A dependency between ops, possibly of different iterations.

    Attributes:
        before: Predecessor op.
        after: Successor op.
        lag: Number of iterations from the predecessor to the successor.
    """

    before: int
    after: int
    lag: int


class WaitArrays(NamedTuple):
    """Dependencies in compressed sparse rows, for compiled loops.

    Attributes:
        first: Offset in ``before`` and ``lag`` for each op, and the total at the end.
        before: Predecessor ops.
        lag: Number of iterations from each predecessor.
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
        ParameterError: A dependency names an unknown op, or its lag is not 1 to :data:`MAX_LAG`.
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
        """Return all dependencies. Those within an iteration have lag 0."""
        waits = [
            LaggedWait(k, number, 0) for number, op in enumerate(self.step.ops) for k in op.after
        ]
        return (*waits, *self.lagged_waits)

    @cached_property
    def wait_arrays(self) -> WaitArrays:
        """Return all dependencies as arrays for compiled loops, by successor."""
        count = len(self.step.ops)
        rows = np.array(self.waits, dtype=np.int64).reshape(-1, 3)
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        first = np.searchsorted(rows[:, 1], np.arange(count + 1))
        return WaitArrays(first.astype(np.int64), rows[:, 0].copy(), rows[:, 2].copy())


@dataclass(frozen=True, slots=True)
class CyclicPlan:
    """The work of each window.

    Attributes:
        options: Chosen option of each op.
        order: Order of issue in a window, as pairs of an op and a motif of its option.
        shifts: Number of iterations ahead, for each place in the order.
    """

    options: tuple[int, ...]
    order: tuple[tuple[int, int], ...]
    shifts: tuple[int, ...]


def find_cyclic_plan_fault(problem: CyclicProblem, plan: CyclicPlan) -> str:
    """Return the first violation of a plan. Empty: the plan is valid and never deadlocks."""
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
    when = {  # window and place at which each motif of iteration 0 is issued
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
