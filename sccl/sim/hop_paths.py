"""Shortest paths to one node, by fewest links: loops that are compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled_in_place

UNREACHED = -1


@compiled_in_place
def distances_to(
    node: int,
    first: NDArray[np.int64],
    source: NDArray[np.int64],
    far: NDArray[np.int64],
    reached: NDArray[np.int64],
) -> None:
    """Write into ``far`` the fewest links from each node to ``node``, or :data:`UNREACHED`.

    Args:
        first: of each node, where the links that lead to it begin in ``source``.
        source: where each of them comes from.
        reached: as long as ``far``. The nodes in the order in which they are reached.
    """
    far[:] = UNREACHED
    far[node] = 0
    reached[0] = node
    count, at = 1, 0
    while at < count:
        current = reached[at]
        at += 1
        for i in range(first[current], first[current + 1]):
            before = source[i]
            if far[before] == UNREACHED:
                far[before] = far[current] + 1
                reached[count] = before
                count += 1


@compiled_in_place
def trace_paths(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    src: NDArray[np.int64],
    dst: int,
    far: NDArray[np.int64],
    first: NDArray[np.int64],
    target: NDArray[np.int64],
    path: NDArray[np.int64],
) -> None:
    """Write into ``path`` the links of a shortest path from each of ``src`` to ``dst`` in turn.

    At each node a hash of source, destination and node selects the next one among nearer nodes.

    Args:
        far: distances from :func:`distances_to` for ``dst``.
        first: by node, where its outgoing links begin in ``target``, which orders all links.
        target: the node at the end of each link.
        path: as long as all paths together.
    """
    hop = 0
    for begin in src:
        current = begin
        while current != dst:
            nearer = 0
            for i in range(first[current], first[current + 1]):
                nearer += far[target[i]] == far[current] - 1
            # Products of 31 and 30 bits stay within 64.
            mixed = (begin * 2654435761 + dst * 1640531527 + current * 1013904223) & 0x7FFFFFFF
            mixed = ((mixed ^ (mixed >> 15)) * 739982445) & 0x7FFFFFFF
            mixed = ((mixed ^ (mixed >> 12)) * 695872825) & 0x7FFFFFFF
            chosen = (mixed ^ (mixed >> 15)) % nearer
            i = first[current]
            while far[target[i]] != far[current] - 1 or chosen > 0:
                chosen -= far[target[i]] == far[current] - 1
                i += 1
            path[hop] = i
            hop += 1
            current = target[i]
