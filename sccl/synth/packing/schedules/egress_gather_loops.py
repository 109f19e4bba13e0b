"""Gather every chunk at its owner in compiled loops, backwards in time.

Each rank has a part of each chunk, and passes it on once, to a rank that still has its own part.
Reversed in time, that is how chunks spread. The hard end of an allgather thus comes first: chunks
that cross to a chassis late and must reach all of it.

A chunk's *gate* in a group sends it to the group of its owner, after all others of the group have
passed on their parts. The *landing* there stores it until then. Chunks are bits of words. Each
group has its own order: chunks that cross earlier come first, and those of the group itself last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, lowest
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.packing.schedules.port_matching_loops import NEVER, ONE, next_tick

TICK, SENT, FLYING, LOOKS = range(4)
"""Indices of counters: the tick, sends so far, sends in flight, and words examined."""

_PAIR_WORDS = 32
"""Words, as which looking at a pair of ranks counts beside those that it looks at."""

_MAX_OPEN_CHUNKS = 3
"""Chunks of which a rank that is no gate gathers parts at a time."""

_LEAST_URGENT = 1 << 30
"""Larger than any number of sends, for keys of urgency."""

_HEAD, _OWN_HEAD, _NEW, _DIRECT = range(4)
"""Urgency of a part, most urgent first: for a gate's next send, for a gathering that a rank began,
for a chunk that nobody gathers yet, and for its owner, fullest first. Other parts come last.
"""


class EgressRoutes(NamedTuple):
    """A machine of groups, with the gates of chunks.

    Attributes:
        group: Group of each rank.
        egress_ranks: By group: its gates. -1: no more.
        number: Index of each rank among its group's gates. -1: it is none.
        cross: By two ranks: whether a path leads from the first to the second in another group.
        place: By group and chunk: the chunk's place in the group's order.
        chunk: By group and place: the chunk.
        owner: Owner of each chunk.
        egress: By group and chunk: gate by which it leaves the group.
        ingress: By group and chunk: rank at which it enters the group of its owner.
        until: By group and place: last tick for ranks other than gate and owner to pass it on.
        durations: Ticks: latency within a group, busy time of a path between groups, its latency,
            and
            the last tick of parts that cross alone.
    """

    group: IntArray
    egress_ranks: IntArray
    number: IntArray
    cross: IntArray
    place: IntArray
    chunk: IntArray
    owner: IntArray
    egress: IntArray
    ingress: IntArray
    until: IntArray
    durations: IntArray


class ChunkParts(NamedTuple):
    """The parts that ranks still have, and the ranks that gather them.

    Attributes:
        sendable: By rank: parts that it could pass on.
        unsent: By rank: parts that it has not passed on.
        withheld: By rank: parts that it must not pass on within its group, or not yet.
        gathers: By gate: chunks that it gathers from all.
        handed: By gate: chunks that one rank of its group gathered for it.
        ready: By gate: chunks that can leave.
        egress_chunks: By gate: all chunks that leave by it.
        owned: By rank: chunks that it owns.
        begun: By rank: chunks that it gathers for a gate.
        new: By group: foreign chunks that nobody gathers yet.
        gathering: By group: chunks that gates gather.
        assigned: By group: chunks that are or were gathered for a gate.
        forwardable: By group: chunks that may still be passed on.
        gatherer: By group and chunk: rank that gathers it for the gate. -1: nobody.
        waits: By rank and chunk: number of parts in flight to it.
        holds: By rank and chunk: number of parts that will land there.
        left: By group and chunk: number of ranks that have their part.
        part_counts: By rank: number of parts that it has.
        missing: By owner: number of parts of its group that have not arrived.
        opened: By rank: number of chunks that it gathers for gates.
        lone_parts: By gate: number of parts that it let cross alone.
        next: By group: first place that may be begun, and first entry of ``order`` not yet passed.
        order: By group: places by the last tick at which they may be passed on.
    """

    sendable: UInt64Array
    unsent: UInt64Array
    withheld: UInt64Array
    gathers: UInt64Array
    handed: UInt64Array
    ready: UInt64Array
    egress_chunks: UInt64Array
    owned: UInt64Array
    begun: UInt64Array
    new: UInt64Array
    gathering: UInt64Array
    assigned: UInt64Array
    forwardable: UInt64Array
    gatherer: IntArray
    waits: IntArray
    holds: IntArray
    left: IntArray
    part_counts: IntArray
    missing: IntArray
    opened: IntArray
    lone_parts: IntArray
    next: IntArray
    order: IntArray


class SendLog(NamedTuple):
    """The sends so far.

    Attributes:
        out_free: By rank, within its group and to others: first tick at which it may send.
        in_free: By rank, within its group and from others: first tick at which it may receive.
        head: By tick, cyclic: last send that arrives then. -1: none.
        then: By send: previous send with the same tick of arrival.
        rows: By send: tick, chunk, source, and destination.
        now: Counters, see :data:`TICK`.
    """

    out_free: IntArray
    in_free: IntArray
    head: IntArray
    then: IntArray
    rows: IntArray
    now: IntArray


@compiled
def _first_available(
    can: UInt64Array, may: UInt64Array, kept: UInt64Array, of: UInt64Array, begin: int
) -> int:
    """Return the first place, from ``begin`` on, that is in all sets but ``kept``. -1: none."""
    for i in range(begin >> 6, len(can)):
        fits = can[i] & may[i] & ~kept[i] & of[i]
        if i == begin >> 6:
            fits &= ~np.uint64(0) << np.uint64(begin & 63)
        if fits:
            return i * 64 + int(lowest(fits))
    return -1


@compiled
def _most_complete(u: int, v: int, routes: EgressRoutes, parts: ChunkParts) -> tuple[int, int]:
    """Return the place that a rank should start to gather for gates, rarest first, and a key."""
    best, best_key, g = -1, NEVER, routes.group[v]
    for i in range(parts.sendable.shape[1]):
        fits = parts.sendable[u, i] & parts.unsent[v, i] & ~parts.withheld[u, i] & parts.begun[v, i]
        while fits:
            place = i * 64 + int(lowest(fits))
            fits &= fits - ONE
            key = parts.left[g, routes.chunk[g, place]] * len(routes.owner) + place
            if key < best_key:
                best, best_key = place, key
    return best, best_key


@compiled
def _choose(u: int, v: int, routes: EgressRoutes, parts: ChunkParts) -> tuple[int, int, int]:
    """Return the place of a part that a rank passes on within its group, and its urgency.

    Returns:
        The place (-1: none), the urgency (see :data:`_HEAD`), and the order among equals.
    """
    able, kept, may, g = parts.sendable[u], parts.withheld[u], parts.unsent[v], routes.group[v]
    chunks = len(routes.owner)
    if routes.number[v] >= 0:
        place = _first_available(able, may, kept, parts.handed[v], 0)
        if place >= 0:
            return place, _HEAD, place - chunks
        place = _first_available(able, may, kept, parts.gathers[v], 0)
        if place >= 0:
            return place, _HEAD, place
    else:
        place, key = _most_complete(u, v, routes, parts)
        if place >= 0:
            return place, _OWN_HEAD, key
        if parts.next[g, 0] < chunks and parts.opened[v] < _MAX_OPEN_CHUNKS:
            place = _first_available(able, may, kept, parts.new[g], parts.next[g, 0])
            if place >= 0:
                return place, _NEW, place
    place = _first_available(able, may, kept, parts.owned[v], 0)
    if place >= 0:
        return place, _DIRECT + _LEAST_URGENT - parts.missing[v], place
    place = _first_available(able, may & ~parts.assigned[g], kept, parts.forwardable[g], 0)
    return place, _DIRECT + 2 * _LEAST_URGENT, place


@compiled
def _send(  # noqa: PLR0913, PLR0917 - independent inputs and state
    u: int,
    v: int,
    chunk: int,
    takes: int,
    busy: int,
    routes: EgressRoutes,
    parts: ChunkParts,
    gone: SendLog,
) -> None:
    """Send a rank's part at this tick. It has it no more."""
    now, g, h = gone.now, routes.group[u], routes.group[v]
    place, n, kind = routes.place[g, chunk], gone.now[SENT], int(g != h)
    word, bit = place >> 6, ONE << np.uint64(place & 63)
    parts.sendable[u, word] &= ~bit
    parts.unsent[u, word] &= ~bit
    parts.left[g, chunk] -= 1
    parts.part_counts[u] -= 1
    target_place = routes.place[h, chunk]
    parts.sendable[v, target_place >> 6] &= ~(ONE << np.uint64(target_place & 63))
    parts.waits[v, chunk] += 1
    gone.rows[n, 0], gone.rows[n, 1], gone.rows[n, 2], gone.rows[n, 3] = now[TICK], chunk, u, v
    at = (now[TICK] + takes) % len(gone.head)
    gone.then[n] = gone.head[at]
    gone.head[at] = n
    gone.out_free[kind, u] = gone.in_free[kind, v] = now[TICK] + busy
    now[SENT] += 1
    now[FLYING] += 1


@compiled
def _arrive(routes: EgressRoutes, parts: ChunkParts, gone: SendLog) -> None:
    at = gone.now[TICK] % len(gone.head)
    row = gone.head[at]
    while row >= 0:
        chunk, u, v = gone.rows[row, 1], gone.rows[row, 2], gone.rows[row, 3]
        g, owner = routes.group[v], routes.owner[chunk]
        place = routes.place[g, chunk]
        word, bit = place >> 6, ONE << np.uint64(place & 63)
        gone.now[FLYING] -= 1
        row = gone.then[row]
        parts.waits[v, chunk] -= 1
        if v == owner:
            continue
        if routes.group[u] != g and u == routes.egress[routes.group[u], chunk]:
            parts.holds[v, chunk] -= 1
            if parts.holds[v, chunk] == 0:
                parts.withheld[v, word] &= ~bit
        if parts.waits[v, chunk] == 0:
            parts.sendable[v, word] |= bit
            if (
                routes.group[owner] != g
                and v == routes.egress[g, chunk]
                and parts.left[g, chunk] == 1
            ):
                parts.ready[v, word] |= bit
    gone.head[at] = -1


@compiled
def _lone_part(u: int, routes: EgressRoutes, parts: ChunkParts, gone: SendLog) -> tuple[int, int]:
    """Return a chunk that another gate gathers, of which a part crosses alone, and to whom; -1.

    Before anything is gathered ways between groups are idle. By turns it is one of each other gate,
    so that none is left behind.
    """
    g, gate_number = routes.group[u], routes.number[u]
    gates = int((routes.egress_ranks[g] >= 0).sum())
    for turn in range(gates):
        gate = routes.egress_ranks[g, (gate_number + 1 + parts.lone_parts[u] + turn) % gates]
        if gate == u:
            continue
        for i in range(parts.sendable.shape[1]):
            fits = (
                parts.sendable[u, i]
                & parts.gathering[g, i]
                & ~parts.withheld[u, i]
                & parts.egress_chunks[gate, i]
            )
            while fits:
                chunk = routes.chunk[g, i * 64 + int(lowest(fits))]
                fits &= fits - ONE
                h = routes.group[routes.owner[chunk]]
                place = routes.place[h, chunk]
                bit = ONE << np.uint64(place & 63)
                for offset in range(len(routes.group)):
                    v = (offset + u) % len(routes.group)
                    free = routes.group[v] == h and gone.in_free[1, v] <= gone.now[TICK]
                    if free and routes.cross[u, v] and parts.unsent[v, place >> 6] & bit:
                        return chunk, v
    return -1, -1


@compiled
def _send_across(routes: EgressRoutes, parts: ChunkParts, gone: SendLog) -> None:
    """Let gates send to other groups at this tick."""
    tick, ranks = gone.now[TICK], len(routes.group)
    busy, takes = routes.durations[1], routes.durations[2]
    for offset in range(ranks):
        u = (offset + tick) % ranks
        if routes.number[u] < 0 or gone.out_free[1, u] > tick:
            continue
        g, chunk, v = routes.group[u], -1, -1
        gone.now[LOOKS] += _PAIR_WORDS
        for i in range(parts.ready.shape[1]):
            fits = parts.ready[u, i]
            while fits and chunk < 0:
                candidate = routes.chunk[g, i * 64 + int(lowest(fits))]
                fits &= fits - ONE
                if gone.in_free[1, routes.ingress[g, candidate]] <= tick:
                    chunk, v = candidate, routes.ingress[g, candidate]
        if chunk >= 0:
            place = routes.place[g, chunk]
            parts.ready[u, place >> 6] &= ~(ONE << np.uint64(place & 63))
        elif tick <= routes.durations[3]:
            chunk, v = _lone_part(u, routes, parts, gone)
            parts.lone_parts[u] += int(chunk >= 0)
        if chunk < 0:
            continue
        _send(u, v, chunk, takes, busy, routes, parts, gone)
        gate, place = routes.egress[g, chunk], routes.place[g, chunk]
        if u != gate and parts.left[g, chunk] == 1 and parts.waits[gate, chunk] == 0:
            parts.ready[gate, place >> 6] |= ONE << np.uint64(place & 63)


@compiled
def _forward_part(  # noqa: PLR0913, PLR0917 - independent inputs and state
    u: int, v: int, place: int, routes: EgressRoutes, parts: ChunkParts, gone: SendLog
) -> None:
    """Send a rank's part within its group, and record who gathers the chunk."""
    g = routes.group[u]
    chunk = routes.chunk[g, place]
    word, bit = place >> 6, ONE << np.uint64(place & 63)
    _send(u, v, chunk, routes.durations[0], 1, routes, parts, gone)
    owner = routes.owner[chunk]
    if routes.group[owner] == g:
        parts.missing[owner] -= 1
        return
    gate, left, new = routes.egress[g, chunk], parts.left[g, chunk], parts.new[g, word] & bit
    parts.new[g, word] &= ~bit
    if v == gate:
        parts.gathering[g, word] |= bit
    if new and routes.number[v] < 0:
        parts.gatherer[g, chunk] = v
        parts.opened[v] += 1
        parts.assigned[g, word] |= bit
        parts.begun[v, word] |= bit
        parts.gathers[gate, word] &= ~bit
    home = parts.gatherer[g, chunk]
    if home >= 0 and left <= 2:  # itself and the gate
        if parts.begun[home, word] & bit:
            parts.opened[home] -= 1
        parts.begun[home, word] &= ~bit
        parts.gathers[gate, word] |= bit
        parts.handed[gate, word] |= bit
    if left == 1:
        parts.gathering[g, word] &= ~bit


@compiled
def _augment(  # noqa: PLR0913, PLR0917 - a matching and its scratch
    root: int,
    members: IntArray,
    urgent: IntArray,
    by_out: IntArray,
    by_in: IntArray,
    predecessor: IntArray,
    queue: IntArray,
) -> None:
    """Match one more rank that sends, if that can be.

    Args:
        urgent: by who sends and who is sent to. -1: it cannot be.
        by_out: by rank: to whom it sends. -1: to nobody. It is written into, as is ``by_in``.
        predecessor: room: by rank that is sent to, by whom it was found.
    """
    predecessor[members] = -1
    queue[0], at, many = root, 0, 1
    while at < many:
        u = queue[at]
        at += 1
        while True:
            best, best_urgency = -1, NEVER
            for v in members:
                if 0 <= urgent[u, v] < best_urgency and predecessor[v] < 0:
                    best, best_urgency = v, urgent[u, v]
            if best < 0:
                break
            predecessor[best] = u
            if by_in[best] < 0:
                v = best
                while True:  # each rank on the way back sends to whom it found
                    sender = predecessor[v]
                    before = by_out[sender]
                    by_in[v], by_out[sender] = sender, v
                    if sender == root:
                        return
                    v = before
            queue[many] = by_in[best]
            many += 1


@compiled
def _pair_urgencies(
    members: IntArray, routes: EgressRoutes, parts: ChunkParts, gone: SendLog
) -> tuple[IntArray, IntArray]:
    """Return by who sends and who is sent to how urgent that is, -1: it cannot be, and a key."""
    tick, ranks = gone.now[TICK], len(routes.group)
    urgent, keys = np.full((ranks, ranks), -1), np.zeros((ranks, ranks), np.int64)
    for u in map(int, members):
        if gone.out_free[0, u] > tick or parts.part_counts[u] == 0:
            continue
        for v in map(int, members):
            if u != v and gone.in_free[0, v] <= tick:
                place, urgency, keys[u, v] = _choose(u, v, routes, parts)
                urgent[u, v] = urgency if place >= 0 else -1
                gone.now[LOOKS] += 4 * parts.sendable.shape[1] + _PAIR_WORDS
    return urgent, keys


@compiled
def _match(g: int, routes: EgressRoutes, parts: ChunkParts, gone: SendLog) -> None:
    """Match senders and receivers within a group, urgent parts first."""
    tick, ranks = gone.now[TICK], len(routes.group)
    members = np.nonzero(routes.group == g)[0]
    size = len(members)
    urgent, keys = _pair_urgencies(members, routes, parts, gone)
    by_out, by_in = np.full(ranks, -1), np.full(ranks, -1)
    for turn in range(2 * size):
        v = members[(turn + tick) % size]
        if (turn < size) != (routes.number[v] >= 0):  # gates first
            continue
        best, best_key = -1, NEVER
        for offset in range(size):
            u = members[(offset + v + tick) % size]
            able = 0 <= urgent[u, v] < _NEW and by_out[u] < 0
            if able and keys[u, v] < best_key:
                best, best_key = u, keys[u, v]
        if best >= 0:
            by_in[v], by_out[best] = best, v
    turns = (np.arange(size) + tick) % size
    order = np.argsort(turns - parts.part_counts[members] * size, kind="mergesort")
    predecessor, queue = np.empty(ranks, np.int64), np.empty(ranks + 1, np.int64)
    for u in map(int, members[order]):
        if by_out[u] < 0 and urgent[u].max() >= 0:
            _augment(u, members, urgent, by_out, by_in, predecessor, queue)
    for u in map(int, members):
        if by_out[u] >= 0:  # another rank may just have sent the most urgent chunk
            place, _, _ = _choose(u, by_out[u], routes, parts)
            if place >= 0:
                _forward_part(u, by_out[u], place, routes, parts, gone)


@compiled
def _expire_parts(routes: EgressRoutes, parts: ChunkParts, tick: int) -> None:
    """Let nothing be passed on that would come too late by now."""
    chunks = len(routes.owner)
    for g in range(len(parts.next)):
        inside = int((routes.group == g).sum())
        while parts.next[g, 0] < chunks:
            if routes.until[g, parts.next[g, 0]] >= tick + inside - 2:  # parts beside its own
                break
            parts.next[g, 0] += 1
        while parts.next[g, 1] < chunks:
            place = parts.order[g, parts.next[g, 1]]
            if routes.until[g, place] >= tick:
                break
            parts.forwardable[g, place >> 6] &= ~(ONE << np.uint64(place & 63))
            parts.next[g, 1] += 1


@compiled
def run_gather(routes: EgressRoutes, parts: ChunkParts, gone: SendLog, most_looks: int) -> bool:
    """Go on until all is sent, or so many words were looked at; return whether it can go on."""
    now = gone.now
    while now[SENT] < len(gone.rows):
        tick = now[TICK]
        _arrive(routes, parts, gone)
        _expire_parts(routes, parts, tick)
        _send_across(routes, parts, gone)
        crossed = now[SENT]
        for g in range(len(parts.next)):
            _match(g, routes, parts, gone)
        soonest = tick + 1  # when ports of groups are free again
        if now[SENT] == crossed:
            ports = (gone.in_free[1], gone.out_free[1])
            soonest = next_tick(tick, now[FLYING], gone.head, *ports)
        if soonest == NEVER:
            return False
        now[TICK] = soonest
        if now[LOOKS] > most_looks:
            return True
    return False
