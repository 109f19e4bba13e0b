"""The chart of comparisons: lines for the best, grey for the rest, and one for the bound."""

from __future__ import annotations

from typing import Any

import pytest

from sccl.errors import ParameterError
from sccl.view.charts import ComparedSystem, Measured, comparison_chart
from sccl.view.charts.comparison import BOUND, MOST_NAMED
from sccl.view.save import svg
from tests.kit.svg import overlapping

SIZES = tuple(1000 * 4**i for i in range(11))
LEAST = [(size, 1 + size / 1e5) for size in SIZES]


def systems(count: int) -> list[ComparedSystem]:
    """Return systems, each slower than the one before; the last is the fastest at one size."""
    found = [
        ComparedSystem(f"system {i}", tuple((size, us * (2 + i)) for size, us in LEAST))
        for i in range(count)
    ]
    last = tuple((size, us * (1.5 if size == 1000 else 50)) for size, us in LEAST)
    return [*found, ComparedSystem("the last", last)]


def rows(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    found: list[dict[str, Any]] = (spec["layer"][0] if "data" not in spec else spec)["data"][
        "values"
    ]
    return found


def test_the_best_have_names_and_the_rest_is_grey() -> None:
    chart = comparison_chart(systems(12), LEAST, "allreduce on dgx1", "alpha travels")
    series = list(dict.fromkeys(row["series"] for row in rows(chart)))
    assert {"the last", "system 0", "system 1", BOUND} <= set(series)
    assert f"{13 - MOST_NAMED} others" in series
    assert len(series) == MOST_NAMED + 2
    assert len(rows(chart)) == 14 * len(SIZES)
    assert overlapping(svg(chart)) == []


@pytest.mark.parametrize("measured", Measured)
def test_what_is_drawn_is_the_time_or_size_by_time(measured: Measured) -> None:
    chart = comparison_chart(systems(2), LEAST, "a", "b", measured)
    size, us = SIZES[3], LEAST[3][1]
    drawn = [r["value"] for r in rows(chart) if (r["name"], r["size"]) == (BOUND, size)]
    assert drawn == [us if measured is Measured.TIME else pytest.approx(size / us / 1000)]
    assert all(row["series"] == row["name"] for row in rows(chart))
    assert overlapping(svg(chart)) == []


def test_one_size_is_drawn_as_dots_and_none_is_refused() -> None:
    one = [ComparedSystem("ring", ((2**20, 5.0),))]
    assert '"point": true' in comparison_chart(one, [(2**20, 4.0)], "a", "b").to_json()
    with pytest.raises(ParameterError, match="no system has a time"):
        comparison_chart([], LEAST, "a", "b")
