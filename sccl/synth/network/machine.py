"""A machine as the compiled loops take it: flat arrays of its links, their costs and budgets.

What they call a link is a way from rank to rank that keeps a chunk nowhere between: a link, or one
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
    """The machine; kinds are the costs that occur, the cheapest first.

    Attributes:
        src: of each link.
        dst: of each link.
        kind: of each link.
        busy: of each kind: ticks until the link is free again.
        lag: of each kind: ticks from then until the chunk arrives.
        hold: of each kind: ticks until it gives back what it takes of budgets.
        queue: of each link: its kind and its turn.
        turns: how many there are: links of one turn, of those that share budgets, hardly share any.
        in_first: of each node, and one more: where its part of ``into`` begins.
        into: links by where they lead to, the cheapest first.
        out_first: likewise, of ``out``.
        out: links by where they come from.
        soon: of each link: how many chunks cheaper links bring to its destination while it is busy.
        level: of each kind; all of level 0 have nobody near.
        near: by level and node: which group of nodes is near; of level 0 it is not read.
        pipes_first: of each link, and one more: where its part of ``pipes`` begins.
        pipes: budgets by link.
        weight: likewise: how much of the budget the link takes.
        room: of each budget: how much there is of it.
        members_first: of each budget, and one more: where its part of ``members`` begins.
        members: links by budget.
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
    """Return the turn of each way, and the first of the switches that it leads through, or -1.

    The turn is how far on it leads among the ranks around these switches. Ways of one turn join
    each rank with another, so that all ports are in use together; chosen at random, ways leave some
    of the ports without a partner.
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
