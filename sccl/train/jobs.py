"""Convert a workload with options to a problem of windows, and its plans back.

Ticks are nanoseconds. Operations are in the order of submission: that of the workload, adjusted to
dependencies. If ranks submit a collective only after waiting for another one, it depends on that
one as well, through their computation.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.core.training_plan import WHOLE_LOAD, Issue, Option, TrainingPlan
from sccl.core.workload import Workload, cycle_of
from sccl.core.workload_ops import CommOp, ComputeOp, Dependency, HostAction
from sccl.errors import InputError
from sccl.train.cyclic import CyclicPlan, CyclicProblem, Lagged
from sccl.train.memory import gates_of
from sccl.train.problem import WHOLE, StepMotif, StepOp, StepOption, StepProblem

assert WHOLE == WHOLE_LOAD

NS_PER_US = 1000

_SHOWN = 8
"""Operations of a circle in a message."""

OptionsOf = Mapping[str, Sequence[Option]]
"""Options of each collective, by id."""


@dataclass(frozen=True)
class Job:
    """A workload with options of its collectives.

    Attributes:
        options: Permitted options of each collective, by id.
        memory_bytes: Limit for held results, enforced by dependencies. 0: none.
    """

    workload: Workload
    options: OptionsOf
    memory_bytes: int = 0

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the ids of operations, in the order of the problem's."""
        return _submitted(self.workload, self._waits)

    @cached_property
    def _waits(self) -> tuple[Dependency, ...]:
        return all_waits(self.workload, self.memory_bytes)

    @cached_property
    def problem(self) -> CyclicProblem:
        """Return the problem.

        Raises:
            InputError: a collective has no option.
        """
        ops = {op.id: op for op in self.workload.ops}
        place = {name: k for k, name in enumerate(self.names)}
        waits = self._waits
        before: dict[str, set[int]] = {name: set() for name in self.names}
        for wait in waits:
            if not wait.lag:
                before[wait.after].add(place[wait.before])
        resources = _resources(self.workload, self.options)
        number = {name: k for k, name in enumerate(resources)}
        made: dict[int, tuple[StepOption, ...]] = {}  # of collectives that are alike, once
        rows = []
        for name in self.names:
            op = ops[name]
            if isinstance(op, CommOp):
                own = self._options(op, number, made)
            else:
                motif = StepMotif(round(op.duration_us * NS_PER_US), (number[stream_of(op)],))
                own = (StepOption("", (motif,)),)
            after = tuple(sorted(before[name]))
            rows.append(StepOp(name, own, after, communicates=isinstance(op, CommOp)))
        lagged = {Lagged(place[w.before], place[w.after], w.lag) for w in waits if w.lag}
        return CyclicProblem(StepProblem(resources, tuple(rows)), tuple(sorted(lagged)))

    def _options(
        self, op: CommOp, number: Mapping[str, int], made: dict[int, tuple[StepOption, ...]]
    ) -> tuple[StepOption, ...]:
        options = self.options.get(op.id, ())
        if not options:
            raise InputError(f"operation {op.id!r} has no option, expected one at least")
        if id(options) not in made:
            made[id(options)] = tuple(_step_option(option, number) for option in options)
        return made[id(options)]

    def plan(self, found: CyclicPlan) -> tuple[tuple[tuple[str, Option], ...], tuple[Issue, ...]]:
        """Return the options and the order of a plan, as training plans have them."""
        chosen = dict(zip(self.names, found.options, strict=True))
        options = tuple(
            (op.id, self.options[op.id][chosen[op.id]]) for op in self.workload.collectives()
        )
        order = tuple(
            Issue(self.names[op], k, shift)
            for (op, k), shift in zip(found.order, found.shifts, strict=True)
        )
        return options, order


def job_of(plan: TrainingPlan) -> tuple[Job, CyclicPlan]:
    """Return the job of a training plan, with the plan's options only, and the plan.

    Raises:
        InputError: It does not plan each operation of its workload exactly once.
    """
    options = {name: (option,) for name, option in plan.options}
    wanted = {op.id for op in plan.workload.collectives()}
    if len(options) < len(plan.options) or options.keys() != wanted:
        odd = sorted(options.keys() ^ wanted) or [plan.options[0][0]]
        raise InputError(f"operation {odd[0]!r:.60} has not one option, expected one of each")
    job = Job(plan.workload, options, plan.memory_bytes)
    place = {name: k for k, name in enumerate(job.names)}
    for issue in plan.order:
        if issue.op not in place:
            raise InputError(f"the order has operation {issue.op!r:.60}, which there is not")
    issued = {issue.op for issue in plan.order}
    if missing := [name for name in job.names if name not in issued]:
        raise InputError(f"the order leaves out operation {missing[0]!r:.60}")
    return job, CyclicPlan(
        options=(0,) * len(job.names),
        order=tuple((place[issue.op], issue.motif) for issue in plan.order),
        shifts=tuple(issue.shift for issue in plan.order),
    )


def stream_of(op: ComputeOp) -> str:
    """Return the resource that a computation uses: its role's stream."""
    return f"{op.role}: {op.stream}"


def _resources(workload: Workload, options: OptionsOf) -> tuple[str, ...]:
    streams = {stream_of(op): None for op in workload.computation()}
    used = {
        name
        for own in options.values()
        for option in own
        for motif in option.motifs
        for name, _ in motif.loads
    }
    if both := sorted(used & streams.keys()):
        raise InputError(f"{both[0]!r:.60} names a stream of computation, and links of the fabric")
    return (*streams, *sorted(used))


def _step_option(option: Option, number: Mapping[str, int]) -> StepOption:
    return StepOption(
        option.recipe,
        tuple(
            StepMotif(
                ticks=motif.ns,
                uses=tuple(number[name] for name, _ in motif.loads),
                after=motif.after,
                shares=tuple(load for _, load in motif.loads),
            )
            for motif in option.motifs
        ),
    )


def all_waits(workload: Workload, memory_bytes: int) -> tuple[Dependency, ...]:
    """Return all dependencies, including those for memory.

    Args:
        memory_bytes: Limit for held results. 0: none.

    Raises:
        InputError: Dependencies form a cycle, or the memory is too small.
    """
    found = waits_of(workload)
    gates = gates_of(workload, _submitted(workload, found), memory_bytes)
    return tuple(dict.fromkeys((*found, *gates)))


def waits_of(workload: Workload) -> tuple[Dependency, ...]:
    """Return all that waits: as the workload says, by order of streams, and by host programs.

    A host is one iteration ahead at the most: no stream of a role begins with one before the others
    have ended the last but one.
    """
    found = dict.fromkeys(workload.deps)
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for op in workload.computation():
        stream = stream_of(op)
        if stream in last:
            found[Dependency(last[stream], op.id)] = None
        first.setdefault(stream, op.id)
        last[stream] = op.id
    for stream, name in last.items():
        if first[stream] != name:
            found[Dependency(name, first[stream], 1)] = None
    role = {op.id: op.role for op in workload.computation()}
    for one, begins in first.items():
        for other, ends in last.items():
            if one != other and role[begins] == role[ends]:
                found[Dependency(ends, begins, 2)] = None
    for wait in _hosts(workload, tuple(found)):
        found[wait] = None
    return tuple(found)


def _hosts(workload: Workload, known: Sequence[Dependency]) -> Iterable[Dependency]:
    """Yield the dependencies of host programs that nothing else implies.

    An operation depends on everything that its role waited for before submitting it.
    """
    names = [op.id for op in workload.ops]
    place = {name: k for k, name in enumerate(names)}
    after: list[list[int]] = [[] for _ in names]
    ahead: dict[tuple[int, int], int] = {}
    for wait in known:
        if wait.lag:
            key = (place[wait.before], wait.lag)
            ahead[key] = ahead.get(key, 0) | 1 << place[wait.after]
        else:
            after[place[wait.before]].append(place[wait.after])
    reach = _reach(after)
    for program in workload.submits:
        awaited: dict[tuple[int, int], None] = {}
        for event in program.events:
            own = place[event.op]
            if event.action is HostAction.WAIT:
                for before, lag in list(awaited):  # for what this one waits for itself
                    if lag == event.lag and reach[before] >> own & 1:
                        del awaited[before, lag]
                awaited[own, event.lag] = None
                continue
            for before, lag in awaited:
                if lag == 0:
                    implied = reach[before] >> own & 1
                else:
                    starts = ahead.get((before, lag), 0)
                    implied = starts >> own & 1 or any(
                        starts >> k & 1 and reach[k] >> own & 1 for k in range(len(names))
                    )
                if not implied:
                    yield Dependency(names[before], names[own], lag)


def _reach(after: Sequence[Sequence[int]]) -> list[int]:
    """Return the descendants of each node of an acyclic graph, as bits."""
    waits = [0] * len(after)
    for own in after:
        for k in own:
            waits[k] += 1
    order = [k for k, count in enumerate(waits) if not count]
    for k in order:
        for other in after[k]:
            waits[other] -= 1
            if not waits[other]:
                order.append(other)
    reach = [0] * len(after)
    for k in reversed(order):
        for other in after[k]:
            reach[k] |= reach[other] | 1 << other
    return reach


def _submitted(workload: Workload, waits: Iterable[Dependency]) -> tuple[str, ...]:
    """Return operations in the workload's order, as far as waits within an iteration allow.

    Raises:
        InputError: some wait for one another.
    """
    names = [op.id for op in workload.ops]
    place = {name: k for k, name in enumerate(names)}
    after: list[list[int]] = [[] for _ in names]
    left = [0] * len(names)
    for wait in waits:
        if not wait.lag:
            after[place[wait.before]].append(place[wait.after])
            left[place[wait.after]] += 1
    ready = [k for k, count in enumerate(left) if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        k = heapq.heappop(ready)
        found.append(names[k])
        for other in after[k]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, other)
    if len(found) < len(names):
        circle = cycle_of({name: [names[k] for k in after[place[name]]] for name in names})
        raise InputError(_endless(workload, circle))
    return tuple(found)


def _endless(workload: Workload, circle: Sequence[str]) -> str:
    """Return a message on a cycle of dependencies from host programs."""
    shown = [*circle[:_SHOWN], *["..."] * (len(circle) > _SHOWN), circle[0]]
    for before, late in zip(circle, [*circle[1:], circle[0]], strict=True):
        for program in workload.submits:
            told = [(event.action, event.op) for event in program.events if not event.lag]
            wait, submit = (HostAction.WAIT, before), (HostAction.SUBMIT, late)
            if wait in told and submit in told[told.index(wait) :]:
                return (
                    f"the program of role {program.role!r} submits {late!r} only after a wait for "
                    f"{before!r}, which comes after it ({' -> '.join(shown)}): it would wait for "
                    f"ever; submit {late!r} before that wait"
                )
    return f"operations wait for one another for ever: {' -> '.join(shown)}"
