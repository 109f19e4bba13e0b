"""Switches unwound to a degree, as in TACOS, and the conversion of results to the machine.

Source: TACOS (MICRO 2024) section IV-G: instead of a switch, each of its ranks has separate links
to the next d ranks around, with the latency of the path through the switch and 1/d of the rate of
its port.

On the machine, a port does not send d chunks side by side: each link of a switch serves one at a
time. So transfers are sent in the order in which they arrive with unwound switches, each at the
full rate, as soon as the chunk is there and its path is free. That takes about as long: the port
carries the data of d links one after the other.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.topology import Link, Topology
from sccl.synth.network.arrays import NetworkArrays, build_arrays, route_turns
from sccl.synth.network.routes import Routes, build_routes
from sccl.synth.network.transfers import Demand, Sends, TimedSends


class UnwoundMachine(NamedTuple):
    """A machine with links instead of switches.

    Attributes:
        route: of each of its links: which way of the machine it stands for.
    """

    net: NetworkArrays
    route: IntArray


def unwind_switches(
    topology: Topology, clock: Clock, crossings: Routes, degree: int
) -> UnwoundMachine:
    """Return a machine whose switches are unwound to a degree, or as far as they have ranks."""
    turns, around = route_turns(topology, crossings)
    through = np.diff(crossings.first) > 1
    members = {g: len(np.unique(crossings.src[around == g])) for g in np.unique(around).tolist()}
    chosen: dict[tuple[int, int], tuple[Link, int]] = {}
    for path in np.flatnonzero(~through | ((turns > 0) & (turns <= degree))).tolist():
        max_degree = max(1, min(degree, members[int(around[path])] - 1)) if through[path] else 1
        link = _virtual_link(topology, crossings, path, max_degree)
        current = chosen.get(link.edge)
        if current is None or _link_cost(link, clock) < _link_cost(current[0], clock):
            chosen[link.edge] = link, path
    links = tuple(link for link, _ in sorted(chosen.values()))
    plain = replace(topology, links=links, switches=(), budgets=(), chassis=())
    its_clock = Clock.from_topology(plain, clock.chunk_bytes, clock.model, clock.tick_ps)
    net = build_arrays(plain, its_clock, build_routes(plain, its_clock))
    return UnwoundMachine(net, np.array([chosen[k.edge][1] for k in plain.links], dtype=np.int64))


def _virtual_link(topology: Topology, crossings: Routes, path: int, degree: int) -> Link:
    """Return the link that stands for a way, with a part of its rate."""
    first, end = crossings.first[path], crossings.first[path + 1]
    links = [topology.links[k] for k in crossings.link[first:end].tolist()]
    rate = min(k.lanes * k.gb_per_s for k in links) / degree
    src, dst = int(crossings.src[path]), int(crossings.dst[path])
    return Link(src, dst, 1, float(sum(k.alpha_us for k in links)), rate)


def _link_cost(link: Link, clock: Clock) -> float:
    return link.alpha_us + clock.sizes[0] / link.gb_per_s / 1000


def replay_sends(net: NetworkArrays, demand: Demand, sends: Sends, arrival: IntArray) -> TimedSends:
    """Return transfers over a machine's ways, one after the other, each as soon as it can be.

    Args:
        sends: their order is that of ``arrival``. Their times do not matter.
    """
    ready = dict.fromkeys(zip(demand.held_by.tolist(), demand.held.tolist(), strict=True), 0)
    free = [0] * len(net.src)
    pipes = [_BudgetTimeline(room) for room in net.room.tolist()]
    starts = np.zeros(len(arrival), dtype=np.int64)
    finish = 0
    for row in np.argsort(arrival, kind="stable").tolist():
        path, chunk = int(sends.link[row]), int(sends.chunk[row])
        src, dst, kind = int(net.src[path]), int(net.dst[path]), int(net.kind[path])
        uses = range(int(net.pipes_first[path]), int(net.pipes_first[path + 1]))
        path_pipes = [(pipes[int(net.pipes[at])], int(net.weight[at])) for at in uses]
        start, before = max(ready[src, chunk], free[path]), -1
        while before < start:
            before = start
            for pipe, weight in path_pipes:
                start = pipe.earliest_fit(start, weight)
        for pipe, weight in path_pipes:
            pipe.reserve(start, start + int(net.hold[kind]), weight)
        free[path] = start + int(net.busy[kind])
        ready[dst, chunk] = free[path] + int(net.lag[kind])
        finish = max(finish, ready[dst, chunk])
        starts[row] = start
    return finish, sends._replace(start=starts).sorted_sends()


class _BudgetTimeline:
    """What is left of a budget, as transfers are put on it whose starts ascend."""

    def __init__(self, room: int) -> None:
        self.room, self.last = room, 0
        self.ends: list[tuple[int, int]] = []

    def earliest_fit(self, tick: int, weight: int) -> int:
        """Return when, from a tick on, there is room for so much."""
        tick, room = max(tick, self.last), self.room
        for end, used in sorted(self.ends):
            if end <= tick:
                room += used
            elif room < weight:
                tick, room = end, room + used
        return tick

    def reserve(self, tick: int, end: int, weight: int) -> None:
        while self.ends and self.ends[0][0] <= tick:
            self.room += heapq.heappop(self.ends)[1]
        self.last = tick
        self.room -= weight
        heapq.heappush(self.ends, (end, weight))
