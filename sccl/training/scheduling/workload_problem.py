"""Convert a workload with options to a problem of windows, and its plans back.

Ticks are nanoseconds. Operations are in the order of submission: the order of the workload, changed
where dependencies require it. If a host program waits for one collective before it submits another
one, the second depends on the first.

Extra dependencies limit the memory of held results. Results are released in the order of their last
uses. Before a collective starts, the oldest results must have been used, as many as necessary for
the later results to fit into the memory. So the results held at any time are consecutive. This is a
restriction: other orders may fit as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.core.cost import format_bytes
from sccl.core.graphs import topological_order
from sccl.errors import InputError, ParameterError
from sccl.training.scheduling.step_problem import (
    FULL_SHARE,
    CyclicPlan,
    CyclicProblem,
    LaggedWait,
    StepMotif,
    StepOp,
    StepOption,
    StepProblem,
)
from sccl.training.types.training_plan import FULL_LOAD, Issue, Option, TrainingPlan
from sccl.training.types.workload import Workload, find_cycle
from sccl.training.types.workload_ops import CommOp, ComputeOp, Dependency, HostAction, Role

assert FULL_SHARE == FULL_LOAD

NS_PER_US = 1000

_MAX_SHOWN = 8
"""Largest number of operations of a cycle in a message."""

OptionsByCollective = Mapping[str, Sequence[Option]]
"""Options of each collective, by id."""


@dataclass(frozen=True)
class PlanningJob:
    """A workload with options of its collectives.

    Attributes:
        options: Permitted options of each collective, by id.
        memory_bytes: Limit for held results, enforced by dependencies. 0: none.
    """

    workload: Workload
    options: OptionsByCollective
    memory_bytes: int = 0

    @cached_property
    def op_ids(self) -> tuple[str, ...]:
        """Return the ids of operations, in the order of the problem's ops."""
        return _submission_order(self.workload, self._waits)

    @cached_property
    def _waits(self) -> tuple[Dependency, ...]:
        return all_waits(self.workload, self.memory_bytes)

    @cached_property
    def problem(self) -> CyclicProblem:
        """Return the problem of the repeated step.

        Raises:
            InputError: A collective has no option.
        """
        ops = {op.id: op for op in self.workload.ops}
        place = {name: k for k, name in enumerate(self.op_ids)}
        waits = self._waits
        before: dict[str, set[int]] = {name: set() for name in self.op_ids}
        for wait in waits:
            if not wait.lag:
                before[wait.after].add(place[wait.before])
        resources = _resource_names(self.workload, self.options)
        number = {name: k for k, name in enumerate(resources)}
        made: dict[int, tuple[StepOption, ...]] = {}  # converted once for equal collectives
        rows = []
        for name in self.op_ids:
            op = ops[name]
            if isinstance(op, CommOp):
                step_options = self._step_options(op, number, made)
            else:
                motif = StepMotif(round(op.duration_us * NS_PER_US), (number[stream_of(op)],))
                step_options = (StepOption("", (motif,)),)
            after = tuple(sorted(before[name]))
            rows.append(StepOp(name, step_options, after, communicates=isinstance(op, CommOp)))
        lagged = {LaggedWait(place[w.before], place[w.after], w.lag) for w in waits if w.lag}
        return CyclicProblem(StepProblem(resources, tuple(rows)), tuple(sorted(lagged)))

    def _step_options(
        self, op: CommOp, number: Mapping[str, int], made: dict[int, tuple[StepOption, ...]]
    ) -> tuple[StepOption, ...]:
        options = self.options.get(op.id, ())
        if not options:
            raise InputError(f"operation {op.id!r} has no option, expected one at least")
        if id(options) not in made:
            made[id(options)] = tuple(_build_step_option(option, number) for option in options)
        return made[id(options)]

    def export_plan(
        self, cyclic: CyclicPlan
    ) -> tuple[tuple[tuple[str, Option], ...], tuple[Issue, ...]]:
        """Return the options and the order of a plan, in the form of training plans."""
        chosen = dict(zip(self.op_ids, cyclic.options, strict=True))
        options = tuple(
            (op.id, self.options[op.id][chosen[op.id]]) for op in self.workload.collectives()
        )
        order = tuple(
            Issue(self.op_ids[op], k, shift)
            for (op, k), shift in zip(cyclic.order, cyclic.shifts, strict=True)
        )
        return options, order


def job_of_plan(plan: TrainingPlan) -> tuple[PlanningJob, CyclicPlan]:
    """Return the job of a training plan, restricted to the plan's options, and its cyclic plan.

    Raises:
        InputError: The plan does not have each operation of its workload exactly once.
    """
    options = {name: (option,) for name, option in plan.options}
    wanted = {op.id for op in plan.workload.collectives()}
    if len(options) < len(plan.options) or options.keys() != wanted:
        odd = sorted(options.keys() ^ wanted) or [plan.options[0][0]]
        raise InputError(f"operation {odd[0]!r:.60} has not one option, expected one of each")
    job = PlanningJob(plan.workload, options, plan.memory_bytes)
    place = {name: k for k, name in enumerate(job.op_ids)}
    for issue in plan.order:
        if issue.op not in place:
            raise InputError(f"the order has operation {issue.op!r:.60}, which does not exist")
    issued = {issue.op for issue in plan.order}
    if missing := [name for name in job.op_ids if name not in issued]:
        raise InputError(f"the order leaves out operation {missing[0]!r:.60}")
    return job, CyclicPlan(
        options=(0,) * len(job.op_ids),
        order=tuple((place[issue.op], issue.motif) for issue in plan.order),
        shifts=tuple(issue.shift for issue in plan.order),
    )


def stream_of(op: ComputeOp) -> str:
    """Return the resource that a computation uses: its role's stream."""
    return f"{op.role}: {op.stream}"


def _resource_names(workload: Workload, options: OptionsByCollective) -> tuple[str, ...]:
    streams = {stream_of(op): None for op in workload.computation()}
    used = {
        name
        for op_options in options.values()
        for option in op_options
        for motif in option.motifs
        for name, _ in motif.loads
    }
    if both := sorted(used & streams.keys()):
        raise InputError(f"{both[0]!r:.60} names a stream of computation, and links of the fabric")
    return (*streams, *sorted(used))


def _build_step_option(option: Option, number: Mapping[str, int]) -> StepOption:
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
    waits = workload_waits(workload)
    gates = memory_waits(workload, _submission_order(workload, waits), memory_bytes)
    return tuple(dict.fromkeys((*waits, *gates)))


def workload_waits(workload: Workload) -> tuple[Dependency, ...]:
    """Return the dependencies of the workload, of the order of streams, and of host programs.

    A host is at most one iteration ahead: no stream of a role begins iteration i before the role's
    other streams have ended iteration i - 2.
    """
    waits = dict.fromkeys(workload.deps)
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for op in workload.computation():
        stream = stream_of(op)
        if stream in last:
            waits[Dependency(last[stream], op.id)] = None
        first.setdefault(stream, op.id)
        last[stream] = op.id
    for stream, name in last.items():
        if first[stream] != name:
            waits[Dependency(name, first[stream], 1)] = None
    role = {op.id: op.role for op in workload.computation()}
    for begin_stream, begins in first.items():
        for end_stream, ends in last.items():
            if begin_stream != end_stream and role[begins] == role[ends]:
                waits[Dependency(ends, begins, 2)] = None
    for wait in _host_waits(workload, tuple(waits)):
        waits[wait] = None
    return tuple(waits)


def _host_waits(workload: Workload, waits: Sequence[Dependency]) -> Iterable[Dependency]:
    """Yield the dependencies of host programs that nothing else implies.

    An operation depends on everything that its role waited for before submitting it.
    """
    names = [op.id for op in workload.ops]
    place = {name: k for k, name in enumerate(names)}
    after: list[list[int]] = [[] for _ in names]
    ahead: dict[tuple[int, int], int] = {}
    for wait in waits:
        if wait.lag:
            key = (place[wait.before], wait.lag)
            ahead[key] = ahead.get(key, 0) | 1 << place[wait.after]
        else:
            after[place[wait.before]].append(place[wait.after])
    reach = _reachability_bits(after)
    for program in workload.submits:
        awaited: dict[tuple[int, int], None] = {}
        for event in program.events:
            position = place[event.op]
            if event.action is HostAction.WAIT:
                for before, lag in list(awaited):  # implied by the new wait
                    if lag == event.lag and reach[before] >> position & 1:
                        del awaited[before, lag]
                awaited[position, event.lag] = None
                continue
            for before, lag in awaited:
                if lag == 0:
                    implied = reach[before] >> position & 1
                else:
                    starts = ahead.get((before, lag), 0)
                    implied = starts >> position & 1 or any(
                        starts >> k & 1 and reach[k] >> position & 1 for k in range(len(names))
                    )
                if not implied:
                    yield Dependency(names[before], names[position], lag)


def _reachability_bits(after: Sequence[Sequence[int]]) -> list[int]:
    """Return the descendants of each node of an acyclic graph, as bits."""
    before: dict[int, list[int]] = {k: [] for k in range(len(after))}
    for k, successors in enumerate(after):
        for successor in successors:
            before[successor].append(k)
    order = topological_order(before, key=int)
    reach = [0] * len(after)
    for k in reversed(order):
        for successor in after[k]:
            reach[k] |= reach[successor] | 1 << successor
    return reach


def _submission_order(workload: Workload, waits: Iterable[Dependency]) -> tuple[str, ...]:
    """Return operations in the workload's order, as far as dependencies in an iteration permit.

    Raises:
        InputError: Dependencies form a cycle.
    """
    names = [op.id for op in workload.ops]
    place = {name: k for k, name in enumerate(names)}
    before: dict[str, list[str]] = {name: [] for name in names}
    for wait in waits:
        if not wait.lag:
            before[wait.after].append(wait.before)
    order = topological_order(before, key=place.__getitem__)
    if len(order) < len(names):
        after = {name: [user for user in names if name in before[user]] for name in names}
        circle = find_cycle(after)
        raise InputError(_deadlock_message(workload, circle))
    return tuple(order)


def _deadlock_message(workload: Workload, circle: Sequence[str]) -> str:
    """Return a message on a cycle of dependencies from host programs."""
    shown = [*circle[:_MAX_SHOWN], *["..."] * (len(circle) > _MAX_SHOWN), circle[0]]
    for before, after in zip(circle, [*circle[1:], circle[0]], strict=True):
        for program in workload.submits:
            events = [(event.action, event.op) for event in program.events if not event.lag]
            wait, submit = (HostAction.WAIT, before), (HostAction.SUBMIT, after)
            if wait in events and submit in events[events.index(wait) :]:
                return (
                    f"the program of role {program.role!r} submits {after!r} only after a wait "
                    f"for {before!r}, which comes after it ({' -> '.join(shown)}): this "
                    f"deadlocks; submit {after!r} before that wait"
                )
    return f"operations form a dependency cycle: {' -> '.join(shown)}"


def result_holders(workload: Workload, role: Role) -> tuple[CommOp, ...]:
    """Return the collectives whose results ranks of a role hold."""
    ranks = set(role.ranks)
    return tuple(
        op for op in workload.collectives() if op.holds_bytes and not ranks.isdisjoint(op.members)
    )


def memory_waits(
    workload: Workload, names: Sequence[str], limit_bytes: int
) -> tuple[Dependency, ...]:
    """Return dependencies under which held results stay within a limit, on every rank.

    Args:
        workload: Workload.
        names: Ids of operations in topological order.
        limit_bytes: Limit of held results. 0: none.

    Raises:
        ParameterError: A single result, or the inputs of one operation, exceed the limit.
    """
    if not limit_bytes:
        return ()
    place = {name: k for k, name in enumerate(names)}
    users = _result_users(workload, place)
    lines: dict[str, tuple[object, int]] = {
        op.id: ((op.role, op.stream) if isinstance(op, ComputeOp) else op.id, place[op.id])
        for op in workload.ops
    }
    gates: dict[Dependency, None] = {}
    for role in workload.roles:
        held = sorted(
            result_holders(workload, role),
            key=lambda op: (*_last_use(users[op.id], place), place[op.id]),
        )
        _check_limit(held, users, limit_bytes)
        gates |= dict.fromkeys(_gate_waits(held, users, lines, limit_bytes))
    return tuple(gates)


def _result_users(workload: Workload, place: dict[str, int]) -> dict[str, list[tuple[int, str]]]:
    """Return the successors of each collective in order, with lags. Without any: the collective."""
    users: dict[str, list[tuple[int, str]]] = {op.id: [] for op in workload.collectives()}
    for dep in workload.deps:
        if dep.before in users:
            users[dep.before].append((dep.lag, dep.after))
    for name, waiters in users.items():
        waiters.sort(key=lambda user: (user[0], place[user[1]]))
        if not waiters:
            waiters.append((0, name))
    return users


def _last_use(users: Sequence[tuple[int, str]], place: dict[str, int]) -> tuple[int, int]:
    """Return the lag in iterations and the place of the last use of a result."""
    lag, name = users[-1]
    return lag, place[name]


def _check_limit(
    held: Sequence[CommOp], users: dict[str, list[tuple[int, str]]], limit_bytes: int
) -> None:
    holds = {op.id: op.holds_bytes for op in held}
    at_once = dict(holds)
    for op in held:
        if op.holds_bytes > limit_bytes:
            raise ParameterError(
                f"operation {op.id!r} holds {format_bytes(op.holds_bytes)}, and the memory is "
                f"{format_bytes(limit_bytes)}: give at least as much"
            )
        for user in {name for _, name in users[op.id]} - {op.id}:
            total = at_once[user] = at_once.get(user, 0) + op.holds_bytes
            if total > limit_bytes:
                note = " beside its own" if user in holds else ""
                raise ParameterError(
                    f"operation {user!r} waits for results of {format_bytes(total)} at once{note}, "
                    f"and the memory is {format_bytes(limit_bytes)}: give at least as much"
                )


_LatestUses = dict[object, tuple[int, int, str]]
"""Iteration, place, and operation of the latest use in each stream."""


def _gate_waits(
    held: Sequence[CommOp],
    users: dict[str, list[tuple[int, str]]],
    lines: dict[str, tuple[object, int]],
    limit_bytes: int,
) -> Iterator[Dependency]:
    """Yield the dependencies that keep held results within the limit.

    Results are numbered across iterations. A collective waits for the last uses of all results up
    to the newest one that no longer fits together with the results after it. It waits at least for
    results of some iterations before, because no rank is further ahead.

    Args:
        held: Collectives in the order of their last uses.
        users: Successors of each collective in order, with lags.
        lines: Stream and place of each operation. Operations of one stream end in order.
        limit_bytes: Limit for held results.
    """
    many = len(held)
    rounds = 2 + max((lag for op in held for lag, _ in users[op.id]), default=0)
    upto: list[_LatestUses] = [{}]
    for op in held:
        latest = dict(upto[-1])
        for lag, user in users[op.id]:
            line, at = lines[user]
            latest[line] = max(latest.get(line, (lag, at, user)), (lag, at, user))
        upto.append(latest)
    for number, op in enumerate(held):
        total, back = 0, number
        while back > number - rounds * many:
            total += held[back % many].holds_bytes
            if total > limit_bytes:
                break
            back -= 1
        turn, last = divmod(back, many)
        waits = {line: (turn + lag, at, user) for line, (lag, at, user) in upto[last + 1].items()}
        for line, (lag, at, user) in upto[many].items():  # later results of the iteration before
            waits[line] = max(waits.get(line, (turn - 1, -1, "")), (turn - 1 + lag, at, user))
        for when, _, user in waits.values():
            if when > 0 or (when == 0 and user == op.id):
                raise ParameterError(
                    f"operation {op.id!r} has no memory before {user!r} has used the results that "
                    f"it holds, in {format_bytes(limit_bytes)}: give more"
                )
            yield Dependency(user, op.id, -when)
