"""Simulate plans event by event, in plain Python.

Verification and views use this simulation. It shares no code with the compiled loops of searches.
Work starts as soon as possible: communication in the order of the plan, and computation in the
order of its stream.

A busy channel may take cores and memory bandwidth of its ranks
(:class:`~sccl.training.types.fabric.Channel`). Computation on these ranks is slower while a motif
of the channel runs, from launch to last arrival. The slowdowns of several channels add up. The ends
of slowed computations are rounded up to whole nanoseconds.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from sccl.core.graphs import connected_components
from sccl.errors import InputError
from sccl.training.scheduling.workload_problem import NS_PER_US, all_waits, stream_of
from sccl.training.types.fabric import Fabric
from sccl.training.types.training_plan import (
    FULL_LOAD,
    Issue,
    OptionMotif,
    StepSpan,
    StepTimeline,
    TrainingPlan,
)
from sccl.training.types.workload_ops import Dependency

_ITERATIONS = 12
_MAX_ITERATIONS = 384
_MAX_CYCLE = 4
"""First and largest number of simulated iterations, and the longest detected cycle."""


def simulate_timeline(plan: TrainingPlan) -> StepTimeline:
    """Simulate a plan until its iterations repeat.

    Raises:
        InputError: The plan deadlocks, or omits work.
    """
    ahead = max((issue.shift for issue in plan.order), default=0)
    waits = all_waits(plan.workload, plan.memory_bytes)
    back = 2 + ahead + max((dep.lag for dep in waits), default=0)
    iterations, joined = max(_ITERATIONS, 3 * back), _connected_ops(plan, waits)
    while True:
        spans = _run_iterations(
            plan, iterations + ahead
        )  # earlier iterations wait for work of later ones
        spans = {key: span for key, span in spans.items() if key[2] < iterations}
        apart: dict[str, list[list[int]]] = {}
        for (op, _, iteration), (start, _) in sorted(spans.items()):
            rows = apart.setdefault(joined[op], [[] for _ in range(iterations)])
            rows[iteration].append(start)
        for cycle in range(1, _MAX_CYCLE + 1):
            repeats = [_find_steady_state(starts, back, cycle) for starts in apart.values()]
            if all(repeats):
                first, period = (max(row) for row in zip(*filter(None, repeats), strict=True))
                return StepTimeline(
                    _step_spans(plan, spans), period, is_steady=True, first_periodic=first
                )
        if iterations >= max(_MAX_ITERATIONS, 3 * back):
            half = iterations // 2
            moved = max(
                a - b
                for starts in apart.values()
                for a, b in zip(starts[-1], starts[half - 1], strict=True)
            )
            period = -(-moved // (iterations - half))
            return StepTimeline(
                _step_spans(plan, spans), period, is_steady=False, first_periodic=half
            )
        iterations *= 4


def _connected_ops(plan: TrainingPlan, waits: Iterable[Dependency]) -> dict[str, str]:
    """Return for each operation a representative of its connected component.

    Two operations are connected if one depends on the other, if they use the same stream, or if
    both communicate and are therefore issued in one order. Separate components may repeat sooner.
    """
    lanes = {op.id: stream_of(op) for op in plan.workload.computation()}
    first_in_lane: dict[str | None, str] = {}
    edges = [(wait.before, wait.after) for wait in waits]
    names = [op.id for op in plan.workload.ops]
    edges += [(first_in_lane.setdefault(lanes.get(name), name), name) for name in names]
    components = connected_components(names, edges)
    return {name: first for first, members in components.items() for name in members}


def _find_steady_state(starts: list[list[int]], back: int, cycle: int) -> tuple[int, int] | None:
    """Return the first periodic iteration and the period. None: no repetition was observed."""
    shown, moved = 0, None
    for iteration in range(len(starts) - 1, cycle - 1, -1):
        pairs = zip(starts[iteration], starts[iteration - cycle], strict=True)
        later = {a - b for a, b in pairs}
        if len(later) > 1 or (moved is not None and later != moved):
            break
        shown, moved = shown + 1, later
    if moved is None or shown < back + cycle:
        return None
    return len(starts) - shown - cycle, -(-max(moved, default=0) // cycle)


_TaskKey = tuple[str, int, int]
"""A running task: an operation, a motif of its option, and an iteration."""


@dataclass(slots=True)
class _MachineState:
    """The state of a run.

    Attributes:
        now: Current time in nanoseconds.
        spans: Start and end of each task.
        remaining: Number of unfinished motifs of an operation in an iteration.
        done: Finished tasks.
        used: Current use of each resource, in thousandths.
        running: Heap of recorded ends. A recorded end is outdated if it differs from the span.
        busy: Number of motifs that set each mark.
        computing: For each running computation: remaining unslowed time, and when it was updated.
    """

    now: int = 0
    spans: dict[_TaskKey, tuple[int, int]] = field(default_factory=dict)
    remaining: dict[tuple[str, int], int] = field(default_factory=dict)
    done: set[_TaskKey] = field(default_factory=set)
    used: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    running: list[tuple[int, _TaskKey]] = field(default_factory=list)
    busy: dict[InterferenceMark, int] = field(default_factory=dict)
    computing: dict[_TaskKey, tuple[Fraction, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _PlanTables:
    """The work of a plan.

    Attributes:
        ns: Duration of each motif of each operation.
        loads: Loads of each motif of each operation.
        after: Predecessors of each motif in the same operation.
        before: Predecessors of each operation, with lags.
        count: Number of motifs of each operation.
        role: Role of each computation.
        slowing: Slowdown of computations by communication.
    """

    ns: dict[tuple[str, int], int]
    loads: dict[tuple[str, int], tuple[tuple[str, int], ...]]
    after: dict[tuple[str, int], tuple[int, ...]]
    before: dict[str, list[tuple[str, int]]]
    count: dict[str, int]
    role: dict[str, str]
    slowing: Interference


def _build_tables(plan: TrainingPlan) -> _PlanTables:
    work = _PlanTables({}, {}, {}, defaultdict(list), {}, {}, Interference.of_plan(plan))

    def add(op: str, motifs: tuple[OptionMotif, ...]) -> None:
        work.count[op] = len(motifs)
        for k, motif in enumerate(motifs):
            work.ns[op, k], work.loads[op, k], work.after[op, k] = (
                motif.ns,
                motif.loads,
                motif.after,
            )

    for name, option in plan.options:
        add(name, option.motifs)
    for compute in plan.workload.computation():
        load = ((stream_of(compute), FULL_LOAD),)
        add(compute.id, (OptionMotif("", "", round(compute.duration_us * NS_PER_US), load),))
        work.role[compute.id] = compute.role
    for wait in all_waits(plan.workload, plan.memory_bytes):
        work.before[wait.after].append((wait.before, wait.lag))
    return work


def _run_iterations(plan: TrainingPlan, iterations: int) -> dict[_TaskKey, tuple[int, int]]:
    """Simulate some iterations, and return the start and end of each task.

    Raises:
        InputError: The plan deadlocks.
    """
    work, machine = _build_tables(plan), _MachineState()
    ahead = max((issue.shift for issue in plan.order), default=0)
    of = {op.id: stream_of(op) for op in plan.workload.computation()}
    issues: dict[str, list[Issue]] = defaultdict(list)
    for issue in plan.order:  # all communication has one queue
        issues[of.get(issue.op, "")].append(issue)
    lanes = ("", *dict.fromkeys(of.values()))
    queues = [list(issue_order(issues[lane], iterations, ahead)) for lane in lanes]
    at = [0] * len(queues)
    while True:
        moved = True
        while moved:  # a task without duration releases others at the same time
            moved = _complete_finished(machine, work)
            for number, queue in enumerate(queues):
                while at[number] < len(queue) and _try_start(machine, work, queue[at[number]]):
                    at[number] += 1
                    moved = True
        if not machine.running:
            break
        machine.now = machine.running[0][0]
    stuck = [queue[place] for queue, place in zip(queues, at, strict=True) if place < len(queue)]
    if stuck:
        raise InputError(_describe_deadlock(machine, work, stuck))
    return machine.spans


def issue_order(issues: Sequence[Issue], iterations: int, ahead: int) -> Iterator[_TaskKey]:
    """Yield the tasks of a queue in the order of issue."""
    for window in range(-ahead, iterations):
        for issue in issues:
            iteration = window + issue.shift
            if 0 <= iteration < iterations:
                yield issue.op, issue.motif, iteration


def _try_start(machine: _MachineState, work: _PlanTables, key: _TaskKey) -> bool:
    """Start a task if it can start now. Return whether it started."""
    op, motif, iteration = key
    if _blocking_task(machine, work, key) is not None:
        return False
    loads = work.loads[op, motif] if work.ns[op, motif] else ()
    if any(machine.used[name] + load > FULL_LOAD for name, load in loads):
        return False
    for name, load in loads:
        machine.used[name] += load
    machine.remaining.setdefault((op, iteration), work.count[op])
    ns = work.ns[op, motif]
    if op in work.role and work.slowing.parts:
        machine.computing[key] = Fraction(ns), machine.now
        factor = work.slowing.slowdown_factor(work.role[op], machine.busy)
        _set_end(machine, key, machine.now, machine.now + ceil(ns * factor))
    else:
        _set_end(machine, key, machine.now, machine.now + ns)
        _count_mark(machine, work, key, 1)
    return True


def _set_end(machine: _MachineState, key: _TaskKey, start: int, end: int) -> None:
    machine.spans[key] = start, end
    heapq.heappush(machine.running, (end, key))


def _count_mark(machine: _MachineState, work: _PlanTables, key: _TaskKey, change: int) -> None:
    """Count a motif that starts (1) or ends (-1), and update the computations that it slows."""
    for mark in work.slowing.marks.get(key[:2], ()):
        before = dict(machine.busy)
        now = machine.busy.pop(mark, 0) + change
        if now:
            machine.busy[mark] = now
        if (mark in before) != (mark in machine.busy):
            _reschedule_computations(machine, work, mark[1], before)


def _reschedule_computations(
    machine: _MachineState, work: _PlanTables, role: str, before: dict[InterferenceMark, int]
) -> None:
    """Update the ends of a role's running computations after a change of marks."""
    factor, then = (work.slowing.slowdown_factor(role, marks) for marks in (machine.busy, before))
    for key, (left, since) in machine.computing.items():
        if work.role[key[0]] != role:
            continue
        rest = max(left - (machine.now - since) / then, Fraction(0))
        machine.computing[key] = rest, machine.now
        start, end = machine.spans[key]
        if (later := machine.now + ceil(rest * factor)) != end:
            _set_end(machine, key, start, later)


def _blocking_task(machine: _MachineState, work: _PlanTables, key: _TaskKey) -> _TaskKey | None:
    """Return an unfinished dependency of a task. None: none."""
    op, motif, iteration = key
    if iteration and (op, motif, iteration - 1) not in machine.done:
        return op, motif, iteration - 1
    for k in work.after[op, motif]:
        if (op, k, iteration) not in machine.done:
            return op, k, iteration
    for before, lag in work.before[op]:
        then = iteration - lag
        if then >= 0 and machine.remaining.get((before, then), 1):
            motifs = range(work.count[before])
            return next((before, k, then) for k in motifs if (before, k, then) not in machine.done)
    return None


def _complete_finished(machine: _MachineState, work: _PlanTables) -> bool:
    """Record the tasks that have ended. Return whether there are any."""
    has_ended = False
    while machine.running and machine.running[0][0] <= machine.now:
        end, key = heapq.heappop(machine.running)
        if end != machine.spans[key][1] or key in machine.done:
            continue
        op, motif, iteration = key
        machine.done.add(key)
        machine.computing.pop(key, None)
        _count_mark(machine, work, key, -1)
        machine.remaining[op, iteration] -= 1
        for name, load in work.loads[op, motif] if work.ns[op, motif] else ():
            machine.used[name] -= load
        has_ended = True
    return has_ended


def _describe_deadlock(machine: _MachineState, work: _PlanTables, stuck: list[_TaskKey]) -> str:
    """Return a description of the cycle of dependencies in a deadlock."""
    lines = []
    for key in stuck[:6]:
        waited = _blocking_task(machine, work, key)
        if waited is not None:
            lines.append(f"{_task_label(key)} waits for {_task_label(waited)}")
    description = ", ".join(lines) or f"{_task_label(stuck[0])} finds no room"
    return f"the plan deadlocks: {description}, which its order has later"


def _task_label(key: _TaskKey) -> str:
    return f"{key[0]!r:.60} of iteration {key[2]}"


def _step_spans(plan: TrainingPlan, spans: dict[_TaskKey, tuple[int, int]]) -> tuple[StepSpan, ...]:
    lanes = {op.id: (stream_of(op), True) for op in plan.workload.computation()}
    carried = {(name, k): motif.channel for name, k, motif in plan.motifs()}
    rows = []
    for (op, motif, iteration), (start, end) in spans.items():
        lane, computes = lanes.get(op) or (carried[op, motif], False)
        rows.append(StepSpan(op, motif, iteration, lane, start, end, computes))
    return tuple(sorted(rows, key=lambda s: (s.start_ns, s.end_ns, s.lane, s.op, s.motif)))


InterferenceMark = tuple[str, str]
"""Name of a busy channel, and a role whose ranks it slows down."""


def has_interference(fabric: Fabric) -> bool:
    """Return whether a channel of a fabric slows computations down."""
    return any(channel.slowdown for channel in fabric.channels)


@dataclass(frozen=True, slots=True)
class Interference:
    """The slowdown of computations by communication.

    Attributes:
        parts: Relative slowdown for each mark.
        marks: Marks that each motif sets while it runs, by collective and motif number.
    """

    parts: dict[InterferenceMark, Fraction]
    marks: dict[tuple[str, int], tuple[InterferenceMark, ...]]

    @classmethod
    def of_plan(cls, plan: TrainingPlan) -> Interference:
        """Return the interference in a plan."""
        slow = {c.name: Fraction(str(c.slowdown)) for c in plan.fabric.channels if c.slowdown}
        if not slow:
            return cls({}, {})
        roles = {
            op.id: [
                role.name for role in plan.workload.roles if not op.members.isdisjoint(role.ranks)
            ]
            for op in plan.workload.collectives()
        }
        marks = {
            (name, number): tuple((motif.channel, role) for role in roles[name])
            for name, number, motif in plan.motifs()
            if motif.channel in slow and motif.ns
        }
        parts = {mark: slow[mark[0]] for motif_marks in marks.values() for mark in motif_marks}
        return cls(parts, marks)

    def slowdown_factor(self, role: str, busy: Iterable[InterferenceMark]) -> Fraction:
        """Return the factor by which a role's computations are longer while marks are set."""
        return 1 + sum((self.parts[mark] for mark in busy if mark[1] == role), Fraction(0))
