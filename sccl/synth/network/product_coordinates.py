"""Find coordinates of ranks in a machine whose links form a Cartesian product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sccl.core.ids import Edge
from sccl.topo.symmetry.permutations import Orbits

Coordinates = tuple[tuple[int, ...], ...]
"""The coordinates of each rank."""


def find_coordinates(ranks: int, edges: Sequence[Edge]) -> Coordinates:
    """Return the coordinates of each rank in the finest product of the links.

    Two links belong to one factor if distances require it, or if they meet and are in no common
    square. These are the relation of Djokovic and Winkler, and that of Feder (1992), together.
    """
    pairs = sorted({(min(edge), max(edge)) for edge in edges})
    near = np.zeros((ranks, ranks), np.int64)
    near[tuple(np.array(pairs).T)] = 1
    near += near.T
    far, reachable = np.where(near, 1, np.where(np.eye(ranks, dtype=bool), 0, ranks)), near
    for hops in range(2, ranks):
        reachable = (reachable @ near > 0).astype(np.int64)
        far = np.minimum(far, np.where(reachable, hops, ranks))
    squares = near @ near
    factors = Orbits(range(len(pairs)))
    for (i, (x, y)), (j, (u, v)) in combinations(enumerate(pairs), 2):
        apart = far[x, u] + far[y, v] != far[x, v] + far[y, u]
        ends = {x, y} ^ {u, v}
        if apart or (len(ends) == 2 and squares[tuple(ends)] == 1):
            factors.join(i, j)
    columns = []
    for factor in factors.members().values():
        layers = Orbits(range(ranks))
        for i in set(range(len(pairs))) - set(factor):
            layers.join(*pairs[i])
        number = {first: n for n, first in enumerate(layers.members())}
        columns.append([number[layers.representative(rank)] for rank in range(ranks)])
    return tuple(zip(*columns, strict=True))
