"""Times of links against bytes: points where the model puts them, and lines through them."""

from __future__ import annotations

import math

import pytest

from sccl.errors import ParameterError
from sccl.view.charts.link_times import MAX_TIMED, TimedLinks, link_times_chart
from tests.kit.charts import rows_of
from tests.kit.profiles import measured

COSTS = {(0, 1): (0.7, 46.0), (1, 0): (1.7, 106.0)}


def timed(edge: tuple[int, int]) -> TimedLinks:
    timings = measured({edge: COSTS[edge]}, 2, "exact").timings
    return TimedLinks(f"link {edge}", timings, *COSTS[edge])


def test_all_points_of_a_link_lie_on_its_line() -> None:
    """However many chunks, one after another or at once."""
    links = [timed(edge) for edge in COSTS]
    chart = link_times_chart(links, "two links")
    assert chart.to_dict(validate=True)["$schema"]
    lines, points = rows_of(chart)
    by_name = {one.name: one for one in links}
    assert {row["link"] for row in points} == {row["link"] for row in lines} == set(by_name)
    for row in (*lines, *points):
        assert math.isclose(row["us"], by_name[row["link"]].model_us(row["bytes"]), rel_tol=1e-9)
    assert len(points) == sum(len(one.timings) for one in links)
    assert {row["pacing"] for row in points} == {
        "one after another, each", "at once, together"
    }  # fmt: skip
    assert {row["bytes"] for row in points} >= {t.size_bytes for t in links[0].timings[1::2]}


def test_no_more_links_are_drawn_than_there_are_colours() -> None:
    with pytest.raises(ParameterError, match=f"there are {MAX_TIMED + 1} links to draw"):
        link_times_chart([timed((0, 1))] * (MAX_TIMED + 1), "many")
