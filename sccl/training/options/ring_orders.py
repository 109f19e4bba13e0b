"""In which order ranks of a group stand in a ring: along links of a machine, if these join them."""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.topology import Topology

_MAX_RANKS = 16
"""Ranks of a group whose links are looked at."""

_MAX_TRIES = 20_000
"""Links that are looked at."""


def rank_order(group: IntArray) -> IntArray:
    """Return the places of a group by rank, in which order those of a node lie together."""
    return np.argsort(group, kind="stable")


class LinkedRings:
    """Rings along a machine's links, of which those with more bandwidth come first."""

    def __init__(self, topology: Topology) -> None:
        self._next: dict[int, list[int]] = {}
        for link in sorted(topology.links, key=lambda k: (-k.lanes * k.gb_per_s, k.edge)):
            if max(link.edge) < topology.ranks:
                self._next.setdefault(link.src, []).append(link.dst)
        self._ring_cache: dict[tuple[int, ...], list[int] | None] = {}

    def __call__(self, group: IntArray) -> IntArray:
        """Return the places of a group along a ring of links. By number, if there is none."""
        ranks = tuple(sorted(group.tolist()))
        if ranks not in self._ring_cache:
            few = 2 < len(ranks) <= _MAX_RANKS and self._next
            self._ring_cache[ranks] = self._find_ring(ranks) if few else None
        ring = self._ring_cache[ranks]
        if ring is None:
            return rank_order(group)
        place = {rank: k for k, rank in enumerate(group.tolist())}
        return np.array([place[rank] for rank in ring], np.int64)

    def _find_ring(self, ranks: tuple[int, ...]) -> list[int] | None:
        """Return ranks of which each has a link to the next, and the last to the first."""
        wanted, path = set(ranks), [ranks[0]]
        left = [iter(self._next.get(ranks[0], ()))]
        for _ in range(_MAX_TRIES):
            rank = next(left[-1], None)
            if rank is None:
                left.pop()
                path.pop()
                if not path:
                    return None
            elif rank in wanted and rank not in path:
                path.append(rank)
                if len(path) == len(ranks) and ranks[0] in self._next.get(rank, ()):
                    return path
                left.append(iter(self._next.get(rank, ())))
        return None
