"""The transfers in progress on links of different costs: when links are free, and arrivals.

Time goes from event to event. Transfers over links of one cost end in the order in which they
began, so the log itself is a queue for each cost, with one head for links that become free, one for
chunks that arrive and one for budgets that have room again. With few costs this is faster than a
heap of all links.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.tacos.bitsets import ONE, ZERO, random_state

TWO = np.uint64(2)
NO_LIMIT = 2**62

HEADS_PER_KIND = 4
"""Number of heads of each kind, in ``Traffic.heads``."""

BUSY, IDLE, READY, BLOCKED = 0, 1, 2, 3
"""States of a link. An idle link wakes at an arrival at its source, a held one when its budget has
room. A ready one is about to choose.
"""


class NetworkState(NamedTuple):
    """The state of all links, and the transfers so far, which count from 1.

    Attributes:
        link_status: of each link: :data:`BUSY`, :data:`IDLE`, :data:`READY` or :data:`BLOCKED`.
        ready: links that are to choose, by kind and turn.
        ready_first: of each kind and turn: where its part of ``ready`` begins.
        ready_count: likewise: how many there are.
        budget_room: of each budget: how much of it is not in use.
        random: the state of the generator.
        remaining: how many chunks have still to come to where they are wanted. How many transfers
            began.
        now: the tick.
        limit: the tick after which nothing is to arrive over a link, where cheaper ones lead to the
            same rank; :data:`NO_LIMIT`: there is none.
        when: of each transfer: the tick at which it begins.
        link: its link.
        chunk: its chunk.
        after: the next of its kind. 0: none.
        queue_heads: of each kind: the next whose link becomes free. The next that arrives. The next
            that
            gives back what it takes of budgets. The last.
    """

    link_status: NDArray[np.uint8]
    ready: UInt64Array
    ready_first: UInt64Array
    ready_count: UInt64Array
    budget_room: IntArray
    random: UInt64Array
    remaining: UInt64Array
    now: IntArray
    limit: IntArray
    when: IntArray
    link: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    after: UInt64Array
    queue_heads: UInt64Array

    def with_log_capacity(self, sends: int) -> NetworkState:
        """Return it with a log in which so many transfers have room."""
        more = max(sends - len(self.when), 0)
        logs = {n: getattr(self, n) for n in ("when", "link", "chunk", "after")}
        return self._replace(**{n: np.r_[a, np.zeros(more, a.dtype)] for n, a in logs.items()})


def initial_state(net: NetworkArrays, seed: int, left: int, sends: int) -> NetworkState:
    """Return the state before anything has begun: all links are to choose.

    Args:
        left: chunks that have to come to where they are wanted.
        sends: transfers that the log has room for.
    """
    queue = net.queue.astype(np.int64)
    sizes = np.bincount(queue, minlength=len(net.busy) * net.turns)
    return NetworkState(
        link_status=np.full(len(net.src), READY, dtype=np.uint8),
        ready=np.argsort(queue, kind="stable").astype(np.uint64),
        ready_first=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64),
        ready_count=sizes.astype(np.uint64),
        budget_room=net.room.copy(),
        random=random_state(seed),
        remaining=np.array([left, 0], dtype=np.uint64),
        now=np.zeros(1, dtype=np.int64),
        limit=np.full(1, NO_LIMIT, dtype=np.int64),
        when=np.zeros(sends, dtype=np.int64),
        link=np.zeros(sends, dtype=np.uint32),
        chunk=np.zeros(sends, dtype=np.uint32),
        after=np.zeros(sends, dtype=np.uint64),
        queue_heads=np.zeros(HEADS_PER_KIND * len(net.busy), dtype=np.uint64),
    )


@compiled
def start_sends(state: NetworkState, net: NetworkArrays, chosen: UInt64Array) -> None:
    """Begin the transfers that were chosen."""
    after, heads, now = state.after, state.queue_heads, state.now[0]
    when, links, chunks, left = state.when, state.link, state.chunk, state.remaining
    kinds = net.kind
    amount = 0
    while chosen[amount] < len(kinds):
        link, at = chosen[amount], left[1]
        when[at], links[at], chunks[at] = now, link, chosen[amount + 1]
        left[1] = at + ONE
        place = kinds[link] * np.uint64(HEADS_PER_KIND)
        last = place + np.uint64(HEADS_PER_KIND - 1)
        if heads[last]:
            after[heads[last] - ONE] = at + ONE
        heads[last] = at + ONE
        for head in range(place, last):
            if not heads[head]:
                heads[head] = at + ONE
        amount += 2


@compiled
def _event_delay(net: NetworkArrays, kind: Any, head: Any) -> Any:
    if head == 0:
        return net.busy[kind]
    return net.busy[kind] + net.lag[kind] if head == 1 else net.hold[kind]


@compiled
def _next_tick(state: NetworkState, net: NetworkArrays) -> int:
    heads, when = state.queue_heads, state.when
    soonest = NO_LIMIT
    for kind in range(len(net.busy)):
        for head in range(HEADS_PER_KIND - 1):
            at = heads[HEADS_PER_KIND * kind + head]
            if at:
                soonest = min(soonest, when[at - ONE] + _event_delay(net, kind, head))
    return soonest


@compiled
def wake_links(
    links: UInt64Array, which: int, state: NetworkState, queues: UInt64Array, span: tuple[Any, Any]
) -> None:
    """Make ready those of some links that wait for ``which``.

    Args:
        span: from where to where in ``links``.
    """
    idle, ready, ready_first, ready_count = (
        state.link_status,
        state.ready,
        state.ready_first,
        state.ready_count,
    )
    for place in range(span[0], span[1]):
        link = links[place]
        if idle[link] == which:
            queue = queues[link]
            ready[ready_first[queue] + ready_count[queue]] = link
            ready_count[queue] += ONE
            idle[link] = READY


@compiled
def _release_budgets(state: NetworkState, net: NetworkArrays, link: Any) -> None:
    """Return a link's share of its budgets, and wake links that wait for it."""
    for place in range(net.pipes_first[link], net.pipes_first[link + ONE]):
        budget = net.pipes[place]
        state.budget_room[budget] += net.weight[place]
        span = (net.members_first[budget], net.members_first[budget + ONE])
        wake_links(net.members, BLOCKED, state, net.queue, span)


@compiled
def _drop_limit(state: NetworkState, net: NetworkArrays) -> None:
    """Forget the limit, and wake the links that may have kept to it."""
    state.limit[0] = NO_LIMIT
    links = np.arange(len(net.src)).astype(np.uint64)
    wake_links(links, IDLE, state, net.queue, (ZERO, np.uint64(len(links))))


@compiled
def advance_time(state: NetworkState, net: NetworkArrays, arrived: UInt64Array) -> bool:
    """Advance to the tick of the next event. Return whether there is one.

    Links and budgets become free, and those that wait for them are ready. If the tick is after the
    limit, the limit is removed first, at this tick.

    Args:
        arrived: receives the links with arrivals, each with its chunk.
    """
    now = _next_tick(state, net)
    if now > state.limit[0]:
        _drop_limit(state, net)
        arrived[0] = np.uint64(len(net.kind))
        return True
    state.now[0] = now
    idle, heads, when = state.link_status, state.queue_heads, state.when
    links, chunks, after = state.link, state.chunk, state.after
    kinds, woken, amount = net.kind, np.zeros(1, dtype=np.uint64), 0
    for kind in range(len(net.busy) if now < NO_LIMIT else 0):
        for head in range(HEADS_PER_KIND - 1):
            ends, at = _event_delay(net, kind, head), heads[HEADS_PER_KIND * kind + head]
            while at and when[at - ONE] + ends == now:
                link = np.uint64(links[at - ONE])
                if head == 0:
                    idle[link], woken[0] = IDLE, link
                    wake_links(woken, IDLE, state, net.queue, (ZERO, ONE))
                elif head == 1:
                    arrived[amount], arrived[amount + 1] = link, chunks[at - ONE]
                    amount += 2
                else:
                    _release_budgets(state, net, link)
                at = after[at - ONE]
            heads[HEADS_PER_KIND * kind + head] = at
        if not heads[HEADS_PER_KIND * kind + 1]:
            heads[HEADS_PER_KIND * kind + HEADS_PER_KIND - 1] = ZERO
    arrived[amount] = np.uint64(len(kinds))
    return bool(now < NO_LIMIT)
