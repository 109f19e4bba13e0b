"""Convert transfers over paths to the rows of a schedule, one for each link of a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.synth.network.routes import Routes
from sccl.synth.network.transfers import Sends


class TransferRows(NamedTuple):
    """The columns of a schedule, as in :class:`sccl.core.schedule.Schedule`."""

    start: IntArray
    end: IntArray
    chunk: NDArray[np.int32]
    link: NDArray[np.int32]
    reduce: NDArray[np.bool_]
    message: NDArray[np.int32] | None

    def to_schedule(self, topology: Topology, collective: Collective, clock: Clock) -> Schedule:
        """Return the rows as a schedule with the ticks and chunk sizes of a clock."""
        return Schedule(
            topology=topology,
            collective=collective,
            **self._asdict(),
            tick_ps=clock.tick_ps,
            chunk_bytes=clock.chunk_bytes,
            model=clock.model,
        )


def sorted_rows(rows: TransferRows) -> TransferRows:
    """Sort rows as in a schedule: by start, chunk, and link."""
    order: IntArray = np.lexsort((rows.link, rows.chunk, rows.start))
    return TransferRows(*(None if column is None else column[order] for column in rows))  # type: ignore[arg-type]


def build_transfer_rows(sends: Sends, crossings: Routes) -> TransferRows:
    """Return the rows of transfers over paths. A transfer through a switch becomes a message."""
    paths = sends.link
    if len(crossings.link) == len(crossings.src):
        link, busy = crossings.link.astype(np.int32)[paths], crossings.busy
        end = sends.start + (busy[0] if (busy == busy[0]).all() else busy[paths])
        return TransferRows(sends.start, end, sends.chunk, link, sends.reduce, None)
    count = np.diff(crossings.first)[paths]
    message = np.repeat(np.arange(len(paths), dtype=np.int32), count)
    within = np.arange(len(message)) - np.repeat(np.cumsum(count) - count, count)
    row = crossings.first[paths][message] + within
    start = sends.start[message] + crossings.offset[row]
    chunk, link = sends.chunk[message], crossings.link[row].astype(np.int32)
    last = within == count[message] - 1
    reduce = sends.reduce[message] & last  # a switch forwards, and does not reduce
    end = start + crossings.busy[row]
    return sorted_rows(TransferRows(start, end, chunk, link, reduce, message))


def build_sized_transfer_rows(
    sends: Sends, crossings: Sequence[Routes], size: Sequence[int]
) -> TransferRows:
    """Return the rows of transfers of chunks of several sizes.

    Args:
        sends: The transfers.
        crossings: Routes for each size.
        size: Index of each chunk's size.
    """
    if len(crossings) == 1:
        return build_transfer_rows(sends, crossings[0])
    which, parts = np.array(size)[sends.chunk], list[TransferRows]()
    for k, size_crossings in enumerate(crossings):
        rows = np.flatnonzero(which == k).astype(np.int32)
        of = Sends(sends.start[rows], sends.chunk[rows], sends.link[rows], sends.reduce[rows])
        hops = build_transfer_rows(of, size_crossings)
        if hops.message is not None:  # number among all transfers
            hops = hops._replace(message=rows[hops.message])
        parts.append(hops)
    messages = [p.message for p in parts if p.message is not None]
    return sorted_rows(
        TransferRows(
            start=np.concatenate([p.start for p in parts]),
            end=np.concatenate([p.end for p in parts]),
            chunk=np.concatenate([p.chunk for p in parts]),
            link=np.concatenate([p.link for p in parts]),
            reduce=np.concatenate([p.reduce for p in parts]),
            message=np.concatenate(messages) if messages else None,
        )
    )


def merge_switch_copies(hops: TransferRows) -> TransferRows:
    """Merge the rows of a chunk that pass a link at the same time, because a switch copies it.

    A message then consists of all routes of a chunk that share a row.
    """
    assert hops.message is not None
    rows = np.column_stack([hops.start, hops.end, hops.chunk, hops.link])
    _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    message = hops.message.astype(np.int64)
    while True:
        lowest = np.full(len(first), np.iinfo(np.int64).max)
        np.minimum.at(lowest, inverse.ravel(), message)
        of_message = np.arange(message.max(initial=0) + 1)
        np.minimum.at(of_message, message, lowest[inverse.ravel()])
        joined = of_message[message]
        if (joined == message).all():
            break
        message = joined
    keep = np.sort(first)
    numbers = np.unique(message[keep], return_inverse=True)[1].astype(np.int32)
    return TransferRows(
        start=hops.start[keep],
        end=hops.end[keep],
        chunk=hops.chunk[keep],
        link=hops.link[keep],
        reduce=hops.reduce[keep],
        message=numbers.ravel(),
    )


def reverse_routes(topology: Topology, forwards: Routes, backwards: Routes) -> IntArray:
    """Return the opposite route of the machine for each route of the reversed machine."""
    place = {link.edge: i for i, link in enumerate(topology.links)}
    link_back = np.array([place[k.dst, k.src] for k in topology.reversed().links], dtype=np.int64)
    if len(backwards.src) == len(link_back) and not topology.switches:
        return link_back
    paths = {path: index for index, path in enumerate(forwards.paths())}
    turned = backwards._replace(link=link_back[backwards.link])
    return np.array([paths[path[::-1]] for path in turned.paths()], dtype=np.int64)
