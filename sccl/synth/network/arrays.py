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
        queue: Kind and turn of each link.
        turns: Number of turns. Links of one turn, among those that share budgets, hardly share any.
        in_first: Index of each node's part of ``into``, and the total.
        into: Links by destination, the cheapest first.
        out_first: Index of each node's part of ``out``, and the total.
        out: Links by source.
        soon: For each link: number of chunks that cheaper links bring to its destination while it
            is busy.
        level: Level of each kind. At level 0 no node has near nodes.
        near: By level and node: group of near nodes. Not read at level 0.
        pipes_first: Index of each link's part of ``pipes``, and the total.
        pipes: Budgets by link.
        weight: By link and budget: use of the budget.
        room: Capacity of each budget.
        members_first: Index of each budget's part of ``members``, and the total.
        members: Links by budget.
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
    room: IntArray
    members_first: UInt64Array
    members: UInt64Array

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return len(self.in_first) - 1

    @property
    def cost(self) -> IntArray:
        """Return of each link the ticks from its start until the chunk has arrived."""
        return (self.busy + self.lag)[self.kind.astype(np.int64)]

    @property
    def is_uniform(self) -> bool:
        """Return whether links can go in step: all cost the same, and nothing else holds them."""
        return len(self.busy) == 1 and not self.lag.any() and not len(self.room)


def build_arrays(topology: Topology, clock: Clock, crossings: Routes) -> NetworkArrays:
    """Return the arrays of a machine, for chunks that are all of one size.

    Args:
        crossings: its ways from rank to rank.
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
    turn = route_turns(topology, crossings)[0] if len(shared.room) else np.zeros_like(kind)
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
        room=shared.room,
        members_first=shared.members_first,
        members=shared.members,
    )


def _cheaper_arrivals(
    crossings: Routes, in_first: UInt64Array, into: UInt64Array, kind: IntArray, busy: IntArray
) -> UInt64Array:
    """Return how many chunks cheaper links bring to where each link leads, while it is busy.

    Ways that end with one link bring no more than that does.
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
    for _ in inner:  # as far as any switch is from another
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
    """Return the level of each cost: costs within a factor of about 1.4 are of one."""
    steps = np.round(2 * np.log2(costs / costs[0])).astype(np.int64)
    return np.unique(steps, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _near_groups(src: IntArray, dst: IntArray, level: IntArray, nodes: int) -> NDArray[np.uint32]:
    """Return the group of every node at every level: who reach one another by links below it."""
    rows = [np.zeros(nodes, dtype=np.uint32)]
    groups = 0
    for above in range(1, int(level.max()) + 1):
        below = level < above
        components = strong_components(src[below], dst[below], nodes)
        rows.append(components + np.uint32(groups))
        groups += int(components.max()) + 1
    return np.concatenate(rows).astype(np.uint32)
