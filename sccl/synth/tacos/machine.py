"""A machine as the compiled loops take it: flat arrays of its links, their costs and budgets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.synth.tacos.budgets import Count, Ticks, shared_of
from sccl.synth.tacos.groups import grouped, strong_components


class Net(NamedTuple):
    """The machine; kinds are the costs that occur, the cheapest first.

    Attributes:
        src: of each link.
        dst: of each link.
        kind: of each link.
        busy: of each kind: ticks until the link is free again.
        lag: of each kind: ticks from then until the chunk arrives.
        in_first: of each node, and one more: where its part of ``into`` begins.
        into: links by where they lead to, the cheapest first.
        out_first: likewise, of ``out``.
        out: links by where they come from.
        soon: of each link: how many chunks cheaper links bring to its destination while it is busy.
        level: of each kind; all of level 0 have nobody near.
        near: by level and node: which group of nodes is near; of level 0 it is not read.
        pipes_first: of each link, and one more: where its part of ``pipes`` begins.
        pipes: budgets by link.
        weight: likewise: how much of the budget the link takes while it is busy.
        room: of each budget: how much there is of it.
        release: when a link gives its part of a budget back: 0: as it becomes free; 1: as the chunk
            arrives.
        members_first: of each budget, and one more: where its part of ``members`` begins.
        members: links by budget.
    """

    src: Count
    dst: Count
    kind: Count
    busy: Ticks
    lag: Ticks
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
    release: int
    members_first: Count
    members: Count

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return len(self.in_first) - 1

    @property
    def alike(self) -> bool:
        """Return whether links can go in step: all cost the same, and nothing else holds them."""
        return len(self.busy) == 1 and not self.lag.any() and not len(self.room)


def net_of(topology: Topology, clock: Clock) -> Net:
    """Return the arrays of a machine, for chunks that are all of one size."""
    src = np.array([link.src for link in topology.links], dtype=np.int64)
    dst = np.array([link.dst for link in topology.links], dtype=np.int64)
    busy = np.array([clock.busy(i) for i in range(len(src))], dtype=np.int64)
    lag = np.array([clock.lag(i) for i in range(len(src))], dtype=np.int64)
    shared = shared_of(topology, clock)
    busy = np.maximum(busy, busy - shared.beta + shared.least)
    costs, kind = np.unique(np.stack([busy + lag, lag]), axis=1, return_inverse=True)
    kind = kind.reshape(-1).astype(np.int64)
    in_first, into = grouped(dst, kind, topology.ranks)
    out_first, out = grouped(src, kind, topology.ranks)
    level = _levels(costs[0])
    return Net(
        src=src.astype(np.uint64),
        dst=dst.astype(np.uint64),
        kind=kind.astype(np.uint64),
        busy=costs[0] - costs[1],
        lag=costs[1].copy(),
        in_first=in_first,
        into=into,
        out_first=out_first,
        out=out,
        soon=_soon(in_first, into, kind, costs[0] - costs[1]),
        level=level.astype(np.uint64),
        near=_near(src, dst, level[kind], topology.ranks),
        pipes_first=shared.pipes_first,
        pipes=shared.pipes,
        weight=shared.weight,
        room=shared.room,
        release=shared.release,
        members_first=shared.members_first,
        members=shared.members,
    )


def _soon(in_first: Count, into: Count, kind: Ticks, busy: Ticks) -> Count:
    """Return how many chunks cheaper links bring to where each link leads, while it is busy."""
    soon = np.zeros(len(kind), dtype=np.uint64)
    for first, end in zip(in_first[:-1].tolist(), in_first[1:].tolist(), strict=True):
        links = into[first:end]
        if kind[links[0]] != kind[links[-1]] if len(links) else False:
            for link in links:
                cheaper = busy[kind[links[kind[links] < kind[link]]]]
                soon[link] = int((busy[kind[link]] // cheaper).sum())
    return soon


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
