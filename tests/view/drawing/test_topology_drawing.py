"""Pictures of machines: widths are lanes, numbers fit, and omissions are reported."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.topo import resolve_topology
from sccl.view.chart_files import render_svg
from sccl.view.charts import topology_chart
from sccl.view.drawing.budgets import budgeted_nodes, with_hubs
from sccl.view.drawing.canvas import link_lines, stroke_widths
from sccl.view.drawing.layout import layout_topology
from tests.kit.svg import overlapping

_LINE = re.compile(r'aria-roledescription="line mark"[^>]*stroke-width="([^"]*)"')


def drawn_widths(topology: Topology) -> set[float]:
    return {float(width) for width in _LINE.findall(render_svg(topology_chart(topology)))}


@cache
def spec_of(topology: Topology) -> dict[str, Any]:
    """Return a machine's chart, which is cached because it is only read."""
    found: dict[str, Any] = topology_chart(topology).to_dict(validate=False)
    return found


def layers(topology: Topology) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec_of(topology)["layer"]
    return found


def subtitle(topology: Topology) -> str:
    return " ".join(spec_of(topology)["title"]["subtitle"])


def numbers(topology: Topology) -> float:
    """Return the size of the numbers of ranks, 0 if they are left out."""
    marks = [layer["mark"] for layer in layers(topology) if "rank" in str(layer.get("transform"))]
    return max((mark["fontSize"] for mark in marks), default=0)


def with_lanes(topology: Topology, lanes: list[int]) -> Topology:
    links = [replace(k, lanes=lanes[min(k.edge) % len(lanes)]) for k in topology.links]
    return replace(topology, links=tuple(links))


# --- lanes ---------------------------------------------------------------------------------------


def test_widths_are_proportional_to_lanes() -> None:
    assert drawn_widths(resolve_topology("ndv2x2")) == {1.6, 3.2, 6.4}


@pytest.mark.parametrize("name", ["ring:8", "dgx-a100", "dgx2"])
def test_one_number_of_lanes_has_a_width(name: str) -> None:
    assert "NaN" not in render_svg(topology_chart(resolve_topology(name)))


def test_every_number_of_lanes_has_its_width() -> None:
    machine = with_lanes(resolve_topology("ring:13"), [1, 2, 3, 4, 6, 8, 10, 14, 20, 26, 34, 40])
    assert len(drawn_widths(machine)) == 12
    widths, _ = stroke_widths(link_lines(machine, layout_topology(machine)), 560, 560, 560)
    assert list(widths.values()) == sorted(widths.values())
    assert widths[1] >= 1


def test_links_that_crowd_are_thin_and_then_faint() -> None:
    def drawn(name: str) -> tuple[dict[int, float], float]:
        machine = resolve_topology(name)
        return stroke_widths(link_lines(machine, layout_topology(machine)), 560, 560, 560)

    assert max(drawn("dgx2")[0].values()) < 2
    assert drawn("full:16")[1] > drawn("full:32")[1] > drawn("full:64")[1] > 0.1


# --- ranks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["hypercube:6", "mesh:2x20", "torus:4x4x4", "star:40", "dgx2", "torus:16x16"]
)
def test_numbers_fit_into_their_ranks(name: str) -> None:
    machine = resolve_topology(name)
    (marks,) = (found for found in layers(machine) if "shape" in found["encoding"])
    (area,) = {row["size"] for row in marks["data"]["values"] if row["kind"] == "rank"}
    across, size = area**0.5, numbers(machine)
    digits = len(str(machine.ranks - 1))
    assert 0 < (0.56 * size * digits) ** 2 + (0.72 * size) ** 2 < (across - 1.5) ** 2


@pytest.mark.parametrize("name", ["ring:100", "torus:16x16", "torus:3x3x3x3", "switch:64"])
def test_drawing_grows_until_its_numbers_can_be_read(name: str) -> None:
    assert numbers(resolve_topology(name)) >= 8
    assert spec_of(resolve_topology(name))["width"] <= 1300


def test_numbers_that_are_left_out_are_reported() -> None:
    assert numbers(resolve_topology("ring:1024")) == 0
    assert "without numbers" in subtitle(resolve_topology("ring:1024"))
    assert "without numbers" not in subtitle(resolve_topology("dgx1"))


def test_ranks_behind_a_budget_that_is_no_switch_have_a_thick_outline() -> None:
    machine = resolve_topology("switch:16")
    egress = tuple(b for b in machine.budgets if len({src for src, _ in b.edges}) == 1)
    one_way, full = replace(machine, budgets=egress), resolve_topology("full:16")
    assert (budgeted_nodes(one_way), budgeted_nodes(full)) == (frozenset(range(16)), frozenset())
    assert "thick outline" in subtitle(one_way)
    assert "thick outline" not in subtitle(full)
    (marks,) = (found for found in layers(one_way) if "shape" in found["encoding"])
    assert min(row["outline"] for row in marks["data"]["values"]) > 2


# --- switches that stand for budgets ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lanes"), [("dgx-h100", 18), ("dgx2", 6), ("gb200-nvl72", 18), ("switch:8", 1)]
)
def test_ranks_that_share_a_switch_meet_in_the_middle(name: str, lanes: int) -> None:
    machine = resolve_topology(name)
    drawn = with_hubs(machine)
    assert [switch.name for switch in drawn.switches] == ["switch"]
    assert drawn.budgets == ()
    ranks, hub = range(machine.ranks), machine.ranks
    assert drawn.lanes() == {e: lanes for r in ranks for e in ((r, hub), (hub, r))}
    *around, middle = layout_topology(drawn).positions
    assert math.dist(middle, (0.5, 0.5)) < 0.02
    assert len({round(math.dist(middle, point), 3) for point in around}) == 1
    (marks,) = (found for found in layers(machine) if "shape" in found["encoding"])
    assert [r["text"] for r in marks["data"]["values"] if r["kind"] == "switch"] == ["switch"]
    assert overlapping(render_svg(topology_chart(machine))) == []
    assert "stands for a rank's links" in subtitle(machine)


def test_every_node_of_several_has_its_own_switch() -> None:
    machine = resolve_topology("ndv4x2")
    drawn = with_hubs(machine)
    assert [switch.name for switch in drawn.switches] == ["sw 0", "sw 1"]
    between = {edge for edge in machine.edges if edge[0] // 8 != edge[1] // 8}
    assert between <= drawn.edges
    assert len(drawn.links) == len(between) + 2 * machine.ranks
    assert [len(box.ranks) for box in layout_topology(drawn).boxes] == [9, 9]


def test_links_that_another_budget_limits_keep_their_lines() -> None:
    machine = resolve_topology("switch:4")
    bus = Budget("bus", ((0, 1), (1, 0)), 1)
    slow = replace(machine, links=(replace(machine.links[0], lanes=1), *machine.links[1:]))
    wide = tuple(replace(b, chunks_per_round=2) for b in machine.budgets)
    for other in (
        replace(machine, budgets=(*machine.budgets, bus)),
        replace(machine, budgets=machine.budgets[1:]),
        replace(slow, budgets=wide),
        resolve_topology("full:4"),
        resolve_topology("dgx1"),
    ):
        assert with_hubs(other) == other


def test_gaps_separate_the_chassis_around_a_switch() -> None:
    machine = resolve_topology("gb200-nvl72")
    points = layout_topology(with_hubs(machine)).positions
    within, between = math.dist(points[0], points[1]), math.dist(points[3], points[4])
    assert between > 1.8 * within
    assert "gaps separate chassis" in subtitle(machine)


def fat_tree() -> Topology:
    """Return four groups of four ranks, each at a leaf switch, and two switches that join these."""
    pairs = [(rank, 16 + rank // 4) for rank in range(16)]
    pairs += [(leaf, core) for leaf in range(16, 20) for core in (20, 21)]
    names = ("leaf0", "leaf1", "leaf2", "leaf3", "core0", "core1")
    return joined("fat tree", 16, pairs, names)


def joined(
    name: str, ranks: int, pairs: list[tuple[int, int]], switches: tuple[str, ...] = ()
) -> Topology:
    links = tuple(Link(src=a, dst=b, lanes=1, alpha_us=1.0, gb_per_s=25.0)
                  for pair in pairs for a, b in (pair, pair[::-1]))  # fmt: skip
    return replace(resolve_topology("ring:4"), name=name, ranks=ranks, links=links,
                   switches=tuple(map(Switch, switches)))  # fmt: skip


def test_nodes_with_the_same_neighbours_stand_apart() -> None:
    tree = fat_tree()
    assert math.dist(*layout_topology(tree).positions[20:]) > 0.08
    assert numbers(tree) >= 10


# --- boxes ---------------------------------------------------------------------------------------


def ring_of_chassis(count: int, size: int) -> Topology:
    """Return fully joined chassis, of which each is joined to the next."""
    starts = range(0, count * size, size)
    pairs = [(s + a, s + b) for s in starts for a, b in combinations(range(size), 2)]
    pairs += [(s + size - 1, (s + size) % (count * size)) for s in starts]
    chassis = tuple(tuple(range(s, s + size)) for s in starts)
    return replace(joined("chassis", count * size, pairs), chassis=chassis)


@pytest.mark.parametrize("name", ["dragonfly:4x16", "dragonfly:4x13", "dragonfly:2x5"])
def test_groups_are_boxes_however_many_there_are(name: str) -> None:
    machine = resolve_topology(name)
    size = int(name.partition(":")[2].partition("x")[0])
    wanted = [tuple(range(i, i + size)) for i in range(0, machine.ranks, size)]
    assert [box.ranks for box in layout_topology(machine).boxes] == wanted


def test_pairs_that_are_joined_at_random_are_no_groups() -> None:
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (1, 2), (0, 3), (3, 5), (5, 6), (0, 6)]
    assert layout_topology(joined("random", 8, pairs)).boxes == ()


@pytest.mark.parametrize("machine", [ring_of_chassis(8, 8), resolve_topology("dragonfly:8x9"),
    resolve_topology("dragonfly:4x16")], ids=lambda m: m.name)  # fmt: skip
def test_names_of_boxes_have_room_above_them(machine: Topology) -> None:
    drawn, picture = layout_topology(machine), layers(machine)
    (size,) = {m["fontSize"] for m in (one["mark"] for one in picture) if m.get("dy")}
    across = next(one["encoding"]["x"]["scale"]["domain"] for one in picture)
    width = spec_of(machine)["width"]
    room = (size + 3) * (across[1] - across[0]) / width
    named = [replace(box, top=box.top - room) for box in drawn.boxes]
    assert not any(a.overlaps(b) for a, b in combinations(named, 2))
    assert overlapping(render_svg(topology_chart(machine))) == []


def switched(chassis: int, size: int, pairs: list[tuple[int, int]], switches: int) -> Topology:
    """Return fully joined chassis, and switches."""
    found = ring_of_chassis(chassis, size)
    inside = [k.edge for k in found.links if k.src < k.dst and k.src // size == k.dst // size]
    names = tuple(f"sw{i}" for i in range(switches))
    return replace(joined("switched", chassis * size, [*inside, *pairs], names),
                   chassis=found.chassis)  # fmt: skip


BEHIND_SWITCHES = {
    "leaves": switched(2, 4, [*((r, 8 + r // 4) for r in range(8)), (8, 10), (9, 10)], 3),
    "rails": switched(4, 4, [(r, 16 + r % 4) for r in range(16)], 4),
    "spine": switched(8, 8, [*((8 * i, 64 + i // 4) for i in range(8)), (64, 66), (65, 66)], 3),
    "tree": replace(fat_tree(), chassis=tuple(tuple(range(i, i + 4)) for i in range(0, 16, 4))),
}


@pytest.mark.parametrize("name", BEHIND_SWITCHES)
def test_chassis_behind_switches_are_boxes_and_switches_lie_outside(name: str) -> None:
    machine = BEHIND_SWITCHES[name]
    drawn = layout_topology(machine)
    assert tuple(box.ranks for box in drawn.boxes) == machine.chassis
    assert not any(a.overlaps(b) for a, b in combinations(drawn.boxes, 2))
    for box in drawn.boxes:
        for node, (x, y) in enumerate(drawn.positions):
            inside = box.left < x < box.right and box.top < y < box.bottom
            assert inside == (node in box.ranks)


def test_faint_lines_are_faint_strokes_which_renderers_draw_at_once() -> None:
    text = render_svg(topology_chart(resolve_topology("full:16")))
    lines = re.findall(r"<path[^>]*line mark[^>]*>", text)
    assert len(lines) == 120
    assert all("stroke-opacity" in line and " opacity=" not in line for line in lines)
