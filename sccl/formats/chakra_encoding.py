"""Encode Chakra execution traces for simulators: the nodes of one rank as a file.

A file is a sequence of protocol buffer messages, each after its length: one with the version, then
one for each node. Numbers of fields are those of ``et_def.proto`` of MLCommons Chakra. Writing
needs no library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

VERSION = "0.0.4"
SCHEMA = "1.0.2-chakra.0.0.4"
"""Version that converters of other formats state."""

_VARINT, _LENGTH = 0, 2  # how a field is encoded
_NODE = {"id": 1, "name": 2, "type": 3, "ctrl_deps": 4, "data_deps": 5, "duration_micros": 7}
_NODE |= {"attr": 10}
_METADATA = {"version": 1, "attr": 2}
_ATTRIBUTE = {"name": 1, "int32_val": 7, "int64_val": 9, "bool_val": 27, "string_val": 29}
_WIDE = frozenset({"comm_size", "comm_type"})
"""Attributes of 64 bits. Other numbers have 32."""


class NodeKind(IntEnum):
    """The kind of a node."""

    COMPUTE = 4
    SEND = 5
    RECEIVE = 6
    COLLECTIVE = 7


@dataclass(frozen=True, slots=True)
class Node:
    """Something that a rank does.

    Attributes:
        number: Number of the node, unique on its rank.
        after: Numbers of the nodes that have to end before. In ASTRA-sim a send ends at its
            arrival.
        micros: Duration of a computation in microseconds. ASTRA-sim reads 0 as a nanosecond.
        attributes: Numbers, truth values and texts by their names, in addition to the attribute
            that it does not run on a CPU.
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
        texts: texts of the file as a whole, by their names.
    """
    head = [_encode_bytes(_METADATA["version"], VERSION.encode())]
    for name, text in (texts or {}).items():
        head.append(_encode_bytes(_METADATA["attr"], _encode_attribute(name, text)))
    parts = [b"".join(head), *(_encode_node(node) for node in nodes)]
    return b"".join(_encode_varint(len(part)) + part for part in parts)


def _encode_node(node: Node) -> bytes:
    parts = [
        _encode_number(_NODE["id"], node.number),
        _encode_bytes(
            _NODE["name"], (node.name or f"{node.kind.name.lower()} {node.number}").encode()
        ),
        _encode_number(_NODE["type"], node.kind),
    ]
    for name, numbers in (("ctrl_deps", node.control), ("data_deps", node.after)):
        if numbers:
            parts.append(_encode_bytes(_NODE[name], b"".join(map(_encode_varint, numbers))))
    if node.micros:
        parts.append(_encode_number(_NODE["duration_micros"], node.micros))
    attributes = {"is_cpu_op": False, **node.attributes}
    parts += [_encode_bytes(_NODE["attr"], _encode_attribute(*item)) for item in attributes.items()]
    return b"".join(parts)


def _encode_attribute(name: str, value: int | bool | str) -> bytes:
    if isinstance(value, str):
        text = _encode_bytes(_ATTRIBUTE["string_val"], value.encode())
        return _encode_bytes(_ATTRIBUTE["name"], name.encode()) + text
    number = "int64_val" if name in _WIDE else "int32_val"
    kind = "bool_val" if isinstance(value, bool) else number
    return _encode_bytes(_ATTRIBUTE["name"], name.encode()) + _encode_number(
        _ATTRIBUTE[kind], int(value)
    )


def _encode_number(field: int, value: int) -> bytes:
    return _encode_varint(field << 3 | _VARINT) + _encode_varint(
        value % 2**64
    )  # below 0: two's complement


def _encode_bytes(field: int, value: bytes) -> bytes:
    return _encode_varint(field << 3 | _LENGTH) + _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    """Return a whole number of at least 0 as groups of seven bits, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
