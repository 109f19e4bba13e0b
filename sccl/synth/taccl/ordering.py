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

from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse
from sccl.synth.scheduling.serial import ResourceTimeline, earliest_common_fit, group_multicasts
from sccl.synth.taccl.batches import batch_sends
from sccl.synth.taccl.parallel_schedule import schedule_in_parallel
from sccl.synth.taccl.route_trees import (
    DirectedUses,
    Direction,
    LinkOrder,
    Priority,
    RouteTrees,
    priority_key,
)

__all__ = ["LINK_ORDERS", "order_transfers"]

LINK_ORDERS = tuple(
    LinkOrder(direction, priority) for priority in Priority for direction in Direction
)
"""All four."""


def order_transfers(
    problem: SchedulingProblem,
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
        sends = list(batch_sends(schedule_in_parallel(problem, routes, order, 1, pause)))
    else:
        sends = list(_schedule_by_distance(problem, routes, order, pause))
        if order.direction is Direction.END:
            finish = problem.finish(sends)
            sends = [ChunkSend(finish - problem.arrival(s), s.chunk, s.route) for s in sends]
            sends.sort(key=lambda s: (s.start, s.chunk, s.route))
    return tuple(sends) if order.direction is Direction.START else _left_shift(problem, sends)


def _left_shift(problem: SchedulingProblem, sends: list[ChunkSend]) -> tuple[ChunkSend, ...]:
    """Return sends in their order, each as soon as can be."""
    held = [ResourceTimeline(room) for room in problem.capacity]
    ready = {(c, r): 0 for c, holders in enumerate(problem.holders) for r in holders}
    placed_sends = []
    for _, chunk, paths in group_multicasts(problem, sends):
        hops = _multicast_uses(problem, chunk, paths)
        start = earliest_common_fit(held, hops, ready[chunk, problem.src[paths[0]]])
        _reserve_uses(held, hops, start)
        for path in paths:
            send = ChunkSend(start, chunk, path)
            placed_sends.append(send)
            ready[chunk, problem.dst[path]] = problem.arrival(send)
    return tuple(sorted(placed_sends, key=lambda s: (s.start, s.chunk, s.route)))


def _multicast_uses(problem: SchedulingProblem, chunk: int, paths: list[int]) -> list[ResourceUse]:
    of_chunk = problem.uses_of_chunk(chunk)
    return list({hop.multicast_group: hop for path in paths for hop in of_chunk[path]}.values())


def _reserve_uses(held: list[ResourceTimeline], hops: list[ResourceUse], start: int) -> None:
    for h in hops:
        held[h.resource].reserve(start + h.offset, h.busy, h.demand)


def _schedule_by_distance(
    problem: SchedulingProblem,
    routes: Collection[tuple[int, int]],
    order: LinkOrder,
    pause: Callable[[], None],
) -> tuple[ChunkSend, ...]:
    """Return sends, put on links one after the other; backwards: with the last ones first."""
    backwards = order.direction is Direction.END
    trees, holds = RouteTrees.of(problem, routes), DirectedUses(problem, backwards=backwards)
    held = [ResourceTimeline(room) for room in problem.capacity]
    waits, after = trees.dependencies(problem, backwards=backwards)
    ready = {key: 0 for key in trees.remaining_time if key not in waits}
    heap = [(priority_key(problem, trees, order, key, 0), key) for key in sorted(ready)]
    heapq.heapify(heap)
    sends: list[ChunkSend] = []
    while heap:
        _, key = heapq.heappop(heap)
        chunk, path = key
        hops = holds.of_route(chunk, path)
        start = earliest_common_fit(held, hops, ready[key])
        _reserve_uses(held, hops, start)
        sends.append(ChunkSend(start, chunk, path))
        arrives = start + problem.costs_of_chunk(chunk)[path]
        for then in after.get(key, ()):
            ready[then] = max(ready.get(then, 0), arrives)
            waits[then] -= 1
            if not waits[then]:
                heapq.heappush(heap, (priority_key(problem, trees, order, then, ready[then]), then))
        if not len(sends) % 1024:
            pause()
    return tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.route)))
