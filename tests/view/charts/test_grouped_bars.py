"""Bars of several series by group."""

from __future__ import annotations

from pathlib import Path

import pytest

from sccl.errors import ParameterError
from sccl.view.charts import grouped_chart, save_chart
from sccl.view.theme import vega_specification

ROWS = [
    {"where": where, "who": who, "share": share}
    for where, who, share in (("z", "b", 0.5), ("z", "a", 1.0), ("y", "b", 0.0), ("y", "a", 0.25))
]


def test_groups_and_series_keep_their_order_and_every_row_has_a_bar() -> None:
    chart = grouped_chart(
        ROWS, "where", "share", "who", title="t", value_title="part", percent=True
    )
    found = vega_specification(chart)
    bars, labels = found["layer"]
    assert bars["encoding"]["x"]["sort"] == ["z", "y"]
    assert bars["encoding"]["xOffset"]["sort"] == ["b", "a"]
    assert bars["encoding"]["color"]["scale"]["domain"] == ["b", "a"]
    assert labels["encoding"]["text"]["field"] == "label"
    assert [row["label"] for row in found["data"]["values"]] == [
        f"{100 * float(str(row['share'])):.0f}" for row in ROWS
    ]
    assert len(found["data"]["values"]) == len(ROWS)


def test_one_series_needs_no_legend_and_nothing_is_no_chart() -> None:
    chart = grouped_chart(ROWS[::2], "where", "share", "who", title="t", value_title="part")
    assert vega_specification(chart)["layer"][0]["encoding"]["color"]["legend"] is None
    with pytest.raises(ParameterError, match="nothing to draw"):
        grouped_chart([], "where", "share", "who", title="t", value_title="part")


def test_long_group_names_are_split_at_commas(tmp_path: Path) -> None:
    rows = [{**row, "where": f"{row['where']} C=1, no alpha"} for row in ROWS]
    chart = grouped_chart(rows, "where", "share", "who", title="t", value_title="part")
    save_chart(chart, tmp_path / "bars.svg")
    drawn = (tmp_path / "bars.svg").read_text()
    for line in ("z C=1", "y C=1", "no alpha"):
        assert f">{line}</t" in drawn
