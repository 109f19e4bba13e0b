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
from sccl.synth.network.groups import Count, Ticks
from sccl.synth.network.machine import Net
from sccl.synth.tacos.bits import ONE, ZERO, Words, random_state

TWO = np.uint64(2)
NEVER = 2**62

HEADS = 4
"""Number of heads of each kind, in ``Traffic.heads``."""

BUSY, IDLE, READY, HELD = 0, 1, 2, 3
"""States of a link. An idle link wakes at an arrival at its source, a held one when its budget has
room. A ready one is about to choose.
"""


class Traffic(NamedTuple):
    """The state of all links, and the transfers so far, which count from 1.

    Attributes:
        idle: of each link: :data:`BUSY`, :data:`IDLE`, :data:`READY` or :data:`HELD`.
        ready: links that are to choose, by kind and turn.
        ready_first: of each kind and turn: where its part of ``ready`` begins.
        ready_count: likewise: how many there are.
        room: of each budget: how much of it is not in use.
        random: the state of the generator.
        left: how many chunks have still to come to where they are wanted. How many transfers began.
        now: the tick.
        limit: the tick after which nothing is to arrive over a link, where cheaper ones lead to the
            same rank; :data:`NEVER`: there is none.
        when: of each transfer: the tick at which it begins.
        link: its link.
        chunk: its chunk.
        after: the next of its kind. 0: none.
        heads: of each kind: the next whose link becomes free. The next that arrives. The next that
            gives back what it takes of budgets. The last.
    """

    idle: NDArray[np.uint8]
    ready: Count
    ready_first: Count
    ready_count: Count
    room: Ticks
    random: Words
    left: Count
    now: Ticks
    limit: Ticks
    when: Ticks
    link: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    after: Count
    heads: Count

    def with_room_for(self, sends: int) -> Traffic:
        """Return it with a log in which so many transfers have room."""
        more = max(sends - len(self.when), 0)
        logs = {n: getattr(self, n) for n in ("when", "link", "chunk", "after")}
        return self._replace(**{n: np.r_[a, np.zeros(more, a.dtype)] for n, a in logs.items()})


def traffic_of(net: Net, seed: int, left: int, sends: int) -> Traffic:
    """Return the state before anything has begun: all links are to choose.

    Args:
        left: chunks that have to come to where they are wanted.
        sends: transfers that the log has room for.
    """
    queue = net.queue.astype(np.int64)
    sizes = np.bincount(queue, minlength=len(net.busy) * net.turns)
    return Traffic(
        idle=np.full(len(net.src), READY, dtype=np.uint8),
        ready=np.argsort(queue, kind="stable").astype(np.uint64),
        ready_first=np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64),
        ready_count=sizes.astype(np.uint64),
        room=net.room.copy(),
        random=random_state(seed),
        left=np.array([left, 0], dtype=np.uint64),
        now=np.zeros(1, dtype=np.int64),
        limit=np.full(1, NEVER, dtype=np.int64),
        when=np.zeros(sends, dtype=np.int64),
        link=np.zeros(sends, dtype=np.uint32),
        chunk=np.zeros(sends, dtype=np.uint32),
        after=np.zeros(sends, dtype=np.uint64),
        heads=np.zeros(HEADS * len(net.busy), dtype=np.uint64),
    )


@compiled
def begin(state: Traffic, net: Net, chosen: Count) -> None:
    """Begin the transfers that were chosen."""
    after, heads, now = state.after, state.heads, state.now[0]
    when, links, chunks, left = state.when, state.link, state.chunk, state.left
    kinds = net.kind
    amount = 0
    while chosen[amount] < len(kinds):
        link, at = chosen[amount], left[1]
        when[at], links[at], chunks[at] = now, link, chosen[amount + 1]
        left[1] = at + ONE
        place = kinds[link] * np.uint64(HEADS)
        last = place + np.uint64(HEADS - 1)
        if heads[last]:
            after[heads[last] - ONE] = at + ONE
        heads[last] = at + ONE
        for head in range(place, last):
            if not heads[head]:
                heads[head] = at + ONE
        amount += 2


@compiled
def _ends(net: Net, kind: Any, head: Any) -> Any:
    """Return the delay from a transfer's begin to the event of a head."""
    if head == 0:
        return net.busy[kind]
    return net.busy[kind] + net.lag[kind] if head == 1 else net.hold[kind]


@compiled
def _next(state: Traffic, net: Net) -> int:
    """Return the tick at which something happens next."""
    heads, when = state.heads, state.when
    soonest = NEVER
    for kind in range(len(net.busy)):
        for head in range(HEADS - 1):
            at = heads[HEADS * kind + head]
            if at:
                soonest = min(soonest, when[at - ONE] + _ends(net, kind, head))
    return soonest


@compiled
def wake(links: Count, which: int, state: Traffic, queues: Count, span: tuple[Any, Any]) -> None:
    """Make ready those of some links that wait for ``which``.

    Args:
        span: from where to where in ``links``.
    """
    idle, ready, ready_first, ready_count = (
        state.idle,
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
def _free(state: Traffic, net: Net, link: Any) -> None:
    """Return a link's share of its budgets, and wake links that wait for it."""
    for place in range(net.pipes_first[link], net.pipes_first[link + ONE]):
        budget = net.pipes[place]
        state.room[budget] += net.weight[place]
        span = (net.members_first[budget], net.members_first[budget + ONE])
        wake(net.members, HELD, state, net.queue, span)


@compiled
def _relent(state: Traffic, net: Net) -> None:
    """Forget the limit, and wake the links that may have kept to it."""
    state.limit[0] = NEVER
    links = np.arange(len(net.src)).astype(np.uint64)
    wake(links, IDLE, state, net.queue, (ZERO, np.uint64(len(links))))


@compiled
def advance(state: Traffic, net: Net, arrived: Count) -> bool:
    """Advance to the tick of the next event. Return whether there is one.

    Links and budgets become free, and those that wait for them are ready. If the tick is after the
    limit, the limit is removed first, at this tick.

    Args:
        arrived: receives the links with arrivals, each with its chunk.
    """
    now = _next(state, net)
    if now > state.limit[0]:
        _relent(state, net)
        arrived[0] = np.uint64(len(net.kind))
        return True
    state.now[0] = now
    idle, heads, when = state.idle, state.heads, state.when
    links, chunks, after = state.link, state.chunk, state.after
    kinds, one, amount = net.kind, np.zeros(1, dtype=np.uint64), 0
    for kind in range(len(net.busy) if now < NEVER else 0):
        for head in range(HEADS - 1):
            ends, at = _ends(net, kind, head), heads[HEADS * kind + head]
            while at and when[at - ONE] + ends == now:
                link = np.uint64(links[at - ONE])
                if head == 0:
                    idle[link], one[0] = IDLE, link
                    wake(one, IDLE, state, net.queue, (ZERO, ONE))
                elif head == 1:
                    arrived[amount], arrived[amount + 1] = link, chunks[at - ONE]
                    amount += 2
                else:
                    _free(state, net, link)
                at = after[at - ONE]
            heads[HEADS * kind + head] = at
        if not heads[HEADS * kind + 1]:
            heads[HEADS * kind + HEADS - 1] = ZERO
    arrived[amount] = np.uint64(len(kinds))
    return bool(now < NEVER)
