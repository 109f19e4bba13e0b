"""Shortest paths to one node, by number of links, in compiled loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled_in_place
from sccl.core.graphs import UNREACHED


@compiled_in_place
def distances_to(
    node: int,
    first: NDArray[np.int64],
    source: NDArray[np.int64],
    far: NDArray[np.int64],
    reached: NDArray[np.int64],
) -> None:
    """Write the hop distance from each node to ``node`` into ``far``, by breadth-first search.

    Args:
        node: destination.
        first: index in ``source`` of each node's first incoming link.
        source: source node of each link, grouped by the link's destination.
        far: output: distance of each node, or :data:`UNREACHED`.
        reached: work space: nodes in the order in which they are reached. As long as ``far``.
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
    """Write the links of a shortest path from each node of ``src`` to ``dst`` into ``path``.

    At each node, a hash of source, destination and node selects the next node among the nearer
    ones.

    Args:
        src: source nodes.
        dst: destination of all paths.
        far: distances from :func:`distances_to` for ``dst``.
        first: index in ``target`` of each node's first outgoing link.
        target: destination node of each link, grouped by the link's source.
        path: output: links of all paths, one path after the other. As long as all paths together.
    """
    hop = 0
    for begin in src:
        current = begin
        while current != dst:
            nearer = 0
            for i in range(first[current], first[current + 1]):
                nearer += far[target[i]] == far[current] - 1
            # Products of 31-bit and 30-bit numbers fit into 64 bits.
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
