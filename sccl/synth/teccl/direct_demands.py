"""Combining collectives by direct demands: each contribution travels alone to its reducing rank.

TE-CCL, section 8. A reducescatter is an alltoall of contributions: ranks on the path forward a
contribution without reducing it, so each is one message of several hops. There are two methods for
an allreduce. One adds an allgather to this reducescatter. The other sends all contributions to all
ranks, and each rank reduces separately. Its time is the length of the longest path while chunks are
small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective
from sccl.synth.limits import MAX_PLACED_SENDS
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.justify import ProjectSchedule
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem

Contribution = tuple[int, int, int]
"""(chunk, who contributes, who reduces)."""


def contributions_to(
    collective: Collective, goals: Callable[[int], Iterable[int]]
) -> list[Contribution]:
    """Return the contributions of a combining collective.

    Args:
        collective: The combining collective.
        goals: Function that returns the ranks that reduce a chunk.
    """
    return [
        (chunk, src, dst)
        for chunk in range(collective.num_chunks)
        for src in sorted(map(int, collective.holders(chunk)))
        for dst in sorted(map(int, goals(chunk)))
        if src != dst
    ]


class _MessageHop(NamedTuple):
    """A hop of a message.

    Attributes:
        chunk: Chunk number.
        route: Route number.
        predecessors: Pairs (hop, route) that must arrive before the hop starts. Empty for the first
            hop of a contribution.
        reduce: Whether the hop is the last one of a contribution.
        message: Message number.
        priority: Sort key in the placement order.
    """

    chunk: int
    route: int
    predecessors: list[tuple[int, int]]
    reduce: bool
    message: int
    priority: tuple[int, ...]


def schedule_direct(
    problem: SchedulingProblem,
    contributions: Sequence[Contribution],
    limit: int,
    copies: Iterable[ChunkSend] = (),
) -> tuple[int, Sends, NDArray[np.int32]] | None:
    """Return a schedule that finishes before a limit. None: no such schedule is known.

    A schedule consists of its completion time in ticks, its sends over routes, and the message of
    each send, shape (sends,).

    Args:
        problem: Allgather on the machine, with chunks of the same size.
        contributions: Contributions to send.
        limit: Upper limit on the completion time, exclusive, ticks.
        copies: Sends of the results, each chunk from its reducing rank. Copies of one chunk with a
            common first part of their routes are sent one by one.
    """
    paths, max_load = _shortest_paths(problem, contributions)
    if sum(map(len, paths)) > MAX_PLACED_SENDS or max_load * problem.unit >= limit:
        return None
    hops: list[_MessageHop] = []
    comes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for message, ((chunk, _, goal), path) in enumerate(zip(contributions, paths, strict=True)):
        before: list[tuple[int, int]] = []
        for leg, route in enumerate(path):
            last, rank = leg == len(path) - 1, (leg, leg - len(path), chunk)
            hops.append(_MessageHop(chunk, route, before, last, message, rank))
            before = [(len(hops) - 1, route)]
        comes[chunk, goal] += before
    stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
    later = sorted(copies, key=lambda s: (s.start, s.chunk, s.route))
    max_hops = max(map(len, paths), default=0)
    for i, send in enumerate(later):
        chunk_rank = (send.chunk, problem.src[send.route])
        needs, message = stored.get(chunk_rank, comes[chunk_rank]), len(paths) + i
        stored.setdefault((send.chunk, problem.dst[send.route]), [(len(hops), send.route)])
        hops.append(
            _MessageHop(
                send.chunk, send.route, needs, reduce=False, message=message, priority=(max_hops, i)
            )
        )
    return _place_hops(problem, hops, limit)


def _place_hops(
    problem: SchedulingProblem, hops: Sequence[_MessageHop], limit: int
) -> tuple[int, Sends, NDArray[np.int32]] | None:
    """Return the first valid of two placements, justified or in order. None: neither is valid."""
    waiting = ProjectSchedule(
        problem, [(hop.route,) for hop in hops], [hop.predecessors for hop in hops]
    )
    order = sorted(range(len(hops)), key=lambda number: hops[number].priority)
    starts = waiting.earliest_starts(order)
    for placement in (waiting.forward_backward(starts), starts):
        ticks = waiting.finish(placement) * problem.unit
        if ticks < limit and _is_contribution_first(problem, hops, placement):
            return ticks, *_to_columns(problem, hops, placement)
    return None


def _is_contribution_first(
    problem: SchedulingProblem, hops: Sequence[_MessageHop], starts: Sequence[int]
) -> bool:
    """Return whether each rank sends its contribution before it reduces others into the chunk.

    A rank sends its current value of a chunk, which includes the contributions reduced so far.
    """
    comes: dict[tuple[int, int], int] = {}
    for start, hop in zip(starts, hops, strict=True):
        if hop.reduce:
            chunk_rank, arrives = (
                (hop.chunk, problem.dst[hop.route]),
                start + problem.route_costs[hop.route],
            )
            comes[chunk_rank] = min(arrives, comes.get(chunk_rank, arrives))
    contributed = (
        (start, (hop.chunk, problem.src[hop.route]))
        for start, hop in zip(starts, hops, strict=True)
        if not hop.predecessors
    )
    return all(
        chunk_rank not in comes or start < comes[chunk_rank] for start, chunk_rank in contributed
    )


def _to_columns(
    problem: SchedulingProblem, hops: Sequence[_MessageHop], starts: Sequence[int]
) -> tuple[Sends, NDArray[np.int32]]:
    start = np.array(starts, dtype=np.int64) * problem.unit
    rows = [(hop.chunk, hop.route, hop.message) for hop in hops]
    chunk, route, message = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    reduce = np.array([hop.reduce for hop in hops], dtype=np.bool_)
    order = np.lexsort((route, chunk, start))
    return Sends(start[order], chunk[order], route[order], reduce[order]), message[order]


def _shortest_paths(
    problem: SchedulingProblem, contributions: Sequence[Contribution]
) -> tuple[list[list[int]], int]:
    """Return the path of each contribution: the least loaded one of the shortest, in order.

    Also return the largest busy time of a resource, a lower bound on the completion time, units.
    """
    far, load, paths = problem.distances_of(0).tolist(), [0] * len(problem.capacity), []
    for _, src, goal in contributions:
        path, rank = list[int](), src
        while rank != goal:
            routes = [
                route
                for route in problem.routes_from[rank]
                if problem.route_costs[route] + far[problem.dst[route]][goal] == far[rank][goal]
            ]
            route = min(routes, key=lambda route: (_route_load(problem, load, route), route))
            for hop in problem.route_uses[route]:
                load[hop.resource] += hop.busy * hop.demand
            path.append(route)
            rank = problem.dst[route]
        paths.append(path)
    busy = (of // capacity for of, capacity in zip(load, problem.capacity, strict=True))
    return paths, max(busy, default=0)


def _route_load(problem: SchedulingProblem, load: Sequence[int], route: int) -> float:
    return max(
        (load[h.resource] + h.busy * h.demand) / problem.capacity[h.resource]
        for h in problem.route_uses[route]
    )
