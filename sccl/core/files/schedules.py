"""Convert schedules to files and back: one row per transfer, by time, written in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import AnyIntArray
from sccl.core.clock import AlphaModel
from sccl.core.files.collectives import check_pairs, collective_from_wire, collective_to_wire
from sccl.core.files.disk import read_text
from sccl.core.files.json_text import has_valid_digest, parse, text_with_digest
from sccl.core.files.schedule_shapes import ScheduleWire
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.schedule import Schedule, TransferColumns
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError

_Row = tuple[int, int, int, int, int, int]

_PIECE_BYTES = 2**21
"""Number of bytes of rows to parse together, in some hundredths of a second."""

_ROWS = msgspec.json.Decoder(get_type_hints(ScheduleWire, include_extras=True)["sends"])


def schedule_to_wire(schedule: Schedule) -> ScheduleWire:
    """Return the file shape of a schedule, with all rows in memory."""
    rows = (row for batch in _batches(schedule) for row in batch)
    return msgspec.structs.replace(_head(schedule), sends=tuple(rows))


def schedule_from_wire(wire: ScheduleWire, where: str) -> Schedule:
    """Return the schedule of a file shape, without verifying it.

    Raises:
        FormatError: It is inconsistent, or its rows are not in order.
        TooLargeError: Its collective is too large for its number of sends.
    """
    return _schedule(wire, _table(wire.sends), where)


def _schedule(wire: ScheduleWire, table: NDArray[np.int64], where: str) -> Schedule:
    """Return the schedule of a file shape with a table of its rows.

    Raises:
        FormatError: It is inconsistent, or its rows are not in order.
        TooLargeError: Its collective is too large for its number of sends.
    """
    topology = topology_from_wire(wire.topology, f"{where}, $.topology")
    collective = collective_from_wire(wire.collective, where)
    check_pairs(collective, len(table), where)
    message = np.array(wire.messages, dtype=np.int64) if wire.messages else None
    try:
        return Schedule(
            topology=topology,
            collective=collective,
            start=table[:, 0].copy(),
            end=table[:, 1].copy(),
            chunk=table[:, 2].astype(np.int32),
            link=_links(topology, table[:, 3], table[:, 4], where),
            reduce=table[:, 5].astype(np.bool_),
            tick_ps=wire.tick_ps,
            chunk_bytes=wire.chunk_bytes,
            model=AlphaModel(wire.alpha),
            message=message,
        )
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error


def _links(topology: Topology, src: AnyIntArray, dst: AnyIntArray, where: str) -> AnyIntArray:
    """Return the index of each row's link.

    Raises:
        FormatError: A link does not exist.
    """
    ends = np.array([link.edge for link in topology.links], dtype=np.int64)
    nodes = topology.ranks + len(topology.switches)
    keys, wanted = ends[:, 0] * nodes + ends[:, 1], src * nodes + dst  # links are sorted by ends
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    missing = np.flatnonzero((keys[place] != wanted) | (src >= nodes) | (dst >= nodes))
    if len(missing):
        row = int(missing[0])
        link = f"{src[row]}->{dst[row]}"
        raise FormatError(f"{where}, $.sends[{row}]: topology {topology.name!r} has no link {link}")
    return place.astype(np.int32)


def text_pieces(schedule: Schedule) -> Iterator[str]:
    """Yield the text of a schedule's file in pieces, with one batch of rows in memory."""
    text = text_with_digest(_head(schedule), schedule_digest(schedule))
    head, _, tail = text.rpartition("[]")
    if not schedule.num_sends:
        yield text
        return
    separator = f"{head}[\n"
    for batch in _batches(schedule):
        yield separator + ",\n".join(f"  {list(row)}" for row in batch)
        separator = ",\n"
    yield f"\n ]{tail}"


def load_schedule(path: Path) -> tuple[Schedule, bool]:
    """Return the schedule in a file, and whether its content still has the digest it states.

    Raises:
        InputError: the file cannot be read, or is not a schedule.
    """
    where, text = str(path), read_text(path)
    if (both := _split_rows(text.encode())) is None:
        wire = parse(text, ScheduleWire, where)
        return schedule_from_wire(wire, where), has_valid_digest(wire)
    head, table = both
    wire = parse(head.decode(), ScheduleWire, where)
    schedule = _schedule(wire, table, where)
    return schedule, wire.digest in (None, schedule_digest(schedule))


def _split_rows(text: bytes) -> tuple[bytes, NDArray[np.int64]] | None:
    """Split the text of a file into the text without rows, and the rows. None: parse it completely.

    Files are parsed completely if there are few rows, or if a row is invalid, for the error
    message. Many rows are parsed in pieces, which limits memory and allows signals to interrupt.
    """
    try:
        raw = bytes(msgspec.json.decode(text, type=dict[str, msgspec.Raw])["sends"])
        if len(raw) < _PIECE_BYTES:
            return None
        tables = [_table(_ROWS.decode(piece)) for piece in _split_list(raw)]
    except (msgspec.DecodeError, RecursionError, KeyError):
        return None
    begin = text.index(raw)
    return text[:begin] + b"[]" + text[begin + len(raw) :], np.concatenate(tables)


def _table(rows: tuple[_Row, ...]) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def _split_list(rows: bytes) -> Iterator[bytes]:
    """Split a list of rows of numbers into several lists."""
    begin = 1
    while (end := rows.find(b"]", begin + _PIECE_BYTES)) > 0 and (
        comma := rows.find(b",", end)
    ) > 0:
        yield b"[" + rows[begin : end + 1] + b"]" + rows[end + 1 : comma].strip()
        begin = comma + 1
    yield b"[" + rows[begin:]


def _head(schedule: Schedule) -> ScheduleWire:
    """Return the file shape of a schedule without its rows."""
    return ScheduleWire(
        collective=collective_to_wire(schedule.collective),
        topology=topology_to_wire(schedule.topology),
        alpha=schedule.model.value,
        tick_ps=schedule.tick_ps,
        chunk_bytes=schedule.chunk_bytes,
        sends=(),
        messages=() if schedule.message is None else tuple(schedule.message.tolist()),
    )


def _batches(schedule: Schedule) -> Iterator[list[_Row]]:
    ends = np.array([link.edge for link in schedule.topology.links], dtype=np.int64)
    for rows in schedule.batches():
        yield _rows(rows, ends)


def _rows(rows: TransferColumns, ends: AnyIntArray) -> list[_Row]:
    src, dst = ends[rows.link].T
    columns = (rows.start, rows.end, rows.chunk, src, dst, rows.reduce.astype(np.int8))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def schedule_digest(schedule: Schedule) -> str:
    """Return the digest of a schedule's file shape, computed batch by batch."""
    content = msgspec.to_builtins(_head(schedule))
    names = sorted(content.keys() - {"schema", "kind", "digest", "sends"})
    encode = msgspec.json.Encoder(order="sorted").encode
    before = encode({name: content[name] for name in names if name < "sends"})
    after = encode({name: content[name] for name in names if name > "sends"})
    sha = hashlib.sha256(before[:-1] + b',"sends":[')
    separator = b""
    for batch in _batches(schedule):
        sha.update(separator + encode(batch)[1:-1])
        separator = b","
    sha.update(b"]," + after[1:])
    return f"sha256:{sha.hexdigest()}"
