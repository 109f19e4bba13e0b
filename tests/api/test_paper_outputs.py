"""Outputs for papers: points, frames, LaTeX, pictures of a given size, custom collectives."""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sccl
from sccl.collectives import resolve_collective
from sccl.core.frontier import EXCHANGED
from sccl.errors import InputError
from sccl.view.completeness import ABOVE_ALL_TEXT
from sccl.view.text.markup import escape_text, tabular

# --- frontiers are sequences ---------------------------------------------------------------------


def test_frontier_is_a_sequence_of_its_points(frontier: sccl.Frontier, tmp_path: Path) -> None:
    kept = sccl.load(frontier.save(tmp_path))
    assert isinstance(kept, sccl.SavedFrontier)
    for found in (frontier, kept):
        assert len(found) == 2
        assert [point.steps for point in found] == [2, 3]
        assert repr(found[-1]) == "Point(C=6 S=3 R=7, proved)"
        assert found[:1] == found.points[:1]
        assert found[0] in found
    assert [p.algorithm for p in kept] == [p.algorithm for p in frontier]
    with pytest.raises(IndexError):
        frontier[2]


def test_points_of_a_printed_frontier_have_costs_without_files(
    frontier: sccl.Frontier, tmp_path: Path
) -> None:
    kept = sccl.SavedFrontier(tmp_path / "printed.json", frontier.to_json())
    assert [(p.chunks, p.steps, p.rounds, p.algorithm) for p in kept] == [
        (2, 2, 3, None),
        (6, 3, 7, None),
    ]


def test_limits_show_every_class_everywhere(limits: sccl.LimitFrontier) -> None:
    assert len(limits.classes) == 4
    every = [point for points in limits.classes.values() for point in points]
    assert set(map(repr, limits)) <= set(map(repr, every))  # the best of all of them
    for scope, points in limits.classes.items():
        name = points[0].of_class
        assert f"{name}: complete for every k" in repr(limits)
        assert scope in limits.to_latex()
        assert scope in limits._repr_html_()
        assert list(limits.to_dataframe()["class"]).count(scope) == len(points)


def test_tables_say_what_is_above_all_allreduces(
    limits: sccl.LimitFrontier, frontier: sccl.Frontier, tmp_path: Path
) -> None:
    above = [limits.value.gap_to_any_class(point) for _, point in limits.value.non_dominated]
    assert [point.above_every for point in limits] == above
    assert any(one == 0 for one in above)
    kept = sccl.load(limits.save(tmp_path))
    assert isinstance(kept, sccl.SavedFrontier)
    assert [point.above_every for point in kept] == above
    for found in (limits, kept):
        assert "Above all" in found._repr_html_()
        assert found._repr_html_().count(">optimal<") == above.count(Fraction(0))
        assert ABOVE_ALL_TEXT in found._repr_html_()
        every = [point for points in found.classes.values() for point in points]
        told = [None if p.above_every is None else float(p.above_every) for p in every]
        frame = found.to_dataframe()["above_every"]
        assert [
            None if none else value for value, none in zip(frame, frame.isna(), strict=True)
        ] == told
        assert r"State & Above all \\" in found.to_latex()
    assert frontier[0].above_every is None  # it is known of allreduces alone
    assert "Above all" not in frontier._repr_html_() + frontier.to_latex()


def test_kept_limits_have_every_class_and_every_algorithm(
    limits: sccl.LimitFrontier, tmp_path: Path
) -> None:
    kept = sccl.load(limits.save(tmp_path))
    assert isinstance(kept, sccl.SavedFrontier)
    assert {scope: [p.algorithm for p in points] for scope, points in kept.classes.items()} == {
        scope: [p.algorithm for p in points] for scope, points in limits.classes.items()
    }
    assert repr(kept).partition("(")[2] == repr(limits).partition("(")[2]
    names = {point.of_class for points in limits.classes.values() for point in points}
    shown = kept._repr_html_().lower()
    assert all(f"{name}: complete" in shown for name in names - {EXCHANGED})
    assert f"{EXCHANGED}: complete for every k" in shown


# --- frames --------------------------------------------------------------------------------------


def test_frames_say_machine_collective_class_and_seconds(
    frontier: sccl.Frontier, tmp_path: Path
) -> None:
    found = frontier.to_dataframe()
    assert list(found.columns)[:4] == ["topology", "collective", "root", "class"]
    assert set(found["topology"]) == {"dgx1"}
    assert set(found["collective"]) == {"allgather"}
    assert (found["seconds"] >= 0).all()
    assert found["root"].isna().all()
    kept = sccl.load(frontier.save(tmp_path))
    assert isinstance(kept, sccl.SavedFrontier)
    again = kept.to_dataframe()
    assert again["seconds"].isna().all()  # files are the same bytes however long it took
    assert list(again["chunks"]) == [2, 6]


def test_frame_without_points_has_its_columns() -> None:
    hurried = sccl.pareto("allgather", "dgx1", timeout_s=1e-4, max_steps=2, k=0, progress=False)
    empty = hurried.to_dataframe()
    assert (len(hurried), len(empty)) in [(0, 0), (1, 1)]
    assert "seconds" in empty.columns


# --- LaTeX ---------------------------------------------------------------------------------------


def test_frontier_is_a_table_of_latex(frontier: sccl.Frontier) -> None:
    found = frontier.to_latex()
    assert r"6 & 3 & 7 & 7/6 & R/C & proved \\" in found
    assert found.splitlines()[0] == r"\begin{tabular}{rrrrll}"
    assert frontier._repr_latex_() == found == found._repr_latex_()
    assert found._repr_html_().startswith("<pre>")
    floating = frontier.to_latex("50 % of $x_1$", "tab:a b")
    assert r"\caption{50 \% of \$x\_1\$}" in floating
    assert r"\label{tab:a-b}" in floating


@given(st.text())
def test_name_is_no_command_of_latex(name: str) -> None:
    found = escape_text(name)
    rest = re.sub(r"\\(textbackslash|text[a-z]+)\{\}|\\[&%$#_{}]", "", found)
    assert not re.search(r"[\\&%$#_{}~^<>|\"\n]", rest)
    assert len(tabular(("A",), "l", {name: [(name,)]}).splitlines()) == (8 if found else 7)


# --- pictures ------------------------------------------------------------------------------------


def size_of_png(path: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height


@pytest.mark.parametrize(
    ("size", "svg", "png"),
    [
        ({"width": 320}, "320 x 241.1", (640, 482)),
        ({"height": 243}, "322.5 x 243", (645, 486)),
        ({"width": 300, "height": 300}, "300 x 300", (600, 600)),
    ],
)
def test_chart_is_saved_in_a_size(
    size: dict[str, float], svg: str, png: tuple[int, int], tmp_path: Path, frontier: sccl.Frontier
) -> None:
    chart = frontier.plot()
    drawn = chart.save(tmp_path / "c.svg").read_text()
    text = chart.save(tmp_path / "c.svg", **size).read_text()
    found = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox="0 0 645 486"', text)
    assert found
    assert f"{float(found[1]):g} x {float(found[2]):.4g}" == svg
    assert text[text.index("viewBox") :] == drawn[drawn.index("viewBox") :]
    assert size_of_png(chart.save(tmp_path / "c.png", **size)) == png


def test_page_shows_its_chart_in_a_size(tmp_path: Path, frontier: sccl.Frontier) -> None:
    page = frontier.plot().save(tmp_path / "c.html", width=320).read_text()
    assert "#chart svg { width: 320px; height: auto; }" in page


def test_scale_is_that_of_pixels(tmp_path: Path, frontier: sccl.Frontier) -> None:
    assert size_of_png(frontier.plot().save(tmp_path / "c.png", scale=1)) == (645, 486)
    pdf = frontier.plot().save(tmp_path / "c.pdf", width=320).read_bytes()
    assert b"/MediaBox [0 0 320 " in pdf


@pytest.mark.parametrize(
    ("file", "size", "says"),
    [
        ("c.svg", {"width": -1}, "width is -1, expected a number above 0"),
        ("c.png", {"height": float("nan")}, "height is nan"),
        ("c.png", {"width": 16000}, "more than 16384 pixels along a side"),
        ("c.svg", {"scale": 2}, "a .svg has no pixels"),
        ("c.png", {"width": "3in"}, "width is '3in', expected a number or None"),
    ],
)
def test_size_that_cannot_be_gives_one_sentence(
    file: str, size: Any, says: str, tmp_path: Path, frontier: sccl.Frontier
) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        frontier.plot().save(tmp_path / file, **size)
    assert not list(tmp_path.iterdir())


# --- collectives of one's own --------------------------------------------------------------------

UNEVEN = """{"name": "uneven-gather", "ranks": 4, "pre": [[0, 0], [1, 0], [2, 1]],
 "post": [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3],
          [2, 0], [2, 1], [2, 2], [2, 3]]}"""


def test_collective_of_values_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(UNEVEN)
    own = sccl.collective(
        "uneven-gather", 4, pre={2: [1], 0: 0, 1: 0}, post={c: range(4) for c in range(3)}
    )
    assert own == resolve_collective(str(tmp_path / "c.json"), 4)


def test_collective_of_values_is_taken_wherever_one_is(tmp_path: Path) -> None:
    own = sccl.collective("to-the-next", 3, pre={0: 0, 1: 1, 2: 2}, post={0: 1, 1: 2, 2: 0})
    assert sccl.bounds(own, "ring:3").steps == 1
    assert sccl.solve(own, "ring:3", chunks=1, steps=1, rounds=1, store=False).verdict == "sat"
    assert sccl.limits(own, "ring:3", progress=False).points
    found = sccl.pareto(own, "ring:3", progress=False, store=False)
    best = found[-1].algorithm
    assert best is not None
    assert best.violations() == []
    again = sccl.load(best.save(tmp_path / "a.json"))
    assert again == best
    found.certify(tmp_path / "proofs")
    assert sccl.check_certificate(tmp_path / "proofs").holds


def test_combining_one_sums_up() -> None:
    total = sccl.collective("total", 3, pre={0: range(3)}, post={0: 2}, combining=True)
    found = sccl.pareto(total, "ring:3", progress=False, store=False)
    assert found[0].algorithm is not None
    assert found[0].algorithm.violations() == []


UNTYPED: Any = sccl


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"pre": {0: 0}}, "has only one of the two"),
        ({"pre": {0: 0}, "post": {0: 1}, "root": 1}, "has a root"),
        ({"combining": True}, "combining is given for mine"),
        ({"pre": {0: "a"}, "post": {0: 1}}, "pre is given (0, 'a'), expected whole numbers"),
        ({"pre": {0: 0}, "post": {0: True}}, "post is given (0, True)"),
        ({"pre": 3, "post": 4}, "pre is 3, expected a dict or None"),
        ({"pre": {}, "post": {}}, "$.pre"),
    ],
)
def test_collective_that_contradicts_itself_gives_one_sentence(given_: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        UNTYPED.collective("mine", 3, **given_)
    assert "\n" not in str(caught.value)


def test_custom_collective_cannot_have_a_builtin_name() -> None:
    with pytest.raises(InputError, match="one of sccl's own collectives"):
        sccl.collective("allgather", 3, pre={0: 0}, post={0: 1})
