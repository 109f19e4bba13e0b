"""Fill links over time: each link, as it becomes free, takes chunks that wait for it.

Up to a maximum number of waiting chunks are sent together (TACCL, NSDI 2023, section 5.1).
Backwards in time, the successors of a transfer come before it: chunks that are sent together then
start together, too.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Collection

from sccl.synth.intervals.placing import Held, first_fit
from sccl.synth.intervals.posed import Posed
from sccl.synth.taccl.batches import Batch, BatchCosts
from sccl.synth.taccl.trees import Direction, Holds, LinkOrder, RouteTrees, key_of

_ARRIVES, _LOOKS = 0, 1
"""Kinds of events. At the same time arrivals come first."""


def filled(
    posed: Posed,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
    most: int,
    pause: Callable[[], None] = lambda: None,
) -> tuple[Batch, ...]:
    """Return the times of chunks on their ways, in batches up to a maximum.

    Args:
        routes: (chunk, way), for each chunk a tree from its holder.
        pause: called periodically. It may raise to stop.
    """
    run = _Filling(posed, routes, order, most)
    steps = 0
    while run.events:
        run.next()
        steps += 1
        if not steps % 1024:
            pause()
    found = run.found
    if order.direction is Direction.END:
        finish = run.costs.finish(found)
        found = [Batch(finish - run.costs.arrives(b), b.way, b.chunks) for b in found]
    return tuple(sorted(found, key=lambda b: (b.start, b.way, b.chunks)))


class _Filling:
    """The waiting chunks, and the transfers in progress."""

    def __init__(
        self, posed: Posed, routes: Collection[tuple[int, int]], order: LinkOrder, most: int
    ) -> None:
        backwards = order.direction is Direction.END
        self.posed, self.order, self.most = posed, order, most
        self.costs, self.trees = BatchCosts(posed), RouteTrees.of(posed, routes)
        self.holds = Holds(posed, backwards=backwards)
        self.held = [Held(room) for room in posed.room]
        self.queues: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        self.found: list[Batch] = []
        self.events: list[tuple[int, int, int]] = []
        self._due: dict[int, int] = {}
        self.waits, self.after = self.trees.waits(posed, backwards=backwards)
        for chunk, way in sorted(self.trees.to_go):
            if (chunk, way) not in self.waits:
                self._wait(0, chunk, way)

    def _wait(self, at: int, chunk: int, way: int) -> None:
        """Let a chunk wait for a way."""
        key = key_of(self.posed, self.trees, self.order, (chunk, way), at)
        insort(self.queues.setdefault(way, []), (key, chunk))
        self._look(at, way)

    def _look(self, at: int, way: int) -> None:
        """Look at a way at a unit of time, unless it is looked at by then."""
        if self._due.get(way, at + 1) > at:
            self._due[way] = at
            heapq.heappush(self.events, (at, _LOOKS, way))

    def next(self) -> None:
        """Go on to the next event."""
        at, kind, which = heapq.heappop(self.events)
        if kind == _ARRIVES:
            self._arrive(at, self.found[which])
        elif self._due.get(which) == at:
            del self._due[which]
            self._send(at, which)

    def _arrive(self, at: int, batch: Batch) -> None:
        for chunk in batch.chunks:
            for then in self.after.get((chunk, batch.way), ()):
                self.waits[then] -= 1
                if not self.waits[then]:
                    self._wait(at, *then)

    def _send(self, at: int, way: int) -> None:
        """Send the first waiting chunk of a way, if the way's resources are free."""
        waiting = self.queues[way]
        if not waiting:
            return
        count = min(len(waiting), self.most) if self.costs.joins[way] else 1
        cost = self.costs.cost(way, count)
        hops = self.holds.turned(self.costs.hops(way, count), cost)
        start = first_fit(self.held, hops, at)
        if start > at:
            self._look(start, way)
            return
        batch = Batch(at, way, tuple(sorted(chunk for _, chunk in waiting[:count])))
        del waiting[:count]
        for h in hops:
            self.held[h.thing].take(at + h.offset, h.busy, h.weight)
        self.found.append(batch)
        heapq.heappush(self.events, (at + cost, _ARRIVES, len(self.found) - 1))
        if waiting:
            self._look(at + 1, way)
