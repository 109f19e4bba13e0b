"""Group links by node, and find strongly connected components."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray, UInt64Array


def group_rows(
    key: NDArray[np.int64], within: NDArray[np.int64], groups: int
) -> tuple[UInt64Array, UInt64Array]:
    """Return the first row of each group, and the rows by group, sorted by ``within``."""
    first = np.zeros(groups + 1, dtype=np.uint64)
    first[1:] = np.cumsum(np.bincount(key, minlength=groups))
    return first, np.lexsort((np.arange(len(key)), within, key)).astype(np.uint64)


def distinct_columns(columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct columns, sorted, and the index of each column among them."""
    if columns.size and (columns == columns[:, :1]).all():  # the common case: saves sorting
        return columns[:, :1], np.zeros(columns.shape[1], dtype=np.int64)
    kinds, places = np.unique(columns, axis=1, return_inverse=True)
    return kinds, places.reshape(-1).astype(np.int64)


def strong_components(
    src: NDArray[np.int64], dst: NDArray[np.int64], nodes: int
) -> NDArray[np.uint32]:
    """Return the number of each node's strongly connected component over the given links.

    Each component takes a forward and a backward search. The total is linear if links have both
    directions.
    """
    component = np.full(nodes, -1, dtype=np.int64)
    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    onward, back = _adjacent(pairs, nodes), _adjacent(((v, u) for u, v in pairs), nodes)
    number = 0
    for node in range(nodes):
        if component[node] < 0:
            both = _reachable_nodes(onward, node, component) & _reachable_nodes(
                back, node, component
            )
            component[sorted(both)] = number
            number += 1
    return component.astype(np.uint32)


def _adjacent(pairs: Iterable[tuple[int, int]], nodes: int) -> list[list[int]]:
    neighbors: list[list[int]] = [[] for _ in range(nodes)]
    for u, v in pairs:
        neighbors[u].append(v)
    return neighbors


def _reachable_nodes(
    adjacent: list[list[int]], start: int, component: NDArray[np.int64]
) -> set[int]:
    """Return the nodes without a component that can be reached through such nodes."""
    seen, todo = {start}, [start]
    while todo:
        for neighbor in adjacent[todo.pop()]:
            if neighbor not in seen and component[neighbor] < 0:
                seen.add(neighbor)
                todo.append(neighbor)
    return seen
