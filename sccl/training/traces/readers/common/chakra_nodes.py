"""Read the nodes of Chakra execution traces from records and from two JSON forms.

The first form is the output of ``chakra_jsonizer``: a sequence of objects with the complete trace,
of which the first has the version. The second form is the input of simulator feeders: a list
``workload_graph``, whose nodes have attributes as fields. It may lack the sizes and types of
collectives. A missing type is derived from the node's name, as in Chakra's converter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sccl.errors import FormatError, TooLargeError
from sccl.training.files.chakra_records import NodeKind, has_unknown_fields, read_records
from sccl.training.traces.readers.common.contract import MAX_EVENTS
from sccl.training.traces.readers.common.torch_names import parse_count
from sccl.training.types.workload_ops import MAX_OP_US

_USED = frozenset(
    {"is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "root", "tid"}
    | {"group_ranks", "pg_name", "comm_group", "involved_dim"}
)
_NUMBERS = _USED - {"group_ranks", "pg_name", "comm_group", "involved_dim"}
_GROUP = re.compile("[0-9]{1,7}(,[0-9]{1,7}){0,65535}")


@dataclass(slots=True)
class ChakraNode:
    """The used data of a node.

    Attributes:
        number: Id of the node.
        name: Name of the node.
        kind: Kind of the node (:class:`NodeKind`).
        micros: Duration in microseconds.
        data: Data dependencies. Some of these nodes may not be in the file.
        control: Control dependencies, or enclosing nodes.
        attributes: Numeric attributes by name.
        group: Ranks of the collective, if sccl wrote the trace. Empty: unknown.
        group_name: Name of the group. Empty: unknown.
        named_type: Whether the collective is derived from the node's name.
        partial: Whether the collective runs in only some dimensions of a machine.
        unread: Names of unused attributes and fields.
    """

    number: int = 0
    name: str = ""
    kind: int = 0
    micros: int = 0
    data: list[int] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)
    group: tuple[int, ...] = ()
    group_name: str = ""
    named_type: bool = False
    partial: bool = False
    unread: set[str] = field(default_factory=set)

    @property
    def on_host(self) -> bool:
        """Return whether the host executes the node."""
        return bool(self.attributes.get("is_cpu_op", 0))


def is_node(record: Any) -> bool:
    """Return whether a record is a node, that is, has a kind."""
    return bool(record.HasField("type") and 1 <= record.type <= 16)


def read_nodes(content: bytes, where: str, *, as_json: bool = False) -> dict[int, ChakraNode]:
    """Return the nodes of a file of records, or of a JSON trace, by number.

    Raises:
        FormatError: The file is truncated or invalid.
        TooLargeError: The file has too many nodes.
    """
    nodes: dict[int, ChakraNode] = {}
    for at, node in (_json_nodes if as_json else _record_nodes)(content, where):
        if len(nodes) > MAX_EVENTS:
            raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
        if node.micros > MAX_OP_US:
            raise FormatError(f"{at}: it takes {node.micros} us, expected up to {MAX_OP_US:g}")
        if node.number in nodes:
            raise FormatError(f"{at}: node {node.number} is there twice")
        nodes[node.number] = node
    return nodes


def _record_nodes(content: bytes, where: str) -> Iterator[tuple[str, ChakraNode]]:
    for number, record in enumerate(read_records(content, where)):
        if number or is_node(record):  # the first may be the version, and other metadata
            at = f"{where}, record {number}"
            yield at, _read_node(record, at)


def _read_node(record: Any, where: str) -> ChakraNode:
    node = ChakraNode(
        number=record.id,
        name=record.name[:200].decode(errors="replace"),
        kind=record.type,
        micros=record.duration_micros,
        data=list(record.data_deps),
        control=list(record.ctrl_deps),
        unread={f for f in ("start_time_micros", "inputs", "outputs") if record.HasField(f)},
    )
    for attribute in record.attr:
        if name := attribute.name.decode(errors="replace"):
            add_attribute(node, name, _attribute_value(attribute), where)
    return node


def _attribute_value(attribute: Any) -> object:
    """Return the value of an attribute for :func:`add_attribute`."""
    kind = attribute.WhichOneof("value")
    if kind is None:  # a false Boolean value may be omitted
        return None if has_unknown_fields(attribute) else 0
    value = getattr(attribute, kind)
    if kind == "string_val":
        return value.decode(errors="replace")
    if kind == "bool_list":
        return list(value.values)
    return value if isinstance(value, int) else None


def add_attribute(node: ChakraNode, name: str, value: object, where: str) -> None:
    """Store an attribute of a node.

    Args:
        node: Node, which is updated.
        name: Name of the attribute.
        value: A number, a Boolean, a text, or a list of Booleans. None: another type.
        where: Name of the node, for messages.

    Raises:
        FormatError: A list of ranks is invalid or truncated.
    """
    number = int(value) if isinstance(value, bool) else parse_count(value)
    if name == "group_ranks":
        text = str(value)
        if not _GROUP.fullmatch(text):
            raise FormatError(
                f"{where}: its group_ranks are {text!r:.60}, expected numbers of ranks, such as "
                "0,1,2: give the trace as it was written"
            )
        node.group = tuple(map(int, text.split(",")))
    elif name in {"pg_name", "comm_group"}:
        node.group_name = node.group_name or ("" if value is None else str(value)[:200])
    elif name == "involved_dim":
        node.partial = not isinstance(value, list) or not all(value)
    elif number is not None:
        node.attributes[name] = number
    if name not in _USED or (number is None and name in _NUMBERS):
        node.unread.add(name[:60])


_GRAPH = "workload_graph"
_TYPED = re.compile(rb'"type":\s*"(COMP|COMM_[A-Z]{4}|METADATA|MEM_[A-Z]{4,5})_NODE"')
_HEAD = 2**16
"""Number of first bytes that are searched for a node."""

_KINDS = {
    "COMP_NODE": NodeKind.COMPUTE,
    "COMM_SEND_NODE": NodeKind.SEND,
    "COMM_RECV_NODE": NodeKind.RECEIVE,
    "COMM_COLL_NODE": NodeKind.COLLECTIVE,
}
_GRAPH_FIELDS = frozenset({"Id", "Name", "NodeType", "runtime", "data_deps", "ctrl_deps"})
_MESSAGE_FIELDS = frozenset(
    {"id", "name", "type", "durationMicros", "dataDeps", "ctrlDeps", "attr"}
)
_TYPES = {
    "allreduce": 0,
    "allgather": 2,
    "broadcast": 5,
    "alltoall": 6,
    "reducescatter": 7,
    "gather": 3,
    "scatter": 4,
    "reduce": 1,
}
"""Collective types by parts of node names. The first match counts."""


def is_json_of_chakra(content: bytes) -> bool:
    """Return whether bytes look like one of the two JSON forms."""
    return f'"{_GRAPH}"'.encode() in content or bool(_TYPED.search(content[:_HEAD]))


def _json_nodes(content: bytes, where: str) -> Iterator[tuple[str, ChakraNode]]:
    for place, entry in enumerate(_node_objects(content, where)):
        at = f"{where}, node {place}"
        yield at, _node_from_graph(entry, at) if "Id" in entry else _node_from_message(entry, at)


def _node_objects(content: bytes, where: str) -> Iterator[Mapping[str, Any]]:
    for entry in _json_values(content, where):
        if not isinstance(entry, dict):
            raise FormatError(f"{where}: {str(entry)!r:.40} is no node, expected an object")
        if _GRAPH not in entry:
            yield from (() if "version" in entry and "type" not in entry else (entry,))
            continue
        nodes = entry[_GRAPH]
        if not isinstance(nodes, list) or not all(isinstance(item, dict) for item in nodes):
            raise FormatError(f"{where}: its {_GRAPH} is no list of nodes")
        yield from nodes


def _json_values(content: bytes, where: str) -> Iterator[object]:
    """Yield the JSON values of a file, one after another."""
    try:
        text = content.decode()
        decoder, at = json.JSONDecoder(), 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            value, at = decoder.raw_decode(text, at)
            yield value
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FormatError(
            f"{where}: no JSON of Chakra, or one that is cut off ({str(error)[:80]})"
        ) from error


def _node_from_graph(entry: Mapping[str, Any], where: str) -> ChakraNode:
    node = ChakraNode(
        number=_int_field(entry, "Id", where),
        name=str(entry.get("Name", ""))[:200],
        kind=_int_field(entry, "NodeType", where),
        micros=_int_field(entry, "runtime", where, 0),
        data=_int_list_field(entry, "data_deps", where),
        control=_int_list_field(entry, "ctrl_deps", where),
    )
    for name, value in entry.items():
        if name not in _GRAPH_FIELDS:
            add_attribute(node, name, value, where)
    if node.kind == NodeKind.COLLECTIVE and "comm_type" not in node.attributes:
        word = node.name.lower().replace("_", "").replace("sendrecv", "alltoall")
        kind = next((kind for name, kind in _TYPES.items() if name in word), None)
        if kind is not None:
            node.attributes["comm_type"] = kind
            node.named_type = True
    return node


def _node_from_message(entry: Mapping[str, Any], where: str) -> ChakraNode:
    """Return the node of an object by ``chakra_jsonizer``."""
    kind = entry.get("type", 0)
    node = ChakraNode(
        number=_int_field(entry, "id", where, 0),
        name=str(entry.get("name", ""))[:200],
        kind=_KINDS.get(kind, 0) if isinstance(kind, str) else _int_field(entry, "type", where, 0),
        micros=_int_field(entry, "durationMicros", where, 0),
        data=_int_list_field(entry, "dataDeps", where),
        control=_int_list_field(entry, "ctrlDeps", where),
    )
    attributes = entry.get("attr", [])
    for attribute in attributes if isinstance(attributes, list) else []:
        if not isinstance(attribute, dict) or not isinstance(attribute.get("name"), str):
            raise FormatError(f"{where}: an attribute has no name")
        values = [value for key, value in attribute.items() if key.endswith(("Val", "List"))]
        value = values[0] if values else 0
        if isinstance(value, dict):
            value = value.get("values", [])
        add_attribute(node, attribute["name"], value, where)
    node.unread |= {name[:60] for name in entry if name not in _MESSAGE_FIELDS}
    return node


def _int_field(entry: Mapping[str, Any], name: str, where: str, default: int | None = None) -> int:
    number = default if name not in entry else parse_count(entry[name])
    if number is None:
        raise FormatError(f"{where}: its {name} is {entry.get(name)!r:.40}, expected a number")
    return number


def _int_list_field(entry: Mapping[str, Any], name: str, where: str) -> list[int]:
    values = entry.get(name, [])
    numbers = [parse_count(value) for value in values] if isinstance(values, list) else [None]
    if None in numbers:
        raise FormatError(f"{where}: its {name} are not numbers of nodes")
    return [value for value in numbers if value is not None]
