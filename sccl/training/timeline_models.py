"""Simulate a plan in models other than its own.

A plan's claimed time reserves shares of resources (:mod:`sccl.training.timeline`). The other models
are fluid sharing of bandwidth (:func:`simulate_fluid`), and all messages over links
(:mod:`sccl.training.link_simulation`). All models keep the order of the plan. A motif starts when
it is issued, its predecessors have ended, and each of its ranks has a free stream of the channel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from sccl.sim import FluidTask, run_fair_sharing
from sccl.training.scheduling.workload_problem import NS_PER_US, all_waits
from sccl.training.timeline import Interference, InterferenceMark, issue_order
from sccl.training.types.training_plan import FULL_LOAD, OptionMotif, StepTimeline, TrainingPlan
from sccl.training.types.workload_ops import ComputeOp

_MAX_EXACT_TASKS = 300
"""Largest number of tasks with exact fractions, whose digits grow with each task that ends."""

ITERATIONS = 6
"""Default number of simulated iterations."""

Key = tuple[str, int, int]
"""An operation, a motif of its option, and an iteration."""


@dataclass(frozen=True, slots=True)
class StepTiming:
    """The times of a plan in a model.

    Attributes:
        ends_ns: Time in nanoseconds at which each iteration and all before it have ended.
    """

    ends_ns: tuple[float, ...]

    @property
    def period_ns(self) -> float:
        """Return the period: the mean over the second half of the iterations."""
        half = len(self.ends_ns) // 2
        return (self.ends_ns[-1] - self.ends_ns[half - 1]) / (len(self.ends_ns) - half)


@dataclass(frozen=True, slots=True)
class StepTask:
    """A computation or a motif, in one iteration.

    Attributes:
        key: Operation, motif, and iteration.
        ns: Isolated duration in nanoseconds.
        motif: Motif. None: a computation.
        after: Numbers of the predecessor tasks.
    """

    key: Key
    ns: int
    motif: OptionMotif | None
    after: tuple[int, ...]


def build_tasks(plan: TrainingPlan, timeline: StepTimeline, iterations: int) -> list[StepTask]:
    """Return the tasks of some iterations, and concurrent tasks of others, in order of issue.

    Streams are first in, first out: a motif waits for the previous motifs on the streams of its
    ranks. It uses the streams that are free first in the claimed timeline.

    Args:
        timeline: Claimed timeline of the plan.
    """
    ahead = max((issue.shift for issue in plan.order), default=0)
    keys = list(issue_order(plan.order, iterations + ahead + 1, ahead))
    place = {key: k for k, key in enumerate(keys)}
    computes = {op.id: op for op in plan.workload.ops if isinstance(op, ComputeOp)}
    motifs = {(name, k): motif for name, k, motif in plan.motifs()}
    counts = {name: len(option.motifs) for name, option in plan.options}
    before: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for wait in all_waits(plan.workload, plan.memory_bytes):
        before[wait.after].append((wait.before, wait.lag))
    streams = _stream_predecessors(plan, timeline, keys)
    tasks = []
    for op, k, iteration in keys:
        waits = [
            place[awaited, j, iteration - lag]
            for awaited, lag in before[op]
            if iteration >= lag
            for j in range(counts.get(awaited, 1))
        ]
        motif = motifs.get((op, k))
        if motif is None:
            ns = round(computes[op].duration_us * NS_PER_US)
        else:
            ns = motif.ns
            waits += [place[op, j, iteration] for j in motif.after]
            waits += [place[key] for key in streams.get((op, k, iteration), ())]
        if iteration:
            waits.append(place[op, k, iteration - 1])
        tasks.append(StepTask((op, k, iteration), ns, motif, tuple(dict.fromkeys(waits))))
    return tasks


def simulate_fluid(
    plan: TrainingPlan, timeline: StepTimeline, iterations: int = ITERATIONS
) -> StepTiming:
    """Simulate a plan with motifs that share bandwidth like fluids.

    No shares are reserved. All users of an overloaded resource are slowed down fairly
    (:mod:`sccl.sim.fair_sharing`).

    Args:
        timeline: Claimed timeline of the plan. The simulation keeps its assignment of motifs to
            streams.
        iterations: Number of iterations, at least 2.
    """
    tasks = build_tasks(plan, timeline, iterations)
    fluid = _slow_tasks(plan, tasks, _fluid_tasks(tasks))
    spans = run_fair_sharing(fluid, exact=len(tasks) <= _MAX_EXACT_TASKS)
    return timing_from_ends(tasks, [float(span.end) for span in spans], iterations)


def timing_from_ends(
    tasks: Iterable[StepTask], ends_ns: Iterable[float], iterations: int
) -> StepTiming:
    """Return the timing of iterations, given the end of each task in nanoseconds."""
    last = [0.0] * iterations
    for task, end in zip(tasks, ends_ns, strict=True):
        if task.key[2] < iterations:
            last[task.key[2]] = max(last[task.key[2]], end)
    return StepTiming(tuple(accumulate(last, max)))


def _fluid_tasks(tasks: Iterable[StepTask]) -> list[FluidTask]:
    resources: dict[str, int] = {}
    return [
        FluidTask(
            Fraction(task.ns),
            {} if task.motif is None else _shared_loads(task.motif, resources),
            task.after,
            issued=task.motif is not None,
        )
        for task in tasks
    ]


def _slow_tasks(
    plan: TrainingPlan, tasks: Iterable[StepTask], fluid: list[FluidTask]
) -> list[FluidTask]:
    """Return the tasks with the slowdown of computations by busy channels."""
    slowing = Interference.of_plan(plan)
    if not slowing.parts:
        return fluid
    number: dict[InterferenceMark, int] = {mark: k for k, mark in enumerate(slowing.parts)}
    roles = {op.id: op.role for op in plan.workload.computation()}
    slowed = []
    for task, fluid_task in zip(tasks, fluid, strict=True):
        op, k, _ = task.key
        if task.motif is None:
            parts = {
                number[mark]: part for mark, part in slowing.parts.items() if mark[1] == roles[op]
            }
            slowed.append(replace(fluid_task, slowed=parts))
        else:
            marks = tuple(number[mark] for mark in slowing.marks.get((op, k), ()))
            slowed.append(replace(fluid_task, marks=marks))
    return slowed


def _shared_loads(motif: OptionMotif, resources: dict[str, int]) -> dict[int, Fraction]:
    """Return the loads of a motif, without its exclusive streams."""
    streams = f"{motif.channel}: streams"
    return {
        resources.setdefault(name, len(resources)): Fraction(load, FULL_LOAD)
        for name, load in motif.loads
        if name != streams and not name.startswith(f"{streams} of rank ")
    }


def _stream_predecessors(
    plan: TrainingPlan, timeline: StepTimeline, keys: Iterable[Key]
) -> dict[Key, set[Key]]:
    """Return the previous motifs on the streams of each motif's ranks.

    Args:
        keys: Tasks in the order of issue.
    """
    many = {channel.name: channel.streams for channel in plan.fabric.channels}
    cells = _equal_rank_sets(plan)
    spans = {(s.op, s.motif, s.iteration): s for s in timeline.spans if not s.computes}
    free: dict[tuple[str, int], list[tuple[int, Key | None]]] = {}
    predecessors: dict[Key, set[Key]] = defaultdict(set)
    for key in keys:
        span = spans.get(key)
        if span is None or span.end_ns == span.start_ns:
            continue
        for cell in cells[key[0]]:
            rows = free.setdefault((span.lane, cell), [(0, None)] * many[span.lane])
            slot = min(range(len(rows)), key=lambda k: rows[k][0])
            if (last := rows[slot][1]) is not None:
                predecessors[key].add(last)
            rows[slot] = max(rows[slot][0], span.end_ns), key
    return predecessors


def _equal_rank_sets(plan: TrainingPlan) -> dict[str, list[int]]:
    """Return the rank classes of each collective. Ranks in the same collectives are one class."""
    members = {op.id: op.members for op in plan.workload.collectives()}
    several = list(dict.fromkeys(members.values()))
    numbers: dict[tuple[bool, ...], int] = {}
    of = [
        numbers.setdefault(tuple(rank in ranks for ranks in several), len(numbers))
        for rank in range(plan.workload.ranks)
    ]
    return {name: sorted({of[rank] for rank in ranks}) for name, ranks in members.items()}
