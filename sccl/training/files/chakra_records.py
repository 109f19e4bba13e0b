"""Chakra execution traces as protobuf records: their schema, and files of one record per node.

A file contains a record about the trace, which traces of 2023 lack, and one record for each node.
Each record is preceded by its length in bytes. Names and numbers of fields are those of
``et_def.proto`` of MLCommons Chakra 1.0.0. Texts are declared as bytes, which have the same
encoding, so a trace is readable even if a name is not UTF-8. Fields have explicit presence, so
zeros are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import cache
from io import BytesIO
from itertools import count
from types import SimpleNamespace
from typing import Any

from sccl.errors import FormatError

COLLECTIVES = (
    *("allreduce", "reduce", "allgather", "gather", "scatter", "broadcast", "alltoall"),
    "reducescatter",
)
"""Collectives by their ``comm_type``."""


class NodeKind(IntEnum):
    """The kind of a node. Kinds that sccl ignores are left out."""

    METADATA = 1
    COMPUTE = 4
    SEND = 5
    RECEIVE = 6
    COLLECTIVE = 7


_SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32"),
    *("fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
_MESSAGES = {
    "Node": {
        "id": (1, "uint64"),
        "name": (2, "string"),
        "type": (3, "uint64"),
        "ctrl_deps": (4, "*uint64"),
        "data_deps": (5, "*uint64"),
        "start_time_micros": (6, "uint64"),
        "duration_micros": (7, "uint64"),
        "inputs": (8, "bytes"),
        "outputs": (9, "bytes"),
        "attr": (10, "*Attribute"),
    },
    "Metadata": {"version": (1, "string"), "attr": (2, "*Attribute")},
    "Attribute": {
        "name": (1, "string"),
        "doc_string": (2, "string"),
        **{f"{kind}_val": (3 + 2 * place, kind) for place, kind in enumerate(_SCALARS)},
        "bool_list": (28, "Bools"),
    },
    "Bools": {"values": (1, "*bool")},
}
"""Number and type of each field, by message and field name. ``*``: repeated. Lists of other types
remain unknown fields.
"""


@cache
def message_types() -> SimpleNamespace:
    """Return the classes ``Node``, ``Metadata``, and ``Attribute``, which has a oneof ``value``."""
    # Loading protobuf takes 20 ms, which only commands with binary traces pay.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415

    file = descriptor_pb2.FileDescriptorProto(name="chakra", package="chakra", syntax="editions")
    file.edition = descriptor_pb2.EDITION_2023  # explicit presence, packed lists
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, (number, word) in fields.items():
            kind = word.removeprefix("*")
            field = message.field.add(name=name, number=number)
            field.label = field.LABEL_OPTIONAL if word == kind else field.LABEL_REPEATED
            if kind in _MESSAGES:
                field.type_name = f".chakra.{kind}"
            else:
                scalar = "bytes" if kind == "string" else kind
                field.type = getattr(field, f"TYPE_{scalar.upper()}")
            if name.endswith(("_val", "_list")):
                field.oneof_index = 0
    file.message_type[list(_MESSAGES).index("Attribute")].oneof_decl.add(name="value")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    types = {name: pool.FindMessageTypeByName(f"chakra.{name}") for name in _MESSAGES}
    return SimpleNamespace(**{n: message_factory.GetMessageClass(t) for n, t in types.items()})


def has_unknown_fields(message: Any) -> bool:
    """Return whether a message has fields that the schema does not declare."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: PLC0415

    return len(UnknownFieldSet(message)) > 0


def read_records(content: bytes, where: str) -> Iterator[Any]:
    """Yield the records of a file one by one, each as a ``Node``.

    Raises:
        FormatError: The file is cut off, or is no sequence of records.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415
    from google.protobuf.proto import parse_length_prefixed  # noqa: PLC0415

    node_type, file = message_types().Node, BytesIO(content)
    for number in count():
        try:
            record = parse_length_prefixed(node_type, file)
        except (DecodeError, OverflowError, ValueError) as error:
            raise FormatError(
                f"{where}, record {number}: it is cut off, or no record of a Chakra trace: give "
                "the trace as it was written"
            ) from error
        if record is None:
            return
        yield record


def write_records(records: Iterable[Any]) -> bytes:
    """Return the file of some records."""
    from google.protobuf.proto import serialize_length_prefixed  # noqa: PLC0415

    file = BytesIO()
    for record in records:
        serialize_length_prefixed(record, file)
    return file.getvalue()
