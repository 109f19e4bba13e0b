"""Drawings of sketches: remaining links are drawn by their use, omitted ones are faint."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest

from sccl.core.ids import Edge
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.taccl.fitted_sketch import fit_sketch
from sccl.synth.taccl.sketch_sentences import drawing_notes
from sccl.topo import resolve_topology
from sccl.view.chart_files import render_svg
from sccl.view.charts import logical_chart
from sccl.view.drawing.logical_topology import logical_topology
from sccl.view.drawing.topology_drawing import NO_NUMBERS
from tests.kit.svg import overlapping

ODD = tuple((n, (n - 1,)) for n in range(1, 16, 2))
SWITCH = (Hyperedge(tuple(range(16)), HyperedgePolicy.MIN),)
SKETCHES = {
    "ndv2x2": Sketch("one", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(8, 16),)),
    "dgx2:2": Sketch("two", 2, hyperedges=SWITCH, relays=RelayRules(ODD, relay_map=(2, 1))),
    "full:8": Sketch(
        "few",
        2,
        intranode_links=((0, (1,)), (1, (0, 2))),
        relays=RelayRules(RelayPattern.DIRECT_MAP),
    ),
    "rail:4x2": Sketch("rails", 2, hyperedges=(Hyperedge((0, 1, 2, 3), HyperedgePolicy.MAX),)),
    "torus:4x4": Sketch("all", 1),
}


def drawn(name: str) -> dict[str, Any]:
    fit = fit_sketch(SKETCHES[name], resolve_topology(name))
    chart = logical_chart(fit.topology, logical_topology(fit, drawing_notes(fit)))
    found: dict[str, Any] = chart.to_dict(validate=False)
    return found


def rows(spec: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the rows of the layers whose data have a field, those of several layers once."""
    layers = [layer.get("data", {}).get("values", []) for layer in spec["layer"]]
    return list({str(row): row for values in layers for row in values if field in row}.values())


def uses(spec: dict[str, Any]) -> dict[str, set[Edge]]:
    """Return the links of each use, both directions of a line as one that is drawn."""
    found: dict[str, set[Edge]] = {}
    for row in rows(spec, "use"):
        src, dst = row["link"].split("->")
        found.setdefault(row["use"], set()).add((int(src), int(dst)))
    return found


def test_links_are_told_apart_by_their_use() -> None:
    found = uses(drawn("ndv2x2"))
    assert found["between nodes"] == {(0, 9), (8, 1)}
    assert len(found["within a node"]) == 32
    found = uses(drawn("dgx2:2"))
    assert found["between nodes"] == {
        (16 * node + n, 16 * (1 - node) + n - 1) for node in (0, 1) for n in range(1, 16, 2)
    }
    over = found["within a node, over a switch (uc-min)"]
    assert over == {(rank, 32 + rank // 16) for rank in range(32)}


def test_links_that_are_left_out_are_drawn_where_none_is_left() -> None:
    found = uses(drawn("full:8"))
    assert found["between nodes"] == {(n, n + 4) for n in range(4)}
    assert found["within a node"] == {(0, 1), (4, 5), (1, 2), (5, 6)}
    kept = {frozenset(edge) for use in ("between nodes", "within a node") for edge in found[use]}
    every = {frozenset(pair) for pair in combinations(range(8), 2)}
    assert {frozenset(edge) for edge in found["left out"]} == every - kept
    assert "left out" not in uses(drawn("ndv2x2"))


def test_relays_and_switches_are_marked() -> None:
    nodes = rows(drawn("dgx2:2"), "role")
    told = {row["text"]: row["role"] for row in nodes if row["kind"] == "rank"}
    for rank in range(32):
        wanted = "sends to other nodes" if rank % 2 else "receives from them"
        assert told[str(rank)] == wanted
    assert [row["text"] for row in nodes if row["kind"] == "switch"] == ["uc-min"] * 2
    assert {row["role"] for row in rows(drawn("full:8"), "role")} == {"sends and receives"}
    assert rows(drawn("torus:4x4"), "role") == []


@pytest.mark.parametrize("name", ["ndv2x2", "dgx2:2", "rail:4x2"])
def test_nodes_are_boxes_with_their_ranks_and_switches(name: str) -> None:
    spec = drawn(name)
    boxes = rows(spec, "right")
    assert [box["text"] for box in boxes] == ["node 0", "node 1"]
    machine = resolve_topology(name)
    ranks = sorted((row for row in rows(spec, "outline") if row["kind"] == "rank"),
                   key=lambda row: int(row["text"]))  # fmt: skip
    for i, row in enumerate(ranks):
        box = boxes[i // (machine.ranks // 2)]
        assert box["x"] < row["x"] < box["right"]
        assert box["y"] < row["y"] < box["bottom"]
    apart = min(math.dist((a["x"], a["y"]), (b["x"], b["y"])) for a, b in combinations(ranks, 2))
    assert apart > 0.03


def test_omitted_links_are_reported() -> None:
    some = Sketch("some", 1, intranode_links=tuple((n, ((n + 1) % 128,)) for n in range(128)))
    fit = fit_sketch(some, resolve_topology("full:128"))
    spec = logical_chart(fit.topology, logical_topology(fit, ())).to_dict(validate=False)
    assert spec["title"]["subtitle"] == ["links left out are too many to draw"]
    assert set(uses(spec)) == {"within a node"}
    one_way = fit_sketch(
        Sketch("turns", 1, intranode_links=((0, (1,)), (1, (2,)), (2, (0,)))),
        resolve_topology("full:3"),
    )
    spec = logical_chart(one_way.topology, logical_topology(one_way, ())).to_dict(validate=False)
    assert spec["title"]["subtitle"] == []
    crowd = fit_sketch(Sketch("crowd", 8), resolve_topology("dgx2:8"))
    spec = logical_chart(crowd.topology, logical_topology(crowd, ())).to_dict(validate=False)
    assert spec["title"]["subtitle"] == [NO_NUMBERS]


@pytest.mark.parametrize("name", SKETCHES)
def test_no_text_covers_another_and_all_are_drawn(name: str) -> None:
    fit = fit_sketch(SKETCHES[name], resolve_topology(name))
    text = render_svg(logical_chart(fit.topology, logical_topology(fit, drawing_notes(fit))))
    assert "NaN" not in text
    assert overlapping(text) == []
    assert all(len(line) <= 84 for line in drawing_notes(fit))
