"""Groups of symmetries of which only the identity keeps a rank: semiregular ones, known by tables.

Such a group takes a rank to each other of its orbit in one way, so that what it does with ranks is
two tables of all pairs, and what one rank of each orbit does stands for all, whatever that is.
Source: Wielandt, Finite Permutation Groups (1964), section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MOST_RANKS = 4096
"""Beyond, the tables take more than 64 MB each."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeGroup:
    """Symmetries of which only the identity keeps a rank.

    Attributes:
        firsts: a rank of each orbit, ascending.
        first: of each rank that of its orbit.
        back: of each rank, row by row, the element that takes it there.
    """

    firsts: tuple[int, ...]
    first: Ints
    back: NDArray[np.int32]

    @property
    def size(self) -> int:
        """Return how many elements it has."""
        return len(self.first) // len(self.firsts)

    def kinds(self, things: Sequence[Ints]) -> Ints:
        """Return numbers of the orbits of tuples of ranks: equal where some element maps them.

        Args:
            things: the first ranks of all tuples, the second ones, and so on.
        """
        lead, ranks = things[0], len(self.first)
        code = self.first[lead]
        for others in things[1:]:
            code = code * ranks + self.back[lead, others]
        return np.unique(code, return_inverse=True)[1].reshape(-1).astype(np.int64)


def free_group(images: Sequence[Sequence[int]], ranks: int) -> FreeGroup | None:
    """Return the group of some permutations. None: an element other than the identity keeps a rank.

    None as well of more than :data:`MOST_RANKS` ranks.

    Of each orbit a tree of ways leads from its first rank to all others. What keeps the first is
    made of a way, a generator and the way back (Schreier), so that it is enough to look at these.
    """
    if ranks > MOST_RANKS:
        return None
    generators = [np.array(image, np.int32) for image in images]
    ways = np.zeros((ranks, ranks), np.int32)
    first = np.full(ranks, -1, np.int64)
    firsts = []
    for start in range(ranks):
        if first[start] >= 0:
            continue
        firsts.append(start)
        first[start], ways[start] = start, np.arange(ranks)
        for here in (order := [start]):
            for image in generators:
                there = int(image[here])
                way = image[ways[here]]
                if first[there] < 0:
                    first[there], ways[there] = start, way
                    order.append(there)
                elif not np.array_equal(way, ways[there]):
                    return None
    back = np.argsort(ways, axis=1).astype(np.int32)
    return FreeGroup(tuple(firsts), first, back)
