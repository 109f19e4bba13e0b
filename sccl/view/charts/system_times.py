"""Draw the completion times of systems by buffer size, with the lower bound.

Lines have their names at their right ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sccl.core.formatting import format_count
from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.label_placement import Frame, spread_apart, text_size
from sccl.view.charts.proved_regions import with_field
from sccl.view.charts.time_by_size import size_axis
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

MAX_NAMED = 6
"""Maximum number of systems with a color of their own. Others are gray."""

BOUND = "lower bound"

_HEIGHT = 400  # px
_GRAY, _GRAY_TEXT = "#c4c4c4", "#8a8a8a"
_HIGHEST_RATIO = 10.0  # highest top of the axis, unless the fastest system is slower
_RATIO_TICKS = (1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
_SMALLEST_GAP = 0.01  # percent: the logarithmic axis of gaps starts there

Times = tuple[tuple[int, float], ...]
"""(size in bytes, microseconds)."""


class TimeMeasure(StrEnum):
    """The quantity on the vertical axis."""

    RATIO = "ratio"
    GAP = "gap"
    TIME = "time"
    BANDWIDTH = "bandwidth"


_TITLES = {
    TimeMeasure.RATIO: "Completion time / lower bound",
    TimeMeasure.GAP: "Gap to the lower bound (%)",
    TimeMeasure.TIME: "Completion time (\u00b5s)",
    TimeMeasure.BANDWIDTH: "Buffer size / time (GB/s)",
}


@dataclass(frozen=True, slots=True)
class SystemTimes:
    """The name of a system and its completion times by size."""

    name: str
    times: Times


@dataclass(frozen=True, slots=True)
class _Line:
    """The line of a system.

    Attributes:
        points: pairs of a size in bytes and a value, ascending by size.
        is_named: whether the line has a color of its own.
    """

    name: str
    points: Times
    color: str
    dash: Sequence[int]
    is_named: bool


def comparison_chart(  # noqa: PLR0913 - data, quantity, and texts
    systems: Sequence[SystemTimes],
    bound: Sequence[tuple[int, float]],
    title: str,
    subtitle: str,
    measured: TimeMeasure = TimeMeasure.RATIO,
    *,
    x_title: str = "Buffer of a rank (bytes)",
) -> ChartType:
    """Draw a line for each system, labeled at its end, on two logarithmic axes.

    Colors are assigned first to systems that are the fastest at some size, then to those with the
    smallest mean gap. All others are gray.

    Args:
        systems: Systems and their completion times.
        bound: Lower bound on the completion time by size, microseconds.

    Raises:
        ParameterError: No system has a time, or none has a lower bound to compare with.
    """
    if not systems:
        raise ParameterError("there is nothing to draw: no system has a time")
    lines = _lines(systems, dict(bound), measured)
    if all(line.name == BOUND for line in lines):
        raise ParameterError("there is nothing to draw: the lower bound is 0 at every size")
    frame = _frame(lines, measured)
    labeled, notes = _split_labeled(lines, frame)
    channels = _channels(lines, frame, measured, x_title)
    ends = [
        LineEnd(
            line.name + (" \u2191" if line.points[-1][1] > frame.y[1] else ""),
            line.points[-1], line.color, line.color if line.is_named else _GRAY_TEXT,
        )
        for line in labeled
    ]  # fmt: skip
    has_one_size = len({size for line in lines for size, _ in line.points}) == 1
    drawn = alt.layer(
        *_curves(lines, channels, is_single=has_one_size),
        *end_labels(ends, frame, channels),
    )
    return theme.finish_chart(
        drawn, title, theme.wrap_notes(subtitle, *notes), frame.width, frame.height
    )


def _lines(
    systems: Sequence[SystemTimes], bound: Mapping[int, float], measured: TimeMeasure
) -> list[_Line]:
    """Return the lines to draw: the lower bound, then systems in order of :func:`_rank_systems`."""
    lines = []
    if measured is not TimeMeasure.GAP:
        reference = tuple((size, us) for size, us in bound.items() if us)
        points = _points(reference, bound, measured)
        lines.append(_Line(BOUND, points, theme.INK, (6, 4), is_named=True))
    for i, system in enumerate(_rank_systems(systems, bound)):
        named = i < MAX_NAMED
        lines.append(
            _Line(
                system.name,
                _points(system.times, bound, measured),
                theme.nth(theme.COLORS, i) if named else _GRAY,
                theme.nth(theme.DASHES, i) if named else (1, 0),
                named,
            )
        )
    return [line for line in lines if line.points]


def _points(times: Times, bound: Mapping[int, float], measured: TimeMeasure) -> Times:
    """Return pairs of a size and the measured quantity, if it is defined at this size."""
    rows = []
    for size, us in sorted(times):
        floor = bound.get(size)
        if measured is TimeMeasure.TIME and us:
            rows.append((size, us))
        elif measured is TimeMeasure.BANDWIDTH and us:
            rows.append((size, size / us / 1000))
        elif measured is TimeMeasure.RATIO and floor:
            rows.append((size, us / floor))
        elif measured is TimeMeasure.GAP and floor:
            rows.append((size, max(100 * (us / floor - 1), _SMALLEST_GAP)))
    return tuple(rows)


def _rank_systems(systems: Sequence[SystemTimes], bound: Mapping[int, float]) -> list[SystemTimes]:
    """Return systems that are the fastest at some size, by number of wins, then others.

    The mean gap breaks ties. Among equally fast systems, the first is the fastest, as in tables.
    """
    best: dict[int, tuple[float, str]] = {}
    for system in systems:
        for size, us in system.times:
            if size not in best or us < best[size][0]:
                best[size] = us, system.name
    winners = {name for _, name in best.values()}

    def merit(system: SystemTimes) -> tuple[bool, int, float]:
        """Return the sort key of a system. Lower is better."""
        wins = sum(us <= best[size][0] for size, us in system.times)
        above = [math.log(us / (bound.get(size) or us)) for size, us in system.times if us]
        return system.name not in winners, -wins, sum(above) / max(len(above), 1)

    return sorted(systems, key=merit)


def _frame(lines: Sequence[_Line], measured: TimeMeasure) -> Frame:
    sizes = [size for line in lines for size, _ in line.points]
    values = [value for line in lines for _, value in line.points]
    first, last = min(sizes), max(sizes)
    if measured is TimeMeasure.RATIO:
        best: dict[int, float] = {}
        for line in lines[1:]:  # without the lower bound
            for size, value in line.points:
                best[size] = min(value, best.get(size, math.inf))
        slowest = max(values)
        top = next((tick for tick in _RATIO_TICKS[3:] if tick >= slowest), _HIGHEST_RATIO)
        ends = 1.0, max([top, *(1.3 * value for value in best.values())])
    else:
        ends = min(values) / 1.3, max(values) * 1.3
    across = (first / 1.15, last * 1.15) if first == last else (first, last)
    return Frame(theme.WIDTH, _HEIGHT, across, ends, log_x=True, log_y=True)


def _split_labeled(lines: Sequence[_Line], frame: Frame) -> tuple[list[_Line], list[str]]:
    """Return the lines to label at their ends, the lower bound last, and notes on all others.

    A note lists the gray lines that end above the frame.
    """
    beyond = [line for line in lines if not line.is_named and line.points[-1][1] > frame.y[1]]
    inside = [line for line in lines if line not in beyond]
    fitting = inside[: label_capacity(frame)]
    notes = []
    if beyond:
        notes.append(f"End above {frame.y[1]:g}: {', '.join(line.name for line in beyond)}.")
    if left := len(inside) - len(fitting):
        notes.append(f"{format_count(left, 'grey line')} without a name.")
    ordered = sorted(fitting, key=lambda line: line.name == BOUND)
    return ordered, notes


def _channels(
    lines: Sequence[_Line], frame: Frame, measured: TimeMeasure, x_title: str
) -> dict[str, Any]:
    sizes = [size for line in lines for size, _ in line.points]
    decimal = 2 * sum(size % 1000 == 0 for size in sizes) >= len(sizes)
    low, high = frame.y
    ticks = theme.decades(low, high)
    if measured is TimeMeasure.RATIO:
        ticks = sorted({*_RATIO_TICKS, *(tick for tick in ticks if tick > _HIGHEST_RATIO)})
    return {
        "x": alt.X("size:Q", title=x_title,
                   scale=alt.Scale(type="log", base=2, domain=list(frame.x), nice=False),
                   axis=alt.Axis(grid=False, **size_axis(*frame.x, theme.WIDTH, decimal=decimal))),
        "y": alt.Y("value:Q", title=_TITLES[measured],
                   scale=alt.Scale(type="log", domain=[low, high], nice=False),
                   axis=alt.Axis(format=theme.NUMBERS, values=ticks)),
    }  # fmt: skip


def _curves(
    lines: Sequence[_Line], channels: Mapping[str, Any], *, is_single: bool
) -> list[ChartType]:
    """Draw the lines, gray ones below the others, or dots for a single size."""
    layers: list[ChartType] = []
    names = [line.name for line in lines]
    by = {
        "color": alt.Color("name:N", legend=None, scale=alt.Scale(
            domain=names, range=[line.color for line in lines])),
        "strokeDash": alt.StrokeDash("name:N", legend=None, scale=alt.Scale(
            domain=names, range=[list(line.dash) for line in lines])),
    }  # fmt: skip
    for named, width in ((False, 1.2), (True, 2)):
        rows = [
            {"name": line.name, "size": size, "value": value}
            for line in lines
            if line.is_named is named
            for size, value in line.points
        ]
        if rows:
            layers.append(
                alt.Chart(theme.chart_rows(rows))
                .mark_line(strokeWidth=width, point=is_single, clip=True)
                .encode(**channels, **by, tooltip=["name:N", "size:Q", "value:Q"])
            )
    return layers


_LEADER, _GAP = 14, 4  # px, length of the leader to a name, and space after it


@dataclass(frozen=True, slots=True)
class LineEnd:
    """The right end of a line.

    Attributes:
        at: Data values (x, y) of the line's end.
        text: Color of the name.
    """

    name: str
    at: tuple[float, float]
    color: str
    text: str


def label_capacity(frame: Frame) -> int:
    """Return the number of names that fit next to a chart, one below the other."""
    return int(frame.height / text_size("")[1]) + 1


def end_labels(
    ends: Sequence[LineEnd], frame: Frame, channels: Mapping[str, Any]
) -> list[ChartType]:
    """Return layers that write each line's name to the right of the chart, without overlaps.

    A thin leader joins each name to the end of its line.

    Args:
        ends: Lines to label, at most :func:`label_capacity`.
        channels: Channels ``x`` and ``y`` of the chart.
    """
    heights = [min(max(frame.pixels(*end.at)[1], 0.0), float(frame.height)) for end in ends]
    names = spread_apart(heights, text_size("")[1], frame.height)
    right, text = (frame.values(frame.width + x, 0)[0] for x in (_LEADER, _LEADER + _GAP))
    rows = [
        {
            "end_x": end.at[0], "end_y": frame.values(0, height)[1], "label_x": right,
            "label_y": frame.values(0, name)[1], "text_x": text, "text": end.name,
            "line": end.color, "ink": end.text,
        }
        for end, height, name in zip(ends, heights, names, strict=True)
    ]  # fmt: skip
    base = alt.Chart(theme.chart_rows(rows))
    return [
        base.mark_rule(strokeWidth=1, clip=False).encode(
            x=with_field(channels["x"], "end_x"), y=with_field(channels["y"], "end_y"),
            x2="label_x:Q", y2="label_y:Q", color=alt.Color("line:N", scale=None),
        ),
        base.mark_text(align="left", baseline="middle", fontSize=theme.TEXT, clip=False).encode(
            x=with_field(channels["x"], "text_x"), y=with_field(channels["y"], "label_y"),
            text="text:N", color=alt.Color("ink:N", scale=None),
        ),
    ]  # fmt: skip
