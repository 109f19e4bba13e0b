"""Measured values, such as those of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.time_by_size import size_axis
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType


def measured_chart(  # noqa: PLR0913 - which fields, and how the axes read
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
    """Return a line with dots per series.

    Args:
        rows: each with a number ``x``, a number ``y`` and the name of its ``series``. Rows without
            a ``y`` (None) are left out.
        x: the field across.
        y: the field upwards.
        series: the field that names the line. Lines are in order of first occurrence.
        x_title: with its unit.
        y_title: with its unit.
        log_x: whether the x axis is logarithmic.
        log_y: whether the y axis is logarithmic.
        x_bytes: whether x is a number of bytes, to be written as 1 KiB, 1 MiB, ..., or 1 KB, ...
            where all are multiples of 1000. The axis is then logarithmic.
        joined: whether dots of a series are joined, which implies interpolation.

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
    drawn = _dotted_lines(base, names, joined=joined).properties(
        width=theme.WIDTH, height=theme.HEIGHT, title=title
    )
    return theme.apply_theme(drawn)


def _dotted_lines(base: alt.Chart, names: Sequence[str], *, joined: bool) -> ChartType:
    """Return dots of each series, which alone are in the legend, and a line through them."""
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
    """Return a channel with its title, scale and ticks, round numbers if none are given."""
    if not log:
        return channel.title(title).axis(format=theme.NUMBERS)
    ends = min(values), max(values)
    ends = (ends[0] / 1.15, ends[1] * 1.15)
    return (
        channel.title(title)
        .scale(type="log", domain=list(ends), nice=False)
        .axis(**(ticks or {"values": theme.decades(*ends), "format": theme.NUMBERS}))
    )
