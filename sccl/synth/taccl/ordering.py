"""Step 2, ordering: which chunk goes first on each link, by the remaining distance.

TACCL (NSDI 2023), section 5.1 and appendix B.2: chunks are put on links one way after the other,
each as soon as its chunk is there and its links are free. Among the next candidates, *farthest*
takes the one with the longest remaining distance, and among these the one that has come the
shortest distance. *soonest* follows time, and fills each link as it becomes free with the chunk
that has waited longest, and among these the farthest. Both work from the start, or backwards from
the end, last transfers first, which suits other machines better.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from sccl.synth.intervals.placing import Held, first_fit, together
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.intervals.ways import Hop
from sccl.synth.taccl.batches import sends_of
from sccl.synth.taccl.filling import filled
from sccl.synth.taccl.trees import Direction, Holds, LinkOrder, Priority, RouteTrees, key_of

__all__ = ["ORDERS", "ordered"]

ORDERS = tuple(LinkOrder(direction, priority) for priority in Priority for direction in Direction)
"""All four."""


def ordered(
    posed: Posed,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
    pause: Callable[[], None] = lambda: None,
) -> tuple[ChunkSend, ...]:
    """Return the times of chunks on their ways, by a heuristic.

    Args:
        routes: (chunk, way), for each chunk a tree from its holder.
        pause: called periodically. It may raise to stop.
    """
    if order.priority is Priority.SOONEST:
        found = list(sends_of(filled(posed, routes, order, 1, pause)))
    else:
        found = list(_by_distance(posed, routes, order, pause))
        if order.direction is Direction.END:
            finish = posed.finish(found)
            found = [ChunkSend(finish - posed.arrives(s), s.chunk, s.way) for s in found]
            found.sort(key=lambda s: (s.start, s.chunk, s.way))
    return tuple(found) if order.direction is Direction.START else _tight(posed, found)


def _tight(posed: Posed, sends: list[ChunkSend]) -> tuple[ChunkSend, ...]:
    """Return sends in their order, each as soon as can be."""
    held = [Held(room) for room in posed.room]
    there = {(c, r): 0 for c, own in enumerate(posed.holders) for r in own}
    found = []
    for _, chunk, ways in together(posed, sends):
        hops = _hops_of(posed, chunk, ways)
        start = first_fit(held, hops, there[chunk, posed.src[ways[0]]])
        _take(held, hops, start)
        for way in ways:
            send = ChunkSend(start, chunk, way)
            found.append(send)
            there[chunk, posed.dst[way]] = posed.arrives(send)
    return tuple(sorted(found, key=lambda s: (s.start, s.chunk, s.way)))


def _hops_of(posed: Posed, chunk: int, ways: list[int]) -> list[Hop]:
    of_chunk = posed.hops_of(chunk)
    return list({hop.stem: hop for way in ways for hop in of_chunk[way]}.values())


def _take(held: list[Held], hops: list[Hop], start: int) -> None:
    for h in hops:
        held[h.thing].take(start + h.offset, h.busy, h.weight)


def _by_distance(
    posed: Posed,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
    pause: Callable[[], None],
) -> tuple[ChunkSend, ...]:
    """Return sends, put on links one after the other; backwards: with the last ones first."""
    backwards = order.direction is Direction.END
    trees, holds = RouteTrees.of(posed, routes), Holds(posed, backwards=backwards)
    held = [Held(room) for room in posed.room]
    waits, after = trees.waits(posed, backwards=backwards)
    ready = {key: 0 for key in trees.to_go if key not in waits}
    heap = [(key_of(posed, trees, order, key, 0), key) for key in sorted(ready)]
    heapq.heapify(heap)
    found: list[ChunkSend] = []
    while heap:
        _, key = heapq.heappop(heap)
        chunk, way = key
        hops = holds.of(chunk, way)
        start = first_fit(held, hops, ready[key])
        _take(held, hops, start)
        found.append(ChunkSend(start, chunk, way))
        arrives = start + posed.cost_of(chunk)[way]
        for then in after.get(key, ()):
            ready[then] = max(ready.get(then, 0), arrives)
            waits[then] -= 1
            if not waits[then]:
                heapq.heappush(heap, (key_of(posed, trees, order, then, ready[then]), then))
        if not len(found) % 1024:
            pause()
    return tuple(sorted(found, key=lambda s: (s.start, s.chunk, s.way)))
