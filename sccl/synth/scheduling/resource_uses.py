"""The capacity of links, budgets, and switches that a chunk occupies on each route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm

import numpy as np

from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.limits import MAX_CAPACITY
from sccl.synth.network.resources import shared_resources
from sccl.synth.network.routes import Routes


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The use of one resource by a chunk on a route.

    Attributes:
        resource: Number of the resource: links first, then budgets and switches.
        offset: Time from the start of the route to the start of the use, in units.
        busy: Duration of the use, in units.
        demand: Occupied part of the resource's capacity.
        multicast_group: Number of the group of routes that begin with the same links. For a chunk
            that a switch copies, the routes of a group share one use.
    """

    resource: int
    offset: int
    busy: int
    demand: int
    multicast_group: int

    def reversed(self, cost: int = 0) -> ResourceUse:
        """Return the use in reversed time, on a route that takes ``cost`` units.

        With a cost of 0, the offset is relative to the end of the send.
        """
        offset = cost - self.offset - self.busy
        return ResourceUse(self.resource, offset, self.busy, self.demand, self.multicast_group)


RouteUses = tuple[list[list[ResourceUse]], tuple[int, ...]]
"""The uses of each route, in ticks, and the capacity of each resource."""


def common_capacities(
    of_sizes: Sequence[RouteUses],
) -> tuple[list[list[list[ResourceUse]]], tuple[int, ...]]:
    """Return the uses of routes for each size, in the same units of capacity for all sizes.

    Each size by itself counts a budget in its own units. Demands are rounded up if the common unit
    would be too small.
    """
    if len(of_sizes) == 1:
        return [of_sizes[0][0]], of_sizes[0][1]
    each = zip(*(capacities for _, capacities in of_sizes), strict=True)
    capacity = tuple(min(lcm(*capacities), max(MAX_CAPACITY, *capacities)) for capacities in each)
    scaled_hops = [
        [
            [
                replace(h, demand=-(-h.demand * capacity[h.resource] // capacities[h.resource]))
                for h in path_hops
            ]
            for path_hops in hops
        ]
        for hops, capacities in of_sizes
    ]
    return scaled_hops, capacity


def find_route_uses(topology: Topology, clock: Clock, crossings: Routes) -> RouteUses:
    """Return the uses of each route for chunks of one size, and the capacity of each resource.

    Links come first, each for one chunk at a time, then budgets, then buffers of switches.
    """
    first, links = crossings.first.tolist(), len(topology.links)
    columns = (crossings.link.tolist(), crossings.offset.tolist(), crossings.busy.tolist())
    rows = list(zip(*columns, strict=True))
    stem = _MulticastGroups(topology)
    hops = [stem.link_uses(rows[a:b]) for a, b in pairwise(first)]
    shared = shared_resources(topology, clock, crossings)
    of_several = int((np.bincount(crossings.link, minlength=links) > 1).sum())
    capacity = [1] * links
    for resource in range(of_several, len(shared.capacity)):
        for at in np.flatnonzero(shared.pipes == resource).tolist():
            path = int(np.searchsorted(shared.pipes_first, at, side="right")) - 1
            hold, weight = int(shared.hold[path]), int(shared.weight[at])
            hops[path].append(ResourceUse(len(capacity), 0, hold, weight, stem.new_group()))
        capacity.append(int(shared.capacity[resource]))
    return hops, tuple(capacity)


class _MulticastGroups:
    """Numbers for prefixes of routes, up to each switch that copies and up to the end."""

    def __init__(self, topology: Topology) -> None:
        ranks = topology.ranks
        self._copies = [
            link.dst >= ranks and topology.switches[link.dst - ranks].copies
            for link in topology.links
        ]
        self._numbers: dict[object, int] = {}

    def new_group(self) -> int:
        """Return a number that is not in use."""
        return self._numbers.setdefault(object(), len(self._numbers))

    def link_uses(self, rows: list[tuple[int, int, int]]) -> list[ResourceUse]:
        """Return the uses of a route from the (link, offset, busy) of its links."""
        hops: list[ResourceUse] = []
        ends = [i for i, (link, _, _) in enumerate(rows) if self._copies[link]] + [len(rows) - 1]
        for i, (link, offset, busy) in enumerate(rows):
            end = next(e for e in ends if e >= i)
            key = (i, tuple(rows[: end + 1]))
            number = self._numbers.setdefault(key, len(self._numbers))
            hops.append(ResourceUse(link, offset, busy, 1, number))
        return hops
