"""Find fastest paths of messages over a channel, by their times on each link.

A message takes on each link its latency and its bytes over the bandwidth. Within a node it
therefore uses NVLink, even if a network joins the same ranks by as many links. Among equally fast
paths, a hash of the pair of nodes selects one at every node, as in :mod:`sccl.sim.routes`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled_in_place
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.errors import UnreachableError

Whole = NDArray[np.int64]

_NOWHERE = 2**62
_SEVERAL = -1


@dataclass(frozen=True, slots=True, eq=False)
class RankWays:
    """Ways of some pairs of ranks.

    Attributes:
        first: where that of each pair begins in ``link``. One more at the end.
        link: the links of all, by their places in ``topology.links``.
    """

    first: Whole
    link: Whole


class FastestWays:
    """The fastest ways over a machine; sizes that are about alike have the same."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        nodes = topology.ranks + len(topology.switches)
        ends = np.array([k.edge for k in topology.links], np.int64)
        self._source, self._target = ends.T.copy()
        by_target = np.argsort(self._target, kind="stable")
        self._entering = by_target
        self._entering_first = np.searchsorted(self._target[by_target], np.arange(nodes + 1))
        self._leaving_first = np.searchsorted(self._source, np.arange(nodes + 1))  # links ascend
        self._tables_of: dict[int, tuple[Whole, Whole, Whole]] = {}

    def of(self, source: Whole, target: Whole, size: int) -> RankWays:
        """Return the path of each pair for messages of some bytes.

        Args:
            size: Bytes of each. Only the number of binary digits matters.

        Raises:
            UnreachableError: No path leads from some source to its target.
        """
        far, cost, only = self._tables(max(1, size).bit_length())
        lengths = np.empty(len(source), np.int64)
        most = len(source) * 8
        while True:
            link = np.empty(most, np.int64)
            first, to = self._leaving_first, self._target
            used = _walked(source, target, far, cost, only, first, to, lengths, link)
            if used >= 0:
                break
            most *= 2
        if (lost := np.flatnonzero(lengths < 0)).size:
            row = int(lost[0])
            raise UnreachableError(
                f"no way leads from rank {source[row]} to rank {target[row]} on topology "
                f"{self._topology.name!r}: give a channel that joins them"
            )
        return RankWays(np.concatenate([[0], np.cumsum(lengths)]), link[:used])

    def _tables(self, digits: int) -> tuple[Whole, Whole, Whole]:
        """Return the tables of :func:`_walked` for sizes with this number of binary digits."""
        if digits not in self._tables_of:
            clock = Clock.of(self._topology, 2 ** (digits - 1))
            cost = np.array(clock.alpha, np.int64) + np.array(clock.beta[0], np.int64)
            nodes = len(self._leaving_first) - 1
            far = np.full((self._topology.ranks, nodes), _NOWHERE, np.int64)
            row, waiting = np.empty(nodes + 1, np.int64), np.zeros(nodes, np.bool_)
            first, entering, source = self._entering_first, self._entering, self._source
            for rank in range(self._topology.ranks):
                _distances(rank, cost, first, entering, source, far[rank], row, waiting)
            only = np.full(far.shape, _SEVERAL, np.int64)
            _find_only(far, cost, self._leaving_first, self._target, only)
            self._tables_of[digits] = far, cost, only
        return self._tables_of[digits]


@compiled_in_place
def _distances(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    rank: int,
    cost: Whole,
    first: Whole,
    entering: Whole,
    source: Whole,
    far: Whole,
    row: Whole,
    waiting: NDArray[np.bool_],
) -> None:
    """Write the distance from each node to a rank into ``far``.

    Args:
        cost: Cost of each link.
        first: For each node, index of its first incoming link in ``entering``.
        source: Source of each link.
        far: Initialized with values larger than any distance.
        row: Work space, one longer than ``far``: nodes with improved distances.
        waiting: Work space, as long as ``far``, all False: whether a node is in the row.
    """
    far[rank] = 0
    row[0] = rank
    head, tail = 0, 1
    while head != tail:
        here = row[head]
        head = (head + 1) % len(row)
        waiting[here] = False
        for i in range(first[here], first[here + 1]):
            link = entering[i]
            before = source[link]
            if far[here] + cost[link] < far[before]:
                far[before] = far[here] + cost[link]
                if not waiting[before]:
                    waiting[before] = True
                    row[tail] = before
                    tail = (tail + 1) % len(row)


@compiled_in_place
def _find_only(far: Whole, cost: Whole, first: Whole, to: Whole, only: Whole) -> None:
    """Write the next link of fastest paths into ``only``, if it is unique.

    Args:
        far: By rank, distance of each node to it.
        first: For each node, index of its first outgoing link.
        to: Target of each link.
        only: By rank and node. Unchanged if there are several.
    """
    for end in range(far.shape[0]):
        for here in range(far.shape[1]):
            nearer, last = 0, 0
            for link in range(first[here], first[here + 1]):
                if far[end, to[link]] + cost[link] == far[end, here]:
                    nearer += 1
                    last = link
            if nearer == 1:
                only[end, here] = last


@compiled_in_place
def _next(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    begin: int, end: int, here: int, far: Whole, cost: Whole, first: Whole, to: Whole
) -> int:
    """Return by which of several links a way from a rank to another goes on from a node."""
    nearer = 0
    for link in range(first[here], first[here + 1]):
        nearer += far[end, to[link]] + cost[link] == far[end, here]
    # Products of 31 and 30 bits stay within 64.
    mixed = (begin * 2654435761 + end * 1640531527 + here * 1013904223) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 739982445) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 12)) * 695872825) & 0x7FFFFFFF
    chosen = (mixed ^ (mixed >> 15)) % nearer
    link = first[here]
    while far[end, to[link]] + cost[link] != far[end, here] or chosen > 0:
        chosen -= far[end, to[link]] + cost[link] == far[end, here]
        link += 1
    return int(link)


@compiled_in_place
def _walked(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    source: Whole,
    target: Whole,
    far: Whole,
    cost: Whole,
    only: Whole,
    first: Whole,
    to: Whole,
    lengths: Whole,
    path: Whole,
) -> int:
    """Write the links of a fastest path of each pair. Return their number, -1: too many.

    Args:
        far: By rank, distance of each node to it.
        cost: Cost of each link.
        only: Result of :func:`_find_only`.
        first: For each node, index of its first outgoing link.
        to: Target of each link.
        lengths: For each pair, number of links. -1: there is no path. Updated.
        path: All links, pair after pair. Updated.
    """
    hop = 0
    for row in range(len(source)):
        begin, end = source[row], target[row]
        lengths[row] = -1
        if far[end, begin] >= _NOWHERE:
            continue
        here, started = begin, hop
        while here != end:
            link = only[end, here]
            if link < 0:
                link = _next(begin, end, here, far, cost, first, to)
            if hop == len(path):
                return -1
            path[hop] = link
            hop += 1
            here = to[link]
        lengths[row] = hop - started
    return hop
