"""Write workloads program by program: the computation, submissions, and waits of a role, in order.

A computation after a wait depends on the awaited collective. A collective depends on the last
computation or wait of its role. Each role computes on one stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sccl.core.workload import Workload
from sccl.core.workload_ops import (
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)
from sccl.errors import InputError, TooLargeError
from sccl.training.models.parallelism import MAX_MEMBERS, Groups

STREAM = "compute"

_Need = tuple[str, int]
"""An operation, and of how many iterations before."""


@dataclass(slots=True)
class WorkloadWriter:
    """The common state of all roles.

    Attributes:
        calls: Collectives by id.
        members: Ranks of all their groups together.
    """

    calls: dict[str, CommOp] = field(default_factory=dict)
    deps: dict[Dependency, None] = field(default_factory=dict)
    roles: list[RoleWriter] = field(default_factory=list)
    members: int = 0

    def add_role(self, name: str, ranks: tuple[int, ...]) -> RoleWriter:
        """Return a writer of another role."""
        self.roles.append(RoleWriter(self, Role(name, ranks)))
        return self.roles[-1]

    def register_collective(self, op: CommOp) -> None:
        """Take a collective in, which another role may have given before.

        Raises:
            TooLargeError: there are more than is written down.
        """
        if op.id in self.calls:
            assert self.calls[op.id] == op
            return
        self.calls[op.id] = op
        self.members += len(op.group) * (1 + len(op.beside))
        if self.members > MAX_MEMBERS:
            raise TooLargeError(
                f"the groups of all collectives have more than {MAX_MEMBERS} ranks together: "
                "give fewer layers, microbatches or ranks"
            )

    def workload(self, name: str, ranks: int, source: str) -> Workload:
        """Return the workload, whose operations are in the order in which they are submitted.

        Raises:
            InputError: there are no collectives.
        """
        if not self.calls:
            raise InputError(
                "these parameters need no collectives: give several ranks to share tensors, "
                "stages or data"
            )
        for role in self.roles:
            role.close()
        return Workload(
            name=name,
            ranks=ranks,
            roles=tuple(writer.role for writer in self.roles),
            ops=tuple(self._ops_by_start()),
            deps=tuple(self.deps),
            submits=tuple(
                HostProgram(writer.role.name, tuple(writer.events)) for writer in self.roles
            ),
            source=source,
        )

    def _ops_by_start(self) -> list[AnyOp]:
        """Return operations by when their roles come to them if collectives took no time."""
        begins = _earliest_starts(self.roles, self.deps)
        at: dict[str, float] = {}
        places: dict[str, int] = {}
        ops: dict[str, AnyOp] = {}
        for role in self.roles:
            now = 0.0
            for op in role.lines:
                if isinstance(op, ComputeOp):
                    now = begins[op.id] + op.duration_us
                    at[op.id] = begins[op.id]
                else:  # of one that several submit, when the last of them does
                    at[op.id] = max(at.get(op.id, 0.0), now)
                places.setdefault(op.id, len(places))
                ops[op.id] = op
        return [ops[name] for name in sorted(ops, key=lambda name: (at[name], places[name]))]


@dataclass(slots=True)
class RoleWriter:
    """The program of a role.

    Attributes:
        lines: Computations and submissions, in order.
        needs: Dependencies of the next line.
    """

    job: WorkloadWriter
    role: Role
    lines: list[AnyOp] = field(default_factory=list)
    events: list[HostEvent] = field(default_factory=list)
    needs: dict[_Need, None] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    call_needs: dict[str, tuple[_Need, ...]] = field(default_factory=dict)

    def compute(self, op_id: str, us: float, *uses: str) -> None:
        """Add a computation after the last waits.

        Args:
            uses: Further collectives, awaited earlier, whose results it needs.
        """
        op = ComputeOp(op_id, self.role.name, STREAM, round(us, 3))
        before = self.computed[-1:]
        for name, lag in [*self.needs, *((name, 0) for name in uses)]:
            if lag or name not in before:
                self.job.deps[Dependency(name, op_id, lag)] = None
        self.computed.append(op_id)
        self.needs = {(op_id, 0): None}
        self.lines.append(op)

    def submit(self, op: CommOp, after: Iterable[_Need] | None = None) -> None:
        """Submit a collective.

        Args:
            after: Its dependencies. None: the last computation or wait.
        """
        needs = tuple(self.needs if after is None else after)
        assert op.id not in self.call_needs
        self.job.register_collective(op)
        for name, lag in needs:
            self.job.deps[Dependency(name, op.id, lag)] = None
        self.call_needs[op.id] = needs
        self.events.append(HostEvent(HostAction.SUBMIT, op.id))
        self.lines.append(op)

    def wait(self, op_id: str, lag: int = 0) -> None:
        """Wait for a collective, which this iteration has submitted, or one before."""
        if not lag:
            for need in self.call_needs[op_id]:  # which it waited for itself
                self.needs.pop(need, None)
        self.needs[op_id, lag] = None
        self.events.append(HostEvent(HostAction.WAIT, op_id, lag))

    def close(self) -> None:
        """Let the next iteration's first computation depend on the last waits."""
        for name, lag in self.needs:
            if self.computed and name != self.computed[-1]:
                self.job.deps[Dependency(name, self.computed[0], lag + 1)] = None


def build_call(op_id: str, collective: str, groups: Groups, count: int, dtype: str) -> CommOp:
    """Return a collective of several groups at once; roots are the first ranks of each."""
    return CommOp(
        op_id,
        collective,
        groups[0],
        count,
        dtype,
        root=groups[0][0] if collective == "broadcast" else None,
        reduce="sum" if collective in ("allreduce", "reducescatter") else None,
        beside=groups[1:],
    )


def _earliest_starts(
    roles: Iterable[RoleWriter], deps: Iterable[Dependency]
) -> Mapping[str, float]:
    """Return when each operation can begin at the earliest if collectives take no time."""
    took: dict[str, float] = {}
    after: dict[str, list[str]] = {}
    left: dict[str, int] = {}
    for role in roles:
        for op in role.lines:
            took[op.id] = op.duration_us if isinstance(op, ComputeOp) else 0.0
            after.setdefault(op.id, [])
            left.setdefault(op.id, 0)
        for predecessor, successor in zip(role.computed, role.computed[1:], strict=False):
            after[predecessor].append(successor)
            left[successor] += 1
    for dep in deps:
        if not dep.lag:
            after[dep.before].append(dep.after)
            left[dep.after] += 1
    begins = dict.fromkeys(took, 0.0)
    ready = [name for name, count in left.items() if not count]
    while ready:
        name = ready.pop()
        for successor in after[name]:
            begins[successor] = max(begins[successor], begins[name] + took[name])
            left[successor] -= 1
            if not left[successor]:
                ready.append(successor)
    return begins
