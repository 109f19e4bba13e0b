"""A first schedule of chunks of unequal sizes: each takes the fastest ways that are still free.

Each chunk in turn is sent by the tree along which it reaches each rank the soonest, given the uses
of earlier chunks (Dijkstra's algorithm over arrivals). The largest and farthest come first, then
some random orders. Models improve the result.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence

from sccl.synth.intervals.placing import Held, first_fit
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.network.paths import FAR

ORDERS = 8
"""That are tried."""

_FEW = 20_000
"""Pairs of a chunk and a way: of more, one order is tried."""


def listed(
    posed: Posed, seed: int, late: Callable[[], bool] = lambda: False
) -> tuple[ChunkSend, ...] | None:
    """Return the best of some orders. None: time was over before there was one.

    Args:
        late: whether it is.
    """
    most = [
        max((posed.soonest[c][r] for r in own), default=0) for c, own in enumerate(posed.wanted)
    ]
    wanted = [chunk for chunk, own in enumerate(posed.wanted) if own]
    order = sorted(wanted, key=lambda chunk: (-most[chunk], chunk))
    rng = random.Random(seed)  # noqa: S311 - no secret
    best: tuple[ChunkSend, ...] | None = None
    for _ in range(ORDERS if len(order) * len(posed.src) <= _FEW else 1):
        sends = _one_by_one(posed, order, late)
        if sends is None:
            break
        if best is None or posed.finish(sends) < posed.finish(best):
            best = sends
        order = sorted(wanted, key=lambda chunk: (-int(most[chunk]) * rng.uniform(0.5, 1), chunk))
    return best


def _one_by_one(
    posed: Posed, order: Sequence[int], late: Callable[[], bool]
) -> tuple[ChunkSend, ...] | None:
    """Return sends of chunks in an order. None: time is over."""
    held = [Held(room) for room in posed.room]
    sends: list[ChunkSend] = []
    for chunk in order:
        if late():
            return None
        there = dict.fromkeys(posed.holders[chunk], 0)
        cost, hops = posed.cost_of(chunk), posed.hops_of(chunk)
        for way in _tree(posed, held, chunk):
            start = first_fit(held, hops[way], there[posed.src[way]])
            for h in hops[way]:
                held[h.thing].take(start + h.offset, h.busy, h.weight)
            there[posed.dst[way]] = start + cost[way]
            sends.append(ChunkSend(start, chunk, way))
    return tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.way)))


def _tree(posed: Posed, held: Sequence[Held], chunk: int) -> list[int]:
    """Return the ways by which a chunk comes to all who want it, each after that before it."""
    cost, hops = posed.cost_of(chunk), posed.hops_of(chunk)
    soonest = dict.fromkeys(sorted(posed.holders[chunk]), 0)
    via: dict[int, int] = {}
    queue, done, missing = [(0, rank) for rank in soonest], list[int](), set(posed.wanted[chunk])
    while missing:
        at, rank = heapq.heappop(queue)
        if rank in done:
            continue
        done.append(rank)
        missing.discard(rank)
        for way in posed.out[rank]:
            arrives = first_fit(held, hops[way], at) + cost[way]
            if arrives < soonest.get(posed.dst[way], FAR):
                soonest[posed.dst[way]], via[posed.dst[way]] = arrives, way
                heapq.heappush(queue, (arrives, posed.dst[way]))
    used: set[int] = set()
    for rank in posed.wanted[chunk]:
        node = rank
        while node not in posed.holders[chunk] and node not in used:
            used.add(node)
            node = posed.src[via[node]]
    return [via[rank] for rank in done if rank in used]
