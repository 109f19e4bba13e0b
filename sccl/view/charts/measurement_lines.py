"""Draw measured values, such as those of benchmarks, as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.time_by_size import size_axis
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType


def measured_chart(  # noqa: PLR0913 - fields, and settings of the axes
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    series: str,
    *,
    title: str,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
    x_bytes: bool = False,
    joined: bool = True,
) -> ChartType:
    """Draw a line with dots for each series.

    Args:
        rows: rows. Those without a value in the field ``y`` (None) are left out.
        x: field with the horizontal value, a number.
        y: field with the vertical value, a number or None.
        series: field with the name of the line. Lines are in order of first occurrence.
        x_title: title of the horizontal axis with its unit.
        y_title: title of the vertical axis with its unit.
        x_bytes: whether ``x`` is a number of bytes. Ticks are then 1 KiB, 1 MiB, ... or, if all
            values are multiples of 1000, 1 KB, 1 MB, ... The axis is then logarithmic.
        joined: whether a line connects the dots of a series, which suggests interpolation.

    Raises:
        ParameterError: no row has a value, or a value is not positive on a logarithmic axis.
    """
    kept: list[dict[str, Any]] = [
        {"x": float(row[x]), "y": float(row[y]), "series": str(row[series])}
        for row in rows
        if row.get(y) is not None
    ]
    if not kept:
        raise ParameterError(f"there is nothing to draw: no row has a value {y!r}")
    for field, name, log in (("x", x, log_x or x_bytes), ("y", y, log_y)):
        low = min(row[field] for row in kept)
        if log and low <= 0:
            raise ParameterError(f"{name} is {low}, expected more than 0 on a logarithmic axis")
    across = [row["x"] for row in kept]
    ends, decimal = (min(across), max(across)), not any(value % 1000 for value in across)
    bytes_axis = size_axis(*ends, theme.WIDTH, decimal=decimal) if x_bytes else {}
    base = alt.Chart(theme.chart_rows(kept)).encode(
        x=_axis(alt.X("x:Q"), x_title, across, bytes_axis, log=log_x or x_bytes),
        y=_axis(alt.Y("y:Q"), y_title, [row["y"] for row in kept], {}, log=log_y),
    )
    names = list(dict.fromkeys(row["series"] for row in kept))
    return theme.finish_chart(_dotted_lines(base, names, joined=joined), title)


def _dotted_lines(base: alt.Chart, names: Sequence[str], *, joined: bool) -> ChartType:
    """Return the dots of each series and a line through them. The legend shows only dots."""
    legend = theme.series_legend(names, dots=True)
    by: dict[str, Any] = {
        "color": alt.Color("series:N", title=None, legend=legend,
                           scale=theme.series_scale(names, theme.COLORS)),
        "strokeDash": alt.StrokeDash("series:N", legend=None,
                                     scale=theme.series_scale(names, theme.DASHES)),
        "shape": alt.Shape("series:N", title=None, legend=legend,
                           scale=theme.series_scale(names, theme.MARKERS)),
    }  # fmt: skip
    lines = base.mark_line(strokeWidth=2).encode(color=by["color"], strokeDash=by["strokeDash"])
    dots = base.mark_point(size=60, filled=True, opacity=1).encode(
        color=by["color"], shape=by["shape"], tooltip=["series:N", "x:Q", "y:Q"]
    )
    return alt.layer(lines, dots) if joined else alt.layer(dots)


def _axis(
    channel: Any, title: str, values: Sequence[float], ticks: Mapping[str, Any], *, log: bool
) -> Any:
    """Return a channel with its title, scale and ticks. Default ticks are round numbers."""
    if not log:
        return channel.title(title).axis(format=theme.NUMBERS)
    ends = min(values), max(values)
    ends = (ends[0] / 1.15, ends[1] * 1.15)
    return (
        channel.title(title)
        .scale(type="log", domain=list(ends), nice=False)
        .axis(**(ticks or {"values": theme.decades(*ends), "format": theme.NUMBERS}))
    )
