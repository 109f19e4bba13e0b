"""Find the fastest routes of messages over a channel, by their times on each link.

The time on a link is its latency plus bytes over bandwidth. Within a node a message therefore uses
NVLink, even if a network joins the same ranks by as few links. Among equally fast routes, a hash of
both ends and the current node selects the next link, as in :mod:`sccl.sim.message_routes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled_in_place
from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.errors import UnreachableError

_UNREACHABLE = 2**62
_MULTIPLE_LINKS = -1


@dataclass(frozen=True, slots=True, eq=False)
class RankRoutes:
    """Routes of pairs of ranks.

    Attributes:
        first: Offset of each route in ``link``, and the total at the end.
        link: Links of all routes, as indices in ``topology.links``.
    """

    first: IntArray
    link: IntArray


class FastestRoutes:
    """The fastest routes over a machine. Sizes with equally many binary digits share routes."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        nodes = topology.ranks + len(topology.switches)
        ends = np.array([k.edge for k in topology.links], np.int64)
        self._source, self._target = ends.T.copy()
        by_target = np.argsort(self._target, kind="stable")
        self._entering = by_target
        self._entering_first = np.searchsorted(self._target[by_target], np.arange(nodes + 1))
        self._leaving_first = np.searchsorted(self._source, np.arange(nodes + 1))  # links ascend
        self._tables_of: dict[int, tuple[IntArray, IntArray, IntArray]] = {}

    def routes_for(self, source: IntArray, target: IntArray, size: int) -> RankRoutes:
        """Return the route of each pair of ranks for messages of some size.

        Args:
            source: Source rank of each pair.
            target: Target rank of each pair.
            size: Bytes of a message. Only the number of binary digits matters.

        Raises:
            UnreachableError: A pair has no route.
        """
        far, cost, only = self._route_tables(max(1, size).bit_length())
        lengths = np.empty(len(source), np.int64)
        capacity = len(source) * 8
        while True:
            link = np.empty(capacity, np.int64)
            first, to = self._leaving_first, self._target
            used = _trace_routes(source, target, far, cost, only, first, to, lengths, link)
            if used >= 0:
                break
            capacity *= 2
        if (lost := np.flatnonzero(lengths < 0)).size:
            row = int(lost[0])
            raise UnreachableError(
                f"no path leads from rank {source[row]} to rank {target[row]} on topology "
                f"{self._topology.name!r}: give a channel that joins them"
            )
        return RankRoutes(np.concatenate([[0], np.cumsum(lengths)]), link[:used])

    def _route_tables(self, digits: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return distances, link costs, and unique next links for sizes with these digits."""
        if digits not in self._tables_of:
            clock = Clock.from_topology(self._topology, 2 ** (digits - 1))
            cost = np.array(clock.alpha, np.int64) + np.array(clock.beta[0], np.int64)
            nodes = len(self._leaving_first) - 1
            far = np.full((self._topology.ranks, nodes), _UNREACHABLE, np.int64)
            row, waiting = np.empty(nodes + 1, np.int64), np.zeros(nodes, np.bool_)
            first, entering, source = self._entering_first, self._entering, self._source
            for rank in range(self._topology.ranks):
                _distances(rank, cost, first, entering, source, far[rank], row, waiting)
            only = np.full(far.shape, _MULTIPLE_LINKS, np.int64)
            _find_unique_links(far, cost, self._leaving_first, self._target, only)
            self._tables_of[digits] = far, cost, only
        return self._tables_of[digits]


@compiled_in_place
def _distances(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    rank: int,
    cost: IntArray,
    first: IntArray,
    entering: IntArray,
    source: IntArray,
    far: IntArray,
    row: IntArray,
    waiting: NDArray[np.bool_],
) -> None:
    """Write the distance from each node to a rank into ``far``.

    Args:
        rank: Target rank.
        cost: Cost of each link.
        first: Offset of the incoming links of each node in ``entering``.
        entering: Links, sorted by target.
        source: Source of each link.
        far: Distances, initialized with larger values. Updated.
        row: Queue of nodes with improved distances, one entry longer than ``far``.
        waiting: Whether a node is in the queue. All False.
    """
    far[rank] = 0
    row[0] = rank
    head, tail = 0, 1
    while head != tail:
        node = row[head]
        head = (head + 1) % len(row)
        waiting[node] = False
        for i in range(first[node], first[node + 1]):
            link = entering[i]
            before = source[link]
            if far[node] + cost[link] < far[before]:
                far[before] = far[node] + cost[link]
                if not waiting[before]:
                    waiting[before] = True
                    row[tail] = before
                    tail = (tail + 1) % len(row)


@compiled_in_place
def _find_unique_links(
    far: IntArray, cost: IntArray, first: IntArray, to: IntArray, only: IntArray
) -> None:
    """Write the next link of the fastest routes into ``only``, if it is unique.

    Args:
        far: Distance from each node to each rank, shape (ranks, nodes).
        cost: Cost of each link.
        first: Index of the first outgoing link of each node.
        to: Target of each link.
        only: Next link to each rank from each node, shape (ranks, nodes). Unchanged if there are
            several.
    """
    for end in range(far.shape[0]):
        for node in range(far.shape[1]):
            nearer, last = 0, 0
            for link in range(first[node], first[node + 1]):
                if far[end, to[link]] + cost[link] == far[end, node]:
                    nearer += 1
                    last = link
            if nearer == 1:
                only[end, node] = last


@compiled_in_place
def _next_link(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    begin: int, end: int, node: int, far: IntArray, cost: IntArray, first: IntArray, to: IntArray
) -> int:
    """Return the next link from a node to a rank, selected by a hash among equally fast links."""
    nearer = 0
    for link in range(first[node], first[node + 1]):
        nearer += far[end, to[link]] + cost[link] == far[end, node]
    # Products of 31 and 30 bits stay within 64.
    mixed = (begin * 2654435761 + end * 1640531527 + node * 1013904223) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 739982445) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 12)) * 695872825) & 0x7FFFFFFF
    chosen = (mixed ^ (mixed >> 15)) % nearer
    link = first[node]
    while far[end, to[link]] + cost[link] != far[end, node] or chosen > 0:
        chosen -= far[end, to[link]] + cost[link] == far[end, node]
        link += 1
    return int(link)


@compiled_in_place
def _trace_routes(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    source: IntArray,
    target: IntArray,
    far: IntArray,
    cost: IntArray,
    only: IntArray,
    first: IntArray,
    to: IntArray,
    lengths: IntArray,
    path: IntArray,
) -> int:
    """Write the links of a fastest route of each pair. Return their number. -1: too many.

    Args:
        source: Source rank of each pair.
        target: Target rank of each pair.
        far: Distance from each node to each rank, shape (ranks, nodes).
        cost: Cost of each link.
        only: Result of :func:`_find_unique_links`.
        first: Index of the first outgoing link of each node.
        to: Target of each link.
        lengths: Number of links of each route. -1: there is no route. Updated.
        path: Links of all routes, pair after pair. Updated.
    """
    hop = 0
    for row in range(len(source)):
        begin, end = source[row], target[row]
        lengths[row] = -1
        if far[end, begin] >= _UNREACHABLE:
            continue
        node, started = begin, hop
        while node != end:
            link = only[end, node]
            if link < 0:
                link = _next_link(begin, end, node, far, cost, first, to)
            if hop == len(path):
                return -1
            path[hop] = link
            hop += 1
            node = to[link]
        lengths[row] = hop - started
    return hop
