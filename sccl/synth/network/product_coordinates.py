"""Find coordinates of ranks in a machine whose links form a Cartesian product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sccl.core.graphs import connected_components
from sccl.core.ids import Edge

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
    related = (
        (first, second)
        for first, second in combinations(pairs, 2)
        for (x, y), (u, v), ends in [(first, second, {*first} ^ {*second})]
        if far[x, u] + far[y, v] != far[x, v] + far[y, u]
        or (len(ends) == 2 and squares[tuple(ends)] == 1)
    )
    columns = []
    for factor in connected_components(pairs, related).values():
        layers = connected_components(range(ranks), set(pairs) - set(factor)).values()
        number = {rank: i for i, layer in enumerate(layers) for rank in layer}
        columns.append([number[rank] for rank in range(ranks)])
    return tuple(zip(*columns, strict=True))
