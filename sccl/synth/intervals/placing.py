"""Place sends in a given order, each as soon as its chunk is there and its way is free.

From a valid schedule in epochs each send is so placed no later than in its epoch, if ways are
links: by then its chunk has come, and sends placed before it hold no more than they did.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.intervals.ways import Hop


class Held:
    """A use of a resource: begin, end, and amount."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._busy: list[tuple[int, int, int]] = []
        self._longest = self._end = 0

    def next(self, start: int, busy: int, weight: int) -> int:
        """Return the first unit from one on from which so much more is free for so long."""
        while busy and start < self._end:
            first = bisect_left(self._busy, (start - self._longest,))
            last = bisect_left(self._busy, (start + busy,))
            over = [one for one in self._busy[first:last] if one[1] > start]
            for at in sorted({start, *(begin for begin, _, _ in over if begin > start)}):
                here = [(end, load) for begin, end, load in over if begin <= at < end]
                if sum(load for _, load in here) + weight > self.room:
                    start = min(end for end, _ in here)
                    break
            else:
                break
        return start

    def take(self, start: int, busy: int, weight: int) -> None:
        """Note that so much is held."""
        if busy:
            insort(self._busy, (start, start + busy, weight))
            self._longest = max(self._longest, busy)
            self._end = max(self._end, start + busy)


def first_fit(held: Sequence[Held], hops: Iterable[Hop], start: int) -> int:
    """Return the first unit from one on at which all that a way holds is free."""
    before = -1
    while start != before:
        before = start
        for h in hops:
            start = held[h.thing].next(start + h.offset, h.busy, h.weight) - h.offset
    return start


def placed(posed: Posed, sends: Iterable[ChunkSend], length: int) -> tuple[ChunkSend, ...]:
    """Return when each send is.

    Args:
        sends: by the epoch in which they start, each after that which brings its chunk. Those of
            one epoch and chunk that share a stem go together.
        length: units of an epoch before which none starts. 0: it is as soon as can be.
    """
    held = [Held(room) for room in posed.room]
    of_several = max if posed.collective.combining else min  # a sum is sent when all have come
    there = {(c, r): 0 for c, own in enumerate(posed.holders) for r in own}
    sent = []
    for epoch, chunk, ways in together(posed, sends):
        soonest = max(epoch * length, there[chunk, posed.src[ways[0]]])
        start, hops = _fitted(posed, held, chunk, ways, soonest)
        for h in hops:
            held[h.thing].take(start + h.offset, h.busy, h.weight)
        for way in ways:
            sent.append(ChunkSend(start, chunk, way))
            here, arrives = (chunk, posed.dst[way]), posed.arrives(sent[-1])
            there[here] = of_several(arrives, there.get(here, arrives))
    return tuple(sent)


def _fitted(
    posed: Posed, held: Sequence[Held], chunk: int, ways: Sequence[int], soonest: int
) -> tuple[int, list[Hop]]:
    """Return when a chunk can start on ways together, and its use of resources then."""
    start, before = soonest, -1
    while True:
        hops = {hop.stem: hop for way in ways for hop in posed.held(chunk, way, start)}
        if start == before:
            break
        before, start = start, first_fit(held, list(hops.values()), start)
        if not posed.varied:
            break
    if idle := posed.idle(chunk, ways[0], start):  # it arrives no later, and holds less before
        start += idle
        hops = {hop.stem: hop for hop in posed.held(chunk, ways[0], start)}
    return start, list(hops.values())


def together(posed: Posed, sends: Iterable[ChunkSend]) -> list[tuple[int, int, list[int]]]:
    """Return ways by epoch and chunk, those together that share a stem."""
    found: list[tuple[int, int, list[int]]] = []
    place: dict[tuple[int, int, int], int] = {}
    for send in sends:
        keys = [(send.start, send.chunk, hop.stem) for hop in posed.hops[send.way]]
        at = next((place[key] for key in keys if key in place), len(found))
        if at == len(found):
            found.append((send.start, send.chunk, []))
        found[at][2].append(send.way)
        place |= dict.fromkeys(keys, at)
    return found


def pruned(posed: Posed, sends: Iterable[ChunkSend]) -> tuple[ChunkSend, ...]:
    """Return the sends that bring a chunk to where it is wanted, or on its way there.

    TE-CCL, section 3: flows that serve no demand are left out, from the destinations backwards.

    Args:
        sends: of some chunks. Each comes to a rank once.
    """
    rows = tuple(sends)
    brings = {(send.chunk, posed.dst[send.way]): i for i, send in enumerate(rows)}
    used: set[int] = set()
    for chunk in sorted({send.chunk for send in rows}):
        for rank in posed.wanted[chunk]:
            at = rank
            while at not in posed.holders[chunk] and brings[chunk, at] not in used:
                used.add(brings[chunk, at])
                at = posed.src[rows[brings[chunk, at]].way]
    return tuple(send for i, send in enumerate(rows) if i in used)
