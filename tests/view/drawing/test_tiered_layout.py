"""Machines whose ranks only switches join are drawn in rows."""

from __future__ import annotations

import pytest

from sccl.topo import resolve_topology
from sccl.view.drawing.layout import layout_topology


@pytest.mark.parametrize(
    ("name", "rows"),
    [("fattree:4", 4), ("switch2d:4x4", 3), ("rail:4x4", 3), ("rail:4x2x2:2", 4)],
)
def test_ranks_lie_in_a_row_and_switches_above_what_they_join(name: str, rows: int) -> None:
    machine = resolve_topology(name)
    drawn = layout_topology(machine)
    heights = [y for _, y in drawn.positions]
    assert len(set(heights)) == rows
    ranks = set(heights[: machine.ranks])
    assert len(ranks) == 1
    places = [x for x, _ in drawn.positions[: machine.ranks]]
    assert places == sorted(set(places))
    assert len(drawn.boxes) == len(machine.chassis)
    for link in machine.links:
        apart = sorted(set(heights)).index(heights[link.src])
        assert abs(apart - sorted(set(heights)).index(heights[link.dst])) == 1


def test_switch_of_a_node_lies_below_it_and_leaves_above() -> None:
    machine = resolve_topology("rail:4x3:1")
    names = [str(rank) for rank in range(machine.ranks)] + [s.name for s in machine.switches]
    height = {
        name: y for name, (_, y) in zip(names, layout_topology(machine).positions, strict=True)
    }  # downwards
    assert height["node 0"] > height["0"] > height["leaf 0"] > height["spine 0"]


@pytest.mark.parametrize("name", ["rfs:2x4x2", "rail:8x16", "switch:8"])
def test_machines_of_another_kind_are_drawn_as_before(name: str) -> None:
    heights = {y for _, y in layout_topology(resolve_topology(name)).positions}
    assert len(heights) > 3
