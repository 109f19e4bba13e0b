"""Continue a matching from a tick of another one: earlier transfers are kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray
from sccl.synth.limits import INFINITE
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Sends
from sccl.synth.tacos.bitsets import ONE
from sccl.synth.tacos.expanded_network import BUSY, HEADS_PER_KIND, NetworkState


class PartialSchedule(NamedTuple):
    """The starting point of a matching.

    Attributes:
        sends: Transfers that start before ``tick``, by their start.
        tick: The tick from which the matching continues.
        limit: See :class:`~sccl.synth.tacos.expanded_network.NetworkState`.
    """

    sends: Sends
    tick: int
    limit: int


def empty_schedule(limit: int = INFINITE) -> PartialSchedule:
    """Return a starting point without kept transfers."""
    empty = np.zeros(0, dtype=np.int64)
    link = empty.astype(np.int32)
    return PartialSchedule(Sends(empty, link, link, empty.astype(np.bool_)), 0, limit)


def schedule_before(sends: Sends, tick: int, limit: int) -> PartialSchedule:
    """Return a starting point that keeps all transfers that begin before a tick."""
    first = int(np.searchsorted(sends.start, tick))
    kept = Sends(sends.start[:first], sends.chunk[:first], sends.link[:first], sends.reduce[:first])
    return PartialSchedule(kept, tick, limit)


def arrived_sends(net: NetworkArrays, prior: PartialSchedule) -> IntArray:
    """Return the indices of the kept transfers that have arrived by the tick."""
    kind = net.kind[prior.sends.link].astype(np.int64)
    return np.flatnonzero(prior.sends.start + (net.busy + net.lag)[kind] <= prior.tick)


def resume_from(
    traffic: NetworkState, net: NetworkArrays, prior: PartialSchedule, position: IntArray
) -> None:
    """Restore the state of all links at the tick, and start the log with the kept transfers.

    Args:
        traffic: The state to change, without transfers. The number of missing arrivals remains.
        net: The machine.
        prior: The kept transfers, and the tick.
        position: Number of each chunk in the log.
    """
    kept, tick, count = prior.sends, prior.tick, len(prior.sends.start)
    link, kind = kept.link.astype(np.int64), net.kind[kept.link].astype(np.int64)
    traffic.now[0], traffic.limit[0], traffic.remaining[1] = tick, prior.limit, count
    traffic.when[:count], traffic.link[:count] = kept.start, link
    traffic.chunk[:count] = position[kept.chunk]
    for number in range(len(net.busy)):
        _chain_queue(traffic, net, number, np.flatnonzero(kind == number), tick)
    busy = link[kept.start + net.busy[kind] > tick]
    traffic.link_status[busy] = BUSY
    _mark_ready(traffic, net, busy)
    in_budget = link[kept.start + net.hold[kind] > tick]
    for path in in_budget.tolist():
        for use in range(int(net.pipes_first[path]), int(net.pipes_first[path + 1])):
            traffic.budget_free[net.pipes[use]] -= net.weight[use]


def _chain_queue(
    traffic: NetworkState, net: NetworkArrays, kind: int, rows: IntArray, tick: int
) -> None:
    """Link the transfers of one kind to a queue, with heads at the next events after the tick."""
    traffic.after[rows[:-1]] = rows[1:] + 1
    delays = (net.busy[kind], net.busy[kind] + net.lag[kind], net.hold[kind])
    first_head = HEADS_PER_KIND * kind
    for head, delay in enumerate(delays):
        pending = rows[int(np.searchsorted(traffic.when[rows], tick - delay, side="right")) :]
        traffic.queue_heads[first_head + head] = pending[0] + 1 if len(pending) else 0
    tail = rows[-1] + 1 if len(rows) and traffic.queue_heads[first_head + 1] else 0
    traffic.queue_heads[first_head + HEADS_PER_KIND - 1] = tail


def _mark_ready(traffic: NetworkState, net: NetworkArrays, busy: IntArray) -> None:
    """Make all links ready except the busy ones."""
    free = np.ones(len(net.src), dtype=np.bool_)
    free[busy] = False
    queue = net.queue.astype(np.int64)
    links = np.flatnonzero(free)
    links = links[np.argsort(queue[links], kind="stable")]
    counts = np.bincount(queue[links], minlength=len(traffic.ready_count))
    within = np.arange(len(links)) - np.repeat(np.cumsum(counts) - counts, counts)
    traffic.ready[traffic.ready_first[queue[links]] + within.astype(np.uint64)] = links
    traffic.ready_count[:] = counts.astype(np.uint64) * ONE
