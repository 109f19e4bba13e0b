"""Convert a synthesizer's schedules to messages, for simulations with other motifs.

Each transfer starts as soon as its data are there, not at the time in the schedule, because links
may be busy with other motifs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.sim import Messages


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledMessages:
    """Transfers of a schedule; gates are numbered from 0 on, -1: none.

    Attributes:
        link: of each, by its place in the links of the channel.
        size: bytes.
        waits: the gate that each waits for.
        arrivals: the gate that counts its arrival.
        starts: the gate that counts its start.
        gates: how many there are.
        counts: gates, and by which others their openings are counted.
    """

    link: IntArray
    size: IntArray
    waits: IntArray
    arrivals: IntArray
    starts: IntArray
    gates: int
    counts: tuple[tuple[int, int], ...]


def build_schedule_messages(schedule: Schedule, machine: Topology) -> ScheduledMessages:
    """Return the messages of a schedule on a machine that contains its links."""
    made = Messages.from_schedule(schedule)
    place = {link.edge: k for k, link in enumerate(machine.links)}
    places = np.array([place[link.edge] for link in schedule.topology.links], np.int64)
    first = schedule.transfer_starts()
    leaders = np.flatnonzero(first == np.arange(len(first)))
    each = np.broadcast_to(np.array(schedule.chunk_bytes), schedule.collective.num_chunks)
    size = each[made.chunk].astype(np.int64)
    np.add.at(size, made.more.message, each[made.more.chunk])
    return ScheduledMessages(
        link=places[schedule.link[leaders]],
        size=size,
        waits=made.waits_for.astype(np.int64),
        arrivals=made.arrival_opens.astype(np.int64),
        starts=made.start_opens.astype(np.int64),
        gates=len(made.barriers),
        counts=tuple(zip(made.opened.tolist(), made.counted_at.tolist(), strict=True)),
    )


def link_bytes(schedule: Schedule) -> dict[int, int]:
    """Return the bytes that each link carries in all."""
    sizes = schedule.chunk_bytes
    if isinstance(sizes, int):
        link, count = np.unique(np.asarray(schedule.link), return_counts=True)
        return dict(zip(link.tolist(), (count * sizes).tolist(), strict=True))
    totals: dict[int, int] = {}
    for link, chunk in zip(schedule.link.tolist(), schedule.chunk.tolist(), strict=True):
        totals[link] = totals.get(link, 0) + sizes[chunk]
    return totals
