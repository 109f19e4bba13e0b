"""In which order ranks of a group stand in a ring: along links of a machine, if these join them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.topology import Topology

Whole = NDArray[np.int64]

_LARGEST = 16
"""Ranks of a group whose links are looked at."""

_TRIES = 20_000
"""Links that are looked at."""


def by_number(group: Whole) -> Whole:
    """Return the places of a group by rank, in which order those of a node lie together."""
    return np.argsort(group, kind="stable")


class LinkedRings:
    """Rings along a machine's links, of which those with more bandwidth come first."""

    def __init__(self, topology: Topology) -> None:
        self._next: dict[int, list[int]] = {}
        for link in sorted(topology.links, key=lambda k: (-k.lanes * k.gb_per_s, k.edge)):
            if max(link.edge) < topology.ranks:
                self._next.setdefault(link.src, []).append(link.dst)
        self._known: dict[tuple[int, ...], list[int] | None] = {}

    def __call__(self, group: Whole) -> Whole:
        """Return the places of a group along a ring of links. By number, if there is none."""
        ranks = tuple(sorted(group.tolist()))
        if ranks not in self._known:
            few = 2 < len(ranks) <= _LARGEST and self._next
            self._known[ranks] = self._ring(ranks) if few else None
        ring = self._known[ranks]
        if ring is None:
            return by_number(group)
        place = {rank: k for k, rank in enumerate(group.tolist())}
        return np.array([place[rank] for rank in ring], np.int64)

    def _ring(self, ranks: tuple[int, ...]) -> list[int] | None:
        """Return ranks of which each has a link to the next, and the last to the first."""
        wanted, way = set(ranks), [ranks[0]]
        left = [iter(self._next.get(ranks[0], ()))]
        for _ in range(_TRIES):
            rank = next(left[-1], None)
            if rank is None:
                left.pop()
                way.pop()
                if not way:
                    return None
            elif rank in wanted and rank not in way:
                way.append(rank)
                if len(way) == len(ranks) and ranks[0] in self._next.get(rank, ()):
                    return way
                left.append(iter(self._next.get(rank, ())))
        return None
