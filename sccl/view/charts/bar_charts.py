"""Draw bar charts: grouped values, performance after failures, and periods of searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_BAR, _GAP = 27, 0.25  # width of a bar in px, and gap as a share of a group
_LINES = "split(datum.label, ', ')"
"""Vega expression that splits a group's name into lines, so that names do not overlap."""


def grouped_chart(  # noqa: PLR0913 - fields and texts
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
        rows: Rows, with groups and series in the order of their first occurrence.
        group: Field with the name of the group.
        value: Field with the value, a nonnegative number.
        series: Field with the name of the series.
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
    legend = alt.Legend(orient="bottom", columns=4) if len(names) > 1 else None
    bars = base.mark_bar().encode(
        color=alt.Color("series:N", title=None, legend=legend,
                        scale=theme.series_scale(names, theme.COLORS)),
        tooltip=["group:N", "series:N", "value:Q"],
    )  # fmt: skip
    labels = base.mark_text(dy=-7, fontSize=9, color=theme.INK).encode(
        text=alt.Text("label:N")  # without the percent sign, for which there is no space
    )
    width = max(theme.WIDTH, _BAR * len(groups) * (len(names) + 1))
    return theme.finish_chart(alt.layer(bars, labels), title, width=width)


_FAILURE_ROW = 22  # px


@dataclass(frozen=True, slots=True)
class FailureBar:
    """The costs after a failure.

    Attributes:
        name: failed part, and the number of equivalent failures.
        slowdown: time per byte, relative to the intact machine. None: the machine is disconnected.
        steps: lowest S. None: the machine is disconnected.
    """

    name: str
    slowdown: float | None
    steps: int | None


def failures_chart(title: str, bars: Sequence[FailureBar], whole_steps: int) -> ChartType:
    """Draw bars of the time per byte and of the lowest S, in a row for each failure.

    Args:
        whole_steps: lowest S of the intact machine.
    """
    names = [bar.name for bar in bars]
    down = alt.Y("name:N", title=None, sort=names, axis=alt.Axis(grid=False, ticks=False))
    bare = alt.Y("name:N", title=None, sort=names, axis=None)
    rows = [
        {
            "name": bar.name,
            "slowdown": bar.slowdown or 0,
            "steps": bar.steps or 0,
            "said": "cut in two" if bar.steps is None else f"{bar.slowdown or 1:.2f}",
            "least": "" if bar.steps is None else str(bar.steps),
        }
        for bar in bars
    ]
    max_slowdown = max([1.0, *(bar.slowdown or 0 for bar in bars)])
    steps = max([whole_steps, *(bar.steps or 0 for bar in bars)])
    panels = (
        _Panel("slowdown", "Time per byte (whole machine: 1)", "said", 1.0, max_slowdown, 300),
        _Panel("steps", "Fewest steps", "least", float(whole_steps), float(steps), 140),
    )
    data, height = theme.chart_rows(rows), max(len(rows), 1) * _FAILURE_ROW
    drawn = [
        panel.draw(data, down if number == 0 else bare).properties(width=panel.width, height=height)
        for number, panel in enumerate(panels)
    ]
    heading = alt.Title(title, subtitle="dashed: the whole machine; each bar: without that part")
    return theme.apply_theme(alt.hconcat(*drawn, spacing=24).properties(title=heading))


@dataclass(frozen=True, slots=True)
class _Panel:
    """A panel with bars of one quantity.

    Attributes:
        text_field: field of the text next to bars.
        baseline: value of the intact machine.
    """

    field: str
    title: str
    text_field: str
    baseline: float
    max_value: float
    width: int

    def draw(self, data: alt.Data, down: alt.Y) -> alt.LayerChart:
        """Return the bars, the text next to them, and a line for the intact machine."""
        across = alt.X(f"{self.field}:Q", title=self.title,
                       scale=alt.Scale(domain=[0, self.max_value * 1.2], nice=False),
                       axis=alt.Axis(grid=False, tickCount=4))  # fmt: skip
        line = theme.dashed_line(across, self.field, self.baseline)
        bars = _labeled_bars(data, across, down, self.text_field)
        return alt.LayerChart(layer=[*bars, line])


def _labeled_bars(data: alt.Data, across: alt.X, down: alt.Y, text_field: str) -> list[alt.Chart]:
    """Return the layers of horizontal bars, and of the texts at their ends."""
    base = alt.Chart(data).encode(x=across, y=down)
    return [
        base.mark_bar(color=theme.COLORS[0], height={"band": 0.7}),
        base.mark_text(align="left", dx=4, fontSize=11, font=theme.FONT).encode(
            text=f"{text_field}:N"
        ),
    ]


_SEARCH_ROW = 26  # px
_MILLI = 1000.0


def searches_chart(
    title: str, periods_us: Sequence[tuple[str, float]], bound_us: float
) -> ChartType:
    """Draw the periods that searches found as bars, with the lower bound as a line.

    Args:
        periods_us: name of each search, and its period in microseconds.
        bound_us: lower bound on the period in microseconds.
    """
    names = [name for name, _ in periods_us]
    rows = [
        {"search": name, "ms": us / _MILLI, "above": f"{us / bound_us - 1:.1%}" if bound_us else ""}
        for name, us in periods_us
    ]
    longest = max((us / _MILLI for _, us in periods_us), default=1.0)
    across = alt.X("ms:Q", title="Time of an iteration (ms)",
                   scale=alt.Scale(domain=[0, longest * 1.12], nice=False),
                   axis=alt.Axis(format=theme.NUMBERS, grid=False))  # fmt: skip
    down = alt.Y("search:N", title=None, sort=names, axis=alt.Axis(grid=False, ticks=False))
    bars = _labeled_bars(theme.chart_rows(rows), across, down, "above")
    line = theme.dashed_line(across, "ms", bound_us / _MILLI)
    return theme.finish_chart(
        alt.layer(*bars, line),
        title,
        "dashed: lower bound for these options; at the bars: gap to it",
        height=max(len(rows), 1) * _SEARCH_ROW,
    )
