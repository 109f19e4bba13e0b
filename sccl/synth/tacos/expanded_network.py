"""Simulate the transfers on links of different costs, from event to event.

Source: TACOS (MICRO 2024), sections IV-B and IV-F, the time-expanded network (TEN). The network is
not expanded in memory. The state is that of the current tick, and the log holds the matches of all
earlier ticks. Ticks without an event are skipped.

Transfers over links of one cost end in the order of their starts. So the log itself is a queue for
each cost. A queue has three heads: the next transfer whose link becomes free, the next one that
arrives, and the next one that releases its budgets. With few costs this is faster than a heap of
all links.

A matching can continue from a tick of another one (:class:`PartialSchedule`). Then earlier
transfers are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, compiled_in_place
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.limits import INFINITE
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Sends
from sccl.synth.tacos.bitsets import ONE, ZERO, random_below, random_state

HEADS_PER_KIND = 4
"""Number of entries of each kind in ``NetworkState.queue_heads``: three heads and the tail."""

BUSY, IDLE, READY, BLOCKED = 0, 1, 2, 3
"""States of a link. An idle link becomes ready at an arrival at its source. A blocked link becomes
ready when its budget has room. A ready link chooses a chunk next.
"""


class NetworkState(NamedTuple):
    """The state of all links at one tick, and the log of transfers. References to it count from 1.

    Attributes:
        link_status: :data:`BUSY`, :data:`IDLE`, :data:`READY`, or :data:`BLOCKED` for each link.
        ready: The ready links, by kind and turn.
        ready_first: Index of the first entry of each kind and turn in ``ready``.
        ready_count: Number of entries of each kind and turn in ``ready``.
        budget_free: Free capacity of each budget.
        random: State of the random generator.
        remaining: Number of missing arrivals of chunks at their destinations, and number of
            transfers in the log.
        now: The tick.
        limit: Tick after which no chunk may arrive over a link if cheaper links lead to the same
            rank. :data:`INFINITE`: no such tick.
        when: First tick of each transfer.
        link: Link of each transfer.
        chunk: Chunk of each transfer.
        after: Next transfer of the same kind, for each transfer. 0: none.
        queue_heads: For each kind: the next transfer whose link becomes free, the next that
            arrives, the next that releases its budgets, and the last transfer. 0: none.
    """

    link_status: NDArray[np.uint8]
    ready: UInt64Array
    ready_first: UInt64Array
    ready_count: UInt64Array
    budget_free: IntArray
    random: UInt64Array
    remaining: UInt64Array
    now: IntArray
    limit: IntArray
    when: IntArray
    link: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    after: UInt64Array
    queue_heads: UInt64Array

    def with_double_log(self) -> NetworkState:
        """Return a copy whose log has room for twice as many transfers."""
        columns = {name: getattr(self, name) for name in ("when", "link", "chunk", "after")}
        return self._replace(**{k: np.r_[of, np.zeros_like(of)] for k, of in columns.items()})


def initial_state(
    net: NetworkArrays, seed: int, missing_arrivals: int, log_capacity: int
) -> NetworkState:
    """Return the state before the first transfer: all links are ready.

    Args:
        net: The machine.
        seed: Seed of the random generator.
        missing_arrivals: Number of arrivals of chunks at their destinations.
        log_capacity: Number of transfers for which the log has room.
    """
    queue = net.queue.astype(np.int64)
    sizes = np.bincount(queue, minlength=len(net.busy) * net.turns)
    return NetworkState(
        link_status=np.full(len(net.src), READY, dtype=np.uint8),
        ready=np.argsort(queue, kind="stable").astype(np.uint64),
        ready_first=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64),
        ready_count=sizes.astype(np.uint64),
        budget_free=net.capacity.copy(),
        random=random_state(seed),
        remaining=np.array([missing_arrivals, 0], dtype=np.uint64),
        now=np.zeros(1, dtype=np.int64),
        limit=np.full(1, INFINITE, dtype=np.int64),
        when=np.zeros(log_capacity, dtype=np.int64),
        link=np.zeros(log_capacity, dtype=np.uint32),
        chunk=np.zeros(log_capacity, dtype=np.uint32),
        after=np.zeros(log_capacity, dtype=np.uint64),
        queue_heads=np.zeros(HEADS_PER_KIND * len(net.busy), dtype=np.uint64),
    )


@compiled_in_place
def pop_ready_link(state: NetworkState, queue: Any) -> Any:
    """Remove a random link from the ready links of a kind and turn. It becomes idle."""
    ready, first, count = state.ready, state.ready_first[queue], state.ready_count
    entry = first + random_below(state.random, count[queue])
    link = ready[entry]
    count[queue] -= ONE
    ready[entry] = ready[first + count[queue]]
    state.link_status[link] = IDLE
    return link


@compiled_in_place
def has_budget(state: NetworkState, net: NetworkArrays, link: Any) -> bool:
    """Return whether a link's share of its budgets is free. If it is not, the link is blocked."""
    for use in range(net.pipes_first[link], net.pipes_first[link + ONE]):
        if state.budget_free[net.pipes[use]] < net.weight[use]:
            state.link_status[link] = BLOCKED
            return False
    return True


@compiled_in_place
def occupy_link(state: NetworkState, net: NetworkArrays, link: Any) -> None:
    """Make a link busy, and take its share of its budgets."""
    state.link_status[link] = BUSY
    for use in range(net.pipes_first[link], net.pipes_first[link + ONE]):
        state.budget_free[net.pipes[use]] -= net.weight[use]


@compiled
def start_sends(state: NetworkState, net: NetworkArrays, chosen: UInt64Array) -> None:
    """Append the chosen transfers to the log and to the queues of their kinds.

    Args:
        state: The state to change.
        net: The machine.
        chosen: Pairs of a link and a chunk. A link number that does not exist ends the list.
    """
    after, heads, now = state.after, state.queue_heads, state.now[0]
    when, links, chunks, remaining = state.when, state.link, state.chunk, state.remaining
    kinds = net.kind
    index = 0
    while chosen[index] < len(kinds):
        link, transfer = chosen[index], remaining[1]
        when[transfer], links[transfer], chunks[transfer] = now, link, chosen[index + 1]
        remaining[1] = transfer + ONE
        first_head = kinds[link] * np.uint64(HEADS_PER_KIND)
        tail = first_head + np.uint64(HEADS_PER_KIND - 1)
        if heads[tail]:
            after[heads[tail] - ONE] = transfer + ONE
        heads[tail] = transfer + ONE
        for head in range(first_head, tail):
            if not heads[head]:
                heads[head] = transfer + ONE
        index += 2


@compiled
def _event_delay(net: NetworkArrays, kind: Any, head: Any) -> Any:
    if head == 0:
        return net.busy[kind]
    return net.busy[kind] + net.lag[kind] if head == 1 else net.hold[kind]


@compiled
def _next_tick(state: NetworkState, net: NetworkArrays) -> int:
    heads, when = state.queue_heads, state.when
    soonest = INFINITE
    for kind in range(len(net.busy)):
        for head in range(HEADS_PER_KIND - 1):
            transfer = heads[HEADS_PER_KIND * kind + head]
            if transfer:
                soonest = min(soonest, when[transfer - ONE] + _event_delay(net, kind, head))
    return soonest


@compiled
def wake_links(
    links: UInt64Array, status: int, state: NetworkState, queues: UInt64Array, span: tuple[Any, Any]
) -> None:
    """Make those links ready that have a given status.

    Args:
        links: Links.
        status: :data:`IDLE` or :data:`BLOCKED`.
        state: The state to change.
        queues: Kind and turn of each link.
        span: The range of indices in ``links``.
    """
    link_status, ready = state.link_status, state.ready
    ready_first, ready_count = state.ready_first, state.ready_count
    for index in range(span[0], span[1]):
        link = links[index]
        if link_status[link] == status:
            queue = queues[link]
            ready[ready_first[queue] + ready_count[queue]] = link
            ready_count[queue] += ONE
            link_status[link] = READY


@compiled
def _release_budgets(state: NetworkState, net: NetworkArrays, link: Any) -> None:
    """Release a link's share of its budgets, and make the links ready that wait for it."""
    for index in range(net.pipes_first[link], net.pipes_first[link + ONE]):
        budget = net.pipes[index]
        state.budget_free[budget] += net.weight[index]
        span = (net.members_first[budget], net.members_first[budget + ONE])
        wake_links(net.members, BLOCKED, state, net.queue, span)


@compiled
def _drop_limit(state: NetworkState, net: NetworkArrays) -> None:
    """Remove the limit, and make idle links ready, which may have waited because of it."""
    state.limit[0] = INFINITE
    links = np.arange(len(net.src)).astype(np.uint64)
    wake_links(links, IDLE, state, net.queue, (ZERO, np.uint64(len(links))))


@compiled
def advance_time(state: NetworkState, net: NetworkArrays, arrived: UInt64Array) -> bool:
    """Advance to the tick of the next event. Return whether there is one.

    Links and budgets become free, and links that wait for them become ready. If the next event is
    after the limit, only the limit is removed, and time does not advance.

    Args:
        state: The state to change.
        net: The machine.
        arrived: Output: pairs of a link and the chunk that arrives over it. A link number that does
            not exist ends the list.
    """
    now = _next_tick(state, net)
    if now > state.limit[0]:
        _drop_limit(state, net)
        arrived[0] = np.uint64(len(net.kind))
        return True
    state.now[0] = now
    link_status, heads, when = state.link_status, state.queue_heads, state.when
    links, chunks, after = state.link, state.chunk, state.after
    kinds, freed_link, index = net.kind, np.zeros(1, dtype=np.uint64), 0
    for kind in range(len(net.busy) if now < INFINITE else 0):
        for head in range(HEADS_PER_KIND - 1):
            delay, transfer = _event_delay(net, kind, head), heads[HEADS_PER_KIND * kind + head]
            while transfer and when[transfer - ONE] + delay == now:
                link = np.uint64(links[transfer - ONE])
                if head == 0:
                    link_status[link], freed_link[0] = IDLE, link
                    wake_links(freed_link, IDLE, state, net.queue, (ZERO, ONE))
                elif head == 1:
                    arrived[index], arrived[index + 1] = link, chunks[transfer - ONE]
                    index += 2
                else:
                    _release_budgets(state, net, link)
                transfer = after[transfer - ONE]
            heads[HEADS_PER_KIND * kind + head] = transfer
        if not heads[HEADS_PER_KIND * kind + 1]:
            heads[HEADS_PER_KIND * kind + HEADS_PER_KIND - 1] = ZERO
    arrived[index] = np.uint64(len(kinds))
    return bool(now < INFINITE)


class PartialSchedule(NamedTuple):
    """The starting point of a matching.

    Attributes:
        sends: Transfers that start before ``tick``, by their start.
        tick: The tick from which the matching continues.
        limit: See :class:`NetworkState`.
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
    if not count:
        return
    traffic.when[:count], traffic.link[:count] = kept.start, link
    traffic.chunk[:count] = position[kept.chunk]
    for number in range(len(net.busy)):
        _chain_queue(traffic, net, number, np.flatnonzero(kind == number), tick)
    busy = link[kept.start + net.busy[kind] > tick]
    traffic.link_status[busy] = BUSY
    is_busy = traffic.link_status[traffic.ready] == BUSY
    queue = net.queue[traffic.ready].astype(np.int64)
    traffic.ready[:] = traffic.ready[np.lexsort((is_busy, queue))]  # within a queue, busy ones last
    traffic.ready_count[:] = np.bincount(queue[~is_busy], minlength=len(traffic.ready_count))
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
