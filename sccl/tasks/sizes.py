"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

from sccl.errors import ParameterError
from sccl.synth.contract import MAX_SIZE_BYTES

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def size_in_bytes(text: str, name: str = "size") -> int:
    """Return the bytes of ``"1GB"`` (decimal), ``"1GiB"`` or ``"1G"`` (binary), or ``"1024"``.

    Args:
        name: what the message calls it.

    Raises:
        ParameterError: it is none of these, or out of range.
    """
    found = re.fullmatch(r"(\d{1,19})(?:([KMGTP]?)(i?)(B?))", text.strip(), re.IGNORECASE)
    if found and not (found[3] and not found[2]):
        decimal = found[4] and not found[3]
        size = int(found[1])
        for _ in range(_POWERS[found[2].upper()]):
            size *= 1000 if decimal else 1024
        if 1 <= size <= MAX_SIZE_BYTES:
            return size
    raise ParameterError(
        f"{name} is {text[:40]!r}, expected 1 to {MAX_SIZE_BYTES} bytes, such as 1024, 64KiB, 1MB "
        "or 1GB"
    )


def check_divides(size_bytes: int, chunks: int) -> None:
    """Check that a rank's buffer is a whole number of bytes for each of its chunks.

    Raises:
        ParameterError: it is not.
    """
    if rest := size_bytes % chunks:
        below, above = size_bytes - rest, size_bytes - rest + chunks
        sizes = f"{below} or {above} bytes" if below else f"{above} bytes"
        raise ParameterError(
            f"size is {size_bytes} bytes, which do not divide into C={chunks} chunks of whole "
            f"bytes: give {sizes}, or another number of chunks"
        )


def sizes_of(text: str, name: str = "size") -> tuple[int, ...]:
    """Return the sizes of ``"1KB..1GB"``, or the one of ``"1MB"``, bytes, ascending.

    Those of a range are the first, four times as much each, and the last.

    Args:
        name: what the message calls it.

    Raises:
        ParameterError: it is neither, one is out of range, or the range descends.
    """
    first, between, last = text.partition("..")
    low = size_in_bytes(first, name)
    high = size_in_bytes(last, name) if between else low
    if low > high:
        raise ParameterError(
            f"{name} is {text[:40]!r}, from {low} bytes to fewer, {high}: expected the smaller one "
            f"first, such as {last.strip()}..{first.strip()}"
        )
    found = [low]
    while found[-1] * 4 < high:
        found.append(found[-1] * 4)
    return (*found, high) if high > low else (low,)
