"""Links that cost unlike, or are held by budgets: whatever is free when something arrives goes on.

Source: TACOS (MICRO 2024) section IV-F: cheaper links choose first. Time goes from event to event.
Transfers over links of one cost end in the order in which they began, so the log itself is a queue
for each cost, with one head for links that become free and one for chunks that arrive.

What a link takes, the first that there is: a chunk that nobody near its destination has, who are
those from whom cheaper links lead there; one that no cheaper in-neighbour has; any other, unless
cheaper links bring all that is missing sooner. Of four such the one that fewest hold. (Any at
random comes to 67 to 92 % of the bound only; see the table in the documents.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.sim.compiled import compiled
from sccl.synth.tacos.bits import ALL, IN_WORD, ONE, TO_WORD, WIDTH, ZERO, Words, below, bit, lowest
from sccl.synth.tacos.budgets import Count, Ticks
from sccl.synth.tacos.machine import Net

TWO = np.uint64(2)

SAMPLE = 4
"""Chunks that a link chooses among."""

NEVER = 2**62

NEAR, NEIGHBOURS, ANY = 0, 1, 2
"""The tiers of what a link may take, as above."""

BUSY, IDLE, READY, HELD = 0, 1, 2, 3
"""A link that is idle wakes when something arrives at its source, one that is held when its budget
has room; what is ready is about to choose."""


class Events(NamedTuple):
    """A matching under way. Chunks go by places, which have nothing to do with their numbers.

    Attributes:
        have: a row of bits per node: the chunks that it holds.
        got: likewise: those that it holds or is being sent, and those that it does not want.
        crossed: a row of bits per group of ``Net.near``: those that one of its nodes has got.
        missing: of each node: how many chunks it wants and has not got.
        holders: of each chunk: how many nodes have got it.
        idle: of each link: :data:`BUSY`, :data:`IDLE`, :data:`READY` or :data:`HELD`.
        ready: links that are to choose, by kind.
        ready_first: of each kind: where its part of ``ready`` begins.
        ready_count: of each kind: how many there are.
        room: of each budget: how much of it is not in use.
        random: the state of the generator.
        left: how many chunks have still to arrive; how many transfers were logged.
        now: the tick.
        when: of each transfer: the tick at which it begins.
        link: its link.
        chunk: its chunk.
        after: the next of its kind; 0: none. Transfers count from 1.
        heads: of each kind: the next whose link becomes free; the next that arrives; the last.
    """

    have: Words
    got: Words
    crossed: Words
    missing: Count
    holders: NDArray[np.uint32]
    idle: NDArray[np.uint8]
    ready: Count
    ready_first: Count
    ready_count: Count
    room: Ticks
    random: Words
    left: Count
    now: Ticks
    when: Ticks
    link: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    after: Count
    heads: Count


@compiled
def _no_cheaper(found: Any, got: Words, net: Net, link: Any, word: Any) -> Any:
    """Return the candidates of a word that no cheaper in-neighbour has got."""
    words = np.uint64(len(got)) // np.uint64(len(net.in_first) - 1)
    node = net.dst[link]
    for place in range(net.in_first[node], net.in_first[node + ONE]):
        other = net.into[place]
        if net.kind[other] >= net.kind[link]:
            break
        found &= ~got[net.src[other] * words + word]
    return found


@compiled
def _choose(state: Events, net: Net, chosen: Count) -> None:  # noqa: PLR0912, PLR0915
    """Let every link that is ready choose, the cheaper before the dearer, else at random.

    (One long function: handing the state on for every link takes several times as long as this.)

    Args:
        chosen: becomes the links that begin, each with its chunk.
    """
    have, got, crossed, holders = state.have, state.got, state.crossed, state.holders
    missing, idle, room, random = state.missing, state.idle, state.room, state.random
    ready, ready_first, ready_count = state.ready, state.ready_first, state.ready_count
    srcs, dsts, soon, near = net.src, net.dst, net.soon, net.near
    pipes_first, pipes, weight = net.pipes_first, net.pipes, net.weight
    chunks, nodes = np.uint64(len(holders)), np.uint64(len(missing))
    words, amount = (chunks + IN_WORD) >> TO_WORD, 0
    for kind in range(len(net.busy)):
        level = net.level[kind]
        while ready_count[kind]:
            place = ready_first[kind] + below(random, ready_count[kind])
            link = ready[place]
            ready_count[kind] -= ONE
            ready[place] = ready[ready_first[kind] + ready_count[kind]]
            idle[link] = IDLE
            node = dsts[link]
            if not missing[node]:
                continue
            for at in range(pipes_first[link], pipes_first[link + ONE]):
                if room[pipes[at]] < weight[at]:
                    idle[link] = HELD
            if idle[link] == HELD:
                continue
            theirs, mine, group = srcs[link] * words, node * words, near[level * nodes + node]
            best, tier = ZERO, NEAR if level else ANY
            while not best and tier <= ANY:
                if tier == NEIGHBOURS and soon[link] >= missing[node]:
                    break
                start = below(random, chunks)
                word, mask, seen = start >> TO_WORD, ALL << (start & IN_WORD), 0
                for _ in range(words + ONE):
                    found = have[theirs + word] & ~got[mine + word] & mask
                    if found and tier == NEAR:
                        found &= ~crossed[group * words + word]
                    elif found and tier == NEIGHBOURS:
                        found = _no_cheaper(found, got, net, link, word)
                    while found and seen < SAMPLE:
                        chunk = word * WIDTH + lowest(found)
                        if not best or holders[chunk] < holders[best - ONE]:
                            best = chunk + ONE
                        found &= found - ONE
                        seen += 1
                    if seen == SAMPLE:
                        break
                    mask = ALL
                    word = word + ONE if word + ONE < words else ZERO
                tier += 1
            if not best:
                continue
            chunk = best - ONE
            got[mine + (chunk >> TO_WORD)] |= bit(chunk)
            for row in range(nodes + node, np.uint64(len(near)), nodes):
                crossed[near[row] * words + (chunk >> TO_WORD)] |= bit(chunk)
            missing[node] -= ONE
            holders[chunk] += np.uint32(1)
            idle[link] = BUSY
            for at in range(pipes_first[link], pipes_first[link + ONE]):
                room[pipes[at]] -= weight[at]
            chosen[amount], chosen[amount + 1] = link, chunk
            amount += 2
    chosen[amount] = np.uint64(len(dsts))


@compiled
def _begin(state: Events, net: Net, chosen: Count) -> None:
    """Begin the transfers that were chosen."""
    after, heads, now = state.after, state.heads, state.now[0]
    when, links, chunks, left = state.when, state.link, state.chunk, state.left
    kinds = net.kind
    amount = 0
    while chosen[amount] < len(kinds):
        link, at = chosen[amount], left[1]
        when[at], links[at], chunks[at] = now, link, chosen[amount + 1]
        left[1] = at + ONE
        place = kinds[link] * np.uint64(3)
        if heads[place + TWO]:
            after[heads[place + TWO] - ONE] = at + ONE
        heads[place + TWO] = at + ONE
        if not heads[place]:
            heads[place] = at + ONE
        if not heads[place + ONE]:
            heads[place + ONE] = at + ONE
        amount += 2


@compiled
def _next(state: Events, net: Net) -> int:
    """Return the tick at which something happens next."""
    heads, when, busy, lag = state.heads, state.when, net.busy, net.lag
    soonest = NEVER
    for kind in range(len(busy)):
        for head in range(2):
            at = heads[3 * kind + head]
            if at:
                soonest = min(soonest, when[at - ONE] + busy[kind] + head * lag[kind])
    return soonest


@compiled
def _wake(links: Count, which: int, state: Events, kinds: Count, span: tuple[Any, Any]) -> None:
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
            kind = kinds[link]
            ready[ready_first[kind] + ready_count[kind]] = link
            ready_count[kind] += ONE
            idle[link] = READY


@compiled
def _happen(state: Events, net: Net) -> None:
    """Let chunks arrive, links and budgets become free, and wake what may have more to offer."""
    now, words = state.now[0], (np.uint64(len(state.holders)) + IN_WORD) >> TO_WORD
    have, idle, left, heads = state.have, state.idle, state.left, state.heads
    when, links, chunks, after = state.when, state.link, state.chunk, state.after
    dsts, out_first, out, kinds = net.dst, net.out_first, net.out, net.kind
    members_first, members, pipes_first = net.members_first, net.members, net.pipes_first
    one = np.zeros(1, dtype=np.uint64)
    for kind in range(len(net.busy)):
        for head in range(2):
            ends, at = net.busy[kind] + head * net.lag[kind], heads[3 * kind + head]
            while at and when[at - ONE] + ends == now:
                link, chunk = np.uint64(links[at - ONE]), np.uint64(chunks[at - ONE])
                if head == 0:
                    idle[link], one[0] = IDLE, link
                    _wake(one, IDLE, state, kinds, (ZERO, ONE))
                else:
                    node = dsts[link]
                    have[node * words + (chunk >> TO_WORD)] |= bit(chunk)
                    left[0] -= ONE
                    _wake(out, IDLE, state, kinds, (out_first[node], out_first[node + ONE]))
                if head == net.release:
                    for place in range(pipes_first[link], pipes_first[link + ONE]):
                        budget = net.pipes[place]
                        state.room[budget] += net.weight[place]
                        span = (members_first[budget], members_first[budget + ONE])
                        _wake(members, HELD, state, kinds, span)
                at = after[at - ONE]
            heads[3 * kind + head] = at
        if not heads[3 * kind + 1]:
            heads[3 * kind + 2] = ZERO


@compiled
def go_on(state: Events, net: Net, most: Any) -> bool:
    """Let things happen until all is done, or ``most`` transfers began; return whether all is done.

    It is not, either, where nothing more can happen.
    """
    chosen = np.empty(2 * len(net.src) + 1, dtype=np.uint64)
    end = state.left[1] + most
    while state.left[0] and state.left[1] < end:
        _choose(state, net, chosen)
        _begin(state, net, chosen)
        state.now[0] = _next(state, net)
        if state.now[0] == NEVER:
            return False
        _happen(state, net)
    return bool(state.left[0] == ZERO)
