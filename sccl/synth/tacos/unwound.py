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

from sccl.core.clock import Clock
from sccl.core.topology import Link, Topology
from sccl.synth.network.crossings import Crossings, crossings_of
from sccl.synth.network.groups import Ticks
from sccl.synth.network.machine import Net, net_of, turns_of
from sccl.synth.network.sends import Demand, Sends, Timed


class Unwound(NamedTuple):
    """A machine with links instead of switches.

    Attributes:
        way: of each of its links: which way of the machine it stands for.
    """

    net: Net
    way: Ticks


def unwound(topology: Topology, clock: Clock, crossings: Crossings, degree: int) -> Unwound:
    """Return a machine whose switches are unwound to a degree, or as far as they have ranks."""
    turns, around = turns_of(topology, crossings)
    through = np.diff(crossings.first) > 1
    members = {g: len(np.unique(crossings.src[around == g])) for g in np.unique(around).tolist()}
    chosen: dict[tuple[int, int], tuple[Link, int]] = {}
    for way in np.flatnonzero(~through | ((turns > 0) & (turns <= degree))).tolist():
        most = max(1, min(degree, members[int(around[way])] - 1)) if through[way] else 1
        link = _link(topology, crossings, way, most)
        other = chosen.get(link.edge)
        if other is None or _cost(link, clock) < _cost(other[0], clock):
            chosen[link.edge] = link, way
    links = tuple(link for link, _ in sorted(chosen.values()))
    plain = replace(topology, links=links, switches=(), budgets=(), chassis=())
    its_clock = Clock.of(plain, clock.chunk_bytes, clock.model, clock.tick_ps)
    net = net_of(plain, its_clock, crossings_of(plain, its_clock))
    return Unwound(net, np.array([chosen[k.edge][1] for k in plain.links], dtype=np.int64))


def _link(topology: Topology, crossings: Crossings, way: int, degree: int) -> Link:
    """Return the link that stands for a way, with a part of its rate."""
    first, end = crossings.first[way], crossings.first[way + 1]
    links = [topology.links[k] for k in crossings.link[first:end].tolist()]
    rate = min(k.lanes * k.gb_per_s for k in links) / degree
    src, dst = int(crossings.src[way]), int(crossings.dst[way])
    return Link(src, dst, 1, float(sum(k.alpha_us for k in links)), rate)


def _cost(link: Link, clock: Clock) -> float:
    return link.alpha_us + clock.sizes[0] / link.gb_per_s / 1000


def replayed(net: Net, demand: Demand, sends: Sends, arrival: Ticks) -> Timed:
    """Return transfers over a machine's ways, one after the other, each as soon as it can be.

    Args:
        sends: their order is that of ``arrival``. Their times do not matter.
    """
    there = dict.fromkeys(zip(demand.held_by.tolist(), demand.held.tolist(), strict=True), 0)
    free = [0] * len(net.src)
    pipes = [_Pipe(room) for room in net.room.tolist()]
    starts = np.zeros(len(arrival), dtype=np.int64)
    finish = 0
    for row in np.argsort(arrival, kind="stable").tolist():
        way, chunk = int(sends.link[row]), int(sends.chunk[row])
        src, dst, kind = int(net.src[way]), int(net.dst[way]), int(net.kind[way])
        uses = range(int(net.pipes_first[way]), int(net.pipes_first[way + 1]))
        own = [(pipes[int(net.pipes[at])], int(net.weight[at])) for at in uses]
        start, before = max(there[src, chunk], free[way]), -1
        while before < start:
            before = start
            for pipe, weight in own:
                start = pipe.from_when(start, weight)
        for pipe, weight in own:
            pipe.take(start, start + int(net.hold[kind]), weight)
        free[way] = start + int(net.busy[kind])
        there[dst, chunk] = free[way] + int(net.lag[kind])
        finish = max(finish, there[dst, chunk])
        starts[row] = start
    return finish, sends._replace(start=starts).ordered()


class _Pipe:
    """What is left of a budget, as transfers are put on it whose starts ascend."""

    def __init__(self, room: int) -> None:
        self.room, self.last = room, 0
        self.ends: list[tuple[int, int]] = []

    def from_when(self, tick: int, weight: int) -> int:
        """Return when, from a tick on, there is room for so much."""
        tick, room = max(tick, self.last), self.room
        for end, used in sorted(self.ends):
            if end <= tick:
                room += used
            elif room < weight:
                tick, room = end, room + used
        return tick

    def take(self, tick: int, end: int, weight: int) -> None:
        """Take so much from a tick on."""
        while self.ends and self.ends[0][0] <= tick:
            self.room += heapq.heappop(self.ends)[1]
        self.last = tick
        self.room -= weight
        heapq.heappush(self.ends, (end, weight))
