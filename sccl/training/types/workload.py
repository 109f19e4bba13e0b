"""One iteration of a training job: computations, collectives, and their dependencies.

Each role is a program that some ranks run: sequential computations on streams, and calls of
collectives with waits for their results. Iterations repeat. A dependency may lead from one
iteration to a later one, for example for prefetched data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sccl.errors import ParameterError
from sccl.training.types.workload_ops import (
    MAX_JOB_RANKS,
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostProgram,
    Role,
    check_name,
    check_us,
)

MAX_COMPUTE_STREAMS = 128
"""Maximum number of streams of a role. Devices run a few dozen streams concurrently at most."""

_MAX_NAMES_SHOWN = 12
"""Maximum number of names in a message."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One iteration of a training job.

    Attributes:
        ops: Operations. Those of one role and stream are in the order of execution.
        submits: Program of each role.
        iteration_us: Traced duration of an iteration. None: it was not traced.
        left_out_us: Part of ``iteration_us`` in which devices were idle, such as host time, and
            which no operation contains. None: unknown.
        source: Source of the workload.

    Raises:
        ParameterError: The workload is inconsistent.
    """

    name: str
    ranks: int
    roles: tuple[Role, ...]
    ops: tuple[AnyOp, ...]
    deps: tuple[Dependency, ...]
    submits: tuple[HostProgram, ...]
    iteration_us: float | None = None
    source: str = ""
    left_out_us: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a workload")
        if not 1 <= self.ranks <= MAX_JOB_RANKS:
            raise ParameterError(f"ranks is {self.ranks}, expected 1 to {MAX_JOB_RANKS}")
        if self.iteration_us is not None:
            check_us(self.iteration_us, "iteration_us")
        if self.left_out_us is not None:
            check_us(self.left_out_us, "left_out_us")
        roles = _roles_by_name(self.roles, self.ranks)
        ops = _ops_by_id(self.ops, roles, self.ranks)
        self._check_dependencies(ops)
        self._check_programs(roles, ops)

    def collectives(self) -> Iterator[CommOp]:
        """Return the collectives, in order."""
        return (op for op in self.ops if isinstance(op, CommOp))

    def computation(self) -> Iterator[ComputeOp]:
        """Return the computation, in order."""
        return (op for op in self.ops if isinstance(op, ComputeOp))

    def _check_dependencies(self, ops: Mapping[str, AnyOp]) -> None:
        seen: set[Dependency] = set()
        after: dict[str, list[str]] = {name: [] for name in ops}
        for dep in self.deps:
            label = f"the dependency of {dep.after!r} on {dep.before!r}"
            for end in (dep.before, dep.after):
                if end not in ops:
                    raise ParameterError(f"{label}: there is no operation {end!r}: give one's id")
            if dep in seen:
                raise ParameterError(f"{label} is there twice: give it once")
            seen.add(dep)
            if dep.lag == 0:
                after[dep.before].append(dep.after)
        last: dict[tuple[str, str], str] = {}
        for op in self.computation():
            if (op.role, op.stream) in last:
                after[last[op.role, op.stream]].append(op.id)
            last[op.role, op.stream] = op.id
        for role, streams in Counter(role for role, _ in last).items():
            if streams > MAX_COMPUTE_STREAMS:
                raise ParameterError(
                    f"role {role!r} computes on {streams} streams, expected {MAX_COMPUTE_STREAMS} "
                    "at most"
                )
        if cycle := find_cycle(after):
            shown = cycle if len(cycle) <= _MAX_NAMES_SHOWN else [*cycle[:_MAX_NAMES_SHOWN], "..."]
            raise ParameterError(
                "operations of one iteration wait for one another: "
                f"{' -> '.join([*shown, cycle[0]])}; leave out a dependency, or give it its lag"
            )

    def _check_programs(self, roles: Mapping[str, Role], ops: Mapping[str, AnyOp]) -> None:
        submits: dict[str, set[str]] = {}
        for program in self.submits:
            if program.role not in roles:
                raise ParameterError(
                    f"a program has role {program.role!r}, which the workload does not define: "
                    "expected one of its roles"
                )
            if program.role in submits:
                raise ParameterError(f"role {program.role!r} has two programs, expected one")
            submits[program.role] = _check_program(program, roles[program.role], ops)
        of = {rank: role.name for role in self.roles for rank in role.ranks}
        for op in self.collectives():
            names = {of[rank] for rank in op.members if rank in of} & submits.keys()
            if not any(op.id in submits[name] for name in names):
                raise ParameterError(
                    f"operation {op.id!r} is submitted by no role: give it a place in a program"
                )
            for name in sorted(names):
                if submits[name] and op.id not in submits[name]:
                    raise ParameterError(
                        f"operation {op.id!r}: ranks of role {name!r} are in a group of it, and "
                        "the role's program does not submit it"
                    )


def _ops_by_id(all_ops: Iterable[AnyOp], roles: Mapping[str, Role], ranks: int) -> dict[str, AnyOp]:
    ops: dict[str, AnyOp] = {}
    for op in all_ops:
        if op.id in ops:
            raise ParameterError(f"operation {op.id!r} is there twice: give each its own id")
        ops[op.id] = op
        if isinstance(op, ComputeOp) and op.role not in roles:
            raise ParameterError(
                f"operation {op.id!r}: there is no role {op.role!r}, expected one of "
                f"{', '.join(sorted(roles)[:_MAX_NAMES_SHOWN])}"
            )
        if isinstance(op, CommOp) and (max_rank := max(map(max, op.groups))) >= ranks:
            raise ParameterError(
                f"operation {op.id!r}: rank {max_rank} is in a group of it, and there are "
                f"{ranks} ranks, 0 to {ranks - 1}"
            )
    return ops


def _roles_by_name(roles: Iterable[Role], ranks: int) -> dict[str, Role]:
    by_name: dict[str, Role] = {}
    of: dict[int, str] = {}
    for role in roles:
        if role.name in by_name:
            raise ParameterError(f"role {role.name!r} is there twice: give all its ranks in one")
        by_name[role.name] = role
        if role.ranks[0] < 0 or role.ranks[-1] >= ranks:
            raise ParameterError(
                f"role {role.name!r}: there are {ranks} ranks, expected 0 to {ranks - 1}"
            )
        for rank in role.ranks:
            if rank in of:
                raise ParameterError(
                    f"rank {rank} has roles {of[rank]!r} and {role.name!r}, expected one role per "
                    "rank"
                )
            of[rank] = role.name
    if not by_name:
        raise ParameterError("there are no roles: give at least one, with its ranks")
    return by_name


def find_cycle(after: Mapping[str, Iterable[str]]) -> list[str]:
    """Find a cycle of operations.

    Args:
        after: Successors of each operation.

    Returns:
        The operations of one cycle. Empty: there is none.
    """
    waits = Counter(name for names in after.values() for name in names)
    ready = [name for name in after if not waits[name]]
    while ready:
        for name in after[ready.pop()]:
            waits[name] -= 1
            if not waits[name]:
                ready.append(name)
    left = {name for name, number in waits.items() if number}
    if not left:
        return []
    # Every remaining operation has a remaining predecessor, so walking back ends in a cycle.
    before = {
        name: prior for prior in after if prior in left for name in after[prior] if name in left
    }
    path: dict[str, None] = {}
    at = next(name for name in after if name in left)
    while at not in path:
        path[at] = None
        at = before[at]
    names = list(path)
    return names[names.index(at) :][::-1]


def _submitted_ops(program: HostProgram) -> set[str]:
    return {event.op for event in program.events if event.action is HostAction.SUBMIT}


def _check_program(program: HostProgram, role: Role, ops: Mapping[str, AnyOp]) -> set[str]:
    """Check a program, and return the operations that it submits."""
    submitted = _submitted_ops(program)
    before: set[str] = set()
    for line, event in enumerate(program.events):
        where = f"program of role {role.name!r}, line {line}: {event.action} of {event.op!r}"
        op = ops.get(event.op)
        if not isinstance(op, CommOp):
            raise ParameterError(f"{where}, which is no collective: give the id of one")
        if event.action is HostAction.SUBMIT:
            if event.op in before:
                raise ParameterError(f"{where}, which was submitted before: once an iteration")
            if not op.members.issuperset(role.ranks):
                raise ParameterError(
                    f"{where}, but its groups lack some ranks of the role: add these ranks to a "
                    "group"
                )
            before.add(event.op)
        elif event.op not in (submitted if event.lag else before):
            raise ParameterError(
                f"{where}, which was not submitted before: expected one that was, or lag 1 where "
                "the iteration before submitted it"
            )
    return submitted
