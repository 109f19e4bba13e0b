"""A first schedule of chunks of unequal sizes: each takes the fastest routes that are still free.

Each chunk in turn is sent over the tree that reaches each destination as early as possible, given
the uses of earlier chunks (Dijkstra's algorithm over arrivals). The first order starts with the
chunks that travel longest. Some random orders follow. Models improve the result.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence

from sccl.synth.limits import INFINITE, MAX_PASSES, MAX_SMALL_MODEL
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.serial import ResourceTimeline, earliest_common_fit, reserve_uses


def list_schedule(
    problem: SchedulingProblem, seed: int, deadline_passed: Callable[[], bool] = lambda: False
) -> tuple[ChunkSend, ...] | None:
    """Return the best schedule of several orders. None: the deadline passed before the first one.

    Args:
        problem: The problem.
        seed: Seed of the random orders.
        deadline_passed: Whether the deadline has passed.
    """
    farthest = [
        max((problem.earliest_arrival[c][r] for r in ranks), default=0)
        for c, ranks in enumerate(problem.wanted)
    ]
    wanted = [chunk for chunk, ranks in enumerate(problem.wanted) if ranks]
    order = sorted(wanted, key=lambda chunk: (-farthest[chunk], chunk))
    rng = random.Random(seed)  # noqa: S311 - no secret
    best: tuple[ChunkSend, ...] | None = None
    for _ in range(MAX_PASSES if len(order) * len(problem.src) <= MAX_SMALL_MODEL else 1):
        sends = _schedule_in_order(problem, order, deadline_passed)
        if sends is None:
            break
        if best is None or problem.finish(sends) < problem.finish(best):
            best = sends
        order = sorted(
            wanted, key=lambda chunk: (-int(farthest[chunk]) * rng.uniform(0.5, 1), chunk)
        )
    return best


def _schedule_in_order(
    problem: SchedulingProblem, order: Sequence[int], deadline_passed: Callable[[], bool]
) -> tuple[ChunkSend, ...] | None:
    """Return sends of chunks in an order. None: the deadline passed."""
    held = [ResourceTimeline(capacity) for capacity in problem.capacity]
    sends: list[ChunkSend] = []
    for chunk in order:
        if deadline_passed():
            return None
        arrivals = dict.fromkeys(problem.holders[chunk], 0)
        cost, hops = problem.costs_of_chunk(chunk), problem.uses_of_chunk(chunk)
        for path in _earliest_tree(problem, held, chunk):
            start = earliest_common_fit(held, hops[path], arrivals[problem.src[path]])
            reserve_uses(held, hops[path], start)
            arrivals[problem.dst[path]] = start + cost[path]
            sends.append(ChunkSend(start, chunk, path))
    return tuple(sorted(sends, key=lambda s: (s.start, s.chunk, s.route)))


def _earliest_tree(
    problem: SchedulingProblem, held: Sequence[ResourceTimeline], chunk: int
) -> list[int]:
    """Return the routes of a chunk to all its destinations, each after the one before it."""
    cost, hops = problem.costs_of_chunk(chunk), problem.uses_of_chunk(chunk)
    soonest = dict.fromkeys(sorted(problem.holders[chunk]), 0)
    via: dict[int, int] = {}
    queue, done, missing = [(0, rank) for rank in soonest], list[int](), set(problem.wanted[chunk])
    while missing:
        at, rank = heapq.heappop(queue)
        if rank in done:
            continue
        done.append(rank)
        missing.discard(rank)
        for path in problem.routes_from[rank]:
            arrives = earliest_common_fit(held, hops[path], at) + cost[path]
            if arrives < soonest.get(problem.dst[path], INFINITE):
                soonest[problem.dst[path]], via[problem.dst[path]] = arrives, path
                heapq.heappush(queue, (arrives, problem.dst[path]))
    useful = problem.useful_routes(chunk, via)
    return [via[rank] for rank in done if via.get(rank) in useful]
