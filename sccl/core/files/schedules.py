"""Schedules as files: one row per transfer, by time, so that long ones are written in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from sccl.core.clock import AlphaModel
from sccl.core.files.collectives import check_pairs, collective_of_wire, collective_to_wire
from sccl.core.files.disk import read_text
from sccl.core.files.shapes import ScheduleWire
from sccl.core.files.text import digest, parse, text_with_digest
from sccl.core.files.topologies import topology_of_wire, topology_to_wire
from sccl.core.schedule import Schedule, TransferColumns, Whole
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError

_Row = tuple[int, int, int, int, int, int]


def schedule_to_wire(schedule: Schedule) -> ScheduleWire:
    """Return the file shape of a schedule, all of its rows in memory."""
    rows = (row for batch in _batches(schedule) for row in batch)
    return msgspec.structs.replace(_head(schedule), sends=tuple(rows))


def schedule_of_wire(wire: ScheduleWire, where: str) -> Schedule:
    """Return the schedule of a file shape, which the judge has still to see.

    Raises:
        FormatError: it contradicts itself, or its rows are not in order.
        TooLargeError: so few sends are about very many pairs of a chunk and a rank.
    """
    topology = topology_of_wire(wire.topology, f"{where}, $.topology")
    collective = collective_of_wire(wire.collective, where)
    check_pairs(collective, len(wire.sends), where)
    table = np.array(wire.sends, dtype=np.int64).reshape(-1, 6)
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


def _links(topology: Topology, src: Whole, dst: Whole, where: str) -> Whole:
    """Return the place of each row's link.

    Raises:
        FormatError: there is no such link.
    """
    ends = np.array([link.edge for link in topology.links], dtype=np.int64)
    nodes = topology.ranks + len(topology.switches)
    keys, wanted = ends[:, 0] * nodes + ends[:, 1], src * nodes + dst  # links ascend by their ends
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    missing = np.flatnonzero((keys[place] != wanted) | (src >= nodes) | (dst >= nodes))
    if len(missing):
        row = int(missing[0])
        link = f"{src[row]}->{dst[row]}"
        raise FormatError(f"{where}, $.sends[{row}]: topology {topology.name!r} has no link {link}")
    return place.astype(np.int32)


def pieces(schedule: Schedule) -> Iterator[str]:
    """Yield the text of a schedule's file, piece by piece: in memory is never more than a batch."""
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
    where = str(path)
    wire = parse(read_text(path), ScheduleWire, where)
    return schedule_of_wire(wire, where), wire.digest in (None, digest(wire))


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
    """Yield the rows as files have them."""
    ends = np.array([link.edge for link in schedule.topology.links], dtype=np.int64)
    for rows in schedule.batches():
        yield _rows(rows, ends)


def _rows(rows: TransferColumns, ends: Whole) -> list[_Row]:
    src, dst = ends[rows.link].T
    columns = (rows.start, rows.end, rows.chunk, src, dst, rows.reduce.astype(np.int8))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def schedule_digest(schedule: Schedule) -> str:
    """Return what :func:`sccl.core.files.text.digest` does of the whole, batch by batch."""
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
