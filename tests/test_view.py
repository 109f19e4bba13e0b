"""Charts: each compiles, labels stand apart, names are only names, and bytes are the same."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

from sccl.collectives import named
from sccl.core.algorithm import Algorithm, send
from sccl.core.cost import bytes_text
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.tasks.frontiers import of_algorithms
from sccl.topo import catalogue_names, generators, resolve
from sccl.view import (
    CostPoint,
    FrontierData,
    arrival_chart,
    frontier_chart,
    measured_chart,
    save,
    stacked,
    theme,
    time_chart,
    topology_chart,
    utilisation_chart,
)
from sccl.view.budgets import shared, words
from sccl.view.known import bounds
from sccl.view.labels import Frame, Rectangle, apart, dot, place, text_size
from sccl.view.marks import marks_of
from sccl.view.save import page, svg
from tests.found import frontier
from tests.projects import tool
from tests.svg import overlapping

MACHINES = [*catalogue_names(), *(g.example for g in generators())]
HOSTILE = "</script><script>alert(1)</script>&<b>\"'`${x}"

BROADCAST = FrontierData(
    "broadcast on dgx1",
    (
        CostPoint(2, Fraction(1), 2, 2, "proved"),
        CostPoint(3, Fraction(9, 22), 22, 9, "proved"),
        CostPoint(4, Fraction(4, 13), 13, 4, "best found"),
        CostPoint(5, Fraction(5, 19), None, None, "approached"),
    ),
    min_steps=2,
    bandwidth=Fraction(1, 6),
    limits=((2, Fraction(1)), (3, Fraction(9, 22)), (4, Fraction(3, 10))),
    refuted=((3, Fraction(2, 5)), (3, Fraction(1, 3))),
    open=((4, Fraction(3, 10)),),
    alpha_us=0.7,
    gb_per_s=25.0,
)
ALLGATHER = FrontierData(
    "allgather on dgx1",
    (CostPoint(2, Fraction(3, 2), 2, 3, "proved"), CostPoint(3, Fraction(7, 6), 6, 7, "proved")),
    alpha_us=0.7,
    gb_per_s=25.0,
)


def one_step(topology: Topology) -> Algorithm:
    """Return an algorithm in which every rank sends its chunk over all its links."""
    sends = tuple(
        send(link.src, link.src, link.dst, 0) for link in topology.links if link.src < link.dst
    )
    return Algorithm(topology, named("allgather", topology.ranks).at(1), (1, 2), sends)


def rows_of(chart: Any) -> list[list[dict[str, Any]]]:
    """Return the rows of each layer."""
    spec = chart.to_dict()
    return [layer.get("data", spec.get("data"))["values"] for layer in spec["layer"]]


def values(chart: Any, field: str) -> set[Any]:
    """Return what a field is in all rows of all layers."""
    return {row[field] for rows in rows_of(chart) for row in rows if field in row}


@pytest.mark.parametrize("name", MACHINES)
def test_charts_of_every_machine_compile_and_their_labels_stand_apart(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    topology = resolve(name)
    algorithm = one_step(topology)
    for chart in (topology_chart(topology), utilisation_chart(algorithm), arrival_chart(algorithm)):
        assert overlapping(svg(chart)) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["dgx1", "z52", "ring:4", "torus:3x3"])
def test_charts_of_frontiers_compile_and_their_labels_stand_apart(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = of_algorithms([*frontier(name, "allgather"), *frontier(name, "broadcast")])
    for several in (found[:1], found, [BROADCAST], [BROADCAST, ALLGATHER]):
        for chart in (frontier_chart(several), time_chart(several)):
            assert overlapping(svg(chart)) == []
    assert capfd.readouterr() == ("", "")


def test_the_frontier_says_what_is_proved_open_and_refuted() -> None:
    chart = frontier_chart([BROADCAST])
    assert values(chart, "state") == {
        "proved", "best found", "approached, not attained", "open candidate", "refuted candidate",
        "limit of R/C for this S",
    }  # fmt: skip
    assert {"1", "9/22", "4/13", "5/19", "S \u2265 2", "R/C \u2265 1/6"} <= values(chart, "text")
    shaded = {
        (row["steps"], row["what"]): row["top"]
        for rows in rows_of(chart)
        for row in rows
        if "what" in row
    }
    never = "no algorithm, whatever k and C"
    assert shaded[2, never] == 1.0
    assert shaded[3, never] == pytest.approx(9 / 22)
    assert shaded[4, never] == pytest.approx(3 / 10)
    assert (4, "refuted for the k searched") not in shaded  # a candidate is open there


def test_frontiers_of_one_name_stay_apart() -> None:
    several = [BROADCAST, replace(BROADCAST, points=BROADCAST.points[:2]), BROADCAST]
    assert values(frontier_chart(several), "name") == {
        "broadcast on dgx1", "broadcast on dgx1 (2)", "broadcast on dgx1 (3)",
    }  # fmt: skip
    assert len(values(time_chart(several), "name")) == 3
    taken = [ALLGATHER, ALLGATHER, replace(ALLGATHER, name="allgather on dgx1 (2)")]
    assert len(values(frontier_chart(taken), "name")) == 3


def test_labels_keep_clear_of_the_lines_of_bounds() -> None:
    frame = Frame(560, 340, (0, 10), (0, 2))
    _, covered = bounds(BROADCAST, frame)
    for value in ((5, 1 / 6), (2, 1.0)):
        assert any(dot(frame.pixels(*value), 1).within(box) for box in covered)
    assert not any(dot(frame.pixels(5, 1.0), 1).overlaps(box) for box in covered)


def test_legends_show_marks_as_they_are_drawn() -> None:
    for several in ([BROADCAST], [BROADCAST, ALLGATHER]):
        layers = frontier_chart(several).to_dict()["layer"]
        (own,) = [x for x in layers if x["encoding"].get("shape", {}).get("legend")]
        (drawn,) = [x for x in layers if "inside" in x["data"]["values"][0]]
        scale = own["encoding"]["fill"]["scale"]
        shown = {kind: fill == "white" for kind, fill in zip(*scale.values(), strict=True)}
        rows = drawn["data"]["values"]
        assert shown == {row["state"]: row["inside"] == "white" for row in rows}


def test_a_limit_on_the_bound_is_not_marked() -> None:
    one = replace(BROADCAST, limits=((5, Fraction(1, 6)),), bandwidth=Fraction(1, 6))
    assert "limit of R/C for this S" not in values(frontier_chart([one]), "state")


def test_marks_lie_clear_of_one_another() -> None:
    near = tuple((4, Fraction(100 - n, 100)) for n in range(1, 90))
    points = (
        CostPoint(4, Fraction(1), 1, 4, "proved"),
        CostPoint(5, Fraction(9, 10), 1, 5, "best found"),
    )
    one = replace(
        BROADCAST, points=points, open=near[:40], refuted=near[40:], limits=((4, Fraction(1, 2)),)
    )
    frame = Frame(560, 340, (3, 6), (0, 1.2))
    found = [
        (m["state"], frame.pixels(m["steps"], m["cost"]))
        for m in marks_of([one], frame, single=True)
    ]
    for (state, at), (other, there) in combinations(found, 2):
        if {"open candidate", "refuted candidate"} & {state, other}:
            assert math.dist(at, there) >= 13
    assert {"open candidate", "refuted candidate"} <= {state for state, _ in found}
    beside = replace(one, open=((4, Fraction(99, 100)), (4, Fraction(199, 200))))
    told = [
        m["R/C"] for m in marks_of([beside], frame, single=True) if m["state"] == "open candidate"
    ]
    assert told == ["99/100"]  # nobody knows whether it can be had: that is not left out


def test_overlays_leave_no_room_for_what_they_do_not_draw() -> None:
    one = replace(ALLGATHER, bandwidth=Fraction(1, 50), limits=((2, Fraction(1, 40)),))
    spec = frontier_chart([one, replace(one, name="other")]).to_dict()
    scale = spec["layer"][0]["encoding"]["y"]["scale"]
    assert scale["type"] == "linear"
    assert scale["domain"][0] > 1


def test_dots_lie_upon_lines_and_shades_have_no_seams() -> None:
    layers = frontier_chart([BROADCAST]).to_dict()["layer"]
    order = [layer["mark"]["type"] for layer in layers]
    assert order.index("rect") < order.index("rule") < order.index("point")
    shades = layers[order.index("rect")]["encoding"]
    assert shades["stroke"]["field"] == shades["fill"]["field"]
    assert shades["stroke"]["scale"] == shades["fill"]["scale"]


def test_times_are_those_of_the_cost_model() -> None:
    chart = time_chart([ALLGATHER])
    rows = rows_of(chart)[0]
    for row in rows:
        steps, cost = [(2, 3 / 2), (3, 7 / 6)][int(row["line"])]
        assert row["time"] == pytest.approx(steps * 0.7 + cost * row["size"] / 25e3)
    assert "51.3 KiB" in values(chart, "text")
    faster = time_chart([ALLGATHER], alpha_us=7.0, gb_per_s=25.0)
    assert "513 KiB" in values(faster, "text")


@pytest.mark.parametrize(("alpha", "bandwidth"), [(None, None), (0.001, 900.0)])
@pytest.mark.parametrize("steps", [3, 4, 9])
def test_every_crossover_says_its_size(
    steps: int, alpha: float | None, bandwidth: float | None
) -> None:
    points = tuple(
        CostPoint(4 + n, Fraction(4 + n, 2 + 2 * n), 2 + 2 * n, 4 + n, "proved")
        for n in range(steps)
    )
    one = FrontierData("broadcast on ring:8", points, alpha_us=0.7, gb_per_s=25.0)
    for several in ([one], [one, BROADCAST, ALLGATHER]):
        chart = time_chart(several, alpha, bandwidth)
        dots = next(rows for rows in rows_of(chart) if any("tx" in row for row in rows))
        missing = len([row for row in dots if row["text"] == ""])
        (_, *told) = chart.to_dict()["title"]["subtitle"]
        assert " ".join(told).count("iB") == missing
        assert len({row["text"] for row in dots}) > 1
        assert overlapping(svg(chart)) == []
        assert missing == 0 or len(several) > 1 or steps == 9


def test_lines_say_of_which_frontier_they_are() -> None:
    texts = values(time_chart([BROADCAST, ALLGATHER]), "text")
    assert {"C=2 S=2 R=2 (1)", "C=2 S=2 R=3 (2)", "51.3 KiB (2)"} <= texts


def test_no_two_series_look_alike() -> None:
    count = 3 * len(theme.COLOURS)
    for marks in (theme.DASHES, theme.SHAPES):
        styles = {(theme.nth(theme.COLOURS, i), theme.nth(marks, i)) for i in range(count)}
        assert len(styles) == count


def test_large_numbers_at_axes_are_short() -> None:
    rows = [{"x": 10**n, "y": 10**n, "s": "a"} for n in (2, 11)]
    titles: dict[str, Any] = {"title": "t", "x_title": "x", "y_title": "y"}
    measured = measured_chart(rows, "x", "y", "s", log_x=True, log_y=True, **titles)
    for chart in (measured, time_chart([BROADCAST], 1e12, 1.0)):
        assert re.findall(r">[0-9]{7,}<", svg(chart)) == []


@pytest.mark.parametrize(
    ("size", "text"),
    [(1, "1 B"), (1000, "1000 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**20 - 1, "1 MiB")],
)
def test_sizes_have_binary_units(size: float, text: str) -> None:
    assert bytes_text(size) == text


def test_utilisation_is_of_lanes_and_rounds() -> None:
    topology = resolve("dgx1")
    sends = (send(0, 0, 3, 0), send(8, 0, 3, 0), send(0, 0, 1, 0))
    algorithm = Algorithm(topology, named("allgather", 8).at(2), (2,), sends)
    rows = rows_of(utilisation_chart(algorithm))[0]
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
    chart = utilisation_chart(one_step(resolve(name)))
    spec = chart.to_dict()
    named = spec["layer"][0]["encoding"]["y"]["axis"]["values"]
    assert set(named) == {row["row"] for row in rows_of(chart)[0]}
    assert 14 * len(named) <= spec["height"] <= 2400
    assert spec["layer"][1]["mark"]["fontSize"] >= 12


def test_what_leaves_a_rank_is_a_share_of_its_budget() -> None:
    topology = resolve("dgx2")
    sends = tuple(send(0, 0, rank, 0) for rank in range(1, 4))
    algorithm = Algorithm(topology, named("allgather", 16).at(1), (1,), sends)
    share = {row["row"]: row["value"] for row in rows_of(utilisation_chart(algorithm))[0]}
    assert share["0"] == 0.5  # 3 chunks, of the 6 that all its links carry together
    assert share["1"] == 0.0


def test_cells_without_anything_are_white_and_told_from_others() -> None:
    used = utilisation_chart(one_step(resolve("ring:4"))).to_dict()["layer"][0]["encoding"]["color"]
    assert used["condition"]["value"] == "white"
    assert used["condition"]["test"] == "datum.value === 0"
    many = Algorithm(resolve("full:16"), named("alltoall", 16).at(16), (1,), (send(0, 0, 1, 0),))
    arrival = arrival_chart(many).to_dict()
    starts = arrival["layer"][-1]["data"]["values"]
    assert len(starts) == many.collective.num_chunks  # marked, as there is no room for words
    assert "A dash: the chunk starts there" in arrival["title"]["subtitle"][1]


def test_legends_of_heat_maps_have_the_steps_there_are_and_all_shares() -> None:
    (algorithm, *_) = frontier("ring:4", "allgather")
    once = replace(one_step(resolve("ring:4")), rounds_per_step=(1,))
    for one, steps in ((once, [0]), (algorithm, list(range(algorithm.steps)))):
        colour = arrival_chart(one).to_dict()["layer"][0]["encoding"]["color"]
        assert (colour["legend"]["type"], colour["legend"]["values"]) == ("symbol", steps)
    assert {"0%", "100%"} <= set(re.findall(r">([0-9]+%)<", svg(utilisation_chart(once))))


def test_rounds_of_many_steps_are_told_in_short() -> None:
    sends = one_step(resolve("ring:4")).sends
    for rounds, told in (((1, 3) * 12, "1 to 3"), ((1,) * 24, "1"), ((2, 1), "2, 1")):
        algorithm = Algorithm(resolve("ring:4"), named("allgather", 4).at(1), rounds, sends)
        (subtitle,) = utilisation_chart(algorithm).to_dict()["title"]["subtitle"]
        assert subtitle.endswith(f"rounds per step: {told}")


def test_large_machines_are_drawn_with_fewer_rows_and_lines() -> None:
    topology = resolve("full:64")
    rows = rows_of(utilisation_chart(one_step(topology)))[0]
    assert {row["row"] for row in rows} == {str(rank) for rank in range(64)}
    assert "too many to draw" in json.dumps(topology_chart(resolve("full:128")).to_dict())


def test_names_are_text_wherever_they_come_from() -> None:
    topology = replace(resolve("dgx1"), name=HOSTILE, labels=(HOSTILE, *"1234567"))
    algorithm = one_step(topology)
    charts = [
        topology_chart(topology),
        utilisation_chart(algorithm),
        arrival_chart(algorithm),
        frontier_chart([replace(BROADCAST, name=HOSTILE, scope=HOSTILE)]),
        frontier_chart([replace(BROADCAST, name=HOSTILE), ALLGATHER]),
        time_chart([replace(BROADCAST, name=HOSTILE), ALLGATHER]),
    ]
    for chart in charts:
        picture = ET.fromstring(svg(chart))  # noqa: S314 - it is our own
        assert {e.tag.rpartition("}")[2] for e in picture.iter()} <= {
            *("svg", "rect", "g", "path", "line", "text", "tspan"),
            *("defs", "clipPath", "linearGradient", "stop"),
        }
        written = page(chart, HOSTILE)
        assert "<script>alert" not in written
        assert "<b>" not in written.partition("<script>")[0]


def test_a_page_loads_nothing() -> None:
    written = page(frontier_chart([ALLGATHER]), "x")
    markup = re.sub(r"<script>.*?</script>", "", written, flags=re.DOTALL)
    assert "http" not in markup
    assert "src" not in markup
    assert written.count("<script>") == written.count("</script>") == 2
    assert "http" not in written.rpartition("<script>")[2].replace("https://vega.github.io", "")


def test_a_page_fits_a_narrow_screen(tmp_path: Path) -> None:
    path = tool("chromium", "install Debian's package chromium")
    file = tmp_path / "p.html"
    save(stacked([frontier_chart([BROADCAST]), time_chart([BROADCAST])]), file)
    assert '<meta name="viewport" content="width=device-width' in file.read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        tab = browser.new_page(viewport={"width": 400, "height": 800})
        tab.goto(file.as_uri())
        tab.wait_for_selector("#chart svg")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        wide, high = tab.evaluate(
            "(box => [box.width, box.height])"
            "(document.querySelector('#chart svg').getBoundingClientRect())"
        )
        browser.close()
    assert 300 < wide <= 400 < high < 500


@pytest.mark.parametrize("suffix", ["html", "svg", "png", "pdf"])
def test_equal_charts_are_equal_files(suffix: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for file in files:
        save(stacked([frontier_chart([BROADCAST]), utilisation_chart(one_step(resolve("dgx1")))]),
             file)  # fmt: skip
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 5000
    program = (
        "from pathlib import Path; from tests.test_view import *; "
        "save(stacked([frontier_chart([BROADCAST]), utilisation_chart(one_step(resolve('dgx1')))]),"
        f" Path({str(tmp_path / f'2.{suffix}')!r}))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / f"2.{suffix}").read_bytes() == files[0].read_bytes()


def test_what_cannot_be_saved_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"expected \.html, \.svg, \.png or \.pdf"):
        save(frontier_chart([ALLGATHER]), tmp_path / "x.jpg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("alpha", "bandwidth", "says"), [(-1.0, 1.0, "alpha-us is -1"), (1.0, 0.0, "gb-per-s is 0")]
)
def test_times_want_costs_that_make_sense(alpha: float, bandwidth: float, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        time_chart([ALLGATHER], alpha, bandwidth)
    with pytest.raises(ParameterError, match="give --alpha-us"):
        time_chart([replace(ALLGATHER, alpha_us=None)])


def test_measured_values_get_a_line_each() -> None:
    rows = [
        {"ranks": 2**i, "seconds": 0.1 * 2**i if i < 6 else None, "solver": f"solver {k}"}
        for k in range(3)
        for i in range(8)
    ]
    titles: dict[str, Any] = {"title": "Scale", "x_title": "Ranks", "y_title": "Time (s)"}
    chart = measured_chart(rows, "ranks", "seconds", "solver", log_x=True, log_y=True, **titles)
    assert len(rows_of(chart)[0]) == 3 * 6
    assert overlapping(svg(chart)) == []
    in_bytes = measured_chart(rows, "ranks", "seconds", "solver", x_bytes=True, **titles)
    assert "32 B" in svg(in_bytes)
    assert overlapping(svg(in_bytes)) == []
    with pytest.raises(ParameterError, match="no row has a value 'seconds'"):
        measured_chart([], "ranks", "seconds", "solver", **titles)
    zero = [{"ranks": 1, "seconds": 0, "solver": "a"}]
    with pytest.raises(ParameterError, match="seconds is 0"):
        measured_chart(zero, "ranks", "seconds", "solver", log_y=True, **titles)


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.fractions(Fraction(1, 99), 9, max_denominator=99)),
             min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 9), st.fractions(Fraction(1, 99), 9, max_denominator=99))),
    st.booleans(),
)  # fmt: skip
def test_any_frontier_can_be_drawn(
    costs: list[tuple[int, Fraction]], others: list[tuple[int, Fraction]], bounded: bool
) -> None:
    points = tuple(CostPoint(s, c, 1, 1, "proved") for s, c in sorted(costs))
    one = FrontierData("x", points, 1 if bounded else None, Fraction(1, 99) if bounded else None,
                       limits=tuple(others), refuted=tuple(others), open=tuple(others),
                       alpha_us=1.0, gb_per_s=1.0)  # fmt: skip
    for several in ([one], [one, replace(one, name="y")]):
        for chart in (frontier_chart(several), time_chart(several)):
            assert chart.to_dict()["$schema"]


@given(
    st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), max_size=12),
    st.text("0123/", min_size=1, max_size=8),
)
def test_labels_overlap_nothing(at: list[tuple[float, float]], text: str) -> None:
    frame = Frame(300, 200, (0, 1), (0, 1))
    marks = [dot(pixel, 5) for pixel in at]
    width, height = text_size(text)
    placed = place([(pixel, text) for pixel in at], frame, marks)
    boxes = [
        Rectangle(c[0] - width / 2, c[1] - height / 2, c[0] + width / 2, c[1] + height / 2)
        for c in placed
        if c
    ]
    for pixel, c in zip(at, placed, strict=True):
        assert not c or math.dist(c, pixel) == min(math.dist(c, other) for other in at)
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in [*marks, *boxes[:i]])
        assert box.within(Rectangle(0, 0, 300, 200))


@given(st.lists(st.floats(-50, 400), max_size=12))
def test_names_at_the_end_of_lines_stand_apart_and_in_order(wanted: list[float]) -> None:
    placed = apart(wanted, 15.0, 340.0)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    assert all(b - a >= 15.0 - 1e-9 for a, b in zip(
        [placed[i] for i in order], [placed[i] for i in order[1:]], strict=False))  # fmt: skip
    assert all(-1e-9 <= height <= 340 + 1e-9 for height in placed)


def test_charts_are_loaded_only_when_one_is_drawn() -> None:
    program = (
        "import sys; from sccl.cli.main import VERBS, load; list(map(load, VERBS)); "
        "print(sorted({'altair', 'vl_convert'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "[]"


# --- budgets -------------------------------------------------------------------------------------


def test_links_that_share_a_budget_are_drawn_apart() -> None:
    machine = resolve("z52-pcie")
    tied = shared(machine)
    assert tied == {edge for budget in machine.budgets for edge in budget.edges}
    assert words(machine)[0] == "PCIe left socket: 1 chunk per round over 0↔1, 1↔2, 1↔3"
    rows = [row for found in rows_of(topology_chart(machine)) for row in found if "budget" in row]
    dashed = {row["link"] for row in rows if "share" in row["budget"]}
    assert dashed == {f"{src}->{dst}" for src, dst in tied if src < dst}


def test_budgets_of_whole_ranks_are_words_alone() -> None:
    machine = resolve("dgx2")
    assert shared(machine) == frozenset()
    assert words(machine) == [
        "all links out of each rank: 6 chunks per round",
        "all links into each rank: 6 chunks per round",
    ]
    half = replace(machine, budgets=tuple(b for b in machine.budgets if b.edges[0][0] == 3))
    assert "node 3" in words(half)[0]


@pytest.mark.parametrize("machine", MACHINES)
def test_words_of_budgets_are_few(machine: str) -> None:
    lines = words(resolve(machine))
    assert len(lines) <= 8
    assert all(len(line) <= 84 for line in lines)


def test_budgets_that_lanes_keep_anyway_are_not_told() -> None:
    machine = resolve("z52-pcie")
    wide = [replace(b, chunks_per_round=len(b.edges)) for b in machine.budgets]
    loose = replace(machine, budgets=tuple(wide))
    assert (words(loose), shared(loose)) == ([], frozenset())


def test_a_shared_budget_has_its_row() -> None:
    machine = resolve("z52-pcie")
    (rows, *_) = rows_of(utilisation_chart(one_step(machine)))
    links = {f"{u} → {v}" for u, v in machine.budgets[0].edges}
    for step in range(2):
        now = {row["row"]: row["value"] for row in rows if row["column"] == step}
        assert now["PCIe left socket"] == sum(now[link] for link in links) == 3 * (step == 0)
