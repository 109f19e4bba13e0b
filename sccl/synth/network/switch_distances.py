"""Compute shortest times from rank to rank over any number of switches.

Chunks are planned over the fewest switches (:mod:`sccl.synth.network.routes`). Lower bounds must
consider the other paths: three fast switches can be faster than one slow switch. If switches form
no cycle, only one path joins two of them, and these are all paths.
"""

from __future__ import annotations

import heapq

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.synth.network.adjacency import strong_components
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.routes import has_dominated_routes, passing_ticks
from sccl.synth.network.shortest_paths import ShortestPaths

_Passing = tuple[int, int]
"""Node of a chunk, and the slowest pace since it was last stored whole. 0: it is whole."""


def nearest_paths(
    topology: Topology, clock: Clock, net: NetworkArrays, *, backwards: bool = False
) -> ShortestPaths:
    """Return shortest paths of a machine whose lengths also bound all paths through its switches.

    Args:
        topology: The machine.
        clock: Ticks of links.
        net: Arrays of the same machine and clock.
        backwards: See :func:`nearest_ticks`.
    """
    ends = net.src.astype(np.int64), net.dst.astype(np.int64)
    return ShortestPaths(net, nearest_ticks(topology, clock, *ends, net.cost, backwards=backwards))


def nearest_ticks(  # noqa: PLR0913 - columns of ways
    topology: Topology,
    clock: Clock,
    src: IntArray,
    dst: IntArray,
    cost: IntArray,
    *,
    backwards: bool = False,
) -> IntArray:
    """Return the ticks of paths, none more than any path through switches between the same ranks.

    Args:
        topology: The machine.
        clock: Ticks of links.
        src: Source rank of each path.
        dst: Destination rank of each path.
        cost: Cost of each path in ticks.
        backwards: Whether schedules are reversed in time, on the reversed machine, so that a chunk
            passes each path from its end.
    """
    if not (
        has_detours(topology)
        or has_overlapping_alphas(topology, clock)
        or _has_switch_waits(topology, clock)
    ):
        return cost
    nearest = _SwitchDistances(topology, clock, backwards=backwards)
    src, dst = (dst, src) if backwards else (src, dst)
    ends = zip(src.tolist(), dst.tolist(), cost.tolist(), strict=True)
    return np.array([min(c, nearest.ticks(u).get(v, c)) for u, v, c in ends], dtype=np.int64)


def has_detours(topology: Topology) -> bool:
    """Return whether some paths between ranks are not among the planned routes.

    There are such paths if switches are joined by several paths, or if routes are left out because
    of direct links.
    """
    if has_dominated_routes(topology):
        return True
    between = {(min(k.edge), max(k.edge)) for k in topology.links if min(k.edge) >= topology.ranks}
    if not between:
        return False
    low, high = np.array(sorted(between), dtype=np.int64).T - topology.ranks
    ends, others = np.concatenate([low, high]), np.concatenate([high, low])
    parts = len(np.unique(strong_components(ends, others, len(topology.switches))))
    return len(low) > len(topology.switches) - parts  # a forest has that many


def has_overlapping_alphas(topology: Topology, clock: Clock) -> bool:
    """Return whether a switch may spend a link's alpha while a slower link brings the bytes.

    Planned routes take the sum of all alphas and the slowest passing time, without this overlap. If
    a chunk passes all links in the same number of ticks, there is no difference.
    """
    return (
        clock.model is AlphaModel.OCCUPIES
        and any(switch.cut_through for switch in topology.switches)
        and len(np.unique(passing_ticks(topology, clock))) > 1
    )


def _has_switch_waits(topology: Topology, clock: Clock) -> bool:
    """Return whether plans let a message wait at a switch for a tick without need.

    They do so at links between switches, whose alphas may be 0.
    """
    inner = any(min(link.edge) >= topology.ranks for link in topology.links)
    return inner and min(clock.alpha) == 0


class _SwitchDistances:
    """Shortest times from ranks to ranks through any number of switches, in ticks."""

    def __init__(self, topology: Topology, clock: Clock, *, backwards: bool) -> None:
        self.ranks, self.overlap = topology.ranks, has_overlapping_alphas(topology, clock)
        self.stores_chunks = [True] * self.ranks + [not s.cut_through for s in topology.switches]
        self.out: dict[int, list[tuple[int, int, int]]] = {}
        pace = passing_ticks(topology, clock).tolist()
        for link, alpha, ticks in zip(topology.links, clock.alpha, pace, strict=True):
            src, dst = link.edge[::-1] if backwards else link.edge
            self.out.setdefault(src, []).append((dst, alpha, ticks))
        self._of_rank: dict[int, dict[int, int]] = {}
        self._of_entry: dict[_Passing, dict[int, int]] = {}

    def ticks(self, rank: int) -> dict[int, int]:
        """Return the ticks to each rank that a path through switches reaches."""
        if rank not in self._of_rank:
            reached = self._of_rank[rank] = {}
            for switch, alpha, pace in self.out.get(rank, ()):
                if switch >= self.ranks:
                    ticks, entry = self._entry_ticks(alpha, switch, pace)
                    for target, further in self._distances_within(entry).items():
                        reached[target] = min(reached.get(target, ticks + further), ticks + further)
        return self._of_rank[rank]

    def _entry_ticks(self, ticks: int, switch: int, pace: int) -> tuple[int, _Passing]:
        """Return the ticks until a switch can forward a chunk, and the state of the chunk."""
        return (
            (ticks + pace, (switch, 0)) if self.stores_chunks[switch] else (ticks, (switch, pace))
        )

    def _distances_within(self, entry: _Passing) -> dict[int, int]:
        """Return the ticks from a chunk's state within switches to each rank (Dijkstra)."""
        if entry in self._of_entry:
            return self._of_entry[entry]
        reached, done, heap = dict[int, int](), set[_Passing](), [(0, entry)]
        while heap:
            ticks, state = heapq.heappop(heap)
            if state in done:
                continue
            done.add(state)
            switch, slowest = state
            for target, alpha, pace in self.out.get(switch, ()):
                begins, passing = ticks + alpha, max(slowest, pace)
                arrives = max(begins + pace, slowest) if self.overlap else begins + passing
                if target < self.ranks:
                    reached[target] = min(reached.get(target, arrives), arrives)
                elif self.stores_chunks[target]:
                    heapq.heappush(heap, (arrives, (target, 0)))
                else:
                    heapq.heappush(heap, (begins, (target, passing)))
        self._of_entry[entry] = reached
        return reached
