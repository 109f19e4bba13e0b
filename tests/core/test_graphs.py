"""Graphs: topological order by keys, and connected components."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.graphs import connected_components, topological_order

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16)


@given(EDGES)
def test_topological_order_is_lexicographical(edges: list[tuple[int, int]]) -> None:
    forward = nx.DiGraph([(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]])
    forward.add_nodes_from(range(8))
    before = {node: list(forward.predecessors(node)) for node in forward}
    expected = list(nx.lexicographical_topological_sort(forward, key=lambda node: -node))
    assert topological_order(before, key=lambda node: -node) == expected


def test_topological_order_leaves_out_cycles_and_their_descendants() -> None:
    before = {0: [], 1: [0, 2], 2: [1], 3: [2], 4: [0]}
    assert topological_order(before, key=int) == [0, 4]


@given(EDGES)
def test_connected_components_equal_those_of_networkx(edges: list[tuple[int, int]]) -> None:
    graph = nx.Graph(edges)
    graph.add_nodes_from(range(8))
    expected = {min(part): sorted(part) for part in nx.connected_components(graph)}
    assert connected_components(range(8), edges) == expected
