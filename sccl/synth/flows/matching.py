"""Match ports in compiled loops, tick after tick, and select a chunk for each pair.

A path occupies the port that it leaves and the port that it enters. Each tick uses a maximum
matching of useful ports, those with the most remaining input first (Kuhn's augmenting paths,
breadth first). A pair first sends chunks that could otherwise not reach other groups, then the
chunks that the fewest ranks of its group have.

Chunks are bits of words: chunk c is bit ``c % 64`` of word ``c // 64``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest

Whole = NDArray[np.int64]
Words = NDArray[np.uint64]

TICK, SENDS, LEFT, FLYING, LOOKS = range(5)
"""Indices of counters: the tick, sends so far, remaining sends, sends in flight, and words
examined.
"""

ONE = np.uint64(1)
NEVER = 1 << 60

_WAY = 32
"""Words, as which looking at a way counts beside those that it looks at."""


class PortWays(NamedTuple):
    """Paths, by kind and then by the port that they enter.

    Attributes:
        first: First path of each kind, and the total. Slower kinds come first.
        into: Port that a path enters.
        out: Port that it leaves.
        src: Source rank.
        dst: Destination rank.
        busy: Ticks for which it occupies its ports.
        cost: Ticks until the chunk arrives.
    """

    first: Whole
    into: Whole
    out: Whole
    src: Whole
    dst: Whole
    busy: Whole
    cost: Whole


class Holdings(NamedTuple):
    """The chunks that ranks have, and the chunks that they still need.

    Attributes:
        group: Group of each rank.
        gate: Whether a path leads from the rank to another group.
        held: By rank: chunks that it has.
        coming: By rank: chunks that it has, or that are in flight to it.
        wanted: By rank: chunks that it needs.
        few: By group and number: chunks that this many ranks of the group have or expect.
        stuck: By group: chunks that are there, at no gate, and not yet in all groups.
        alone: By group: chunks that exactly one of its ranks has.
        have: By group and chunk: number of ranks that have it.
        came: By group and chunk: tick of the first arrival.
        many: By group and chunk: number of ranks that have or expect it.
        gates: By group and chunk: number of gates that have or expect it.
        reached: By chunk: number of groups that have it.
        missing: By rank: number of chunks.
    """

    group: Whole
    gate: Whole
    held: Words
    coming: Words
    wanted: Words
    few: Words
    stuck: Words
    alone: Words
    have: Whole
    came: Whole
    many: Whole
    gates: Whole
    reached: Whole
    missing: Whole


class OnTheWay(NamedTuple):
    """The sends in flight.

    Attributes:
        into_free: By port: first tick at which it can receive.
        out_free: By port: first tick at which it can send.
        head: By tick, cyclic: last send that arrives then. -1: none.
        then: By send: previous send with the same tick of arrival.
        rows: By send: tick, chunk, and path.
        now: Counters, see :data:`TICK`.
    """

    into_free: Whole
    out_free: Whole
    head: Whole
    then: Whole
    rows: Whole
    now: Whole


@compiled
def _first_of(have: Words, coming: Words, wanted: Words, of: Words, turn: int) -> int:
    """Return a chunk of some that a rank may be sent, looking from a word on. -1: there is none."""
    words = len(have)
    for a in range(words):
        i = (a + turn) % words
        fits = have[i] & ~coming[i] & wanted[i] & of[i]
        if fits:
            return i * 64 + int(lowest(fits))
    return -1


@compiled
def _alone_of(u: int, v: int, all_: Holdings) -> int:
    """Return a chunk for a rank that only the sender has in its group. -1: none.

    The latest arrival comes first, because other ranks may lack the time to forward it. Ties go to
    the chunk that the fewest ranks of the group expect.
    """
    best, g = -1, all_.group[v]
    for i in range(all_.held.shape[1]):
        fits = all_.held[u, i] & all_.alone[g, i] & ~all_.coming[v, i] & all_.wanted[v, i]
        while fits:
            chunk = i * 64 + int(lowest(fits))
            fits &= fits - ONE
            later = 1 if best < 0 else all_.came[g, chunk] - all_.came[g, best]
            if later > 0 or (later == 0 and all_.many[g, chunk] < all_.many[g, best]):
                best = chunk
    return best


@compiled
def _to_other_group(u: int, v: int, all_: Holdings) -> int:
    """Return a chunk that a rank's group lacks and the fewest gates of the other one have; -1."""
    best, least, group = -1, NEVER, all_.group[u]
    lacking = all_.few[all_.group[v], 0]
    for i in range(all_.held.shape[1]):
        fits = all_.held[u, i] & ~all_.coming[v, i] & all_.wanted[v, i] & lacking[i]
        while fits:
            chunk = i * 64 + int(lowest(fits))
            fits &= fits - ONE
            if all_.gates[group, chunk] < least:
                best, least = chunk, all_.gates[group, chunk]
    return best


@compiled
def _choose(u: int, v: int, all_: Holdings, tick: int, spare: int) -> tuple[int, int]:
    """Return the chunk that a rank sends to another, and its urgency, most urgent lowest. -1: none.

    Args:
        spare: Whether a chunk may go to another group that has it already. 0: no.
    """
    have, coming, wanted = all_.held[u], all_.coming[v], all_.wanted[v]
    g, turn = all_.group[v], v * 3 + tick
    if all_.group[u] != g:
        chunk = _to_other_group(u, v, all_)
        if chunk >= 0 or not spare:
            return chunk, 0
    elif all_.gate[v]:
        chunk = _first_of(have, coming, wanted, all_.stuck[g], turn)
        if chunk >= 0:
            return chunk, 0
    if all_.group[u] == g:
        chunk = _alone_of(u, v, all_)
        if chunk >= 0:
            return chunk, all_.many[g, chunk]
    most = all_.few.shape[1]
    for number in range(1, most):
        chunk = _first_of(have, coming, wanted, all_.few[g, number], turn)
        if chunk >= 0:
            return chunk, most + number
    return -1, 0


@compiled
def _send(way: int, chunk: int, ways: PortWays, all_: Holdings, sent: OnTheWay) -> None:
    """Send a chunk at this tick."""
    now, v = sent.now, ways.dst[way]
    g, n, word, bit = all_.group[v], now[SENDS], chunk >> 6, ONE << np.uint64(chunk & 63)
    sent.rows[n, 0], sent.rows[n, 1], sent.rows[n, 2] = now[TICK], chunk, way
    there = (now[TICK] + ways.cost[way]) % len(sent.head)
    sent.then[n] = sent.head[there]
    sent.head[there] = n
    now[SENDS] += 1
    now[FLYING] += 1
    now[LEFT] -= 1
    sent.into_free[ways.into[way]] = now[TICK] + ways.busy[way]
    sent.out_free[ways.out[way]] = now[TICK] + ways.busy[way]
    all_.coming[v, word] |= bit
    all_.missing[v] -= 1
    all_.few[g, all_.many[g, chunk], word] &= ~bit
    all_.many[g, chunk] += 1
    all_.few[g, all_.many[g, chunk], word] |= bit
    if all_.many[g, chunk] == 1:
        all_.reached[chunk] += 1
        if not all_.gate[v]:
            all_.stuck[g, word] |= bit
        if all_.reached[chunk] == len(all_.stuck):
            for h in range(len(all_.stuck)):
                all_.stuck[h, word] &= ~bit
    if all_.gate[v]:
        all_.gates[g, chunk] += 1
        all_.stuck[g, word] &= ~bit


@compiled
def _arrive(ways: PortWays, all_: Holdings, sent: OnTheWay) -> None:
    """Process the arrivals of this tick."""
    at = sent.now[TICK] % len(sent.head)
    one = sent.head[at]
    while one >= 0:
        chunk, v = sent.rows[one, 1], ways.dst[sent.rows[one, 2]]
        g, word, bit = all_.group[v], chunk >> 6, ONE << np.uint64(chunk & 63)
        all_.have[g, chunk] += 1
        if all_.have[g, chunk] == 1:
            all_.alone[g, word] |= bit
            all_.came[g, chunk] = sent.now[TICK]
        else:
            all_.alone[g, word] &= ~bit
        all_.held[v, word] |= bit
        sent.now[FLYING] -= 1
        one = sent.then[one]
    sent.head[at] = -1


@compiled
def _augment(  # noqa: PLR0913, PLR0917 - what is matched, and what is needed to look for more
    root: int,
    ways: PortWays,
    begin: Whole,
    end: Whole,
    urgent: Whole,
    by_into: Whole,
    by_out: Whole,
    seen: Whole,
    queue: Whole,
    mark: int,
) -> None:
    """Extend the matching by an augmenting path from one receiving port, if there is one.

    Args:
        begin: By receiving port: its first path.
        end: By receiving port: end of its paths (exclusive).
        urgent: By path. -1: it sends nothing.
        by_into: By receiving port: its path. -1: none. Updated, like ``by_out``.
        seen: For each sending port: mark of the search, and the path that reached it.
        queue: Work space.
    """
    queue[0], at, many = root, 0, 1
    while at < many:
        port = queue[at]
        at += 1
        while True:
            best, least = -1, NEVER
            for way in range(begin[port], end[port]):
                if 0 <= urgent[way] < least and seen[ways.out[way], 0] != mark:
                    best, least = way, urgent[way]
            if best < 0:
                break
            out = ways.out[best]
            seen[out, 0], seen[out, 1] = mark, best
            if by_out[out] < 0:
                while True:  # each port on the way back takes the way it was found by
                    port = ways.into[best]
                    before = by_into[port]
                    by_into[port] = by_out[ways.out[best]] = best
                    if port == root:
                        return
                    best = seen[ways.out[before], 1]
            queue[many] = ways.into[by_out[out]]
            many += 1


@compiled
def _match(kind: int, ways: PortWays, all_: Holdings, sent: OnTheWay, spare_until: int) -> None:
    """Send at this tick over paths of one kind, with as many ports as possible."""
    ports, tick, last = len(sent.into_free), sent.now[TICK], ways.first[kind + 1]
    begin, end = np.zeros(ports, np.int64), np.zeros(ports, np.int64)
    urgent = np.full(len(ways.into), -1)
    able, many, way = np.empty(ports, np.int64), 0, ways.first[kind]
    while way < last:
        port, useful, v = ways.into[way], False, ways.dst[way]
        begin[port] = way
        free = sent.into_free[port] <= tick and all_.missing[v] > 0
        while way < last and ways.into[way] == port:
            if free and sent.out_free[ways.out[way]] <= tick:
                spare = int(tick + ways.cost[way] <= spare_until)
                chunk, least = _choose(ways.src[way], v, all_, tick, spare)
                sent.now[LOOKS] += all_.held.shape[1] * (least + 1) + _WAY
                urgent[way] = least if chunk >= 0 else -1
                useful = useful or chunk >= 0
            way += 1
        end[port] = way
        if useful:
            able[many] = port
            many += 1
    key = np.empty(many, np.int64)
    for i in range(many):
        v = ways.dst[begin[able[i]]]
        key[i] = (v + tick) % len(all_.group) - all_.missing[v] * len(all_.group)
    order = able[:many][np.argsort(key, kind="mergesort")]
    by_into, by_out = np.full(ports, -1), np.full(ports, -1)
    seen, queue = np.full((ports, 2), -1), np.empty(ports, np.int64)
    for i in range(many):
        _augment(order[i], ways, begin, end, urgent, by_into, by_out, seen, queue, i)
    for i in range(many):
        way = by_into[order[i]]
        if way >= 0:  # what was the most urgent may have been sent by another just now
            spare = int(tick + ways.cost[way] <= spare_until)
            chunk, _ = _choose(ways.src[way], ways.dst[way], all_, tick, spare)
            if chunk >= 0:
                _send(way, chunk, ways, all_, sent)


@compiled
def next_tick(tick: int, flying: int, head: Whole, into_free: Whole, out_free: Whole) -> int:
    """Return the next tick at which something arrives, or a port becomes free; NEVER: none."""
    soonest, long = NEVER, len(head)
    for later in range(1, long if flying else 0):
        if head[(tick + later) % long] >= 0:
            soonest = tick + later
            break
    for port in range(len(into_free)):
        for free in (into_free[port], out_free[port]):
            if tick < free < soonest:
                soonest = free
    return soonest


@compiled
def advance(
    ways: PortWays, all_: Holdings, sent: OnTheWay, spare_until: int, most_looks: int
) -> bool:
    """Run until all is sent, or enough words were examined. Return whether the run can continue.

    Args:
        spare_until: Latest tick of arrival for chunks that go to a group that has them already.
    """
    now = sent.now
    while now[LEFT] > 0:
        _arrive(ways, all_, sent)
        for kind in range(len(ways.first) - 1):
            _match(kind, ways, all_, sent, spare_until)
        soonest = next_tick(now[TICK], now[FLYING], sent.head, sent.into_free, sent.out_free)
        if soonest == NEVER:
            return False
        now[TICK] = soonest
        if now[LOOKS] > most_looks:
            return True
    return False
