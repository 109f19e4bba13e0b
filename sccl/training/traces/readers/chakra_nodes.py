"""Nodes of Chakra's execution traces, as messages of protocol buffers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sccl.core.workload_ops import MAX_OP_US
from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.protocol_buffers import (
    LENGTH,
    VARINT,
    read_fields,
    read_messages,
    unpack_numbers,
)
from sccl.training.traces.readers.reader_contract import MAX_EVENTS
from sccl.training.traces.readers.torch_names import parse_count

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
"""Kinds of nodes that are read."""
METADATA = 1
"""Kind of nodes that do nothing."""

_ID, _NAME, _TYPE, _CONTROL, _DATA, _MICROS, _ATTRIBUTE = 1, 2, 3, 4, 5, 7, 10
_START, _INPUTS, _OUTPUTS = 6, 8, 9
_ATTRIBUTE_NAME, _ATTRIBUTE_DOC, _BOOLS, _ATTRIBUTE_TEXT = 1, 2, 28, 29
_UNREAD_FIELDS = {_START: "start_time_micros", _INPUTS: "inputs", _OUTPUTS: "outputs"}
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


def is_node(message: bytes, where: str) -> bool:
    """Return whether a message is a node, with its name and its kind."""
    kinds = [value for number, _, value in read_fields(message, where) if number == _TYPE]
    return len(kinds) == 1 and isinstance(kinds[0], int) and 1 <= kinds[0] <= 16


def read_nodes(content: bytes, where: str) -> dict[int, ChakraNode]:
    """Return the nodes of a file, by their numbers.

    Raises:
        FormatError: it is cut off, or no such file.
        TooLargeError: it has more than are read.
    """
    nodes: dict[int, ChakraNode] = {}
    for number, message in enumerate(read_messages(content, where)):
        if number > MAX_EVENTS:
            raise TooLargeError(f"{where}: it has more than {MAX_EVENTS} nodes: trace fewer steps")
        if not number and not is_node(message, where):
            continue  # the version, and other metadata
        node = _read_node(message, f"{where}, record {number}")
        if node.number in nodes:
            raise FormatError(f"{where}, record {number}: node {node.number} is there twice")
        nodes[node.number] = node
    return nodes


def _read_node(message: bytes, where: str) -> ChakraNode:
    node = ChakraNode()
    for number, kind, value in read_fields(message, where):
        if number in (_CONTROL, _DATA):
            (node.data if number == _DATA else node.control).extend(unpack_numbers(value, where))
        elif number == _ATTRIBUTE and isinstance(value, bytes):
            _add_attribute(node, value, where)
        elif number == _NAME and isinstance(value, bytes):
            node.name = value[:200].decode(errors="replace")
        elif number in _UNREAD_FIELDS:
            node.unread.add(_UNREAD_FIELDS[number])
        elif kind == VARINT and isinstance(value, int):
            if number == _ID:
                node.number = value
            elif number == _TYPE:
                node.kind = value
            elif number == _MICROS:
                node.micros = value
    check_micros(node, where)
    return node


def _add_attribute(node: ChakraNode, message: bytes, where: str) -> None:
    """Keep an attribute, whichever its type."""
    name: str = ""
    value_of: object = 0  # a truth value that is false may be left out
    for field_number, kind, value in read_fields(message, where):
        if field_number == _ATTRIBUTE_NAME and kind == LENGTH and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif kind == VARINT and isinstance(value, int):
            value_of = value
        elif field_number == _ATTRIBUTE_TEXT and isinstance(value, bytes):
            value_of = value.decode(errors="replace")
        elif field_number == _BOOLS and isinstance(value, bytes):
            lists = [packed for at, _, packed in read_fields(value, where) if at == 1]
            value_of = [number for packed in lists for number in unpack_numbers(packed, where)]
        elif field_number != _ATTRIBUTE_DOC:
            value_of = None
    if name:
        add_attribute(node, name, value_of, where)


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
