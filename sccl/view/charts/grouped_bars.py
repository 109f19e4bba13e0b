"""Values by group as bars beside one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_BAR, _GAP = 27, 0.25  # px, and a share of a group
_LINES = "split(datum.label, ', ')"
"""Vega expression of the lines of a group's name, so that neighbors do not overlap."""


def grouped_chart(  # noqa: PLR0913 - which fields, and how they read
    rows: Sequence[Mapping[str, Any]],
    group: str,
    value: str,
    series: str,
    *,
    title: str,
    value_title: str,
    percent: bool = False,
) -> ChartType:
    """Draw a bar for each row, side by side in each group, with its value above it.

    Args:
        rows: Rows with the names ``group`` and ``series`` and a nonnegative number ``value``.
            Groups and series are in the order of their first rows.
        value_title: Title of the values with their unit.
        percent: Whether values are shares, which are shown in percent.

    Raises:
        ParameterError: There is no row.
    """
    if not rows:
        raise ParameterError("there is nothing to draw: no row has a value")
    kept = [
        {"group": str(row[group]), "series": str(row[series]), "value": (v := float(row[value])),
         "label": f"{100 * v:.0f}" if percent else f"{v:.3g}"}
        for row in rows
    ]  # fmt: skip
    groups = list(dict.fromkeys(str(row[group]) for row in rows))
    names = list(dict.fromkeys(str(row[series]) for row in rows))
    number = ".0%" if percent else ".3~g"
    across = alt.X("group:N", title=None, sort=groups, scale=alt.Scale(paddingInner=_GAP),
                   axis=alt.Axis(labelAngle=0, labelExpr=_LINES))  # fmt: skip
    base = alt.Chart(theme.chart_rows(kept)).encode(
        x=across,
        xOffset=alt.XOffset("series:N", sort=names),
        y=alt.Y("value:Q", title=value_title, axis=alt.Axis(format=number)),
    )
    bars = base.mark_bar().encode(
        color=alt.Color("series:N", title=None, legend=_legend(names),
                        scale=theme.series_scale(names, theme.COLORS)),
        tooltip=["group:N", "series:N", "value:Q"],
    )  # fmt: skip
    labels = base.mark_text(dy=-7, fontSize=9, color=theme.INK).encode(
        text=alt.Text("label:N")  # per cent without its sign, for which a bar has no room
    )
    width = max(theme.WIDTH, _BAR * len(groups) * (len(names) + 1))
    drawn = alt.layer(bars, labels).properties(width=width, height=theme.HEIGHT, title=title)
    return theme.apply_theme(drawn)


def _legend(names: Sequence[str]) -> alt.Legend | None:
    """Return the legend of the series, or None for one."""
    return alt.Legend(orient="bottom", columns=4) if len(names) > 1 else None
