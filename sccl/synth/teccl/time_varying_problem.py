"""Problems with varying bandwidth, the rows of their schedules, and lower bounds.

These bounds are added to those at full bandwidth:

- The earliest arrival of each chunk at its destinations. A later start on a route never arrives
  earlier, so Dijkstra's algorithm by arrival times finds it. Without such a path there is no
  schedule.
- Each chunk that a rank demands and does not hold enters it over some link. Each chunk that only
  this rank holds and others demand leaves it. A link passes chunks one after the other. So until a
  tick it passes at most as many chunks as the data that its rate allows, divided by a chunk's bytes
  and rounded down. A chunk arrives no earlier than the link's lag after that.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sccl.core.clock import MAX_TICKS, Clock
from sccl.core.formatting import format_count
from sccl.core.schedule import MAX_TIME
from sccl.errors import ParameterError, UnreachableError
from sccl.synth.limits import INFINITE, MAX_SMALL_MODEL
from sccl.synth.network.routes import build_routes
from sccl.synth.network.transfer_rows import TransferRows
from sccl.synth.network.transfers import Sends
from sccl.synth.network.variable_bandwidth import VariableBandwidth
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.resource_uses import common_capacities, find_route_uses
from sccl.synth.scheduling.time_varying_bandwidth import VaryingRoutes


def with_varying_bandwidth(
    problem: SchedulingProblem, bandwidth: VariableBandwidth
) -> SchedulingProblem:
    """Return the problem in ticks, with varying bandwidth.

    A message uses all links of a segment at the rate of the slowest link at each moment, so no byte
    waits in a switch.

    Raises:
        TopologyError: The machine lacks a link of ``bandwidth``.
        ParameterError: A switch copies chunks.
    """
    if problem.is_multicast:
        raise ParameterError(
            f"bandwidth varies, and a switch of topology {problem.topology.name!r} copies chunks, "
            "which then leave it at several paces: give --switch nocopy"
        )
    its = problem.clock
    clocks = [
        Clock.from_topology(problem.topology, size, its.model, its.tick_ps) for size in its.sizes
    ]
    crossings = tuple(build_routes(problem.topology, clock, waits=False) for clock in clocks)
    pairs = list(zip(clocks, crossings, strict=True))
    holds, _ = common_capacities(
        [find_route_uses(problem.topology, clock, paths) for clock, paths in pairs]
    )
    return replace(
        problem,
        unit=1,
        crossings=crossings,
        costs=tuple(tuple(cost * problem.unit for cost in costs) for costs in problem.costs),
        uses=tuple(tuple(map(tuple, hops)) for hops in holds),
        varying_routes=tuple(
            VaryingRoutes(problem.topology, clock, paths, bandwidth) for clock, paths in pairs
        ),
    )


def schedule_rows(problem: SchedulingProblem, sends: Sends) -> TransferRows | None:
    """Return sends as rows of a schedule, with the durations that the bandwidth allows.

    Only the last hop of a route through switches reduces. None: the bandwidth does not vary.
    """
    if not problem.varying_routes:
        return None
    rows = []
    columns = (sends.start.tolist(), sends.chunk.tolist(), sends.link.tolist())
    for number, (start, chunk, path) in enumerate(zip(*columns, strict=True)):
        route, reduces = problem.route_links[path], bool(sends.reduce[number])
        for i, (link, hop) in enumerate(
            zip(route, problem.uses_at(chunk, path, start), strict=False)
        ):
            begin, last = start + hop.offset, i == len(route) - 1
            rows.append((begin, chunk, link, begin + hop.busy, reduces and last, number))
    rows.sort()
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return TransferRows(
        start=table[:, 0].copy(),
        end=table[:, 3].copy(),
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=table[:, 4].astype(np.bool_),
        message=table[:, 5].astype(np.int32) if problem.topology.switches else None,
    )


def varying_lower_bound(problem: SchedulingProblem) -> int:
    """Return a lower bound in ticks. 0: the problem is too large for this bound.

    Raises:
        UnreachableError: A chunk cannot reach a destination.
    """
    far = latest_arrival(
        problem, lambda chunk, path, tick: problem.arrival(ChunkSend(tick, chunk, path))
    )
    return max(far, _link_bound(problem))


def latest_arrival(problem: SchedulingProblem, arrives: Callable[[int, int, int], int]) -> int:
    """Return the latest of the earliest arrivals of all demands, without contention.

    Args:
        problem: The problem.
        arrives: Arrival time of a chunk that starts on a route at a time: (chunk, route, time). At
            least :data:`INFINITE` if it never arrives. A later start arrives no earlier.

    Raises:
        UnreachableError: A chunk cannot reach a destination.
    """
    kinds = list(zip(problem.size, problem.holders, strict=True))
    if len(set(kinds)) * len(problem.src) > MAX_SMALL_MODEL:
        return 0
    arrivals: dict[tuple[int, frozenset[int]], dict[int, int]] = {}
    last = 0
    for chunk, wanted in enumerate(problem.wanted):
        if kinds[chunk] not in arrivals:
            arrivals[kinds[chunk]] = _earliest_arrivals(problem, chunk, arrives)
        for rank in sorted(wanted):
            if rank not in arrivals[kinds[chunk]]:
                max_s = problem.clock.us(MAX_TICKS) / 10**6
                raise UnreachableError(
                    f"{problem.varying_routes[0].name}: no data reach rank {rank} from "
                    f"rank {min(problem.holders[chunk])}, where {problem.collective.name} needs "
                    "chunk "
                    f"{chunk}: each path has a link without bandwidth forever, or for more than "
                    f"{max_s:.0f} s: set the end ('to_us'), or add links"
                )
            last = max(last, arrivals[kinds[chunk]][rank])
    return last


def _earliest_arrivals(
    problem: SchedulingProblem, chunk: int, arrives: Callable[[int, int, int], int]
) -> dict[int, int]:
    """Return the earliest arrival of a chunk at each rank that it can reach."""
    arrivals: dict[int, int] = {}
    heap = [(0, rank) for rank in sorted(problem.holders[chunk])]
    while heap:
        time, rank = heapq.heappop(heap)
        if rank in arrivals:
            continue
        arrivals[rank] = time
        for path in problem.routes_from[rank]:
            if problem.dst[path] not in arrivals:
                at = arrives(chunk, path, time)
                if at < INFINITE:
                    heapq.heappush(heap, (at, problem.dst[path]))
    return arrivals


def _link_bound(problem: SchedulingProblem) -> int:
    """Return the tick by which links can have carried the required chunks of each rank.

    Chunks of several sizes all count as chunks of the smallest size.
    """
    last, links, varied = 0, problem.topology.links, problem.varying_routes[0]
    for rank in range(problem.ranks):
        inward = sum(rank in wanted for wanted in problem.wanted)
        outward = sum(
            holders == {rank} and bool(wanted)
            for holders, wanted in zip(problem.holders, problem.wanted, strict=True)
        )
        into = [i for i, link in enumerate(links) if link.dst == rank]
        out = [i for i, link in enumerate(links) if link.src == rank]
        for chunks, over, where in ((inward, into, "into"), (outward, out, "out of")):
            by = _first_tick_for(problem, varied, over, chunks)
            if by is None:
                name, limit = (
                    problem.collective.name,
                    sum(varied.max_chunks(i, MAX_TIME) for i in over),
                )
                raise UnreachableError(
                    f"{varied.name}: {format_count(chunks, 'chunk')} of {name} must go {where} "
                    "rank "
                    f"{rank}, and its links carry {limit}, and then nothing forever: set the end "
                    "of that ('to_us'), or add links"
                )
            last = max(last, by)
    return last


def _first_tick_for(
    problem: SchedulingProblem, varied: VaryingRoutes, links: list[int], chunks: int
) -> int | None:
    """Return the first tick by which links can have passed that many chunks. None: never."""
    lags = [problem.clock.lag(link) for link in links]

    def is_sufficient(tick: int) -> bool:
        pairs = zip(links, lags, strict=True)
        return (
            sum(varied.max_chunks(link, tick - lag) for link, lag in pairs if tick > lag) >= chunks
        )

    last = 1
    while not is_sufficient(last):
        last *= 2
        if last > MAX_TIME:
            return None
    return bisect_left(range(last + 1), True, key=is_sufficient)  # noqa: FBT003 - the value that is searched
