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

from sccl.compiled import compiled, lowest
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.limits import INFINITE

TICK, SENDS, LEFT, FLYING, LOOKS = range(5)
"""Indices of counters: the tick, sends so far, remaining sends, sends in flight, and words
examined.
"""

_ONE = np.uint64(1)

_ROUTE_WORDS = 32
"""Words that count for a route in addition to those that it examines."""


class PortRoutes(NamedTuple):
    """Paths, by kind and then by the port that they enter.

    Attributes:
        first: First path of each kind, and the total. Slower kinds come first.
        in_port: Port that a path enters.
        out_port: Port that it leaves.
        src: Source rank.
        dst: Destination rank.
        busy: Ticks for which it occupies its ports.
        cost: Ticks until the chunk arrives.
    """

    first: IntArray
    in_port: IntArray
    out_port: IntArray
    src: IntArray
    dst: IntArray
    busy: IntArray
    cost: IntArray


class Holdings(NamedTuple):
    """The chunks that ranks have, and the chunks that they still need.

    Attributes:
        group: Group of each rank.
        gate: Whether a path leads from the rank to another group.
        held: Chunks that each rank has.
        coming: Chunks that each rank has, or that are in flight to it.
        wanted: Chunks that each rank needs.
        few: Chunks that a given number of ranks of a group have or expect, by group and number.
        stuck: Chunks of each group that are at none of its gates, and not yet in all groups.
        exclusive: Chunks that exactly one rank of the group has.
        have: Number of ranks that have a chunk, by group and chunk.
        first_arrival: Tick of the first arrival, by group and chunk.
        counts: Number of ranks that have or expect a chunk, by group and chunk.
        gates: Number of gates that have or expect a chunk, by group and chunk.
        reached: Number of groups that have or expect each chunk.
        missing: Number of chunks that each rank still needs.
    """

    group: IntArray
    gate: IntArray
    held: UInt64Array
    coming: UInt64Array
    wanted: UInt64Array
    few: UInt64Array
    stuck: UInt64Array
    exclusive: UInt64Array
    have: IntArray
    first_arrival: IntArray
    counts: IntArray
    gates: IntArray
    reached: IntArray
    missing: IntArray


class InFlight(NamedTuple):
    """The sends in flight.

    Attributes:
        into_free: First tick at which each port can receive.
        out_free: First tick at which each port can send.
        head: Last send that arrives at a tick, cyclic. -1: none.
        then: Previous send with the same tick of arrival as each send.
        rows: Tick, chunk, and path of each send.
        now: Counters, see :data:`TICK`.
    """

    into_free: IntArray
    out_free: IntArray
    head: IntArray
    then: IntArray
    rows: IntArray
    now: IntArray


@compiled
def _first_sendable(
    have: UInt64Array, coming: UInt64Array, wanted: UInt64Array, of: UInt64Array, turn: int
) -> int:
    """Return a chunk of ``of`` that can be sent to a rank, from word ``turn`` on. -1: none."""
    words = len(have)
    for a in range(words):
        i = (a + turn) % words
        fits = have[i] & ~coming[i] & wanted[i] & of[i]
        if fits:
            return i * 64 + int(lowest(fits))
    return -1


@compiled
def _first_exclusive(u: int, v: int, all_: Holdings) -> int:
    """Return a chunk for rank v that only rank u has in its group. -1: none.

    The latest arrival comes first, because other ranks may lack the time to forward it. Ties go to
    the chunk that the fewest ranks of the group expect.
    """
    best, g = -1, all_.group[v]
    for i in range(all_.held.shape[1]):
        fits = all_.held[u, i] & all_.exclusive[g, i] & ~all_.coming[v, i] & all_.wanted[v, i]
        while fits:
            chunk = i * 64 + int(lowest(fits))
            fits &= fits - _ONE
            later = 1 if best < 0 else all_.first_arrival[g, chunk] - all_.first_arrival[g, best]
            if later > 0 or (later == 0 and all_.counts[g, chunk] < all_.counts[g, best]):
                best = chunk
    return best


@compiled
def _rarest_for_group(u: int, v: int, all_: Holdings) -> int:
    """Return a chunk that v's group lacks and the fewest gates of u's group have. -1: none."""
    best, best_count, group = -1, INFINITE, all_.group[u]
    lacking = all_.few[all_.group[v], 0]
    for i in range(all_.held.shape[1]):
        fits = all_.held[u, i] & ~all_.coming[v, i] & all_.wanted[v, i] & lacking[i]
        while fits:
            chunk = i * 64 + int(lowest(fits))
            fits &= fits - _ONE
            if all_.gates[group, chunk] < best_count:
                best, best_count = chunk, all_.gates[group, chunk]
    return best


@compiled
def _choose(u: int, v: int, all_: Holdings, tick: int, spare: int) -> tuple[int, int]:
    """Return the chunk that u sends to v, and its urgency, most urgent lowest. -1: none.

    Args:
        u: Sender.
        v: Receiver.
        all_: Chunks of all ranks.
        tick: The tick.
        spare: Whether a chunk may go to another group that has it already. 0: no.
    """
    have, coming, wanted = all_.held[u], all_.coming[v], all_.wanted[v]
    g, turn = all_.group[v], v * 3 + tick
    if all_.group[u] != g:
        chunk = _rarest_for_group(u, v, all_)
        if chunk >= 0 or not spare:
            return chunk, 0
    elif all_.gate[v]:
        chunk = _first_sendable(have, coming, wanted, all_.stuck[g], turn)
        if chunk >= 0:
            return chunk, 0
    if all_.group[u] == g:
        chunk = _first_exclusive(u, v, all_)
        if chunk >= 0:
            return chunk, all_.counts[g, chunk]
    limit = all_.few.shape[1]
    for number in range(1, limit):
        chunk = _first_sendable(have, coming, wanted, all_.few[g, number], turn)
        if chunk >= 0:
            return chunk, limit + number
    return -1, 0


@compiled
def _send(path: int, chunk: int, paths: PortRoutes, all_: Holdings, sent: InFlight) -> None:
    now, v = sent.now, paths.dst[path]
    g, n, word, bit = all_.group[v], now[SENDS], chunk >> 6, _ONE << np.uint64(chunk & 63)
    sent.rows[n, 0], sent.rows[n, 1], sent.rows[n, 2] = now[TICK], chunk, path
    slot = (now[TICK] + paths.cost[path]) % len(sent.head)
    sent.then[n] = sent.head[slot]
    sent.head[slot] = n
    now[SENDS] += 1
    now[FLYING] += 1
    now[LEFT] -= 1
    sent.into_free[paths.in_port[path]] = now[TICK] + paths.busy[path]
    sent.out_free[paths.out_port[path]] = now[TICK] + paths.busy[path]
    all_.coming[v, word] |= bit
    all_.missing[v] -= 1
    all_.few[g, all_.counts[g, chunk], word] &= ~bit
    all_.counts[g, chunk] += 1
    all_.few[g, all_.counts[g, chunk], word] |= bit
    if all_.counts[g, chunk] == 1:
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
def _arrive(paths: PortRoutes, all_: Holdings, sent: InFlight) -> None:
    at = sent.now[TICK] % len(sent.head)
    row = sent.head[at]
    while row >= 0:
        chunk, v = sent.rows[row, 1], paths.dst[sent.rows[row, 2]]
        g, word, bit = all_.group[v], chunk >> 6, _ONE << np.uint64(chunk & 63)
        all_.have[g, chunk] += 1
        if all_.have[g, chunk] == 1:
            all_.exclusive[g, word] |= bit
            all_.first_arrival[g, chunk] = sent.now[TICK]
        else:
            all_.exclusive[g, word] &= ~bit
        all_.held[v, word] |= bit
        sent.now[FLYING] -= 1
        row = sent.then[row]
    sent.head[at] = -1


@compiled
def _augment(  # noqa: PLR0913, PLR0917 - a matching and its scratch
    root: int,
    paths: PortRoutes,
    begin: IntArray,
    end: IntArray,
    urgent: IntArray,
    by_into: IntArray,
    by_out: IntArray,
    seen: IntArray,
    queue: IntArray,
    mark: int,
) -> None:
    """Extend the matching by an augmenting path from one receiving port, if there is one.

    Args:
        root: The receiving port.
        paths: The paths.
        begin: First path of each receiving port.
        end: End of the paths of each receiving port (exclusive).
        urgent: Urgency of each path. -1: it sends nothing.
        by_into: Path of each receiving port. -1: none. Updated.
        by_out: Path of each sending port. -1: none. Updated.
        seen: Mark of the last search that reached a sending port, and the path that reached it.
        queue: Work space.
        mark: Mark of this search.
    """
    queue[0], at, many = root, 0, 1
    while at < many:
        port = queue[at]
        at += 1
        while True:
            best, best_urgency = -1, INFINITE
            for path in range(begin[port], end[port]):
                if 0 <= urgent[path] < best_urgency and seen[paths.out_port[path], 0] != mark:
                    best, best_urgency = path, urgent[path]
            if best < 0:
                break
            out = paths.out_port[best]
            seen[out, 0], seen[out, 1] = mark, best
            if by_out[out] < 0:
                while True:  # each port on the way back takes the path that reached it
                    port = paths.in_port[best]
                    before = by_into[port]
                    by_into[port] = by_out[paths.out_port[best]] = best
                    if port == root:
                        return
                    best = seen[paths.out_port[before], 1]
            queue[many] = paths.in_port[by_out[out]]
            many += 1


@compiled
def _match(kind: int, paths: PortRoutes, all_: Holdings, sent: InFlight, spare_until: int) -> None:
    """Send at this tick over paths of one kind, with as many ports as possible."""
    ports, tick, last = len(sent.into_free), sent.now[TICK], paths.first[kind + 1]
    begin, end = np.zeros(ports, np.int64), np.zeros(ports, np.int64)
    urgent = np.full(len(paths.in_port), -1)
    able, many, path = np.empty(ports, np.int64), 0, paths.first[kind]
    while path < last:
        port, useful, v = paths.in_port[path], False, paths.dst[path]
        begin[port] = path
        free = sent.into_free[port] <= tick and all_.missing[v] > 0
        while path < last and paths.in_port[path] == port:
            if free and sent.out_free[paths.out_port[path]] <= tick:
                spare = int(tick + paths.cost[path] <= spare_until)
                chunk, urgency = _choose(paths.src[path], v, all_, tick, spare)
                sent.now[LOOKS] += all_.held.shape[1] * (urgency + 1) + _ROUTE_WORDS
                urgent[path] = urgency if chunk >= 0 else -1
                useful = useful or chunk >= 0
            path += 1
        end[port] = path
        if useful:
            able[many] = port
            many += 1
    key = np.empty(many, np.int64)
    for i in range(many):
        v = paths.dst[begin[able[i]]]
        key[i] = (v + tick) % len(all_.group) - all_.missing[v] * len(all_.group)
    order = able[:many][np.argsort(key, kind="mergesort")]
    by_into, by_out = np.full(ports, -1), np.full(ports, -1)
    seen, queue = np.full((ports, 2), -1), np.empty(ports, np.int64)
    for i in range(many):
        _augment(order[i], paths, begin, end, urgent, by_into, by_out, seen, queue, i)
    for i in range(many):
        path = by_into[order[i]]
        if path >= 0:  # another rank may just have sent the most urgent chunk
            spare = int(tick + paths.cost[path] <= spare_until)
            chunk, _ = _choose(paths.src[path], paths.dst[path], all_, tick, spare)
            if chunk >= 0:
                _send(path, chunk, paths, all_, sent)


@compiled
def _next_tick(
    tick: int, flying: int, head: IntArray, into_free: IntArray, out_free: IntArray
) -> int:
    """Return the next tick at which something arrives, or a port becomes free; INFINITE: none."""
    soonest, long = INFINITE, len(head)
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
    paths: PortRoutes, all_: Holdings, sent: InFlight, spare_until: int, most_looks: int
) -> bool:
    """Run until all is sent, or enough words were examined. Return whether the run can continue.

    Args:
        spare_until: Latest tick of arrival for chunks that go to a group that has them already.
    """
    now = sent.now
    while now[LEFT] > 0:
        _arrive(paths, all_, sent)
        for kind in range(len(paths.first) - 1):
            _match(kind, paths, all_, sent, spare_until)
        soonest = _next_tick(now[TICK], now[FLYING], sent.head, sent.into_free, sent.out_free)
        if soonest == INFINITE:
            return False
        now[TICK] = soonest
        if now[LOOKS] > most_looks:
            return True
    return False
