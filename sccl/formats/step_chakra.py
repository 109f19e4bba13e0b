"""Chakra execution traces of training plans: what each rank computes and calls in an iteration.

Source: ``et_def.proto`` of MLCommons Chakra, as :mod:`sccl.formats.chakra`. A collective is a node
of each rank of its groups, with ``comm_type`` and ``comm_size``; one that not all ranks are in has
``pg_name``, the number of its group, which ``comm_groups.json`` lists (what ASTRA-sim takes as
``--comm-group-configuration``). Nodes need what the workload says that they need; that computation
of a stream is in order is a control dependency. Numbers of nodes are in the order of the plan.

How a collective is split has no place in a trace that others simulate: recipe and channels are
attributes, which readers pass over.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.core.workload_ops import CommOp, ComputeOp
from sccl.errors import TooLargeError
from sccl.formats.contract import WrittenFiles
from sccl.formats.stepped import SteppedPlan
from sccl.formats.traces import SCHEMA, Node, NodeKind, trace

MAX_NODES = 4_000_000
"""Of all ranks."""

COMM_TYPES = (
    *("allreduce", "reduce", "allgather", "gather", "scatter", "broadcast", "alltoall"),
    "reducescatter",
)
"""By the numbers of ``CollectiveCommType``."""

_GROUPS = "comm_groups.json"


def write_step(stepped: SteppedPlan) -> WrittenFiles:
    """Return a file for each rank, and one of the groups that not all ranks are in.

    Raises:
        TooLargeError: there are more nodes than are written.
    """
    ranks = _Ranks(stepped)
    if (count := sum(map(len, ranks.ops.values()))) > MAX_NODES:
        raise TooLargeError(
            f"{stepped.name}: {count} nodes of {stepped.plan.workload.ranks} ranks, and up to "
            f"{MAX_NODES} are written: export it as chrome-trace"
        )
    files: dict[str, bytes] = {}
    alike: dict[tuple[tuple[str, int], ...], bytes] = {}
    head = {"schema": SCHEMA, "workload": stepped.plan.workload.name}
    for rank in range(stepped.plan.workload.ranks):
        own = tuple((name, ranks.group_of(name, rank)) for name in ranks.ops[rank])
        if own not in alike:
            alike[own] = trace(list(ranks.nodes(own)) or [Node(0, NodeKind.COMPUTE)], head)
        files[f"{stepped.name}.{rank}.et"] = alike[own]
    if ranks.groups:
        told = {str(number): group for group, number in ranks.groups.items()}
        files[_GROUPS] = json.dumps(told).encode() + b"\n"
    command = "sccl workload import {path}/*.et --format chakra -o workload.json"
    return WrittenFiles(files, command, tuple(_notes(stepped, ranks.groups)))


@dataclass(frozen=True)
class _Ranks:
    """What ranks do."""

    stepped: SteppedPlan

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the numbers of operations, in the order of the plan."""
        names = dict.fromkeys(issue.op for issue in self.stepped.plan.order)
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def ops(self) -> dict[int, list[str]]:
        """Return the operations of each rank, in the order of the plan."""
        workload = self.stepped.plan.workload
        roles = {role.name: role.ranks for role in workload.roles}
        found: dict[int, list[str]] = defaultdict(list)
        for op in sorted(workload.ops, key=lambda one: self.numbers[one.id]):
            for rank in op.members if isinstance(op, CommOp) else roles[op.role]:
                found[rank].append(op.id)
        return found

    @cached_property
    def groups(self) -> dict[tuple[int, ...], int]:
        """Return the groups that not all ranks are in, with their numbers from 1 on."""
        workload = self.stepped.plan.workload
        every = [group for op in workload.collectives() for group in op.groups]
        some = dict.fromkeys(group for group in every if len(group) < workload.ranks)
        return {group: number for number, group in enumerate(some, 1)}

    def group_of(self, name: str, rank: int) -> int:
        """Return the number of the group in which a rank calls a collective; 0: that of all."""
        op = self._calls.get(name)
        return 0 if op is None else self.groups.get(_within(op, rank), 0)

    @cached_property
    def _calls(self) -> dict[str, CommOp]:
        return {op.id: op for op in self.stepped.plan.workload.collectives()}

    @cached_property
    def _computes(self) -> dict[str, ComputeOp]:
        return {op.id: op for op in self.stepped.plan.workload.computation()}

    @cached_property
    def _streams(self) -> dict[str, int]:
        names = dict.fromkeys(op.stream for op in self._computes.values())
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _needs(self) -> tuple[Mapping[str, list[int]], Mapping[str, list[int]]]:
        """Return the numbers of what each needs, and of what is before it on its stream."""
        data: dict[str, list[int]] = defaultdict(list)
        control: dict[str, list[int]] = defaultdict(list)
        for wait in self.stepped.waits:
            if not wait.lag:
                one, other = self._computes.get(wait.before), self._computes.get(wait.after)
                same = one and other and (one.role, one.stream) == (other.role, other.stream)
                (control if same else data)[wait.after].append(self.numbers[wait.before])
        return data, control

    def nodes(self, own: Sequence[tuple[str, int]]) -> Iterator[Node]:
        """Yield the nodes of a rank, of its operations, each with the number of its group."""
        here = {self.numbers[name] for name, _ in own}
        data, control = self._needs
        options = dict(self.stepped.plan.options)
        for name, group in own:
            after = tuple(sorted(here.intersection(data[name])))
            before = tuple(sorted(here.intersection(control[name])))
            number = self.numbers[name]
            if name in self._computes:
                op = self._computes[name]
                told: dict[str, int | bool | str] = {"tid": self._streams[op.stream]}
                micros = _micros(op.duration_us)
                yield Node(number, NodeKind.COMPUTE, after, micros, told, before, name)
                continue
            call, option = self._calls[name], options[name]
            channels = dict.fromkeys(motif.channel for motif in option.motifs)
            told = {
                "comm_type": COMM_TYPES.index(call.collective),
                "comm_size": _given(call),
                **({"pg_name": str(group)} if group else {}),
                **({} if call.root is None else {"root": call.group.index(call.root)}),
                "recipe": option.recipe,
                "channels": ",".join(channels),
            }
            micros = _micros(option.ns / 1000)
            yield Node(number, NodeKind.COLLECTIVE, after, micros, told, before, name)


def _given(call: CommOp) -> int:
    """Return the bytes that a rank gives: of a scatter or a broadcast, those of the root."""
    gathers = call.collective in ("allgather", "gather")
    return call.size_bytes // len(call.group) if gathers else call.size_bytes


def _within(op: CommOp, rank: int) -> tuple[int, ...]:
    return next(group for group in op.groups if rank in group)


def _micros(us: float) -> int:
    return max(1, round(us)) if us else 0


def _notes(stepped: SteppedPlan, groups: Mapping[tuple[int, ...], int]) -> Iterator[str]:
    yield "one iteration, in whole microseconds; simulators time collectives by themselves"
    if ahead := sum(wait.lag > 0 for wait in stepped.waits):
        yield f"waits for earlier iterations are left out: {ahead}"
    if any(op.splits for op in stepped.plan.workload.collectives()):
        yield "uneven alltoalls are of the bytes that the rank which gives the most gives"
    if groups:
        yield f"groups of some ranks are numbers in {_GROUPS}"
