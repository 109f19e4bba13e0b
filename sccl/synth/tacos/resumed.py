"""A matching that continues from another one at some tick: earlier transfers are kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sccl.synth.network.groups import Ticks
from sccl.synth.network.machine import Net
from sccl.synth.network.sends import Sends
from sccl.synth.tacos.bits import ONE
from sccl.synth.tacos.traffic import BUSY, HEADS, NEVER, Traffic


class Given(NamedTuple):
    """The starting point of a matching.

    Attributes:
        kept: transfers that begin before ``tick``, by their start.
        tick: the tick from which it continues.
        limit: as in :class:`~sccl.synth.tacos.traffic.Traffic`.
    """

    kept: Sends
    tick: int
    limit: int


def from_the_start(limit: int = NEVER) -> Given:
    """Return a starting point without kept transfers."""
    none = np.zeros(0, dtype=np.int64)
    link = none.astype(np.int32)
    return Given(Sends(none, link, link, none.astype(np.bool_)), 0, limit)


def before(sends: Sends, tick: int, limit: int) -> Given:
    """Return a starting point that keeps all transfers that begin before a tick."""
    first = int(np.searchsorted(sends.start, tick))
    kept = Sends(sends.start[:first], sends.chunk[:first], sends.link[:first], sends.reduce[:first])
    return Given(kept, tick, limit)


def arrived(net: Net, given: Given) -> Ticks:
    """Return which of the transfers that are kept have arrived."""
    kind = net.kind[given.kept.link].astype(np.int64)
    return np.flatnonzero(given.kept.start + (net.busy + net.lag)[kind] <= given.tick)


def resume(traffic: Traffic, net: Net, given: Given, place: Ticks) -> None:
    """Set links busy as they are at the tick, and begin the log with the kept transfers.

    Args:
        traffic: state without transfers. In ``left`` only the count of transfers is changed.
        place: place of each chunk, as the log counts them.
    """
    kept, tick, count = given.kept, given.tick, len(given.kept.start)
    link, kind = kept.link.astype(np.int64), net.kind[kept.link].astype(np.int64)
    traffic.now[0], traffic.limit[0], traffic.left[1] = tick, given.limit, count
    traffic.when[:count], traffic.link[:count] = kept.start, link
    traffic.chunk[:count] = place[kept.chunk]
    for number in range(len(net.busy)):
        _chain(traffic, net, number, np.flatnonzero(kind == number), tick)
    busy = link[kept.start + net.busy[kind] > tick]
    traffic.idle[busy] = BUSY
    _ready(traffic, net, busy)
    held = link[kept.start + net.hold[kind] > tick]
    for way in held.tolist():
        for at in range(int(net.pipes_first[way]), int(net.pipes_first[way + 1])):
            traffic.room[net.pipes[at]] -= net.weight[at]


def _chain(traffic: Traffic, net: Net, kind: int, rows: Ticks, tick: int) -> None:
    """Let the log be a queue of one kind, with a head for each that is still to happen."""
    traffic.after[rows[:-1]] = rows[1:] + 1
    ends = (net.busy[kind], net.busy[kind] + net.lag[kind], net.hold[kind])
    begin = HEADS * kind
    for head, after in enumerate(ends):
        coming = rows[int(np.searchsorted(traffic.when[rows], tick - after, side="right")) :]
        traffic.heads[begin + head] = coming[0] + 1 if len(coming) else 0
    last = rows[-1] + 1 if len(rows) and traffic.heads[begin + 1] else 0
    traffic.heads[begin + HEADS - 1] = last


def _ready(traffic: Traffic, net: Net, busy: Ticks) -> None:
    """Let all links be ready but those that are busy."""
    free = np.ones(len(net.src), dtype=np.bool_)
    free[busy] = False
    queue = net.queue.astype(np.int64)
    links = np.flatnonzero(free)
    links = links[np.argsort(queue[links], kind="stable")]
    counts = np.bincount(queue[links], minlength=len(traffic.ready_count))
    within = np.arange(len(links)) - np.repeat(np.cumsum(counts) - counts, counts)
    traffic.ready[traffic.ready_first[queue[links]] + within.astype(np.uint64)] = links
    traffic.ready_count[:] = counts.astype(np.uint64) * ONE
