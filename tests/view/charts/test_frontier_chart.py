"""Charts of frontiers: marks, labels, and their positions."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.cost import Costs, format_bytes
from sccl.core.files.frontier_folders import frontiers_of_algorithms
from sccl.core.frontier import Point
from sccl.errors import ParameterError
from sccl.synth.packing.by_time.time_bound import lower_bound_function
from sccl.topo import resolve_topology
from sccl.view import theme
from sccl.view.chart_files import render_svg
from sccl.view.charts import (
    FrontierData,
    frontier_chart,
    frontier_lines,
    measured_chart,
    time_chart,
)
from sccl.view.charts.frontier_chart import build_marks
from sccl.view.charts.label_placement import Frame, dot_area
from sccl.view.charts.proved_regions import bound_lines
from sccl.view.theme import vega_specification
from tests.kit.charts import ALLGATHER, BROADCAST, rows_of, values
from tests.kit.easy_algorithms import frontier
from tests.kit.nightly import times
from tests.kit.svg import overlapping


@pytest.mark.parametrize("name", ["dgx1", "z52", "ring:4", "torus:3x3"])
def test_charts_of_frontiers_compile_and_their_labels_stand_apart(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    several = [*frontier(name, "allgather"), *frontier(name, "broadcast")]
    found = frontier_lines(frontiers_of_algorithms(several))
    more = [[BROADCAST], [BROADCAST, ALLGATHER]] if name == "dgx1" else []
    for lines in (found[:1], found, *more):
        for chart in (frontier_chart(lines), time_chart(lines)):
            assert overlapping(render_svg(chart)) == []
    assert capfd.readouterr() == ("", "")


def test_frontier_says_what_is_proved_open_and_refuted() -> None:
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
    never = "no algorithm, for any k and C"
    assert shaded[2, never] == 1.0
    assert shaded[3, never] == pytest.approx(9 / 22)
    assert shaded[4, never] == pytest.approx(3 / 10)
    assert (4, "refuted for the k and C searched") not in shaded  # a candidate is open there
    later = frontier_chart([replace(BROADCAST, limits=((4, Fraction(3, 10)),))])
    tops = [row["top"] for rows in rows_of(later) for row in rows if row.get("what") == never]
    assert tops[1:3] == [pytest.approx(3 / 10)] * 2  # a limit holds for fewer steps, too


def test_searched_region_ends_at_the_last_point() -> None:
    rows = rows_of(frontier_chart([replace(ALLGATHER, limits=((6, Fraction(1)),))]))
    searched = "refuted for the k and C searched"
    shaded = [(row["steps"], row["top"]) for each in rows for row in each
              if row.get("what") == searched]  # fmt: skip
    assert shaded == [(2, 1.5), (3, pytest.approx(7 / 6))]


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
    _, covered = bound_lines(BROADCAST, frame)
    for value in ((5, 1 / 6), (2, 1.0)):
        assert any(dot_area(frame.pixels(*value), 1).is_within(box) for box in covered)
    assert not any(dot_area(frame.pixels(5, 1.0), 1).overlaps(box) for box in covered)


def test_legends_show_marks_as_they_are_drawn() -> None:
    for several in ([BROADCAST], [BROADCAST, ALLGATHER]):
        layers = vega_specification(frontier_chart(several))["layer"]
        (own,) = [x for x in layers if x["encoding"].get("shape", {}).get("legend")]
        (drawn,) = [x for x in layers if "inside" in x["data"]["values"][0]]
        scale = own["encoding"]["fill"]["scale"]
        shown = {kind: fill == "white" for kind, fill in zip(*scale.values(), strict=True)}
        rows = drawn["data"]["values"]
        assert shown == {row["state"]: row["inside"] == "white" for row in rows}


def test_limit_on_the_bound_is_not_marked() -> None:
    one = replace(BROADCAST, limits=((5, Fraction(1, 6)),), bandwidth=Fraction(1, 6))
    assert "limit of R/C for this S" not in values(frontier_chart([one]), "state")


def test_marks_lie_clear_of_one_another() -> None:
    near = tuple((4, Fraction(100 - n, 100)) for n in range(1, 90))
    points = (
        Point(4, Fraction(1), 1, 4, is_proved=True),
        Point(5, Fraction(9, 10), 1, 5),
    )
    one = replace(
        BROADCAST, points=points, open=near[:40], refuted=near[40:], limits=((4, Fraction(1, 2)),)
    )
    frame = Frame(560, 340, (3, 6), (0, 1.2))
    found = [
        (m["state"], frame.pixels(m["steps"], m["cost"]))
        for m in build_marks([one], frame, single=True)
    ]
    for (state, at), (other, there) in combinations(found, 2):
        if {"open candidate", "refuted candidate"} & {state, other}:
            assert math.dist(at, there) >= 13
    assert {"open candidate", "refuted candidate"} <= {state for state, _ in found}
    beside = replace(one, open=((4, Fraction(99, 100)), (4, Fraction(199, 200))))
    told = [
        m["R/C"]
        for m in build_marks([beside], frame, single=True)
        if m["state"] == "open candidate"
    ]
    assert told == ["99/100"]  # nobody knows whether it can be had: that is not left out


def test_overlays_leave_no_room_for_what_they_do_not_draw() -> None:
    one = replace(ALLGATHER, bandwidth=Fraction(1, 50), limits=((2, Fraction(1, 40)),))
    spec = vega_specification(frontier_chart([one, replace(one, name="other")]))
    scale = spec["layer"][0]["encoding"]["y"]["scale"]
    assert scale["type"] == "linear"
    assert scale["domain"][0] > 1


def test_dots_lie_upon_lines_and_shades_have_no_seams() -> None:
    layers = vega_specification(frontier_chart([BROADCAST]))["layer"]
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


def test_lower_bound_is_a_separate_line() -> None:
    """It stays below the others, is named at its end and in the subtitle."""
    machine = resolve_topology("dgx1")
    spec = named_spec("allgather", 8)
    least = lower_bound_function(machine, spec, Costs.from_topology(machine))
    assert least is not None
    chart = time_chart([ALLGATHER], lower_bound_us=least)
    floor, curves = rows_of(chart)[:2]
    assert all(row["time"] == pytest.approx(least(row["size"])) for row in floor)
    fastest: dict[float, float] = {}
    for row in curves:
        fastest[row["size"]] = min(row["time"], fastest.get(row["size"], row["time"]))
    assert all(row["time"] <= fastest[row["size"]] for row in floor)
    assert "lower bound" in values(chart, "text")
    assert "lower bound: for every chunk count" in vega_specification(chart)["title"]["subtitle"][0]
    assert overlapping(render_svg(chart)) == []
    assert (
        lower_bound_function(machine, spec, Costs.from_topology(machine, 7.0)) is None
    )  # not of that machine
    torus = resolve_topology("torus:9x9")
    assert (
        lower_bound_function(torus, named_spec("allgather", 81), Costs.from_topology(torus)) is None
    )  # too large


@pytest.mark.parametrize(("alpha", "bandwidth"), [(None, None), (0.001, 900.0)])
@pytest.mark.parametrize("steps", [3, 9])
def test_every_crossover_says_its_size(
    steps: int, alpha: float | None, bandwidth: float | None
) -> None:
    points = tuple(
        Point(4 + n, Fraction(4 + n, 2 + 2 * n), 2 + 2 * n, 4 + n, is_proved=True)
        for n in range(steps)
    )
    one = FrontierData("broadcast on ring:8", points, alpha_us=0.7, gb_per_s=25.0)
    for several in ([one], [one, BROADCAST, ALLGATHER]):
        chart = time_chart(several, alpha, bandwidth)
        dots = next(rows for rows in rows_of(chart) if any("tx" in row for row in rows))
        missing = len([row for row in dots if row["text"] == ""])
        (_, *told) = vega_specification(chart)["title"]["subtitle"]
        assert " ".join(told).count("iB") == missing
        assert len({row["text"] for row in dots}) > 1
        assert overlapping(render_svg(chart)) == []
        assert missing == 0 or len(several) > 1 or steps == 9


def test_lines_say_of_which_frontier_they_are() -> None:
    texts = values(time_chart([BROADCAST, ALLGATHER]), "text")
    assert {"C=2 S=2 R=2 (1)", "C=2 S=2 R=3 (2)", "51.3 KiB (2)"} <= texts


def families() -> list[FrontierData]:
    """Return three families of an allreduce, with the second one fastest only in the middle."""
    costs = {
        "gathered": ((2, Fraction(6)),),
        "trees": ((4, Fraction(2)), (5, Fraction(1))),
        "composed": ((6, Fraction(1)), (8, Fraction(1, 2))),
    }
    return [
        FrontierData(
            f"allreduce on dgx1, {name}",
            tuple(Point(steps, cost, 1, 1, is_proved=True) for steps, cost in points),
            question="allreduce on dgx1", of_class=name, alpha_us=0.7, gb_per_s=25.0,
        )
        for name, points in costs.items()
    ]  # fmt: skip


def test_fastest_family_is_thick_and_named_by_size() -> None:
    chart = time_chart(families())
    named = next(rows for rows in rows_of(chart) if "family" in rows[0])
    assert [row["family"] for row in named] == ["gathered", "trees", "composed"]
    ends = [row["until"] for row in named]
    assert ends[:-1] == [row["size"] for row in named[1:]]
    assert ends[0] == pytest.approx((4 - 2) * 0.7 / (6 - 2) * 25e3)
    (thick,) = (rows for rows in rows_of(chart) if "part" in rows[0])
    for row in thick:
        every = [s * 0.7 + c * row["size"] / 25e3 for s, c in
                 ((2, 6), (4, 2), (5, 1), (6, 1), (8, 0.5))]  # fmt: skip
        assert row["time"] == pytest.approx(min(every))
    assert len({row["color"] for row in thick}) == 3
    assert {"C=1 S=2 R=1, gathered", "gathered", "trees"} <= values(chart, "text")
    dots = next(rows for rows in rows_of(chart) if any("tx" in row for row in rows))
    assert len(dots) == 3  # two changes of the family, and one within the trees
    assert overlapping(render_svg(chart)) == []
    assert not any("family" in row for rows in rows_of(time_chart(families()[1:2])) for row in rows)
    unrelated = [replace(one, question="") for one in families()]
    assert not any("family" in row for rows in rows_of(time_chart(unrelated)) for row in rows)


def test_no_two_series_look_alike() -> None:
    count = 3 * len(theme.COLORS)
    for marks in (theme.DASHES, theme.MARKERS):
        styles = {(theme.nth(theme.COLORS, i), theme.nth(marks, i)) for i in range(count)}
        assert len(styles) == count


def test_large_numbers_at_axes_are_short() -> None:
    rows = [{"x": 10**n, "y": 10**n, "s": "a"} for n in (2, 11)]
    titles: dict[str, Any] = {"title": "t", "x_title": "x", "y_title": "y"}
    measured = measured_chart(rows, "x", "y", "s", log_x=True, log_y=True, **titles)
    for chart in (measured, time_chart([BROADCAST], 1e12, 1.0)):
        assert re.findall(r">[0-9]{7,}<", render_svg(chart)) == []


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1 B"),
        (1000, "1 KB"),
        (10**9, "1 GB"),
        (64_500, "63 KiB"),
        (1_024_000, "1.024 MB"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1 MiB"),
    ],
)
def test_sizes_have_binary_units_or_those_in_which_they_are_whole(size: float, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("alpha", "bandwidth", "says"), [(-1.0, 1.0, "alpha-us is -1"), (1.0, 0.0, "gb-per-s is 0")]
)
def test_times_want_costs_that_make_sense(alpha: float, bandwidth: float, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        time_chart([ALLGATHER], alpha, bandwidth)
    with pytest.raises(ParameterError, match="give --alpha-us"):
        time_chart([replace(ALLGATHER, alpha_us=None)])


@settings(max_examples=times(6, by_day=4))
@given(
    st.lists(st.tuples(st.integers(1, 9), st.fractions(Fraction(1, 99), 9, max_denominator=99)),
             min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 9), st.fractions(Fraction(1, 99), 9, max_denominator=99))),
    st.booleans(),
)  # fmt: skip
def test_any_frontier_can_be_drawn(
    costs: list[tuple[int, Fraction]], others: list[tuple[int, Fraction]], bounded: bool
) -> None:
    points = tuple(Point(s, c, 1, 1, is_proved=True) for s, c in sorted(costs))
    one = FrontierData("x", points, 1 if bounded else None, Fraction(1, 99) if bounded else None,
                       limits=tuple(others), refuted=tuple(others), open=tuple(others),
                       alpha_us=1.0, gb_per_s=1.0)  # fmt: skip
    for several in ([one], [one, replace(one, name="y")]):
        for chart in (frontier_chart(several), time_chart(several)):
            assert chart.to_dict()["$schema"]
