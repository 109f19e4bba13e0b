"""Charts: each compiles, labels stand apart, names are only names, and bytes are the same."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import ParameterError
from sccl.topo import catalogue_names, resolve_topology
from sccl.topo.generators import generators
from sccl.view.chart_files import chart_page, render_svg
from sccl.view.charts import (
    arrival_chart,
    frontier_chart,
    measured_chart,
    save_chart,
    stack_charts,
    time_chart,
    topology_chart,
    utilization_chart,
)
from sccl.view.charts.label_placement import (
    Frame,
    dot_area,
    place_labels,
    spread_apart,
    text_size,
)
from sccl.view.drawing.budgets import budget_lines, shared_links
from sccl.view.drawing.layout import Rectangle
from sccl.view.theme import vega_specification
from tests.kit.charts import ALLGATHER, BROADCAST, one_step, rows_of
from tests.kit.paths import ROOT
from tests.kit.svg import overlapping

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MACHINES = [*catalogue_names(), *(g.example for g in generators())]
BY_DAY = (
    *("dgx1", "z52-pcie", "ndv2x2", "dgx2", "dgx-a100", "mi300x8", "torus:4x4x4", "mesh:3x3"),
    *("hypercube:4", "dragonfly:4x5", "rail:2x2", "fattree:2", "circulant:8:1,3"),
)
"""One machine of each kind of drawing."""
HEAT_MAPS_BY_DAY = ("dgx1", "z52-pcie", "dgx2", "torus:4x4x4")
"""One machine of each kind of rows: links, shared budgets, ranks, and many."""
HOSTILE = "</script><script>alert(1)</script>&<b>\"'`${x}"


def machines(*by_day: str) -> pytest.MarkDecorator:
    """Return a decorator that runs a test on all machines, on some by day."""
    others = [pytest.param(m, marks=pytest.mark.rest) for m in MACHINES if m not in by_day]
    return pytest.mark.parametrize("name", [*by_day, *others])


@machines(*BY_DAY)
def test_drawings_of_every_machine_compile_and_their_labels_stand_apart(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert overlapping(render_svg(topology_chart(resolve_topology(name)))) == []
    assert capfd.readouterr() == ("", "")


@machines(*HEAT_MAPS_BY_DAY)
def test_heat_maps_of_every_machine_compile_and_their_labels_stand_apart(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    algorithm = one_step(resolve_topology(name))
    for chart in (utilization_chart(algorithm), arrival_chart(algorithm)):
        assert overlapping(render_svg(chart)) == []
    assert capfd.readouterr() == ("", "")


def test_large_machines_are_drawn_with_fewer_rows_and_lines() -> None:
    topology = resolve_topology("full:64")
    rows = rows_of(utilization_chart(one_step(topology)))[0]
    assert {row["row"] for row in rows} == {str(rank) for rank in range(64)}
    drawn = vega_specification(topology_chart(resolve_topology("full:128")))
    assert "too many to draw" in json.dumps(drawn)


def test_names_are_text_wherever_they_come_from() -> None:
    topology = replace(resolve_topology("dgx1"), name=HOSTILE, labels=(HOSTILE, *"1234567"))
    algorithm = one_step(topology)
    charts = [
        topology_chart(topology),
        utilization_chart(algorithm),
        arrival_chart(algorithm),
        frontier_chart([replace(BROADCAST, name=HOSTILE, scope=HOSTILE)]),
        frontier_chart([replace(BROADCAST, name=HOSTILE), ALLGATHER]),
        time_chart([replace(BROADCAST, name=HOSTILE), ALLGATHER]),
    ]
    for chart in charts:
        picture = ET.fromstring(render_svg(chart))  # noqa: S314 - it is our own
        assert {e.tag.rpartition("}")[2] for e in picture.iter()} <= {
            *("svg", "rect", "g", "path", "line", "text", "tspan"),
            *("defs", "clipPath", "linearGradient", "stop"),
        }
        written = chart_page(chart, HOSTILE)
        assert "<script>alert" not in written
        assert "<b>" not in written.partition("<script>")[0]


def test_page_loads_nothing() -> None:
    written = chart_page(frontier_chart([ALLGATHER]), "x")
    markup = re.sub(r"<script>.*?</script>", "", written, flags=re.DOTALL)
    assert "http" not in markup
    assert "src" not in markup
    assert written.count("<script>") == written.count("</script>") == 2
    assert "http" not in written.rpartition("<script>")[2].replace("https://vega.github.io", "")


def test_page_fits_a_narrow_screen(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "p.html"
    save_chart(stack_charts([frontier_chart([BROADCAST]), time_chart([BROADCAST])]), file)
    assert '<meta name="viewport" content="width=device-width' in file.read_text(encoding="utf-8")
    tab = browser.new_page(viewport={"width": 400, "height": 800})
    tab.goto(file.as_uri())
    tab.wait_for_selector("#chart svg")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    wide, high = tab.evaluate(
        "(box => [box.width, box.height])"
        "(document.querySelector('#chart svg').getBoundingClientRect())"
    )
    tab.close()
    assert 300 < wide <= 400 < high < 500


def save_in_all_formats(folder: Path) -> None:
    chart = stack_charts(
        [frontier_chart([BROADCAST]), utilization_chart(one_step(resolve_topology("dgx1")))]
    )
    for suffix in ("html", "svg", "png", "pdf"):
        save_chart(chart, folder / f"chart.{suffix}")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.suffix: path.read_bytes() for path in folder.iterdir()}


def test_equal_charts_are_equal_files(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "elsewhere")]
    for folder in folders:
        folder.mkdir()
    save_in_all_formats(folders[0])
    program = (
        "from pathlib import Path; from tests.view.charts.test_charts import save_in_all_formats; "
        f"save_in_all_formats(Path({str(folders[1])!r}))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
    first, elsewhere = map(contents, folders)
    assert first == elsewhere
    assert {suffix for suffix, text in first.items() if len(text) > 5000} == {
        ".html", ".svg", ".png", ".pdf"
    }  # fmt: skip


def test_charts_are_of_the_schema_of_vega_lite() -> None:
    """The writers do not check this."""
    machine = resolve_topology("dgx1")
    algorithm = one_step(machine)
    data = [BROADCAST, ALLGATHER]
    charts = [topology_chart(machine), utilization_chart(algorithm), arrival_chart(algorithm),
              frontier_chart(data), time_chart(data), stack_charts([time_chart(data)])]  # fmt: skip
    for chart in charts:
        assert chart.to_dict(validate=True)["$schema"]


def test_unsavable_chart_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"expected \.html, \.svg, \.png or \.pdf"):
        save_chart(frontier_chart([ALLGATHER]), tmp_path / "x.jpg")
    assert list(tmp_path.iterdir()) == []


def test_measured_values_get_a_line_each() -> None:
    rows = [
        {"ranks": 2**i, "seconds": 0.1 * 2**i if i < 6 else None, "solver": f"solver {k}"}
        for k in range(3)
        for i in range(8)
    ]
    titles: dict[str, Any] = {"title": "Scale", "x_title": "Ranks", "y_title": "Time (s)"}
    chart = measured_chart(rows, "ranks", "seconds", "solver", log_x=True, log_y=True, **titles)
    assert len(rows_of(chart)[0]) == 3 * 6
    assert overlapping(render_svg(chart)) == []
    in_bytes = measured_chart(rows, "ranks", "seconds", "solver", x_bytes=True, **titles)
    assert "32 B" in render_svg(in_bytes)
    assert overlapping(render_svg(in_bytes)) == []
    with pytest.raises(ParameterError, match="no row has a value 'seconds'"):
        measured_chart([], "ranks", "seconds", "solver", **titles)
    zero = [{"ranks": 1, "seconds": 0, "solver": "a"}]
    with pytest.raises(ParameterError, match="seconds is 0"):
        measured_chart(zero, "ranks", "seconds", "solver", log_y=True, **titles)


@given(
    st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), max_size=12),
    st.text("0123/", min_size=1, max_size=8),
)
def test_labels_overlap_nothing(at: list[tuple[float, float]], text: str) -> None:
    frame = Frame(300, 200, (0, 1), (0, 1))
    marks = [dot_area(pixel, 5) for pixel in at]
    width, height = text_size(text)
    placed = place_labels([(pixel, text) for pixel in at], frame, marks)
    boxes = [
        Rectangle(c[0] - width / 2, c[1] - height / 2, c[0] + width / 2, c[1] + height / 2)
        for c in placed
        if c
    ]
    for pixel, c in zip(at, placed, strict=True):
        assert not c or math.dist(c, pixel) == min(math.dist(c, other) for other in at)
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in [*marks, *boxes[:i]])
        assert box.is_within(Rectangle(0, 0, 300, 200))


@given(st.lists(st.floats(-50, 400), max_size=12))
def test_names_at_the_end_of_lines_stand_apart_and_in_order(wanted: list[float]) -> None:
    placed = spread_apart(wanted, 15.0, 340.0)
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    assert all(b - a >= 15.0 - 1e-9 for a, b in zip(
        [placed[i] for i in order], [placed[i] for i in order[1:]], strict=False))  # fmt: skip
    assert all(-1e-9 <= height <= 340 + 1e-9 for height in placed)


def test_charts_are_loaded_only_when_one_is_drawn() -> None:
    program = (
        "import sys; from sccl.cli.main import load_verb; from sccl.cli.verbs import VERBS; "
        "list(map(load_verb, VERBS)); "
        "print([m for m in sys.modules if m.startswith(('altair.', 'vl_convert.'))])"
    )  # the names themselves stand for lazily loaded modules
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "[]"


# --- budgets -------------------------------------------------------------------------------------


def test_links_that_share_a_budget_are_drawn_apart() -> None:
    machine = resolve_topology("z52-pcie")
    tied = shared_links(machine)
    assert tied == {edge for budget in machine.budgets for edge in budget.edges}
    assert budget_lines(machine)[0] == "PCIe left socket: 1 chunk per round over 0↔1, 1↔2, 1↔3"
    rows = [row for found in rows_of(topology_chart(machine)) for row in found if "budget" in row]
    dashed = {row["link"] for row in rows if "share" in row["budget"]}
    assert dashed == {f"{src}->{dst}" for src, dst in tied if src < dst}


def test_budgets_of_whole_ranks_are_words_alone() -> None:
    machine = resolve_topology("dgx2")
    assert shared_links(machine) == frozenset()
    assert budget_lines(machine) == [
        "all links out of each rank: 6 chunks per round",
        "all links into each rank: 6 chunks per round",
    ]
    half = replace(machine, budgets=tuple(b for b in machine.budgets if b.edges[0][0] == 3))
    assert "node 3" in budget_lines(half)[0]


def test_words_of_budgets_are_few() -> None:
    for machine in MACHINES:
        lines = budget_lines(resolve_topology(machine))
        assert len(lines) <= 8, machine
        assert all(len(line) <= 84 for line in lines), machine


def test_budgets_that_lanes_keep_anyway_are_not_told() -> None:
    machine = resolve_topology("z52-pcie")
    wide = [replace(b, chunks_per_round=len(b.edges)) for b in machine.budgets]
    loose = replace(machine, budgets=tuple(wide))
    assert (budget_lines(loose), shared_links(loose)) == ([], frozenset())
