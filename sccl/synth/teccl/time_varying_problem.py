"""Problems with varying bandwidth, and the rows of their schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sccl.core.clock import Clock
from sccl.errors import ParameterError
from sccl.synth.network.routes import build_routes
from sccl.synth.network.transfer_rows import TransferRows
from sccl.synth.network.transfers import Sends
from sccl.synth.network.variable_bandwidth import VariableBandwidth
from sccl.synth.scheduling.problem import SchedulingProblem
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
