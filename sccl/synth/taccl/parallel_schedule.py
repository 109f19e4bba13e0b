"""Fill links over time: each link, as it becomes free, takes chunks that wait for it.

Not in TACCL (NSDI 2023), whose step 2 schedules one transfer after the other. Waiting chunks are
sent as a batch, up to a maximum number (section 5.1). If time is reversed, the successors of a
transfer are scheduled before it. A batch then has one start, too.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Collection

from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.serial import ResourceTimeline, earliest_common_fit, reserve_uses
from sccl.synth.taccl.batches import Batch, BatchCosts
from sccl.synth.taccl.route_trees import (
    Direction,
    LinkOrder,
    RouteTrees,
    directed_uses,
    priority_key,
)

_ARRIVAL, _CHECK = 0, 1
"""Kinds of events. At the same time arrivals come first."""


def schedule_in_parallel(
    problem: SchedulingProblem,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
    max_chunks: int,
) -> tuple[Batch, ...]:
    """Schedule the transfers of all chunks, in batches.

    Args:
        problem: The problem.
        routes: Pairs (chunk, route). Those of a chunk form a tree from its holder.
        order: Direction of time, and the priority of waiting chunks.
        max_chunks: Maximum number of chunks of a batch.
    """
    scheduler = _ParallelScheduler(problem, routes, order, max_chunks)
    while scheduler.events:
        scheduler.step()
    batches, costs = scheduler.batches, scheduler.costs
    if order.direction is Direction.END:  # reverse time
        finish = costs.finish(batches)
        batches = [Batch(finish - costs.arrival(b), b.route, b.chunks) for b in batches]
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
        self.backwards = order.direction is Direction.END
        self.problem, self.order, self.max_batch = problem, order, max_chunks
        self.costs, self.trees = BatchCosts(problem), RouteTrees.of(problem, routes)
        self.timelines = [ResourceTimeline(capacity) for capacity in problem.capacity]
        self.queues: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        self.batches: list[Batch] = []
        self.events: list[tuple[int, int, int]] = []
        self._next_check: dict[int, int] = {}
        self.num_predecessors, self.successors = self.trees.dependencies(
            problem, backwards=self.backwards
        )
        for chunk, path in sorted(self.trees.remaining_time):
            if (chunk, path) not in self.num_predecessors:
                self._enqueue(0, chunk, path)

    def _enqueue(self, now: int, chunk: int, path: int) -> None:
        key = priority_key(self.problem, self.trees, self.order, (chunk, path), now)
        insort(self.queues.setdefault(path, []), (key, chunk))
        self._schedule_check(now, path)

    def _schedule_check(self, time: int, path: int) -> None:
        """Schedule a check of a route at a time, unless it has an earlier one."""
        if self._next_check.get(path, time + 1) > time:
            self._next_check[path] = time
            heapq.heappush(self.events, (time, _CHECK, path))

    def step(self) -> None:
        """Process the next event."""
        now, kind, index = heapq.heappop(self.events)
        if kind == _ARRIVAL:
            self._deliver(now, self.batches[index])
        elif self._next_check.get(index) == now:
            del self._next_check[index]
            self._start_batch(now, index)

    def _deliver(self, now: int, batch: Batch) -> None:
        for chunk in batch.chunks:
            for successor in self.successors.get((chunk, batch.route), ()):
                self.num_predecessors[successor] -= 1
                if not self.num_predecessors[successor]:
                    self._enqueue(now, *successor)

    def _start_batch(self, now: int, path: int) -> None:
        """Send the first waiting chunks of a route, if its resources are free."""
        waiting = self.queues[path]
        if not waiting:
            return
        count = min(len(waiting), self.max_batch) if self.costs.can_batch[path] else 1
        cost = self.costs.cost(path, count)
        hops = directed_uses(self.costs.batch_uses(path, count), cost, backwards=self.backwards)
        start = earliest_common_fit(self.timelines, hops, now)
        if start > now:
            self._schedule_check(start, path)
            return
        batch = Batch(now, path, tuple(sorted(chunk for _, chunk in waiting[:count])))
        del waiting[:count]
        reserve_uses(self.timelines, hops, now)
        self.batches.append(batch)
        heapq.heappush(self.events, (now + cost, _ARRIVAL, len(self.batches) - 1))
        if waiting:
            self._schedule_check(now + 1, path)
