"""Represent a machine for compiled loops: flat arrays of its links, costs, and budgets.

Compiled loops call a path from rank to rank without storage in between a link: a link, or links
through switches (:mod:`sccl.synth.network.crossings`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.network.budgets import shared_of
from sccl.synth.network.crossings import Crossings
from sccl.synth.network.groups import Count, Ticks, grouped, kinds_of, strong_components


class Net(NamedTuple):
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

    src: Count
    dst: Count
    kind: Count
    busy: Ticks
    lag: Ticks
    hold: Ticks
    queue: Count
    turns: int
    in_first: Count
    into: Count
    out_first: Count
    out: Count
    soon: Count
    level: Count
    near: NDArray[np.uint32]
    pipes_first: Count
    pipes: Count
    weight: Ticks
    room: Ticks
    members_first: Count
    members: Count

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return len(self.in_first) - 1

    @property
    def cost(self) -> Ticks:
        """Return of each link the ticks from its start until the chunk has arrived."""
        return (self.busy + self.lag)[self.kind.astype(np.int64)]

    @property
    def alike(self) -> bool:
        """Return whether links can go in step: all cost the same, and nothing else holds them."""
        return len(self.busy) == 1 and not self.lag.any() and not len(self.room)


def net_of(topology: Topology, clock: Clock, crossings: Crossings) -> Net:
    """Return the arrays of a machine, for chunks that are all of one size.

    Args:
        crossings: its ways from rank to rank.
    """
    shared = shared_of(topology, clock, crossings)
    src, dst = crossings.src, crossings.dst
    busy = np.maximum.reduceat(crossings.busy, crossings.first[:-1])
    lag = crossings.cost - busy
    hold = np.where(np.diff(shared.pipes_first.astype(np.int64)) > 0, shared.hold, busy)
    costs, kind = kinds_of(np.stack([crossings.cost, lag, hold]))
    in_first, into = grouped(dst, kind, topology.ranks)
    out_first, out = grouped(src, kind, topology.ranks)
    level = _levels(costs[0])
    turn = turns_of(topology, crossings)[0] if len(shared.room) else np.zeros_like(kind)
    turns = int(turn.max()) + 1
    return Net(
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
        soon=_soon(crossings, in_first, into, kind, costs[0] - costs[1]),
        level=level.astype(np.uint64),
        near=_near(src, dst, level[kind], topology.ranks),
        pipes_first=shared.pipes_first,
        pipes=shared.pipes,
        weight=shared.weight,
        room=shared.room,
        members_first=shared.members_first,
        members=shared.members,
    )


def _soon(crossings: Crossings, in_first: Count, into: Count, kind: Ticks, busy: Ticks) -> Count:
    """Return how many chunks cheaper links bring to where each link leads, while it is busy.

    Ways that end with one link bring no more than that does.
    """
    soon = np.zeros(len(kind), dtype=np.uint64)
    if (kind == kind[:1]).all():
        return soon
    last = crossings.link[crossings.first[1:] - 1]
    for first, end in zip(in_first[:-1].tolist(), in_first[1:].tolist(), strict=True):
        links = into[first:end].astype(np.int64)
        own = links[np.unique(last[links], return_index=True)[1]]
        if len(own) and kind[own].min() < kind[own].max():
            for link in links:
                cheaper = busy[kind[own[kind[own] < kind[link]]]]
                soon[link] = int((busy[kind[link]] // cheaper).sum())
    return soon


def turns_of(topology: Topology, crossings: Crossings) -> tuple[Ticks, Ticks]:
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
        ways = np.flatnonzero(around == group)
        ranks = np.unique(np.concatenate([crossings.src[ways], crossings.dst[ways]]))
        places = np.searchsorted(ranks, np.stack([crossings.src[ways], crossings.dst[ways]]))
        turn[ways] = (places[1] - places[0]) % len(ranks)
    return turn, around


def _levels(costs: Ticks) -> Ticks:
    """Return the level of each cost: costs within a factor of about 1.4 are of one."""
    steps = np.round(2 * np.log2(costs / costs[0])).astype(np.int64)
    return np.unique(steps, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _near(src: Ticks, dst: Ticks, level: Ticks, nodes: int) -> NDArray[np.uint32]:
    """Return the group of every node at every level: who reach one another by links below it."""
    rows = [np.zeros(nodes, dtype=np.uint32)]
    groups = 0
    for above in range(1, int(level.max()) + 1):
        below = level < above
        found = strong_components(src[below], dst[below], nodes)
        rows.append(found + np.uint32(groups))
        groups += int(found.max()) + 1
    return np.concatenate(rows).astype(np.uint32)
