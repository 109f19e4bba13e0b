"""Fill links over time: each link, as it becomes free, takes chunks that wait for it.

Up to a maximum number of waiting chunks are sent together (TACCL, NSDI 2023, section 5.1).
Backwards in time, the successors of a transfer come before it: chunks that are sent together then
start together, too.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Collection

from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.serial import ResourceTimeline, earliest_common_fit
from sccl.synth.taccl.batches import Batch, BatchCosts
from sccl.synth.taccl.route_trees import (
    DirectedUses,
    Direction,
    LinkOrder,
    RouteTrees,
    priority_key,
)

_ARRIVAL, _CHECK = 0, 1
"""Kinds of events. At the same time arrivals come first."""


def schedule_in_parallel(
    problem: SchedulingProblem,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
    max_chunks: int,
    pause: Callable[[], None] = lambda: None,
) -> tuple[Batch, ...]:
    """Return the times of chunks on their ways, in batches up to a maximum.

    Args:
        routes: (chunk, way), for each chunk a tree from its holder.
        pause: called periodically. It may raise to stop.
    """
    run = _ParallelScheduler(problem, routes, order, max_chunks)
    steps = 0
    while run.events:
        run.step()
        steps += 1
        if not steps % 1024:
            pause()
    batches = run.batches
    if order.direction is Direction.END:
        finish = run.costs.finish(batches)
        batches = [Batch(finish - run.costs.arrival(b), b.route, b.chunks) for b in batches]
    return tuple(sorted(batches, key=lambda b: (b.start, b.route, b.chunks)))


class _ParallelScheduler:
    """The waiting chunks, and the transfers in progress."""

    def __init__(
        self,
        problem: SchedulingProblem,
        routes: Collection[tuple[int, int]],
        order: LinkOrder,
        max_chunks: int,
    ) -> None:
        backwards = order.direction is Direction.END
        self.problem, self.order, self.max_batch = problem, order, max_chunks
        self.costs, self.trees = BatchCosts(problem), RouteTrees.of(problem, routes)
        self.directed_uses = DirectedUses(problem, backwards=backwards)
        self.timelines = [ResourceTimeline(room) for room in problem.capacity]
        self.queues: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        self.batches: list[Batch] = []
        self.events: list[tuple[int, int, int]] = []
        self._next_check: dict[int, int] = {}
        self.num_predecessors, self.successors = self.trees.dependencies(
            problem, backwards=backwards
        )
        for chunk, path in sorted(self.trees.remaining_time):
            if (chunk, path) not in self.num_predecessors:
                self._enqueue(0, chunk, path)

    def _enqueue(self, at: int, chunk: int, path: int) -> None:
        key = priority_key(self.problem, self.trees, self.order, (chunk, path), at)
        insort(self.queues.setdefault(path, []), (key, chunk))
        self._schedule_check(at, path)

    def _schedule_check(self, at: int, path: int) -> None:
        """Look at a way at a unit of time, unless it is looked at by then."""
        if self._next_check.get(path, at + 1) > at:
            self._next_check[path] = at
            heapq.heappush(self.events, (at, _CHECK, path))

    def step(self) -> None:
        at, kind, which = heapq.heappop(self.events)
        if kind == _ARRIVAL:
            self._deliver(at, self.batches[which])
        elif self._next_check.get(which) == at:
            del self._next_check[which]
            self._start_batch(at, which)

    def _deliver(self, at: int, batch: Batch) -> None:
        for chunk in batch.chunks:
            for then in self.successors.get((chunk, batch.route), ()):
                self.num_predecessors[then] -= 1
                if not self.num_predecessors[then]:
                    self._enqueue(at, *then)

    def _start_batch(self, at: int, path: int) -> None:
        """Send the first waiting chunk of a way, if the way's resources are free."""
        waiting = self.queues[path]
        if not waiting:
            return
        count = min(len(waiting), self.max_batch) if self.costs.can_batch[path] else 1
        cost = self.costs.cost(path, count)
        hops = self.directed_uses.in_direction(self.costs.batch_uses(path, count), cost)
        start = earliest_common_fit(self.timelines, hops, at)
        if start > at:
            self._schedule_check(start, path)
            return
        batch = Batch(at, path, tuple(sorted(chunk for _, chunk in waiting[:count])))
        del waiting[:count]
        for h in hops:
            self.timelines[h.resource].reserve(at + h.offset, h.busy, h.demand)
        self.batches.append(batch)
        heapq.heappush(self.events, (at + cost, _ARRIVAL, len(self.batches) - 1))
        if waiting:
            self._schedule_check(at + 1, path)
