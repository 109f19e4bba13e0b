"""Routes: shortest paths, spread over links, and fixed for each pair whatever else is sent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.graphs import distances
from sccl.core.topology import Topology
from sccl.sim.message_routes import find_routes
from sccl.topo import resolve_topology
from tests.kit.timed import machines


def paths(machine: Topology, pairs: list[tuple[int, int]]) -> list[list[int]]:
    src, dst = np.array(pairs, np.int64).reshape(-1, 2).T
    ways = find_routes(machine, src, dst)
    return [ways.link[ways.first[r] : ways.first[r + 1]].tolist() for r in ways.route.tolist()]


@given(machines(), st.data())
def test_paths_are_shortest_and_do_not_depend_on_others(
    machine: Topology, data: st.DataObject
) -> None:
    nodes = range(machine.ranks)
    every = [(u, v) for u in nodes for v in nodes if u != v]
    pairs = data.draw(st.lists(st.sampled_from(every)))
    found = paths(machine, pairs)
    everything = dict(zip(every, paths(machine, every), strict=True))
    for (src, dst), path in zip(pairs, found, strict=True):
        assert path == everything[src, dst]
        assert len(path) == distances(machine.successors(), [src])[dst]
        walked = [machine.links[k].edge for k in path]
        assert [edge[1] for edge in walked] == [*(edge[0] for edge in walked[1:]), dst]
        assert walked[0][0] == src


@pytest.mark.parametrize("name", ["torus:4x4x4", "hypercube:6", "torus:8x8"])
def test_load_spreads_over_all_dimensions(name: str) -> None:
    machine = resolve_topology(name)
    every = [(u, v) for u in range(machine.ranks) for v in range(machine.ranks) if u != v]
    load = np.bincount([k for path in paths(machine, every) for k in path])
    assert len(load) == len(machine.links)
    assert load.max() <= 1.6 * load.mean()
