"""Parse sizes in bytes from user input, and define the sizes of element types."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil, floor

from sccl.errors import ParameterError

MAX_SIZE_BYTES = 2**60
"""Maximum size: one EiB, as a guard against typing errors."""

_FORM = re.compile(r"(\d{1,19})(?:\.(\d{1,19}))?([KMGTP]?)(i?)(B?)", re.IGNORECASE)

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def parse_size(text: str, name: str = "size") -> int:
    """Parse ``"1GB"`` (decimal), ``"1GiB"`` or ``"1G"`` (binary), or ``"1024"`` into bytes.

    Fractions are accepted if they are whole bytes, such as ``"62.5MB"``.

    Args:
        name: Name in the message.

    Raises:
        ParameterError: The text has another form, is no whole number of bytes, or is out of range.
    """
    match = _FORM.fullmatch(text.strip())
    if match and not (match[4] and not match[3]):
        parts = match[2] or ""
        base = 1000 if match[5] and not match[4] else 1024
        size = Fraction(int(match[1] + parts), 10 ** len(parts)) * base ** _POWERS[match[3].upper()]
        if 1 <= size <= MAX_SIZE_BYTES and size.denominator > 1:
            raise ParameterError(
                f"{name} is {text[:40]!r}, not a whole number of bytes: give {floor(size)} or "
                f"{ceil(size)}"
            )
        if 1 <= size <= MAX_SIZE_BYTES:
            return int(size)
    raise ParameterError(
        f"{name} is {text[:40]!r}, expected 1 to {MAX_SIZE_BYTES} bytes, such as 1024, 64KiB, "
        "62.5MB or 1GB"
    )


def check_divides(size_bytes: int, chunks: int) -> None:
    """Check that the size of a rank's buffer is a multiple of its number of chunks.

    Raises:
        ParameterError: It is not.
    """
    if rest := size_bytes % chunks:
        below, above = size_bytes - rest, size_bytes - rest + chunks
        sizes = f"{below} or {above} bytes" if below else f"{above} bytes"
        raise ParameterError(
            f"size is {size_bytes} bytes, which do not divide into C={chunks} chunks of whole "
            f"bytes: give {sizes}, or another number of chunks"
        )


def parse_sizes(text: str, name: str = "size") -> tuple[int, ...]:
    """Parse a list of sizes and ranges, ``"64KB,1MB..1GB"``, into ascending sizes in bytes.

    A range contains its first size, its multiples by powers of four, and its last size.

    Args:
        text: Sizes and ranges, separated by commas.
        name: Name of the option in messages.

    Raises:
        ParameterError: A part is neither a size nor a range, is out of range, or descends.
    """
    parts = text.split(",")
    if len({part.strip().isdecimal() for part in parts}) > 1:  # perhaps a decimal comma
        raise ParameterError(
            f"{name} is {text[:40]!r}, sizes with and without a unit: give each a unit, and write "
            "a fraction with a point, such as 1.5MB"
        )
    return tuple(sorted({size for part in parts for size in _parse_range(part, name)}))


def _parse_range(text: str, name: str) -> tuple[int, ...]:
    first, between, last = text.partition("..")
    low = parse_size(first, name)
    high = parse_size(last, name) if between else low
    if low > high:
        raise ParameterError(
            f"{name} is {text[:40]!r}, from {low} bytes to fewer, {high}: expected the smaller one "
            f"first, such as {last.strip()}..{first.strip()}"
        )
    values = [low]
    while values[-1] * 4 < high:
        values.append(values[-1] * 4)
    return (*values, high) if high > low else (low,)


ITEM_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "bool": 1,
    "float8-e4m3": 1,
    "float8-e5m2": 1,
    "complex64": 8,
    "complex128": 16,
}
"""Size in bytes of each element type. Generated code supports the types that it can add, whose C++
names are in :mod:`sccl.codegen.targets.rendering`. The others occur only in training traces.
"""
