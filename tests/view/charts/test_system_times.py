"""The comparison chart: lines labelled at their ends, grey for all but the best."""

from __future__ import annotations

from typing import Any

import pytest

from sccl.errors import ParameterError
from sccl.view.chart_files import render_svg
from sccl.view.charts import SystemTimes, TimeMeasure, comparison_chart
from sccl.view.charts.system_times import BOUND, MAX_NAMED
from sccl.view.theme import vega_specification
from tests.kit.charts import rows_of
from tests.kit.svg import overlapping

SIZES = tuple(1000 * 4**i for i in range(11))
LEAST = [(size, 1 + size / 1e5) for size in SIZES]


def systems(count: int) -> list[SystemTimes]:
    """Return systems, each slower than the previous one, except that the last wins at one size."""
    found = [
        SystemTimes(f"system {i}", tuple((size, us * (2 + i / 4)) for size, us in LEAST))
        for i in range(count)
    ]
    last = tuple((size, us * (1.5 if size == 1000 else 50)) for size, us in LEAST)
    return [*found, SystemTimes("the last", last)]


def points(chart: Any) -> list[dict[str, Any]]:
    """Return the points of all lines."""
    return [row for rows in rows_of(chart) for row in rows if "value" in row]


def labels(chart: Any) -> dict[str, str]:
    """Return the names at the ends of lines, and their colours."""
    return {row["text"]: row["ink"] for rows in rows_of(chart) for row in rows if "text" in row}


def test_comparison_chart_names_every_line_and_colours_the_best() -> None:
    chart = comparison_chart(systems(12), LEAST, "allreduce on dgx1", "alpha travels")
    names = labels(chart)
    assert set(names) == {BOUND, *(f"system {i}" for i in range(12)), "the last \u2191"}
    assert len(set(names.values())) == MAX_NAMED + 2  # colours, grey, and the lower bound
    assert names["system 11"] == names["system 10"] != names["system 0"]
    assert len(points(chart)) == 14 * len(SIZES)
    assert list(names)[-1] == BOUND  # the lowest of equal ends
    assert overlapping(render_svg(chart)) == []


def test_comparison_chart_counts_lines_whose_names_do_not_fit() -> None:
    chart = vega_specification(comparison_chart(systems(60), LEAST, "a", "b"))
    notes = " ".join(chart["title"]["subtitle"])
    assert "End above 10: system 33, system 34" in notes
    assert "grey lines without a name" in notes
    assert overlapping(render_svg(comparison_chart(systems(60), LEAST, "a", "b"))) == []


@pytest.mark.parametrize(
    ("ratios", "top"), [((1, 1.02), 1.5), ((1, 6), 7), ((1, 30), 10), ((20, 30), 26)]
)
def test_ratio_axis_has_space_for_the_slowest_up_to_ten_and_for_the_fastest(
    ratios: tuple[float, ...], top: float
) -> None:
    drawn = [
        SystemTimes(f"{ratio}", tuple((size, ratio * us) for size, us in LEAST)) for ratio in ratios
    ]
    chart = vega_specification(comparison_chart(drawn, LEAST, "a", "b"))
    assert chart["layer"][0]["encoding"]["y"]["scale"]["domain"] == [1, pytest.approx(top)]


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (TimeMeasure.RATIO, 2.0),
        (TimeMeasure.GAP, 100.0),
        (TimeMeasure.TIME, 2 * LEAST[3][1]),
        (TimeMeasure.BANDWIDTH, SIZES[3] / (2 * LEAST[3][1]) / 1000),
    ],
)
def test_comparison_chart_draws_the_measured_quantity(
    measured: TimeMeasure, expected: float
) -> None:
    chart = comparison_chart(systems(2), LEAST, "a", "b", measured)
    drawn = [r["value"] for r in points(chart) if (r["name"], r["size"]) == ("system 0", SIZES[3])]
    assert drawn == [pytest.approx(expected)]
    assert (BOUND in labels(chart)) is (measured is not TimeMeasure.GAP)
    assert overlapping(render_svg(chart)) == []


def test_gap_of_zero_is_drawn_at_the_foot_of_the_axis() -> None:
    met = [SystemTimes("met", tuple(LEAST)), *systems(1)]
    chart = comparison_chart(met, LEAST, "a", "b", TimeMeasure.GAP)
    assert {row["value"] for row in points(chart) if row["name"] == "met"} == {0.01}


def test_comparison_chart_draws_one_size_as_dots() -> None:
    one = [SystemTimes("ring", ((2**20, 5.0),))]
    chart = comparison_chart(one, [(2**20, 4.0)], "a", "b")
    assert '"point": true' in chart.to_json()
    assert overlapping(render_svg(chart)) == []


def test_comparison_chart_refuses_data_without_a_value() -> None:
    with pytest.raises(ParameterError, match="no system has a time"):
        comparison_chart([], LEAST, "a", "b")
    with pytest.raises(ParameterError, match="the lower bound is 0"):
        comparison_chart(systems(1), [(size, 0.0) for size in SIZES], "a", "b")
