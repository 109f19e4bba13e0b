"""Write Chakra execution traces of training plans: computations and calls of each rank.

Source: ``et_def.proto`` of MLCommons Chakra, as in :mod:`sccl.formats.chakra`. A collective is a
node of each rank of its groups, with ``comm_type`` and ``comm_size``. One without all ranks has
``pg_name``, the number of its group, which ``comm_groups.json`` lists (for ASTRA-sim's
``--comm-group-configuration``). Nodes have the dependencies of the workload. The order of a
stream's computations is a control dependency. Numbers of nodes follow the order of the plan. A
broadcast among two ranks is a send and a receive: ASTRA-sim simulates these, and no broadcasts.

The split of a collective has no place in a trace for simulators: recipe and channels are
attributes, which readers ignore. So are ``group_ranks`` and ``root``, with which sccl reads such a
trace again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.core.files.chakra_records import COLLECTIVES, NodeKind
from sccl.core.workload_ops import CommOp, ComputeOp
from sccl.errors import TooLargeError
from sccl.formats.chakra_encoding import SCHEMA, Node, encode_trace
from sccl.formats.format_contract import WrittenFiles
from sccl.formats.training.verified_training_plan import VerifiedTrainingPlan

MAX_NODES = 4_000_000
"""Largest number of nodes of all ranks."""

_GROUPS = "comm_groups.json"


def write_step(stepped: VerifiedTrainingPlan) -> WrittenFiles:
    """Return a file for each rank, and one of the groups that not all ranks are in.

    Raises:
        TooLargeError: there are more nodes than are written.
    """
    ranks = _RankTraces(stepped)
    if (count := sum(map(len, ranks.ops.values()))) > MAX_NODES:
        raise TooLargeError(
            f"{stepped.name}: {count} nodes of {stepped.plan.workload.ranks} ranks, and up to "
            f"{MAX_NODES} are written: export it as chrome-trace"
        )
    files: dict[str, bytes] = {}
    alike: dict[tuple[_RankRole, ...], bytes] = {}
    head = {"schema": SCHEMA, "workload": stepped.plan.workload.name}
    for rank in range(stepped.plan.workload.ranks):
        places = tuple(ranks.place(name, rank) for name in ranks.ops[rank])
        if places not in alike:
            alike[places] = encode_trace(
                list(ranks.nodes(places)) or [Node(0, NodeKind.COMPUTE)], head
            )
        files[f"{stepped.name}.{rank}.et"] = alike[places]
    if ranks.groups:
        group_ranks = {str(number): group for group, number in ranks.groups.items()}
        files[_GROUPS] = json.dumps(group_ranks).encode() + b"\n"
    command = "sccl train import {path}/*.et --format chakra -o workload.json"
    return WrittenFiles(files, command, tuple(_notes(stepped, ranks.groups)))


@dataclass(frozen=True, slots=True)
class _RankRole:
    """A rank in an operation.

    Attributes:
        group: Number of its group, 0 for all ranks and for computations.
        ends: Source and destination of a send.
        sends: Whether it is the source.
    """

    op: str
    group: int = 0
    ends: tuple[int, ...] = ()
    sends: bool = False


@dataclass(frozen=True)
class _RankTraces:
    stepped: VerifiedTrainingPlan

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
        by_rank: dict[int, list[str]] = defaultdict(list)
        for op in sorted(workload.ops, key=lambda entry: self.numbers[entry.id]):
            for rank in op.members if isinstance(op, CommOp) else roles[op.role]:
                by_rank[rank].append(op.id)
        return by_rank

    @cached_property
    def groups(self) -> dict[tuple[int, ...], int]:
        """Return the groups that not all ranks are in, with their numbers from 1 on."""
        workload = self.stepped.plan.workload
        all_groups = [g for op in workload.collectives() if not _is_send(op) for g in op.groups]
        partial_groups = dict.fromkeys(group for group in all_groups if len(group) < workload.ranks)
        return {group: number for number, group in enumerate(partial_groups, 1)}

    def place(self, name: str, rank: int) -> _RankRole:
        op = self._calls.get(name)
        if op is None:
            return _RankRole(name)
        members = _group_of_rank(op, rank)
        if not _is_send(op):
            return _RankRole(name, self.groups.get(members, 0))
        gives = 0 if op.root is None else op.group.index(op.root)
        return _RankRole(name, 0, (members[gives], members[1 - gives]), members[gives] == rank)

    @cached_property
    def _group_names(self) -> dict[int, str]:
        return {number: ",".join(map(str, group)) for group, number in self.groups.items()}

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
        """Return the numbers of each node's dependencies, and of its predecessors in the stream."""
        data: dict[str, list[int]] = defaultdict(list)
        control: dict[str, list[int]] = defaultdict(list)
        for wait in self.stepped.waits:
            if not wait.lag:
                src, dst = self._computes.get(wait.before), self._computes.get(wait.after)
                is_same_stream = src and dst and (src.role, src.stream) == (dst.role, dst.stream)
                (control if is_same_stream else data)[wait.after].append(self.numbers[wait.before])
        return data, control

    def nodes(self, places: Sequence[_RankRole]) -> Iterator[Node]:
        rank_numbers = {self.numbers[place.op] for place in places}
        data, control = self._needs
        options = dict(self.stepped.plan.options)
        for place in places:
            name = place.op
            after = tuple(sorted(rank_numbers.intersection(data[name])))
            before = tuple(sorted(rank_numbers.intersection(control[name])))
            number = self.numbers[name]
            if name in self._computes:
                op = self._computes[name]
                attributes: dict[str, int | bool | str] = {"tid": self._streams[op.stream]}
                micros = _micros(op.duration_us)
                yield Node(number, NodeKind.COMPUTE, after, micros, attributes, before, name)
                continue
            call, option = self._calls[name], options[name]
            channels = dict.fromkeys(motif.channel for motif in option.motifs)
            kind, attributes = self._call_attributes(call, place)
            attributes |= {"recipe": option.recipe, "channels": ",".join(channels)}
            micros = _micros(self._motif_ns[name] / 1000)
            yield Node(number, kind, after, micros, attributes, before, name)

    def _call_attributes(
        self, call: CommOp, place: _RankRole
    ) -> tuple[NodeKind, dict[str, int | bool | str]]:
        if place.ends:
            gives, takes = place.ends
            attributes: dict[str, int | bool | str] = {"comm_size": call.size_bytes}
            attributes |= {"comm_tag": self.numbers[call.id], "comm_src": gives, "comm_dst": takes}
            return NodeKind.SEND if place.sends else NodeKind.RECEIVE, attributes
        ranks = self._group_names.get(place.group)
        return NodeKind.COLLECTIVE, {
            "comm_type": COLLECTIVES.index(call.collective),
            "comm_size": _input_bytes(call),
            **({"pg_name": str(place.group), "group_ranks": ranks} if ranks else {}),
            **({} if call.root is None else {"root": call.group.index(call.root)}),
        }

    @cached_property
    def _motif_ns(self) -> dict[str, int]:
        """Return for how long motifs of each collective run in an iteration as they repeat, ns."""
        timeline = self.stepped.timeline
        took: dict[str, int] = defaultdict(int)
        until: dict[str, int] = defaultdict(int)
        for span in timeline.spans:
            if span.iteration == timeline.first_periodic:
                took[span.op] += max(0, span.end_ns - max(span.start_ns, until[span.op]))
                until[span.op] = max(until[span.op], span.end_ns)
        return took


def _is_send(call: CommOp) -> bool:
    return call.collective == "broadcast" and len(call.group) == 2


def _input_bytes(call: CommOp) -> int:
    """Return the bytes that a rank gives: of a scatter or a broadcast, those of the root."""
    gathers = call.collective in ("allgather", "gather")
    return call.size_bytes // len(call.group) if gathers else call.size_bytes


def _group_of_rank(op: CommOp, rank: int) -> tuple[int, ...]:
    return next(group for group in op.groups if rank in group)


def _micros(us: float) -> int:
    return max(1, round(us)) if us else 0


def _notes(stepped: VerifiedTrainingPlan, groups: Mapping[tuple[int, ...], int]) -> Iterator[str]:
    yield "one iteration, in whole microseconds; simulators time collectives by themselves"
    option = f" --comm-group-configuration={_GROUPS}" if groups else ""
    yield f"ASTRA-sim runs it by --workload-configuration={stepped.name}{option}"
    kinds = {op.collective for op in stepped.plan.workload.collectives() if not _is_send(op)}
    if unknown := sorted(kinds & {"broadcast", "reduce", "gather", "scatter"}):
        yield f"ASTRA-sim does not simulate {', '.join(unknown)}"
    if ahead := sum(wait.lag > 0 for wait in stepped.waits):
        yield f"waits for earlier iterations are left out: {ahead}"
    if any(op.splits for op in stepped.plan.workload.collectives()):
        yield "uneven alltoalls have the size of the rank that sends most"
    if groups:
        yield f"groups of some ranks are numbers in {_GROUPS}"
