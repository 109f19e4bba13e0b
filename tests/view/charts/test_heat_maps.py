"""Heat maps: loads of links in each step, and arrivals of chunks."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.topo import resolve_topology
from sccl.view.chart_files import render_svg
from sccl.view.charts import arrival_chart, utilization_chart
from sccl.view.theme import vega_specification
from tests.kit.charts import one_step, rows_of
from tests.kit.easy_algorithms import frontier


def test_utilisation_is_of_lanes_and_rounds() -> None:
    topology = resolve_topology("dgx1")
    sends = (make_send(0, 0, 3, 0), make_send(8, 0, 3, 0), make_send(0, 0, 1, 0))
    algorithm = Algorithm(topology, named_spec("allgather", 8).at(2), (2,), sends)
    rows = rows_of(utilization_chart(algorithm))[0]
    share = {row["row"]: row["value"] for row in rows}
    assert share["0 \u2192 3"] == 0.5  # 2 chunks, 2 lanes, 2 rounds
    assert share["0 \u2192 1"] == 0.5  # 1 chunk, 1 lane, 2 rounds
    assert share["1 \u2192 0"] == 0.0


def test_arrival_is_the_step_of_arrival() -> None:
    (algorithm, *_) = frontier("ring:4", "allgather")
    rows = rows_of(arrival_chart(algorithm))[0]
    at = {(row["row"], row["column"]): row["value"] for row in rows}
    assert len(at) == algorithm.collective.num_chunks * 4
    for s in algorithm.sends:
        assert at[str(s.chunk), s.dst] == s.step
    assert at["0", 0] is None  # it starts there


@pytest.mark.parametrize("name", ["torus:4x4", "ndv2x2", "dgx2", "full:12"])
def test_every_row_of_the_heat_map_has_its_name(name: str) -> None:
    chart = utilization_chart(one_step(resolve_topology(name)))
    spec = vega_specification(chart)
    named = spec["layer"][0]["encoding"]["y"]["axis"]["values"]
    assert set(named) == {row["row"] for row in rows_of(chart)[0]}
    assert 14 * len(named) <= spec["height"] <= 2400
    assert spec["layer"][1]["mark"]["fontSize"] >= 12


def test_egress_is_a_share_of_the_budget() -> None:
    topology = resolve_topology("dgx2")
    sends = tuple(make_send(0, 0, rank, 0) for rank in range(1, 4))
    algorithm = Algorithm(topology, named_spec("allgather", 16).at(1), (1,), sends)
    share = {row["row"]: row["value"] for row in rows_of(utilization_chart(algorithm))[0]}
    assert share["0"] == 0.5  # 3 chunks, of the 6 that all its links carry together
    assert share["1"] == 0.0


def test_cells_without_anything_are_white_and_told_from_others() -> None:
    chart = utilization_chart(one_step(resolve_topology("ring:4")))
    used = vega_specification(chart)["layer"][0]["encoding"]["color"]
    assert used["condition"]["value"] == "white"
    assert used["condition"]["test"] == "datum.value === 0"
    many = Algorithm(
        resolve_topology("full:16"),
        named_spec("alltoall", 16).at(16),
        (1,),
        (make_send(0, 0, 1, 0),),
    )
    arrival = vega_specification(arrival_chart(many))
    starts = arrival["layer"][-1]["data"]["values"]
    assert len(starts) == many.collective.num_chunks  # marked, as there is no room for words
    assert "A dash: the chunk starts there" in arrival["title"]["subtitle"][1]


def test_legends_of_heat_maps_have_the_steps_there_are_and_all_shares() -> None:
    (algorithm, *_) = frontier("ring:4", "allgather")
    once = replace(one_step(resolve_topology("ring:4")), rounds_per_step=(1,))
    for one, steps in ((once, [0]), (algorithm, list(range(algorithm.steps)))):
        colour = vega_specification(arrival_chart(one))["layer"][0]["encoding"]["color"]
        assert (colour["legend"]["type"], colour["legend"]["values"]) == ("symbol", steps)
    assert {"0%", "100%"} <= set(re.findall(r">([0-9]+%)<", render_svg(utilization_chart(once))))


def test_rounds_of_many_steps_are_told_in_short() -> None:
    sends = one_step(resolve_topology("ring:4")).sends
    for rounds, told in (((1, 3) * 12, "1 to 3"), ((1,) * 24, "1"), ((2, 1), "2, 1")):
        algorithm = Algorithm(
            resolve_topology("ring:4"), named_spec("allgather", 4).at(1), rounds, sends
        )
        (subtitle,) = vega_specification(utilization_chart(algorithm))["title"]["subtitle"]
        assert subtitle.endswith(f"rounds per step: {told}")


def test_links_of_equal_use_share_a_row() -> None:
    machine = resolve_topology("ring:4")
    sends = tuple(make_send(link.src, link.src, link.dst, 0) for link in machine.links)
    equal = Algorithm(machine, named_spec("allgather", 4).at(1), (1,), sends)
    (cells, *_) = rows_of(utilization_chart(equal))
    assert [(cell["row"], cell["value"]) for cell in cells] == [("all 8", 1.0)]
    almost = replace(equal, sends=sends[1:])
    assert len(rows_of(utilization_chart(almost))[0]) == 8


def test_shared_budget_has_its_row() -> None:
    machine = resolve_topology("z52-pcie")
    (rows, *_) = rows_of(utilization_chart(one_step(machine)))
    links = {f"{u} → {v}" for u, v in machine.budgets[0].edges}
    for step in range(2):
        now = {row["row"]: row["value"] for row in rows if row["column"] == step}
        assert now["PCIe left socket"] == sum(now[link] for link in links) == 3 * (step == 0)
