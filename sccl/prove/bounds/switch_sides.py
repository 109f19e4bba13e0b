"""Assign switches to the sides of a cut of ranks such that its capacity is minimal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from sccl.core.ids import Edge
from sccl.core.topology import Topology


def narrowest_sides(
    topology: Topology, rate: Mapping[Edge, Fraction], group: frozenset[int]
) -> Iterator[frozenset[int]]:
    """Yield a minimum cut around a group of ranks, as a set of nodes with switches.

    If several cuts have the same capacity, yield the nearest to the group and the farthest from it:
    alphas may lie on either side.

    Args:
        rate: rate of each link, bytes per microsecond.
    """
    from igraph import Graph  # noqa: PLC0415 - slow to load, and few commands need it

    ranks, nodes = range(topology.ranks), range(topology.ranks + len(topology.switches))
    group_ranks = group.intersection(ranks)
    if not topology.switches or len(group_ranks) == len(ranks):
        return
    first, last = len(nodes), len(nodes) + 1  # the ranks of each side form one node
    sides = [first if node in group_ranks else last if node in ranks else node for node in nodes]
    edges = [(sides[u], sides[v]) for u, v in rate]
    rates = [float(each) for each in rate.values()]
    for source, goal, source_ranks in (
        (first, last, group_ranks),
        (last, first, set(ranks) - group_ranks),
    ):
        for turned in (False, True):
            arcs = [edge[::-1] for edge in edges] if turned else edges
            graph = Graph(n=last + 1, edges=arcs, directed=True)
            start, end = (goal, source) if turned else (source, goal)
            near = set(graph.st_mincut(start, end, rates).partition[0])
            left = {k for k in range(len(ranks), first) if (k in near) != turned}
            yield frozenset(source_ranks | left)
