"""Order, partition, and measure graphs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from sccl.core.ids import Edge

Node = TypeVar("Node")

Number = int | Fraction

UNREACHED = -1


def topological_order(
    predecessors: Mapping[Node, Iterable[Node]], key: Callable[[Node], Any]
) -> list[Node]:
    """Return nodes in topological order (Kahn). Among ready nodes, the lowest key comes first.

    This takes a third of the time of ``graphlib.TopologicalSorter``, for large traces.

    Args:
        predecessors: Predecessors of each node, all of them nodes.
        key: Key of a node, which no other node has.

    Returns:
        The order. Nodes on cycles, and all that follow them, are left out.

    Examples:
        >>> topological_order({"a": ["c"], "b": [], "c": []}, key=str)
        ['b', 'c', 'a']
    """
    successors: dict[Node, list[Node]] = {node: [] for node in predecessors}
    waits = dict.fromkeys(predecessors, 0)
    for node, sources in predecessors.items():
        for source in sources:
            successors[source].append(node)
            waits[node] += 1
    ready = [(key(node), node) for node, count in waits.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for successor in successors[node]:
            waits[successor] -= 1
            if not waits[successor]:
                heapq.heappush(ready, (key(successor), successor))
    return order


def connected_components(
    nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]
) -> dict[Node, list[Node]]:
    """Return the members of each connected component by its first node, in the order of nodes.

    Examples:
        >>> connected_components("abcd", [("c", "a"), ("b", "d")])
        {'a': ['a', 'c'], 'b': ['b', 'd']}
    """
    ordered = list(nodes)
    place = {node: k for k, node in enumerate(ordered)}
    parent = list(range(len(ordered)))  # union-find: the root of a tree is its first node

    def find_root(k: int) -> int:
        while parent[k] != k:
            parent[k] = k = parent[parent[k]]
        return k

    for source, target in edges:
        low, high = sorted((find_root(place[source]), find_root(place[target])))
        parent[high] = low
    components: dict[Node, list[Node]] = {}
    for k, node in enumerate(ordered):
        components.setdefault(ordered[find_root(k)], []).append(node)
    return components


def first_members(components: Mapping[Node, Iterable[Node]]) -> dict[Node, Node]:
    """Map each node to the first node of its component.

    Examples:
        >>> first_members({"a": ["a", "c"], "b": ["b"]})
        {'a': 'a', 'c': 'a', 'b': 'b'}
    """
    return {node: first for first, members in components.items() for node in members}


def distances(successors: Sequence[Sequence[int]], sources: Iterable[int]) -> list[int]:
    """Return the fewest links from any of ``sources`` to each node, :data:`UNREACHED` if none.

    Args:
        successors: The successors of each node.
        sources: The nodes at distance 0.
    """
    distance_of = [UNREACHED] * len(successors)
    reached = sorted(set(sources))
    for node in reached:
        distance_of[node] = 0
    for node in reached:  # grows during the loop: breadth first
        for neighbor in successors[node]:
            if distance_of[neighbor] == UNREACHED:
                distance_of[neighbor] = distance_of[node] + 1
                reached.append(neighbor)
    return distance_of


def shortest_paths(
    successors: Sequence[Sequence[int]], length: Mapping[Edge, Number], sources: Iterable[int]
) -> dict[int, Number]:
    """Return the length of a shortest path from ``sources`` to each node in reach (Dijkstra).

    Args:
        successors: The successors of each node.
        length: Length of each edge, at least 0.
        sources: The nodes at distance 0.
    """
    far: dict[int, Number] = {}
    queue: list[tuple[Number, int]] = [(0, s) for s in sorted(sources)]
    while queue:
        distance, node = heapq.heappop(queue)
        if node in far:
            continue
        far[node] = distance
        for neighbor in successors[node]:
            if neighbor not in far:
                heapq.heappush(queue, (distance + length[node, neighbor], neighbor))
    return far
