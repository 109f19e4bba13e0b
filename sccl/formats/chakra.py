"""Write algorithms, schedules, and training plans as Chakra execution traces (MLCommons).

Source: ``et_def.proto`` of MLCommons Chakra 1.0.0 (2026-05), and its readers. Custom collectives of
ASTRA-sim used bytes of ``comm_size`` up to 2025, and have used ``msg_chunk_cnt``, ``msg_chunk_idx``
and ``total_chunk_cnt`` (``workload_chunk_cnt``) of the call's bytes since. Viewers use
``local_time_step``, ``chunk_offset``, ``tb_id`` and ``is_rrc``. Both sets are written. A send and
its receive have the same unique ``comm_tag``.

A trace contains the bytes of each transfer but not its chunks, so the format is only written. For a
schedule it contains the order and the dependencies, but not the times.

In the trace of a training plan, a collective is a node of each rank of its groups, with
``comm_type`` and ``comm_size``. A collective of some ranks has ``pg_name``, the number of its
group, which ``comm_groups.json`` lists (for ASTRA-sim's ``--comm-group-configuration``). Nodes have
the dependencies of the workload. The order of a stream's computations is a control dependency.
Numbers of nodes follow the order of the plan. A broadcast between two ranks is a send and a
receive, because ASTRA-sim simulates these but no broadcasts.

Traces for simulators cannot express the motifs of a collective. So recipe and channels are
attributes, which other readers ignore, and so are ``group_ranks`` and ``root``, from which sccl can
read the trace again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from sccl.core.algorithm import Algorithm
from sccl.core.schedule import Schedule
from sccl.errors import TooLargeError
from sccl.formats.common.contract import SizedPlan, VerifiedTrainingPlan, WrittenFiles, write_only
from sccl.formats.common.messages import (
    Awaiting,
    Message,
    MessageOptions,
    algorithm_messages,
    chunk_sizes,
    order_links,
    schedule_messages,
    sized_algorithm,
)
from sccl.training.files.chakra_records import COLLECTIVES, NodeKind, message_types, write_records
from sccl.training.types.workload_ops import CommOp, ComputeOp

NAME = "chakra"
ABOUT = "Chakra execution traces (MLCommons), one file per rank"
SOURCE = "et_def.proto of MLCommons Chakra 1.0.0; attributes as ASTRA-sim of 2026-03 reads them"
TAKES = (Algorithm, Schedule)
BY_SIZE = True
MIXES = False

MAX_MESSAGES = 2**20
"""Maximum number of messages of a plan: numbers and tags have 32 bits, and simulators store all
nodes.
"""


Options = MessageOptions


def write(plans: Sequence[SizedPlan], options: MessageOptions) -> WrittenFiles:
    """Return a file for each rank of each plan.

    Raises:
        TooLargeError: There are too many messages.
    """
    files = {
        f"{plan.name}.{rank}.et": content
        for plan in plans
        for rank, content in enumerate(rank_traces(plan, options.awaiting))
    }
    command = "chakra_visualizer --input_filename {path}/" + f"{plans[0].name}.0.et"
    size = plans[0].size_bytes
    of = "the schedule" if size is None else f"{size} bytes a rank, the C chunks"
    return WrittenFiles(files, command + " --output_filename trace.pdf", (f"sizes are for {of}",))


sniff, read = write_only("a trace has the number of bytes of each transfer, not their chunks")


def rank_traces(
    plan: SizedPlan,
    awaiting: Awaiting,
    link_of: Callable[[Message], tuple[int, ...]] | None = None,
) -> list[bytes]:
    """Return the file of each rank.

    Args:
        link_of: Function that returns the first link of a message. Control dependencies preserve
            the order of messages on it. None: sends wait only for data.

    Raises:
        ParameterError: Chunks have fractional bytes.
        TooLargeError: There are too many messages.
    """
    collective = plan.plan.collective
    messages, sizes = _plan_messages(plan, awaiting)
    order = order_links(messages, link_of) if link_of else {}
    turns, first_turn = set(order.values()), 2 * len(messages)
    nodes: list[list[Node]] = [[] for _ in range(collective.ranks)]
    for message in messages:
        details = _message_attributes(
            message, sum(sizes[c] for c in message.chunks), collective.num_chunks
        )
        sent = {"comm_type": int(NodeKind.SEND), "comm_dst": message.dst, **details}
        received = {"comm_type": int(NodeKind.RECEIVE), "comm_src": message.src, **details}
        after = tuple(2 * number for number in message.after)
        number = 2 * message.number
        control = (first_turn + order[message.number],) if message.number in order else ()
        nodes[message.src].append(
            Node(number + 1, NodeKind.SEND, after, attributes=sent, control=control)
        )
        if message.number in turns:
            turn = first_turn + message.number
            nodes[message.src].append(Node(turn, NodeKind.COMPUTE, after, control=control))
        nodes[message.dst].append(Node(number, NodeKind.RECEIVE, attributes=received))
    head = {"schema": SCHEMA, "collective": collective.name}
    return [encode_trace(rank_nodes or [Node(0, NodeKind.COMPUTE)], head) for rank_nodes in nodes]


def _plan_messages(plan: SizedPlan, awaiting: Awaiting) -> tuple[list[Message], tuple[int, ...]]:
    """Return the messages of a plan, and the bytes of each chunk."""
    if not isinstance(plan.plan, Schedule):
        algorithm, size = sized_algorithm(plan, MAX_MESSAGES)
        return algorithm_messages(algorithm, awaiting), (size,) * algorithm.collective.num_chunks
    if len(plan.plan.start) > MAX_MESSAGES:
        raise TooLargeError(
            f"{plan.name}: {len(plan.plan.start)} transfers, and up to {MAX_MESSAGES} are written: "
            "give a schedule of fewer chunks"
        )
    return schedule_messages(plan.plan, awaiting), chunk_sizes(plan.plan, plan.size_bytes)


def _message_attributes(message: Message, size_bytes: int, chunks: int) -> dict[str, int | bool]:
    return {
        "comm_size": size_bytes,
        "comm_tag": message.number,
        "msg_chunk_cnt": len(message.chunks),
        "msg_chunk_idx": message.chunk,
        "total_chunk_cnt": chunks,
        "workload_chunk_cnt": chunks,
        "chunk_offset": message.chunk,
        "local_time_step": message.step,
        "tb_id": 0,
        "hasdep": int(bool(message.after)),
        "deps": -1,
        "depid": -1,
        "is_rrc": message.reduce,
    }


MAX_NODES = 4_000_000
"""Largest number of nodes of all ranks."""

_GROUPS = "comm_groups.json"


def write_step(stepped: VerifiedTrainingPlan) -> WrittenFiles:
    """Return a file for each rank, and a file of the groups of some ranks.

    Raises:
        TooLargeError: There are too many nodes.
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
    """The role of a rank in an operation.

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
        """Return the groups that do not contain all ranks, with their numbers from 1."""
        workload = self.stepped.plan.workload
        all_groups = [g for op in workload.collectives() if not _is_send(op) for g in op.groups]
        partial_groups = dict.fromkeys(group for group in all_groups if len(group) < workload.ranks)
        return {group: number for number, group in enumerate(partial_groups, 1)}

    def place(self, name: str, rank: int) -> _RankRole:
        op = self._calls.get(name)
        if op is None:
            return _RankRole(name)
        members = next(group for group in op.groups if rank in group)
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
        """Return the time in which motifs of each collective run in a periodic iteration, ns."""
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
    """Return the input bytes of a rank, for a scatter or a broadcast those of the root."""
    gathers = call.collective in ("allgather", "gather")
    return call.size_bytes // len(call.group) if gathers else call.size_bytes


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


VERSION = "0.0.4"
SCHEMA = "1.0.2-chakra.0.0.4"
"""Schema version, as stated by converters from other formats."""

_WIDE = frozenset({"comm_size", "comm_type"})
"""Attributes with 64 bits. Other numbers have 32 bits."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a trace: an operation of a rank.

    Attributes:
        number: Number of the node, unique on its rank.
        after: Numbers of the nodes that have to end before. In ASTRA-sim a send ends at its
            arrival.
        micros: Duration of a computation in microseconds. ASTRA-sim reads 0 as a nanosecond.
        attributes: Numbers, booleans and texts by name, in addition to ``is_cpu_op`` (false).
        control: Numbers of nodes that precede it without a data dependency.
        name: Name of the node. If empty, its kind and its number.
    """

    number: int
    kind: NodeKind
    after: tuple[int, ...] = ()
    micros: int = 0
    attributes: Mapping[str, int | bool | str] = field(default_factory=dict)
    control: tuple[int, ...] = ()
    name: str = ""


def encode_trace(nodes: Iterable[Node], texts: Mapping[str, str] | None = None) -> bytes:
    """Return the file of one rank.

    Args:
        texts: Texts that describe the file, by name.

    Raises:
        TooLargeError: A number exceeds the bits of its field.
    """
    attributes = [_encode_attribute(*item) for item in (texts or {}).items()]
    metadata = message_types().Metadata(version=VERSION.encode(), attr=attributes)
    return write_records(chain((metadata,), map(_encode_node, nodes)))


def _encode_node(node: Node) -> Any:
    name = node.name or f"{node.kind.name.lower()} {node.number}"
    attributes = {"is_cpu_op": False, **node.attributes}
    try:
        return message_types().Node(
            id=node.number,
            name=name.encode(),
            type=node.kind,
            ctrl_deps=node.control,
            data_deps=node.after,
            duration_micros=node.micros or None,
            attr=[_encode_attribute(*item) for item in attributes.items()],
        )
    except ValueError as error:
        raise TooLargeError(
            f"node {node.number}, {name!r:.60}: Chakra traces cannot hold one of its numbers "
            f"({error}): export a smaller size"
        ) from error


def _encode_attribute(name: str, value: int | bool | str) -> dict[str, bytes | int]:
    if isinstance(value, str):
        return {"name": name.encode(), "string_val": value.encode()}
    number = "int64_val" if name in _WIDE else "int32_val"
    return {"name": name.encode(), "bool_val" if isinstance(value, bool) else number: value}
