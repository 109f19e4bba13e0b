"""Write workloads role by role: the computation, submissions, and waits of each, in order.

A computation after a wait depends on the awaited collective. A collective depends on the last
computation or wait of its role. Each role computes on one stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise

from sccl.errors import InputError, TooLargeError
from sccl.training.models.parallelism import MAX_MEMBERS, Groups
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)

STREAM = "compute"

_Need = tuple[str, int]
"""An operation, and the number of iterations before."""


@dataclass(slots=True)
class WorkloadWriter:
    """The common state of all roles.

    Attributes:
        calls: Collectives by id.
        deps: Dependencies of all roles.
        roles: Writers of all roles.
        members: Number of ranks in the groups of all collectives together.
    """

    calls: dict[str, CommOp] = field(default_factory=dict)
    deps: dict[Dependency, None] = field(default_factory=dict)
    roles: list[RoleWriter] = field(default_factory=list)
    members: int = 0

    def add_role(self, name: str, ranks: tuple[int, ...]) -> RoleWriter:
        """Add a role, and return its writer."""
        self.roles.append(RoleWriter(self, Role(name, ranks)))
        return self.roles[-1]

    def register_collective(self, op: CommOp) -> None:
        """Add a collective, unless another role has already added it.

        Raises:
            TooLargeError: The groups of all collectives have too many ranks.
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
        """Return the workload, with operations in the order of submission.

        Raises:
            InputError: There are no collectives.
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
        """Return operations by the time of submission if collectives took no time."""
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
                else:  # the last submission counts
                    at[op.id] = max(at.get(op.id, 0.0), now)
                places.setdefault(op.id, len(places))
                ops[op.id] = op
        return [ops[name] for name in sorted(ops, key=lambda name: (at[name], places[name]))]


@dataclass(slots=True)
class RoleWriter:
    """The program of a role.

    Attributes:
        job: Writer of the workload.
        role: Role and its ranks.
        lines: Computations and submissions, in order.
        events: Submissions and waits of the host, in order.
        needs: Dependencies of the next line.
        computed: Ids of computations, in order.
        call_needs: Dependencies of each submitted collective.
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
            op_id: Id of the computation.
            us: Duration in microseconds.
            uses: Further collectives, awaited earlier, whose results the computation needs.
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
            op: Collective.
            after: Dependencies. None: those of the next line.
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
        """Wait for a collective of this iteration, or of an iteration ``lag`` before."""
        if not lag:
            for need in self.call_needs[op_id]:  # implied by the collective
                self.needs.pop(need, None)
        self.needs[op_id, lag] = None
        self.events.append(HostEvent(HostAction.WAIT, op_id, lag))

    def close(self) -> None:
        """Make the next iteration's first computation depend on the last waits."""
        for name, lag in self.needs:
            if self.computed and name != self.computed[-1]:
                self.job.deps[Dependency(name, self.computed[0], lag + 1)] = None


def build_call(op_id: str, collective: str, groups: Groups, count: int, dtype: str) -> CommOp:
    """Return a collective in several groups at once. The first rank of each group is its root."""
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
    """Return the earliest start of each operation if collectives take no time."""
    took: dict[str, float] = {}
    before: dict[str, list[str]] = {}
    for role in roles:
        for op in role.lines:
            took[op.id] = op.duration_us if isinstance(op, ComputeOp) else 0.0
            before.setdefault(op.id, [])
        for predecessor, successor in pairwise(role.computed):
            before[successor].append(predecessor)
    for dep in deps:
        if not dep.lag:
            before[dep.after].append(dep.before)
    begins = dict.fromkeys(took, 0.0)
    for name in TopologicalSorter(before).static_order():
        begins[name] = max((begins[k] + took[k] for k in before[name]), default=0.0)
    return begins
