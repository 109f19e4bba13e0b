"""Shortest paths, in ticks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import IntArray
from sccl.synth.limits import INFINITE
from sccl.synth.network.arrays import NetworkArrays


def all_pairs(nodes: int, src: Sequence[int], dst: Sequence[int], cost: Sequence[int]) -> IntArray:
    """Return the length of a shortest path from each node to each other (Floyd and Warshall).

    Args:
        nodes: Number of nodes.
        src: Node at which each link starts.
        dst: Node at which each link ends.
        cost: Length of each link.

    Returns:
        Shape (nodes, nodes), :data:`INFINITE` where no path leads.
    """
    far = np.full((nodes, nodes), INFINITE, dtype=np.int64)
    np.fill_diagonal(far, 0)
    np.minimum.at(far, (np.array(src), np.array(dst)), np.array(cost))
    for middle in range(nodes):
        np.minimum(far, far[:, [middle]] + far[[middle], :], out=far)
    return far


@compiled
def _relax(
    first: NDArray[np.int64],
    links: NDArray[np.int64],
    ends: NDArray[np.int64],
    cost: NDArray[np.int64],
    node_ticks: NDArray[np.int64],
) -> None:
    """Lower the ticks of all nodes to those of shortest paths (Bellman and Ford, with a queue).

    Args:
        first: Index of each node's first entry of ``links``, and the total.
        links: Links by node.
        ends: Other end of each link.
        cost: Ticks of each link.
        node_ticks: Ticks of each node, INFINITE if unknown. Updated.
    """
    nodes = len(node_ticks)
    queue = np.empty(nodes, dtype=np.int64)
    waits = np.zeros(nodes, dtype=np.bool_)
    head, count = 0, 0
    for node in range(nodes):
        if node_ticks[node] < INFINITE:
            queue[count], waits[node] = node, True
            count += 1
    while count:
        node = queue[head]
        head = head + 1 if head + 1 < nodes else 0
        count -= 1
        waits[node] = False
        for place in range(first[node], first[node + 1]):
            link = links[place]
            neighbor, ticks = ends[link], node_ticks[node] + cost[link]
            if ticks < node_ticks[neighbor]:
                node_ticks[neighbor] = ticks
                if not waits[neighbor]:
                    at = head + count
                    queue[at if at < nodes else at - nodes] = neighbor
                    waits[neighbor] = True
                    count += 1


class ShortestPaths:
    """Shortest paths of a machine, computed on demand.

    Args:
        net: The machine.
        cost: Ticks of each link. None: its own cost.
    """

    def __init__(self, net: NetworkArrays, cost: NDArray[np.int64] | None = None) -> None:
        self.nodes = net.nodes
        self.cost = net.cost if cost is None else cost
        self.src, self.dst = net.src.astype(np.int64), net.dst.astype(np.int64)
        self._out = net.out_first.astype(np.int64), net.out.astype(np.int64)
        self._into = net.in_first.astype(np.int64), net.into.astype(np.int64)

    def distances_from(self, sources: list[int]) -> NDArray[np.int64]:
        """Return the ticks from the nearest source to each node, or INFINITE."""
        node_ticks = np.full(self.nodes, INFINITE, dtype=np.int64)
        node_ticks[sources] = 0
        _relax(*self._out, self.dst, self.cost, node_ticks)
        return node_ticks

    def distances_to(self, ranks: list[int]) -> NDArray[np.int64]:
        """Return the ticks from each node to the nearest destination, or INFINITE."""
        node_ticks = np.full(self.nodes, INFINITE, dtype=np.int64)
        node_ticks[ranks] = 0
        _relax(*self._into, self.src, self.cost, node_ticks)
        return node_ticks

    def predecessors(self, sources: list[int]) -> list[int]:
        """Return the node before each node on a shortest path from the nearest source. -1: none."""
        far = self.distances_from(sources)
        before = np.full(self.nodes, -1, dtype=np.int64)
        on_way = np.flatnonzero(
            (far[self.src] < INFINITE) & (far[self.src] + self.cost == far[self.dst])
        )
        before[self.dst[on_way]] = self.src[on_way]
        return [int(node) for node in before]
