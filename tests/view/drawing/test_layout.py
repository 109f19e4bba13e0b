"""Drawings of machines: their structure shows, and nothing hides anything."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given

from sccl.core.topology import Switch, Topology
from sccl.topo import resolve_topology
from sccl.topo.degrade import remove_parts
from sccl.view.drawing.graph_forms import Position, min_distance, segment_distance
from sccl.view.drawing.layout import Layout, control_points, layout_topology, on_curve
from tests.kit.strategies import topologies

CLEAR = (
    "dgx1", "z52", "z52-pcie", "ndv2x2", "dgx-a100", "ring:8", "ring:64", "line:4", "line:30",
    "star:5", "full:4", "mesh:3x3", "mesh:4x4x2", "torus:3x3", "torus:4x4", "torus:8x8",
    "torus:2x4", "hypercube:3", "hypercube:4", "hypercube:5", "circulant:8:1,3", "dragonfly:4x5",
)  # fmt: skip
"""Machines in whose drawings no link touches a third rank."""

MACHINES = (*CLEAR, "dgx2", "dgx-h100", "ndv2x4", "torus:4x4x4", "switch:16", "dragonfly:4x9")


def curve(drawn: Layout, topology: Topology, index: int) -> list[Position]:
    link = topology.links[index]
    ends = drawn.positions[link.src], drawn.positions[link.dst]
    shape = control_points(*ends, drawn.bends[index])
    return [on_curve(shape, i / 200) for i in range(201)]


def to_polyline(point: Position, line: list[Position]) -> float:
    return min(segment_distance(point, a, b) for a, b in pairwise(line))


def corners(drawn: Layout, ranks: tuple[int, ...]) -> set[float]:
    """Return the distances within some ranks."""
    points = [drawn.positions[r] for r in ranks]
    return {round(math.dist(a, b), 4) for a, b in combinations(points, 2)}


@pytest.mark.parametrize("name", MACHINES)
def test_ranks_lie_apart_inside_the_square_and_inside_their_boxes(name: str) -> None:
    topology = resolve_topology(name)
    drawn = layout_topology(topology)
    assert len(drawn.positions) == topology.ranks
    assert len(drawn.bends) == len(topology.links)
    assert all(0 < x < 1 and 0 < y < 1 for x, y in drawn.positions)
    assert min_distance(drawn.positions) > 2 * drawn.radius > 0
    for a, b in combinations(drawn.boxes, 2):
        assert not a.overlaps(b)
    for box in drawn.boxes:
        for rank, (x, y) in enumerate(drawn.positions):
            inside = box.left < x < box.right and box.top < y < box.bottom
            assert inside == (rank in box.ranks)


@pytest.mark.parametrize("name", CLEAR)
def test_no_link_touches_a_rank_it_does_not_join(name: str) -> None:
    topology = resolve_topology(name)
    drawn = layout_topology(topology)
    for index, link in enumerate(topology.links):
        points = np.array(curve(drawn, topology, index))
        for rank, place in enumerate(drawn.positions):
            if rank not in link.edge:
                apart = np.hypot(*(points - place).T)
                assert apart.min() > drawn.radius, (link.edge, rank)


@pytest.mark.parametrize(
    "name", ["dgx1", "ndv2x2", "ndv2x4", "torus:3x3", "torus:5x5", "hypercube:4", "dragonfly:4x5"]
)
def test_no_link_lies_on_another(name: str) -> None:
    topology = resolve_topology(name)
    drawn = layout_topology(topology)
    curves = [curve(drawn, topology, i) for i, k in enumerate(topology.links) if k.src < k.dst]
    for one, other in combinations(curves, 2):
        along = [to_polyline(point, other[::10]) for point in one[20:181:20]]
        assert sum(distance < 1e-3 for distance in along) <= 2  # curves may cross


@given(topology=topologies(max_ranks=9))
def test_any_machine_is_drawn_and_opposite_links_share_a_curve(topology: Topology) -> None:
    drawn = layout_topology(topology)
    assert drawn == layout_topology(replace(topology, name="another"))
    assert min_distance(drawn.positions) > 0.01
    bends = dict(zip((link.edge for link in topology.links), drawn.bends, strict=True))
    for (src, dst), bend in bends.items():
        assert bends.get((dst, src), -bend) == -bend


def test_cycle_is_a_circle_however_it_is_numbered() -> None:
    drawn = layout_topology(resolve_topology("z52"))
    assert len({round(math.dist(p, (0.5, 0.5)), 4) for p in drawn.positions}) == 1
    assert [box.ranks for box in drawn.boxes] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert drawn.boxes[0].right < drawn.boxes[1].left


def test_grids_are_grids() -> None:
    drawn = layout_topology(resolve_topology("torus:3x5"))
    assert len({y for _, y in drawn.positions}) == 3
    assert len({x for x, _ in drawn.positions}) == 5
    assert sum(bend != 0 for bend in drawn.bends) == 2 * (3 + 5)  # those that wrap


def test_torus_with_a_failed_link_is_still_a_grid() -> None:
    whole = layout_topology(resolve_topology("torus:4x4"))
    failed = layout_topology(remove_parts(resolve_topology("torus:4x4"), [(0, 1), (1, 0)]))
    assert failed.positions == whole.positions


@pytest.mark.parametrize("gone", [0, 6, 15])
def test_torus_without_a_rank_and_a_link_is_still_a_grid(gone: int) -> None:
    whole = resolve_topology("torus:4x4")
    number = {rank: i for i, rank in enumerate(r for r in range(16) if r != gone)}
    links = [replace(k, src=number[k.src], dst=number[k.dst]) for k in whole.links
             if gone not in k.edge and {*k.edge} != {1, 2}]  # fmt: skip
    left = replace(whole, ranks=15, links=tuple(links), labels=(), chassis=(), budgets=())
    places = [place for rank, place in enumerate(layout_topology(whole).positions) if rank != gone]
    assert layout_topology(left).positions == tuple(places)


def test_links_round_the_end_of_a_long_torus_stay_near_it() -> None:
    topology = resolve_topology("torus:5x20")
    drawn = layout_topology(topology)
    heights = [y for _, y in drawn.positions]
    row = (max(heights) - min(heights)) / 4
    for index in range(len(topology.links)):
        for _, y in curve(drawn, topology, index):
            assert min(heights) - row < y < max(heights) + row


@pytest.mark.parametrize("name", ["circulant:16:2,4", "circulant:16:1,2,4"])
def test_equal_chords_are_bent_alike(name: str) -> None:
    assert set(layout_topology(resolve_topology(name)).bends) == {0.0}


@pytest.mark.parametrize("name", ["mesh:2x2", "torus:2x2"])
def test_smallest_grid_is_one(name: str) -> None:
    drawn = layout_topology(resolve_topology(name))
    assert len({x for x, _ in drawn.positions}) == len({y for _, y in drawn.positions}) == 2


def test_dgx1_is_two_quads() -> None:
    drawn = layout_topology(resolve_topology("dgx1"))
    for box in drawn.boxes:
        side, diagonal = sorted(corners(drawn, box.ranks))
        assert diagonal == pytest.approx(side * math.sqrt(2), rel=1e-3)
    assert [box.label for box in drawn.boxes] == ["chassis 0", "chassis 1"]


def test_groups_are_found_without_being_told() -> None:
    drawn = layout_topology(resolve_topology("dragonfly:4x5"))
    assert [box.ranks for box in drawn.boxes] == [tuple(range(i, i + 4)) for i in range(0, 20, 4)]


def test_hypercube_is_a_cube_however_it_is_numbered() -> None:
    topology = resolve_topology("hypercube:3")
    shuffled = (3, 6, 1, 4, 7, 0, 2, 5)
    links = tuple(replace(k, src=shuffled[k.src], dst=shuffled[k.dst]) for k in topology.links)
    drawn = layout_topology(replace(topology, links=links))
    lengths = {round(math.dist(drawn.positions[k.src], drawn.positions[k.dst]), 3) for k in links}
    assert len(lengths) == 2  # sides of the squares, and links between the squares


def test_switches_have_places_too() -> None:
    ranks = resolve_topology("star:5")
    machine = replace(ranks, ranks=4, switches=(Switch("leaf"),), links=tuple(
        replace(k, src=(k.src - 1) % 5, dst=(k.dst - 1) % 5) for k in ranks.links))  # fmt: skip
    assert layout_topology(machine).positions[4] == (0.5, 0.5)


@pytest.mark.parametrize(
    "name",
    [
        "torus:32x32",
        "hypercube:10",
        "ring:1024",
        pytest.param("dragonfly:16x64", marks=pytest.mark.nightly),
    ],
)
def test_thousand_ranks_are_drawn(name: str) -> None:
    drawn = layout_topology(resolve_topology(name))
    assert min_distance(drawn.positions) > 2 * drawn.radius
