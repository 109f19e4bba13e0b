"""Read execution traces of PyTorch (ExecutionTraceObserver), schemas 1.0.1 to 1.1.1.

Each call of a collective and each wait is a node ``record_param_comms``. Its inputs are the
tensors, the request number, the group, the rank or root, the name, and the splits. Since 1.0.2 the
group size follows, and since 1.1.0 the group's first rank and stride. A wait repeats the request
number. Nodes of all threads are numbered in the order in which they began. Durations are unknown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.common.contract import (
    MAX_EVENTS,
    NO_MARKS,
    Kernel,
    PeerEnd,
    RankTrace,
    StepSelection,
    TracedCall,
    TracedWait,
    list_names,
)
from sccl.training.traces.readers.common.torch_names import (
    COMM_NODE,
    STEP,
    WAIT,
    check_group_size,
    dtype_of,
    is_backend_call,
    is_send,
    is_synchronous,
    parse_count,
    parse_integers,
    required_collective,
    value_of,
)

NAME = "pytorch-et"
ABOUT = "execution traces of PyTorch (ExecutionTraceObserver)"
SOURCE = "PyTorch, execution_trace_observer.cpp, schemas 1.0.1, 1.0.2, 1.0.3, 1.1.0 and 1.1.1"
EXAMPLE = b"""{"schema": "1.0.1", "pid": 1, "nodes": [
{"name": "aten::mm", "id": 3, "parent": 2, "tid": 1, "op_schema": "aten::mm(...)", "inputs": []},
{"name": "record_param_comms", "id": 5, "parent": 2, "tid": 1, "op_schema": "", "inputs":
[[4, 1, 0, 64, 4, "cuda:0"], 7, 99, 0, "all_to_allv", [32, 32], [32, 32]],
"input_types": ["Tensor(float)", "Int", "Int", "Int", "String", "", ""],
"outputs": [[6, 1, 0, 64, 4, "cuda:0"]]},
{"name": "record_param_comms", "id": 8, "parent": 2, "tid": 1, "op_schema": "",
"inputs": [7, 0, 0, "wait", [], []]}]}
"""

_GROUPS = "## process_group:init ##"
_STREAM = "device"
_USED = frozenset({"tid", "op_schema", "in_msg_nelems", "dtype"})
"""Used attributes of calls. Other data come from the inputs."""
_SENDS_SUFFIX = "/sends"
_SEND_REQUEST_OFFSET = 2**62
_NO_RAW = msgspec.Raw(b"")


class _Attribute(msgspec.Struct):
    name: str = ""
    value: msgspec.Raw = _NO_RAW


class _Node(msgspec.Struct):
    name: str
    id: int
    tid: int | str = ""
    parent: int | None = None
    ctrl_deps: int | None = None
    op_schema: str = ""
    inputs: msgspec.Raw = _NO_RAW
    input_types: msgspec.Raw = _NO_RAW
    outputs: msgspec.Raw = _NO_RAW
    attrs: list[_Attribute] = []

    def attribute(self, name: str) -> Any:
        """Return the value of an attribute. None: there is no such attribute."""
        raw = next((attr.value for attr in self.attrs if attr.name == name), None)
        return None if raw is None else value_of(raw, name)

    @property
    def thread(self) -> str:
        return str(self.attribute("tid") if self.tid == "" else self.tid)

    @property
    def computes(self) -> bool:
        """Return whether the node is an operator and not a call of a collective."""
        if self.name.startswith(("c10d::", COMM_NODE)) or is_backend_call(self.name):
            return False
        return bool(self.op_schema or self.attribute("op_schema"))


class _Graph(msgspec.Struct):
    schema: str
    nodes: list[_Node]


@dataclass(frozen=True, slots=True)
class _Group:
    ranks: tuple[int, ...]
    size: int
    first_stride: tuple[int, int] | None = None


def sniff(content: bytes) -> bool:
    """Return whether the content has nodes with PyTorch's field names."""
    return (b'"nodes"' in content and b'"schema"' in content and b'"rf_id"' in content) or (
        b'"nodes"' in content and b'"op_schema"' in content
    )


def read(content: bytes, where: str, wanted: StepSelection) -> RankTrace:
    """Return the events of a rank in one step.

    Raises:
        InputError: The content is not such a trace, is truncated, or has no such step.
    """
    nodes = _read_nodes(content, where)
    marks = [(int(match[1]), n) for n in nodes if (match := STEP.search(n.name))]
    place = wanted.find_index([number for number, _ in marks], where)
    groups = _process_groups(nodes, where)
    taken = nodes
    if place is not None:
        begin = marks[place][1].id
        end = marks[place + 1][1].id if place + 1 < len(marks) else nodes[-1].id + 1
        taken = [node for node in nodes if begin <= node.id < end]
    numbered = any(node.name == COMM_NODE for node in nodes)
    by_id = {node.id: node for node in nodes}
    events: list[TracedCall | TracedWait | Kernel] = []
    owns: list[tuple[int, int]] = []
    for node in taken:
        if node.name == COMM_NODE:
            event, rank, size = _build_call(node, groups, f"{where}: node {node.id}")
            events.append(event)
            owns += [(size, rank)] if rank is not None else []
        elif is_backend_call(node.name) and not numbered:
            events += _backend_call(node, by_id, f"{where}: node {node.id}")
        elif node.computes:
            events.append(Kernel(node.thread, _STREAM, 0.0))
    world = max((size for size, _ in owns), default=0)
    world = max(world, _job_size(groups.values(), where))
    assumed = ["execution traces have no times of computation: it takes 0 us"]
    if place is None:
        assumed.append(NO_MARKS)
    return RankTrace(
        source=where,
        format=NAME,
        events=tuple(events),
        rank=next((rank for size, rank in owns if size == world), None),
        world=world,
        main=marks[place][1].thread if place is not None else _first_thread(events),
        step=None if place is None else marks[place][0],
        assumed=tuple(assumed),
        unread=tuple(_unused_fields(taken)),
    )


def _unused_fields(nodes: list[_Node]) -> Iterator[str]:
    names = {attr.name for node in nodes if node.name == COMM_NODE for attr in node.attrs}
    if unused := sorted(names - _USED):
        yield f"attributes of {COMM_NODE}: {list_names(unused)}"


def _first_thread(events: list[TracedCall | TracedWait | Kernel]) -> str:
    return events[0].thread if events else ""


def _read_nodes(content: bytes, where: str) -> list[_Node]:
    """Return the nodes of a trace, in order.

    Raises:
        FormatError: The content is not such a trace, or is truncated.
        TooLargeError: The trace has too many nodes.
    """
    if content.count(b'"name"') > 20 * MAX_EVENTS:
        raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
    try:
        graph = msgspec.json.decode(content, type=_Graph)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise FormatError(
            f"{where}: no execution trace, or one that is cut off ({str(error)[:120]}): expected "
            "JSON with schema and nodes, as ExecutionTraceObserver writes it"
        ) from error
    if not graph.schema.startswith(("1.0.", "1.1.")):
        raise FormatError(f"{where}: its schema is {graph.schema!r:.40}, expected 1.0.1 to 1.1.1")
    if len(graph.nodes) > MAX_EVENTS:
        raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
    return sorted(graph.nodes, key=lambda node: node.id)


def _process_groups(nodes: list[_Node], where: str) -> dict[str, _Group]:
    """Return the created process groups, by name and by the backend's number."""
    groups: dict[str, _Group] = {}
    for node in nodes:
        if node.name != _GROUPS:
            continue
        for text in _flatten(_input_values(value_of(node.inputs, where))):
            for entry in _parse_json_list(text, f"{where}, node {node.id}"):
                ranks = entry.get("ranks")
                ranks = [*map(parse_count, ranks)] if isinstance(ranks, dict) else ranks
                members = parse_integers(ranks)
                name = str(entry.get("pg_name", ""))
                place = f"{where}, node {node.id}, process group {name!r:.40}"
                if not members and ranks not in (None, [], "", "[]"):
                    raise FormatError(
                        f"{place}: its ranks are {str(ranks)!r:.60}, expected a list of numbers: "
                        "give the trace as it was written"
                    )
                size = check_group_size(members, parse_count(entry.get("group_size")), place)
                for key in ("pg_name", "backend_id"):
                    if key in entry:
                        groups[str(entry[key])] = _Group(members, size, None if members else (0, 1))
    return groups


def _job_size(groups: Collection[_Group], where: str) -> int:
    """Return a lower bound on the number of ranks of the job, from its groups.

    A group without listed ranks has all ranks.

    Raises:
        FormatError: A group has a rank outside the job.
    """
    world = max((group.size for group in groups if not group.ranks), default=0)
    last = max((max(group.ranks) for group in groups if group.ranks), default=-1)
    if 0 < world <= last:
        raise FormatError(
            f"{where}: rank {last} is in a process group, and that of all ranks has {world}: give "
            "the trace as it was written"
        )
    return max(world, last + 1)


def _parse_json_list(text: object, where: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON list in a text. Empty: the text is not a list.

    Raises:
        FormatError: The list is truncated.
    """
    if not isinstance(text, str) or not text.startswith("["):
        return []
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{where}: its list of process groups is cut off, or no JSON ({str(error)[:80]})"
        ) from error
    return (
        [entry for entry in parsed if isinstance(entry, dict)] if isinstance(parsed, list) else []
    )


def _input_values(inputs: Any) -> list[Any]:
    """Return the values of a node's inputs or outputs, in the old or the new form."""
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    return values if isinstance(values, list) else []


def _flatten(values: list[Any]) -> list[Any]:
    return [
        x for value in values for x in (_flatten(value) if isinstance(value, list) else [value])
    ]


def _tensor_elements(value: Any) -> int | None:
    """Return the elements of a tensor, or of all tensors in lists. None: no tensor."""
    if not isinstance(value, list):
        return None
    if len(value) >= 6 and all(parse_count(n) is not None for n in value[:5]):
        return parse_count(value[3])  # fields: tensor, storage, offset, elements, bytes
    counts = [n for n in map(_tensor_elements, value) if n is not None]
    return sum(counts) if counts else None


def _build_call(
    node: _Node, groups: dict[str, _Group], where: str
) -> tuple[TracedCall | TracedWait, int | None, int]:
    """Return the call or wait, the rank's place in its group (None: unknown), and the group size.

    Raises:
        FormatError: The node is neither a call nor a wait.
    """
    inputs = value_of(node.inputs, where)
    values = _input_values(inputs)
    at = max((i for i, value in enumerate(values) if isinstance(value, str)), default=-1)
    if at < 3:
        raise FormatError(
            f"{where}, {COMM_NODE}: no collective name follows its request, group and rank: "
            "expected a trace of schema 1.0.1 to 1.1.1"
        )
    request = _request_number(values[at - 3])
    rank = parse_count(values[at - 1])
    if values[at] == WAIT:
        return TracedWait(node.thread, request), None, 0
    collective = required_collective(values[at], where)
    splits = [*values[at + 1 : at + 3], [], []][:2]
    gives, gets = (parse_integers(value) for value in splits)
    splits_unknown = ""
    if collective == "alltoall" and not gives and splits[0] not in ([], "", "[]", None):
        splits_unknown = f"splits of an alltoall are no numbers ({str(splits[0])!a:.40})"
    group = _call_group(values, at, groups, gives, where)
    rooted = collective in {"broadcast", "reduce", "gather", "scatter"}
    sending = is_send(values[at])
    end = None
    if sending is not None:
        if rank is None:
            raise FormatError(f"{where}: it does not name the peer of a {values[at]}")
        end, rank = PeerEnd(rank, sending), 0
    call = TracedCall(
        thread=node.thread,
        collective=collective,
        dtype=_tensor_dtype(node, inputs, at, where),
        input_elements=_tensor_elements(values[at - 4])
        if at >= 4
        else parse_count(node.attribute("in_msg_nelems")),
        output_elements=_tensor_elements(_input_values(value_of(node.outputs, where))),
        request=request,
        group_name=_group_key(values[at - 2]) + ("" if end is None else _SENDS_SUFFIX),
        group=group.ranks,
        first_stride=group.first_stride,
        group_size=group.size,
        root=rank if rooted else None,
        send_splits=gives,
        receive_splits=gets,
        splits_unknown=splits_unknown,
        end=end,
    )
    return call, None if rooted else rank, group.size


def _request_number(value: Any) -> int | None:
    """Return the number of a request. Sends are numbered separately, so an offset is added."""
    if not isinstance(value, list):
        return parse_count(value)
    number = parse_count(value[0]) if value else None
    of_sends = number is not None and len(value) > 1 and value[1] in (True, "True", "true")
    return number + _SEND_REQUEST_OFFSET if of_sends and number is not None else number


def _backend_call(
    node: _Node, by_id: dict[int, _Node], where: str
) -> list[TracedCall | TracedWait]:
    """Return a call with only a backend's event (Gloo), and a wait if its operator is synchronous.

    Raises:
        FormatError: The collective is unknown, or a send does not name its peer.
    """
    parent = node.ctrl_deps if node.parent is None else node.parent
    operator = node if parent is None else by_id.get(parent, node)
    if is_send(node.name) is not None:
        raise FormatError(f"{where}: {node.name!r:.60} does not name its peer")
    inputs = value_of(node.inputs, where)
    if not _input_values(inputs):
        inputs = value_of(operator.inputs, where)  # for a barrier
    types = inputs.get("types") if isinstance(inputs, dict) else None
    word = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else ""
    call = TracedCall(
        thread=operator.thread,
        collective=required_collective(node.name, where),
        dtype=dtype_of(word, where),
        input_elements=_tensor_elements(_input_values(inputs)[:1]),
    )
    if call.collective == "alltoall":
        call = replace(call, splits_unknown="an alltoall has no splits")
    waits = is_synchronous(_input_values(value_of(operator.inputs, where)))
    return [call, TracedWait(call.thread)] if waits else [call]


def _group_key(value: Any) -> str:
    """Return the key of a group: its name, from a pair of name and description, or its number."""
    return str(value[0] if isinstance(value, list) and value else value)


def _call_group(
    values: list[Any], at: int, groups: dict[str, _Group], gives: tuple[int, ...], where: str
) -> _Group:
    """Return the group of a call, from its creation or from the call.

    Raises:
        FormatError: The sizes at creation and in the call differ.
    """
    group = groups.get(_group_key(values[at - 2]))
    numbers = [value if isinstance(value, int) else -1 for value in values[at + 3 : at + 6]]
    if group is not None:
        if numbers and 0 < numbers[-1] != group.size:
            raise FormatError(
                f"{where}: its group has {numbers[-1]} ranks, but was created with {group.size}: "
                "give the unmodified trace"
            )
        return group
    if len(numbers) == 3:
        first, stride, size = numbers
        if first >= 0 and stride > 0 and size > 0:
            return _Group((), size, (first, stride))
    size = max(numbers[-1] if numbers else 0, len(gives), 0)
    return _Group((), size)


def _tensor_dtype(node: _Node, inputs: Any, at: int, where: str) -> str:
    types = inputs.get("types") if isinstance(inputs, dict) else value_of(node.input_types, where)
    if isinstance(types, list) and 0 <= at - 4 < len(types) and isinstance(types[at - 4], str):
        word = types[at - 4]
        if "Tensor(" in word:
            return dtype_of(word, where)
    return dtype_of(str(node.attribute("dtype") or types), where)
