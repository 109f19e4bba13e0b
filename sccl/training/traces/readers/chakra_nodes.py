"""Nodes of Chakra execution traces, from the records of a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from sccl.core.files.chakra_records import has_unknown_fields, read_records
from sccl.core.workload_ops import MAX_OP_US
from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.reader_contract import MAX_EVENTS
from sccl.training.traces.readers.torch_names import parse_count

_USED = frozenset(
    {"is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "root", "tid"}
    | {"group_ranks", "pg_name", "comm_group", "involved_dim"}
)
_NUMBERS = _USED - {"group_ranks", "pg_name", "comm_group", "involved_dim"}
_GROUP = re.compile("[0-9]{1,7}(,[0-9]{1,7}){0,65535}")


@dataclass(slots=True)
class ChakraNode:
    """A node, as far as it is read.

    Attributes:
        data: nodes whose results it needs. Some may not be in the file.
        control: nodes that come before it, or that it is a part of.
        group: the ranks that it is among, where sccl has written it. Empty: unknown.
        group_name: name of its group. Empty: unknown.
        named_type: whether its name alone tells which collective it is.
        partial: whether it is in some dimensions of a machine and not in others.
        unread: attributes and fields that are not used.
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
        """Return whether the host does it."""
        return bool(self.attributes.get("is_cpu_op", 0))


def is_node(record: Any) -> bool:
    """Return whether a record is a node, which has a kind."""
    return bool(record.HasField("type") and 1 <= record.type <= 16)


def read_nodes(content: bytes, where: str) -> dict[int, ChakraNode]:
    """Return the nodes of a file, by their numbers.

    Raises:
        FormatError: it is cut off, or no such file.
        TooLargeError: it has more than are read.
    """
    nodes: dict[int, ChakraNode] = {}
    for number, record in enumerate(read_records(content, where)):
        if number > MAX_EVENTS:
            raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
        if not number and not is_node(record):
            continue  # the version, and other metadata
        node = _read_node(record, f"{where}, record {number}")
        if node.number in nodes:
            raise FormatError(f"{where}, record {number}: node {node.number} is there twice")
        nodes[node.number] = node
    return nodes


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
    check_micros(node, where)
    return node


def _attribute_value(attribute: Any) -> object:
    """Return the value of an attribute for :func:`add_attribute`."""
    kind = attribute.WhichOneof("value")
    if kind is None:  # a truth value that is false may be left out
        return None if has_unknown_fields(attribute) else 0
    value = getattr(attribute, kind)
    if kind == "string_val":
        return value.decode(errors="replace")
    if kind == "bool_list":
        return list(value.values)
    return value if isinstance(value, int) else None


def add_attribute(node: ChakraNode, name: str, value: object, where: str) -> None:
    """Keep an attribute of a node.

    Args:
        value: A number, a truth value, a text, or a list of truth values. None: another type.

    Raises:
        FormatError: a list of ranks is not one, or is cut off.
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


def check_micros(node: ChakraNode, where: str) -> None:
    """Check that a node takes a time that a workload can hold.

    Raises:
        FormatError: it does not.
    """
    if node.micros > MAX_OP_US:
        raise FormatError(f"{where}: it takes {node.micros} us, expected up to {MAX_OP_US:g}")
