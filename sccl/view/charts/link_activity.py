"""Draw the use of links over time: bars for each link, and the fraction of busy links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

MAX_LINKS = 48
"""Maximum number of links that are drawn."""

_BAR, _SHARE_HEIGHT = 16, 150  # px
_LINE_LENGTH = 88  # characters that fit beneath a title
_ON_PATH, _OTHER = "on the critical path", "other transfers"


@dataclass(frozen=True, slots=True)
class ActivityShares:
    """The load of all links in equal time intervals.

    Attributes:
        finish_us: end of the last interval in microseconds.
        values: used fraction of the capacity of all links in each interval.
    """

    name: str
    finish_us: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A busy interval of a link.

    Attributes:
        link: index among the drawn links.
        text: chunk, or the number of transfers in the interval.
        critical: whether it is on the critical path.
    """

    link: int
    since_us: float
    until_us: float
    text: str
    critical: bool


@dataclass(frozen=True, slots=True)
class LinkActivity:
    """The use of links over time.

    Attributes:
        links: names of the drawn links, from top to bottom.
        bars: bars. Those of one link do not overlap.
        lower_bound_us: lower bound on the completion time of all plans. None or 0: not drawn.
    """

    title: str
    notes: tuple[str, ...]
    shares: ActivityShares
    links: tuple[str, ...]
    bars: tuple[Bar, ...]
    lower_bound_us: float | None = None


def link_activity_chart(busy: LinkActivity) -> ChartType:
    """Draw the load of all links over time, and below it the transfers of each link.

    Transfers on the critical path are highlighted, and a line leads from each to the next.
    """
    finish = busy.shares.finish_us
    floor = (_lower_bound_text(busy.lower_bound_us),) if busy.lower_bound_us else ()
    notes = theme.wrap_notes(*busy.notes, *floor, length=_LINE_LENGTH)
    above = _with_lower_bound(_share_layer([busy.shares], finish), busy.lower_bound_us, finish)
    above = above.properties(
        width=theme.WIDTH, height=_SHARE_HEIGHT, title=alt.Title(busy.title, subtitle=notes)
    )
    height = max(len(busy.links), 1) * _BAR
    below = _with_lower_bound(_bars(busy, finish), busy.lower_bound_us, finish)
    below = below.properties(width=theme.WIDTH, height=height)
    return theme.apply_theme(
        alt.vconcat(above, below, spacing=16).resolve_scale(color="independent", x="shared")
    )


def shares_chart(
    several: Sequence[ActivityShares], title: str, lower_bound_us: float | None = None
) -> ChartType:
    """Draw the utilization of links over time, as a line for each of several plans.

    Args:
        lower_bound_us: Lower bound on the completion time. None or 0: not drawn.
    """
    finish = max(plan.finish_us for plan in several)
    notes = [_lower_bound_text(lower_bound_us)] if lower_bound_us else []
    drawn = _with_lower_bound(_share_layer(several, finish), lower_bound_us, finish)
    return theme.finish_chart(drawn, title, notes)


def _lower_bound_text(lower_bound_us: float) -> str:
    return f"dotted: lower bound {lower_bound_us:.6g} \u00b5s, for every chunk count"


def _share_layer(several: Sequence[ActivityShares], finish_us: float) -> ChartType:
    rows = [
        {"time": plan.finish_us * i / len(plan.values), "share": round(value, 6), "name": plan.name}
        for plan in several
        for i, value in enumerate((*plan.values, 0.0))
    ]
    names = list(dict.fromkeys(plan.name for plan in several))
    base = alt.Chart(theme.chart_rows(rows)).encode(
        x=_time_axis(finish_us),
        y=alt.Y("share:Q", title="Links busy", scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1])),
    )  # fmt: skip
    if len(names) == 1:
        return base.mark_area(
            interpolate="step-after", color=theme.COLORS[0], opacity=0.75, line=False
        )
    line = base.mark_line(interpolate="step-after", strokeWidth=2)
    return line.encode(**theme.series_channels(names))


def _with_lower_bound(
    drawn: ChartType, lower_bound_us: float | None, finish_us: float
) -> ChartType:
    """Return a chart with a vertical line at the lower bound on the completion time."""
    if not lower_bound_us:
        return drawn
    line = (
        alt.Chart(theme.chart_rows([{"time": lower_bound_us}]))
        .mark_rule(strokeWidth=1.5, strokeDash=[2, 3], color=theme.INK)
        .encode(x=_time_axis(finish_us))
    )
    return alt.layer(drawn, line)


def _time_axis(finish_us: float) -> Any:
    return alt.X("time:Q", title="Time (\u00b5s)",
                 scale=alt.Scale(domain=[0, finish_us or 1.0], nice=False),
                 axis=alt.Axis(format=theme.NUMBERS, grid=False))  # fmt: skip


def _bars(busy: LinkActivity, finish_us: float) -> ChartType:
    kinds = [_OTHER, _ON_PATH]
    rows: list[dict[str, Any]] = [
        {"link": busy.links[bar.link], "time": bar.since_us, "until": bar.until_us,
         "what": bar.text, "kind": kinds[bar.critical]}
        for bar in busy.bars
    ]  # fmt: skip
    down = alt.Y("link:N", title="Link (from \u2192 to)", sort=list(busy.links),
                 scale=alt.Scale(domain=list(busy.links), paddingInner=0.25, paddingOuter=0.15),
                 axis=alt.Axis(labelFontSize=11, grid=False, ticks=False))  # fmt: skip
    colors = alt.Color(
        "kind:N", title=None, legend=alt.Legend(orient="bottom", symbolType="square"),
        scale=alt.Scale(domain=kinds, range=["#9ecae1", theme.COLORS[1]]),
    )  # fmt: skip
    few = len(rows) <= len(busy.links) * 40
    bars = (
        alt.Chart(theme.chart_rows(rows))
        .mark_bar(stroke="white", strokeWidth=0.6 if few else 0)
        .encode(
            x=_time_axis(finish_us), x2="until:Q", y=down, color=colors,
            tooltip=["link:N", "what:N", "time:Q", "until:Q"],
        )
    )  # fmt: skip
    path = [row for row in rows if row["kind"] == _ON_PATH]
    turns = [
        {"link": row["link"], "time": row[end], "order": 2 * i + (end == "until")}
        for i, row in enumerate(sorted(path, key=lambda row: row["time"]))
        for end in ("time", "until")
    ]
    if not turns:
        return bars
    line = (
        alt.Chart(theme.chart_rows(turns))
        .mark_line(color=theme.INK, strokeWidth=1)
        .encode(x=_time_axis(finish_us), y=down, order="order:Q")
    )
    return alt.layer(bars, line)
