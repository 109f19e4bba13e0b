"""Represent a machine for compiled loops: flat arrays of its links, costs, and budgets.

Compiled loops call a path from rank to rank without storage in between a link: a link, or links
through switches (:mod:`sccl.synth.network.routes`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray, UInt64Array
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.network.adjacency import distinct_columns, group_rows, strong_components
from sccl.synth.network.resources import shared_resources
from sccl.synth.network.routes import Routes


class NetworkArrays(NamedTuple):
    """The machine as arrays. Kinds are the distinct costs, the cheapest first.

    Attributes:
        src: Source of each link.
        dst: Destination of each link.
        kind: Kind of each link.
        busy: Ticks of each kind until the link is free again.
        lag: Ticks of each kind from then until the chunk arrives.
        hold: Ticks of each kind until it releases its share of budgets.
        queue: Kind and turn of each link, as one number.
        turns: Number of turns, see :func:`route_turns`. Links of one turn rarely share budgets.
        in_first: Index of each node's part of ``into``, and the total.
        into: Links by destination, the cheapest first.
        out_first: Index of each node's part of ``out``, and the total.
        out: Links by source.
        soon: Number of chunks that cheaper links bring to each link's destination while it is busy.
        level: Level of each kind. At level 0 no node has near nodes.
        near: Group of near nodes, by level and node. Not read at level 0.
        pipes_first: Index of each link's part of ``pipes``, and the total.
        pipes: Budgets, ordered by link.
        weight: Use of the budget, for each entry of ``pipes``.
        capacity: Capacity of each budget.
        members_first: Index of each budget's part of ``members``, and the total.
        members: Links, ordered by budget.
    """

    src: UInt64Array
    dst: UInt64Array
    kind: UInt64Array
    busy: IntArray
    lag: IntArray
    hold: IntArray
    queue: UInt64Array
    turns: int
    in_first: UInt64Array
    into: UInt64Array
    out_first: UInt64Array
    out: UInt64Array
    soon: UInt64Array
    level: UInt64Array
    near: NDArray[np.uint32]
    pipes_first: UInt64Array
    pipes: UInt64Array
    weight: IntArray
    capacity: IntArray
    members_first: UInt64Array
    members: UInt64Array

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.in_first) - 1

    @property
    def cost(self) -> IntArray:
        """Return the ticks of each link from its start to the arrival of the chunk."""
        return (self.busy + self.lag)[self.kind.astype(np.int64)]

    @property
    def is_uniform(self) -> bool:
        """Return whether all links have equal costs and share no budgets."""
        return len(self.busy) == 1 and not self.lag.any() and not len(self.capacity)


def build_arrays(topology: Topology, clock: Clock, crossings: Routes) -> NetworkArrays:
    """Return the arrays of a machine, for chunks of one size.

    Args:
        topology: The machine.
        clock: Ticks of links.
        crossings: Routes from rank to rank.
    """
    shared = shared_resources(topology, clock, crossings)
    src, dst = crossings.src, crossings.dst
    busy = np.maximum.reduceat(crossings.busy, crossings.first[:-1])
    lag = crossings.cost - busy
    hold = np.where(np.diff(shared.pipes_first.astype(np.int64)) > 0, shared.hold, busy)
    costs, kind = distinct_columns(np.stack([crossings.cost, lag, hold]))
    in_first, into = group_rows(dst, kind, topology.ranks)
    out_first, out = group_rows(src, kind, topology.ranks)
    level = _levels(costs[0])
    turn = route_turns(topology, crossings)[0] if len(shared.capacity) else np.zeros_like(kind)
    turns = int(turn.max()) + 1
    return NetworkArrays(
        src=src.astype(np.uint64),
        dst=dst.astype(np.uint64),
        kind=kind.astype(np.uint64),
        busy=costs[0] - costs[1],
        lag=costs[1].copy(),
        hold=costs[2].copy(),
        queue=(kind * turns + turn).astype(np.uint64),
        turns=turns,
        in_first=in_first,
        into=into,
        out_first=out_first,
        out=out,
        soon=_cheaper_arrivals(crossings, in_first, into, kind, costs[0] - costs[1]),
        level=level.astype(np.uint64),
        near=_near_groups(src, dst, level[kind], topology.ranks),
        pipes_first=shared.pipes_first,
        pipes=shared.pipes,
        weight=shared.weight,
        capacity=shared.capacity,
        members_first=shared.members_first,
        members=shared.members,
    )


def _cheaper_arrivals(
    crossings: Routes, in_first: UInt64Array, into: UInt64Array, kind: IntArray, busy: IntArray
) -> UInt64Array:
    """Return the number of chunks that cheaper links bring to a link's end while it is busy.

    Routes with the same last link count as one.
    """
    soon = np.zeros(len(kind), dtype=np.uint64)
    if (kind == kind[:1]).all():
        return soon
    last = crossings.link[crossings.first[1:] - 1]
    for first, end in zip(in_first[:-1].tolist(), in_first[1:].tolist(), strict=True):
        links = into[first:end].astype(np.int64)
        final_links = links[np.unique(last[links], return_index=True)[1]]
        if len(final_links) and kind[final_links].min() < kind[final_links].max():
            for link in links:
                cheaper = busy[kind[final_links[kind[final_links] < kind[link]]]]
                soon[link] = int((busy[kind[link]] // cheaper).sum())
    return soon


def route_turns(topology: Topology, crossings: Routes) -> tuple[IntArray, IntArray]:
    """Return the turn of each path, and the first switch that it passes, or -1.

    The turn is the distance of its ends in the order of the ranks around its switches. Paths of one
    turn pair each rank with another, so that all ports are used together. In random order, some
    ports lack a partner.
    """
    node = np.arange(topology.ranks + len(topology.switches))
    inner = [k.edge for k in topology.links if min(k.edge) >= topology.ranks]
    for _ in inner:  # at most the largest distance between switches
        lower = node.copy()
        for u, v in inner:
            lower[u] = lower[v] = min(lower[u], lower[v])
        if (lower == node).all():
            break
        node = lower
    entry = np.array([k.dst for k in topology.links])[crossings.link[crossings.first[:-1]]]
    around = np.where(entry < topology.ranks, -1, node[entry])
    turn = np.zeros_like(crossings.src)
    for group in np.unique(around):
        paths = np.flatnonzero(around == group)
        ranks = np.unique(np.concatenate([crossings.src[paths], crossings.dst[paths]]))
        places = np.searchsorted(ranks, np.stack([crossings.src[paths], crossings.dst[paths]]))
        turn[paths] = (places[1] - places[0]) % len(ranks)
    return turn, around


def _levels(costs: IntArray) -> IntArray:
    """Return the level of each cost. Costs of one level are within a factor of about 1.4."""
    steps = np.round(2 * np.log2(costs / costs[0])).astype(np.int64)
    return np.unique(steps, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _near_groups(src: IntArray, dst: IntArray, level: IntArray, nodes: int) -> NDArray[np.uint32]:
    """Return the component of each node over the links below each level, shape (levels * nodes)."""
    rows = [np.zeros(nodes, dtype=np.uint32)]
    groups = 0
    for above in range(1, int(level.max()) + 1):
        below = level < above
        components = strong_components(src[below], dst[below], nodes)
        rows.append(components + np.uint32(groups))
        groups += int(components.max()) + 1
    return np.concatenate(rows).astype(np.uint32)
