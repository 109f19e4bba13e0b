"""Replace switches by links (unwinding), and convert the transfers back to the machine.

Source: TACOS (MICRO 2024), section IV-G. With degree d, each rank of a switch gets links to the
next d ranks, with the alpha of the path through the switch and d times the beta of its port.

The paper ends there. On the machine a port sends one chunk at a time, at the full rate, instead of
d chunks in parallel. So :func:`replay_sends` schedules the transfers on the machine, in the order
of their arrivals on the unwound links, each as soon as its chunk has arrived and its path is free.
This takes about as long, because the port carries the data of the d links one after the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.topology import Link, Topology
from sccl.synth.network.arrays import NetworkArrays, build_arrays, route_turns
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.transfers import Demand, Sends, TimedSends
from sccl.synth.scheduling.serial import ResourceTimeline


class UnwoundMachine(NamedTuple):
    """A machine with links instead of switches.

    Attributes:
        net: The machine with links instead of switches.
        route: Route of the machine that each link of ``net`` replaces.
    """

    net: NetworkArrays
    route: IntArray


def unwind_switches(
    topology: Topology, clock: Clock, crossings: Routes, degree: int
) -> UnwoundMachine:
    """Replace the switches of a machine by links.

    Args:
        topology: The machine.
        clock: Costs of chunks.
        crossings: Routes of the machine through its switches.
        degree: Number of links of each rank of a switch, at most one to each other rank.
    """
    turns, around = route_turns(topology, crossings)
    through = np.diff(crossings.first) > 1
    members = {g: len(np.unique(crossings.src[around == g])) for g in np.unique(around).tolist()}
    cheapest: dict[tuple[int, int], tuple[Link, int]] = {}
    for path in np.flatnonzero(~through | ((turns > 0) & (turns <= degree))).tolist():
        ranks = members[int(around[path])]
        switch_degree = max(1, min(degree, ranks - 1)) if through[path] else 1
        link = _virtual_link(topology, crossings, path, switch_degree)
        current = cheapest.get(link.edge)
        if current is None or _link_cost(link, clock) < _link_cost(current[0], clock):
            cheapest[link.edge] = link, path
    links = tuple(link for link, _ in sorted(cheapest.values()))
    unwound = replace(topology, links=links, switches=(), budgets=(), chassis=())
    unwound_clock = Clock.from_topology(unwound, clock.chunk_bytes, clock.model, clock.tick_ps)
    net = build_arrays(unwound, unwound_clock, build_routes(unwound, unwound_clock))
    routes = np.array([cheapest[link.edge][1] for link in unwound.links], dtype=np.int64)
    return UnwoundMachine(net, routes)


def _virtual_link(topology: Topology, crossings: Routes, path: int, degree: int) -> Link:
    """Return the link that replaces a route: the sum of its alphas, and 1 / degree of its rate."""
    first, end = crossings.first[path], crossings.first[path + 1]
    links = [topology.links[k] for k in crossings.link[first:end].tolist()]
    rate = min(k.lanes * k.gb_per_s for k in links) / degree
    src, dst = int(crossings.src[path]), int(crossings.dst[path])
    return Link(src, dst, 1, float(sum(k.alpha_us for k in links)), rate)


def _link_cost(link: Link, clock: Clock) -> float:
    return link.alpha_us + clock.sizes[0] / link.gb_per_s / 1000


def replay_sends(net: NetworkArrays, demand: Demand, sends: Sends, arrival: IntArray) -> TimedSends:
    """Schedule transfers on a machine, each as early as possible.

    Args:
        net: The machine.
        demand: The demand.
        sends: The transfers. Their times are ignored.
        arrival: Arrival of each transfer on the unwound links, which defines the order.

    Returns:
        The completion time and the transfers.
    """
    ready = dict.fromkeys(zip(demand.held_by.tolist(), demand.held.tolist(), strict=True), 0)
    link_free = [0] * len(net.src)
    budgets = [ResourceTimeline(capacity) for capacity in net.capacity.tolist()]
    starts = np.zeros(len(arrival), dtype=np.int64)
    finish = 0
    for row in np.argsort(arrival, kind="stable").tolist():
        path, chunk = int(sends.link[row]), int(sends.chunk[row])
        src, dst, kind = int(net.src[path]), int(net.dst[path]), int(net.kind[path])
        uses = range(int(net.pipes_first[path]), int(net.pipes_first[path + 1]))
        path_budgets = [(budgets[int(net.pipes[use])], int(net.weight[use])) for use in uses]
        start, previous, hold = max(ready[src, chunk], link_free[path]), -1, int(net.hold[kind])
        while previous < start:
            previous = start
            for budget, weight in path_budgets:
                start = budget.earliest_fit(start, hold, weight)
        for budget, weight in path_budgets:
            budget.reserve(start, hold, weight)
        link_free[path] = start + int(net.busy[kind])
        ready[dst, chunk] = link_free[path] + int(net.lag[kind])
        finish = max(finish, ready[dst, chunk])
        starts[row] = start
    return finish, sends._replace(start=starts).sorted_sends()
