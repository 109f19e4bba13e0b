"""Read the nodes of Chakra execution traces in two JSON forms.

One is the output of ``chakra_jsonizer``: a sequence of objects, the first with the version, with
the complete trace. The other is the input of simulator feeders: a list ``workload_graph``, whose
nodes have attributes as fields. Collectives may lack their type (then their name gives it, as in
Chakra's converter) or their size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sccl.core.files.chakra_records import NodeKind
from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.chakra_nodes import ChakraNode, add_attribute, check_micros
from sccl.training.traces.readers.reader_contract import MAX_EVENTS
from sccl.training.traces.readers.torch_names import parse_count

_GRAPH = "workload_graph"
_TYPED = re.compile(rb'"type":\s*"(COMP|COMM_[A-Z]{4}|METADATA|MEM_[A-Z]{4,5})_NODE"')
_HEAD = 2**16
"""Bytes in which a node is to be."""

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
"""Types by parts of names. The first match counts."""


def is_json_of_chakra(content: bytes) -> bool:
    """Return whether bytes look like one of the two."""
    return f'"{_GRAPH}"'.encode() in content or bool(_TYPED.search(content[:_HEAD]))


def read_json_nodes(content: bytes, where: str) -> dict[int, ChakraNode]:
    """Return the nodes of a trace, by their numbers.

    Raises:
        FormatError: it is cut off, or none.
        TooLargeError: it has more nodes than are read.
    """
    nodes: dict[int, ChakraNode] = {}
    for place, entry in enumerate(_node_objects(content, where)):
        at = f"{where}, node {place}"
        if place > MAX_EVENTS:
            raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
        node = _node_from_graph(entry, at) if "Id" in entry else _node_from_message(entry, at)
        check_micros(node, at)
        if node.number in nodes:
            raise FormatError(f"{at}: node {node.number} is there twice")
        nodes[node.number] = node
    return nodes


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
    """Yield the values in a file, one after another."""
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
    """Return a node that was a record."""
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
