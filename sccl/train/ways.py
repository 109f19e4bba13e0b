"""Ways of messages over a channel: the fastest, by what they take on each link in turn.

A message of some bytes takes on a link its latency and the bytes over the bandwidth, so within a
node it goes over NVLink, though a network joins the same ranks by as many links. Of several that
are equally fast a pair of nodes takes one by a hash of the pair at every node on the way, as
:mod:`sccl.sim.routes` does.
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
        """Return the way of each pair for messages of some bytes.

        Args:
            size: bytes of each; what counts is how many binary digits it has.

        Raises:
            UnreachableError: none leads from some source to its target.
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
        """Return of sizes of so many binary digits what :func:`_walked` reads."""
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
    """Write into ``far`` what it takes from each node to a rank.

    Args:
        cost: of each link.
        first: of each node, where those that lead to it begin in ``entering``.
        source: of each link, where it comes from.
        far: so large that nothing takes as long.
        row: one longer than ``far``; nodes from which ways got shorter.
        waiting: as long as ``far``, all False; whether a node is in the row.
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
    """Write into ``only`` by which link fastest ways go on, where they all go by one.

    Args:
        far: by rank, what it takes from each node to it.
        first: of each node, where the links that leave it begin.
        to: of each link, where it leads.
        only: by rank and node; as it is where there are several.
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
    """Write the links of a fastest way of each pair; return how many in all, -1: too many.

    Args:
        far: by rank, what it takes from each node to it.
        cost: what each link takes.
        only: what :func:`_find_only` wrote.
        first: of each node, where the links that leave it begin.
        to: of each link, where it leads.
        lengths: of each pair, how many links. -1: there is no way.
        path: all of them, pair after pair.
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
