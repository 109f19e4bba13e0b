"""Messages of protocol buffers, taken apart into their fields. No schema is needed for that."""

from __future__ import annotations

from collections.abc import Iterator

from sccl.errors import FormatError

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""How a field is encoded."""

MessageField = tuple[int, int, int | bytes]
"""Its number, how it is encoded, and its value: bytes where it has a length."""

_MAX_VARINT_BYTES = 10  # bytes of a number of 64 bits


def read_messages(content: bytes, where: str) -> Iterator[bytes]:
    """Yield the messages of a file, each behind its length.

    Raises:
        FormatError: it is cut off, or none.
    """
    at = 0
    while at < len(content):
        length, at = read_varint(content, at, where)
        if at + length > len(content):
            raise FormatError(f"{where}: it is cut off: a message of {length} bytes ends early")
        yield content[at : at + length]
        at += length


def read_fields(message: bytes, where: str) -> Iterator[MessageField]:
    """Yield the fields of a message, in order.

    Raises:
        FormatError: it is none.
    """
    at = 0
    while at < len(message):
        key, at = read_varint(message, at, where)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = read_varint(message, at, where)
            yield number, kind, value
            continue
        if kind == LENGTH:
            length, at = read_varint(message, at, where)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise FormatError(f"{where}: no message of protocol buffers (a field of kind {kind})")
        if at + length > len(message):
            raise FormatError(f"{where}: no message of protocol buffers (a field ends beyond it)")
        yield number, kind, message[at : at + length]
        at += length


def read_varint(content: bytes, at: int, where: str) -> tuple[int, int]:
    """Return a number that lies at a place as groups of seven bits, and where it ends.

    Raises:
        FormatError: it does not end.
    """
    value = 0
    for place, byte in enumerate(content[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise FormatError(f"{where}: it is cut off, or no file of protocol buffers")


def unpack_numbers(value: int | bytes, where: str) -> list[int]:
    """Return the numbers of a repeated field: one, or as many as are packed into it."""
    if isinstance(value, int):
        return [value]
    values, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at, where)
        values.append(number)
    return values
