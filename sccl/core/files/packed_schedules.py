"""Convert packed schedules to files and back: a head in JSON, then binary rounds and chunks.

A file consists of :data:`PACKED_MAGIC`, the length of the head in 8 bytes, the head, zeros up to a
multiple of 64 bytes, ``fired`` with 8 bytes per word, and ``log`` with 2 or 4 bytes per chunk. All
numbers are little-endian. The head determines the length of the file, which is checked before any
allocation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BufferedReader
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import AlphaModel
from sccl.core.files.collectives import check_pairs, collective_from_wire, collective_to_wire
from sccl.core.files.disk import PACKED_MAGIC, open_for_reading, write_pieces_atomically
from sccl.core.files.json_text import digest, parse, text_with_digest
from sccl.core.files.schedule_shapes import PackedScheduleWire
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.packed_schedule import PackedSchedule, PassKind, release_pages
from sccl.core.progress import ProgressCallback
from sccl.errors import FormatError, InputError, TooLargeError

MAX_BYTES = 16 * 2**30
"""Maximum total size of the rounds and chunks of a file."""

_MAX_HEAD = 2**28
_LINE = 64
_PIECE_BYTES = 2**24
"""Number of bytes to read or write between checks for signals."""

Piece = bytes | memoryview


def packed_digest(schedule: PackedSchedule) -> str:
    """Return the sha256 of a schedule's content: the head without digest, and the arrays."""
    return _digest(_head(schedule), schedule.fired, schedule.log)


def write_packed(path: Path, schedule: PackedSchedule, on_progress: ProgressCallback) -> None:
    """Write the file of a packed schedule atomically.

    Raises:
        InputError: It cannot be written.
    """
    write_pieces_atomically(path, content_pieces(schedule, on_progress))


def content_pieces(schedule: PackedSchedule, on_progress: ProgressCallback) -> Iterator[Piece]:
    """Yield the content of a schedule's file, piece by piece."""
    head = text_with_digest(_head(schedule), packed_digest(schedule)).encode()
    begin = PACKED_MAGIC + len(head).to_bytes(8, "little") + head
    yield begin + bytes(-len(begin) % _LINE)
    total, done = schedule.fired.nbytes + schedule.log.nbytes, 0
    for piece in _pieces(schedule.fired, schedule.log):
        yield piece
        done += len(piece)
        on_progress(done, total)


def load_packed(path: Path, on_progress: ProgressCallback) -> tuple[PackedSchedule, bool]:
    """Load a packed schedule, and return whether its content matches the stated digest.

    Its rounds and chunks remain in the file, which is memory-mapped.

    Raises:
        InputError: the file cannot be read, or is no packed schedule.
    """
    where = str(path)
    with open_for_reading(path) as file:
        wire = _read_head(file, where)
        words = -(-len(wire.topology.links) // 64)
        fired_bytes = wire.rounds * words * 8
        _check_length(file, wire, fired_bytes + wire.sends * wire.chunk_bits // 8, where)
        begin = file.tell()
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    fired = np.ndarray((wire.rounds, words), np.dtype("<u8"), mapped, begin)
    log_type = np.dtype(f"<u{wire.chunk_bits // 8}")
    log = np.ndarray((wire.sends,), log_type, mapped, begin + fired_bytes)
    actual_digest = _digest(wire, fired, log, on_progress)
    return _schedule(wire, fired, log, where), wire.digest in (None, actual_digest)


def _read_head(file: BufferedReader, where: str) -> PackedScheduleWire:
    start = file.read(len(PACKED_MAGIC) + 8)
    if start[: len(PACKED_MAGIC)] != PACKED_MAGIC or len(start) != len(PACKED_MAGIC) + 8:
        raise FormatError(f"{where}: it does not begin as a packed schedule does")
    length = int.from_bytes(start[len(PACKED_MAGIC) :], "little")
    if length > _MAX_HEAD:
        raise FormatError(f"{where}: its head has {length} bytes, expected at most {_MAX_HEAD}")
    head = file.read(length)
    file.read(-(len(start) + length) % _LINE)
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: its head is not text (byte {error.start})") from error
    return parse(text, PackedScheduleWire, f"{where}, head")


def _check_length(
    file: BufferedReader, wire: PackedScheduleWire, expected: int, where: str
) -> None:
    begin = file.tell()
    if expected > MAX_BYTES:
        raise TooLargeError(
            f"{where}: it states {expected} bytes of rounds; this version reads up to {MAX_BYTES}"
        )
    length = file.seek(0, 2) - begin
    file.seek(begin)
    if length != expected:
        raise FormatError(
            f"{where}: {length} bytes follow its header, which states {wire.rounds} rounds and "
            f"{wire.sends} chunks, {expected} bytes: the file was cut off or changed"
        )


def _schedule(
    wire: PackedScheduleWire,
    fired: NDArray[np.uint64],
    log: NDArray[np.unsignedinteger[Any]],
    where: str,
) -> PackedSchedule:
    topology = topology_from_wire(wire.topology, f"{where}, head, $.topology")
    collective = collective_from_wire(wire.collective, f"{where}, head")
    check_pairs(collective, wire.sends, where)
    try:
        schedule = PackedSchedule(
            topology=topology,
            collective=collective,
            fired=fired.astype(np.uint64, copy=False),
            log=log.astype(log.dtype.newbyteorder("="), copy=False),
            passes=tuple(PassKind(name) for name in wire.passes),
            tick_ps=wire.tick_ps,
            chunk_bytes=wire.chunk_bytes,
            model=AlphaModel(wire.alpha),
        )
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error
    if schedule.finish != wire.finish:
        raise FormatError(
            f"{where}: its header states a finish at tick {wire.finish}, and its rounds end at "
            f"tick {schedule.finish}"
        )
    return schedule


def _head(schedule: PackedSchedule) -> PackedScheduleWire:
    return PackedScheduleWire(
        collective=collective_to_wire(schedule.collective),
        topology=topology_to_wire(schedule.topology),
        alpha=schedule.model.value,
        tick_ps=schedule.tick_ps,
        chunk_bytes=schedule.chunk_bytes,
        passes=tuple(passing.value for passing in schedule.passes),
        rounds=len(schedule.fired),
        sends=len(schedule.log),
        chunk_bits=16 if schedule.log.dtype == np.uint16 else 32,
        finish=schedule.finish,
    )


def _digest(
    wire: PackedScheduleWire,
    fired: NDArray[np.uint64],
    log: NDArray[np.unsignedinteger[Any]],
    on_progress: ProgressCallback = lambda *_: None,
) -> str:
    sha, total, done = hashlib.sha256(digest(wire).encode()), fired.nbytes + log.nbytes, 0
    for piece in _pieces(fired, log):
        sha.update(piece)
        done += len(piece)
        on_progress(done, total)
    return f"sha256:{sha.hexdigest()}"


def _pieces(*arrays: NDArray[Any]) -> Iterator[memoryview]:
    for array in arrays:
        low_first = array.astype(array.dtype.newbyteorder("<"), copy=False)
        yield from _byte_views(np.ascontiguousarray(low_first))


def _byte_views(array: NDArray[Any]) -> Iterator[memoryview]:
    """Yield the bytes of an array, piece by piece, without copying them."""
    flat = memoryview(cast("Any", array.reshape(-1).view(np.uint8)))
    for first in range(0, len(flat), _PIECE_BYTES):
        yield flat[first : first + _PIECE_BYTES]
        release_pages(array)
