"""Step 2, heuristic ordering: the order of the chunks on each link.

Source: Shah et al., TACCL (NSDI 2023), section 5.1 and appendix B.2. A candidate is a transfer
whose predecessors on the chunk's path are scheduled. The heuristic selects a candidate again and
again, and starts it as soon as its chunk has arrived and its links are free.

The priority *farthest* is the paper's: the candidate with the longest remaining path comes first,
and among equals the one with the shortest path so far. The priority *soonest* is not in the paper:
each link, as it becomes free, takes the chunk that has waited longest, and among equals the
farthest one. Both directions of the paper exist: from the start of the paths, or from their end,
with time reversed. Which one is better depends on the machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.serial import (
    ResourceTimeline,
    earliest_common_fit,
    reserve_uses,
    serial_schedule,
)
from sccl.synth.taccl.batches import batch_sends
from sccl.synth.taccl.parallel_schedule import schedule_in_parallel
from sccl.synth.taccl.route_trees import (
    Direction,
    LinkOrder,
    Priority,
    RouteTrees,
    directed_uses,
    priority_key,
)

__all__ = ["LINK_ORDERS", "order_transfers"]

LINK_ORDERS = tuple(
    LinkOrder(direction, priority) for priority in Priority for direction in Direction
)
"""All combinations of a direction and a priority."""


def order_transfers(
    problem: SchedulingProblem,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
) -> tuple[ChunkSend, ...]:
    """Schedule the transfers of all chunks by a heuristic.

    Args:
        problem: The problem.
        routes: Pairs (chunk, route). Those of a chunk form a tree from its holder.
        order: The heuristic.
    """
    if order.priority is Priority.SOONEST:
        sends = list(batch_sends(schedule_in_parallel(problem, routes, order, 1)))
    else:
        sends = list(_schedule_by_distance(problem, routes, order))
        if order.direction is Direction.END:  # reverse time
            finish = problem.finish(sends)
            sends = [ChunkSend(finish - problem.arrival(s), s.chunk, s.route) for s in sends]
            sends.sort(key=lambda s: (s.start, s.chunk, s.route))
    if order.direction is Direction.END:
        sends = sorted(
            serial_schedule(problem, sends, 0), key=lambda s: (s.start, s.chunk, s.route)
        )
    return tuple(sends)


def _schedule_by_distance(
    problem: SchedulingProblem,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
) -> tuple[ChunkSend, ...]:
    """Return the sends by the priority *farthest* (appendix B.2), with time reversed from the end.

    ``timelines`` has the paper's running estimates of link time, and ``ready`` those of chunk time.
    """
    backwards = order.direction is Direction.END
    trees = RouteTrees.of(problem, routes)
    timelines = [ResourceTimeline(capacity) for capacity in problem.capacity]
    num_predecessors, successors = trees.dependencies(problem, backwards=backwards)
    ready = {key: 0 for key in trees.remaining_time if key not in num_predecessors}
    heap = [(priority_key(problem, trees, order, key, 0), key) for key in sorted(ready)]
    heapq.heapify(heap)
    sends: list[ChunkSend] = []
    while heap:
        _, key = heapq.heappop(heap)
        chunk, path = key
        cost = problem.costs_of_chunk(chunk)[path]
        hops = directed_uses(problem.uses_of_chunk(chunk)[path], cost, backwards=backwards)
        start = earliest_common_fit(timelines, hops, ready[key])
        reserve_uses(timelines, hops, start)
        sends.append(ChunkSend(start, chunk, path))
        arrival = start + cost
        for successor in successors.get(key, ()):
            ready[successor] = max(ready.get(successor, 0), arrival)
            num_predecessors[successor] -= 1
            if not num_predecessors[successor]:
                priority = priority_key(problem, trees, order, successor, ready[successor])
                heapq.heappush(heap, (priority, successor))
    return tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.route)))
