"""Encode Chakra execution traces for simulators: the nodes of one rank as a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from sccl.core.files.chakra_records import NodeKind, message_types, write_records
from sccl.errors import TooLargeError

VERSION = "0.0.4"
SCHEMA = "1.0.2-chakra.0.0.4"
"""Version that converters of other formats state."""

_WIDE = frozenset({"comm_size", "comm_type"})
"""Attributes of 64 bits. Other numbers have 32."""


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

    Raises:
        TooLargeError: a number needs more bits than its field has.
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
