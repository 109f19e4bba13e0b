"""Draw times by buffer size under the alpha-beta cost model (SCCL section 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sccl.core.cost import Costs, fastest_by_size, format_bytes
from sccl.core.frontier import Point
from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.envelope import (
    Crossover,
    EnvelopePart,
    crossover_layers,
    envelope_curve,
    family_strip,
    strip_area,
)
from sccl.view.charts.frontier_data import FrontierData, common_question, name_by_class
from sccl.view.charts.label_placement import Frame, cover_line, spread_apart, text_size
from sccl.view.drawing.layout import Rectangle
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_SMALLEST, _LARGEST = 10, 26  # exponents of 2: the axis covers at least 1 KiB to 64 MiB
_MARGIN_OCTAVES = 3  # octaves beyond a crossover that the axis covers
_PER_OCTAVE = 2
MAX_TIMES = 24
LOWER_BOUND = "lower bound"
"""Name of the lower bound's line."""

_STRIP_PART = 0.08  # share of the height that is reserved for the strip of families
_HANGING, _MAX_HANGING = 0.06, 0.35  # share for the label of a crossover, and for all labels
SIZE_TICKS = (
    "datum.value < 1024 ? format(datum.value, '~r') + ' B' : "
    "datum.value < 1048576 ? format(datum.value / 1024, '~r') + ' KiB' : "
    "datum.value < 1073741824 ? format(datum.value / 1048576, '~r') + ' MiB' : "
    "datum.value < 1099511627776 ? format(datum.value / 1073741824, '~r') + ' GiB' : "
    "format(datum.value / 1099511627776, '.6~g') + ' TiB'"
)
"""Vega expression that formats bytes on an axis."""

_DECIMAL_TICKS = (
    "datum.value < 1e3 ? format(datum.value, '~r') + ' B' : "
    "datum.value < 1e6 ? format(datum.value / 1e3, '~r') + ' KB' : "
    "datum.value < 1e9 ? format(datum.value / 1e6, '~r') + ' MB' : "
    "datum.value < 1e12 ? format(datum.value / 1e9, '~r') + ' GB' : "
    "format(datum.value / 1e12, '.6~g') + ' TB'"
)


LowerBoundFunction = Callable[[float], float]
"""Lower bound on the completion time in microseconds, as a function of the buffer size in bytes."""


@dataclass(frozen=True, slots=True)
class _Line:
    """The time of a point as a line.

    Attributes:
        number: number of the point's frontier, from 1.
    """

    number: int
    name: str
    point: Point
    costs: Costs

    @property
    def series(self) -> str:
        """Return the legend entry of the frontier, with its number, since names may be equal."""
        return f"{self.number}: {self.name}"

    def time_us(self, size_bytes: float) -> float:
        return self.costs.time_us(self.point.steps, self.point.cost, size_bytes)


def size_axis(first: float, last: float, width: int, *, decimal: bool = False) -> dict[str, Any]:
    """Return the ticks of an axis of bytes: powers of 2 that have space, or decimal ticks."""
    if decimal:
        return {"values": theme.decades(first, last), "labelExpr": _DECIMAL_TICKS}
    low, high = math.ceil(math.log2(first) - 1e-9), math.floor(math.log2(last) + 1e-9)
    interval = max(1, math.ceil((high - low + 1) * 75 / width))
    start = math.ceil(low / interval) * interval
    return {"values": [2**n for n in range(start, high + 1, interval)], "labelExpr": SIZE_TICKS}


def time_chart(
    frontiers: Sequence[FrontierData],
    alpha_us: float | None = None,
    gb_per_s: float | None = None,
    lower_bound_us: LowerBoundFunction | None = None,
) -> ChartType:
    """Draw the time of every point of frontiers by buffer size, with labeled crossovers.

    ``T = S * alpha + R/C * L * beta``, with L the buffer of C chunks (SCCL section 3.6).

    Args:
        frontiers: frontiers, with alpha and beta of their machines unless these are given here.
        alpha_us: latency of a step in microseconds, for all frontiers. None: of each machine.
        gb_per_s: 1/beta, bandwidth of a lane in 10^9 bytes per second. None: of each machine.
        lower_bound_us: lower bound for all plans, drawn as a separate line. None: no line.

    Raises:
        ParameterError: there is nothing to draw, or alpha or beta is unknown, or negative.
    """
    question = common_question(frontiers)
    if question:
        frontiers = name_by_class(frontiers)
    lines = _lines(frontiers, alpha_us, gb_per_s)
    several = len(frontiers) > 1
    families = bool(question) and several
    crossings = _crossings(lines, several=several, families=families)
    first = min([2.0**_SMALLEST, *(at.size_bytes / 2**_MARGIN_OCTAVES for at in crossings)])
    last = max([2.0**_LARGEST, *(at.size_bytes * 2**_MARGIN_OCTAVES for at in crossings)])
    first, last = max(first, 1.0), max(last, 2.0)
    times = [line.time_us(size) for line in lines for size in (first, last)]
    times += [lower_bound_us(size) for size in (first, last)] if lower_bound_us else []
    low, high = min(t for t in times if t > 0) / 1.6, max(times) * 1.6
    below = min(_HANGING * len(crossings), _MAX_HANGING) + _STRIP_PART * families
    ends = (low / (high / low) ** below, high)
    frame = Frame(theme.WIDTH, theme.HEIGHT, (first, last), ends, log_x=True, log_y=True)
    curves = [*(line.time_us for line in lines), *([lower_bound_us] if lower_bound_us else [])]
    covered = [area for curve in curves for area in _curve_areas(curve, frame)]
    parts = _envelope(lines, first, last) if families else []
    if parts:
        covered.append(strip_area(frame))
    marks, left_out = crossover_layers(crossings, covered, frame, _axes(frame))
    layers = [_curves(lines, frame, several=several, families=families)]
    if parts:
        layers += [envelope_curve(parts, _axes(frame)), *family_strip(parts, frame, _axes(frame))]
    layers += marks if crossings else ()
    if lower_bound_us:
        layers.insert(0, _lower_bound_layer(lower_bound_us, frame))
    layers.append(_names(lines, frame, lower_bound_us, several=several, families=families))
    title = question or (frontiers[0].name if not several else "Time by buffer size")
    thick = ["thick line and strip: the fastest family at each size"] if parts else []
    caution = next((line.costs.note for line in lines if line.costs.note), "")
    notes = [_subtitle(lines, lower_bound_us), *thick, *theme.wrap_notes(caution), *left_out]
    head = f"{title}: time by buffer size" if question or not several else title
    return theme.finish_chart(alt.layer(*layers), head, notes, frame.width, frame.height)


def _lines(
    frontiers: Sequence[FrontierData], alpha_us: float | None, gb_per_s: float | None
) -> list[_Line]:
    lines = []
    for number, curve in enumerate(frontiers, start=1):
        alpha = curve.alpha_us if alpha_us is None else alpha_us
        bandwidth = curve.gb_per_s if gb_per_s is None else gb_per_s
        if alpha is None or bandwidth is None:
            raise ParameterError(
                f"{curve.name}: its file has no costs of a step and a byte; give --alpha-us and "
                "--gb-per-s"
            )
        costs = Costs(alpha, bandwidth, curve.slowest_link and alpha_us is None)
        lines += [_Line(number, curve.name, p, costs) for p in curve.points]
    if not lines:
        raise ParameterError("there is no point to draw: give a frontier that has one")
    if len(lines) > MAX_TIMES:
        raise ParameterError(
            f"there are {len(lines)} points, expected at most {MAX_TIMES} in a chart of times; "
            "give fewer frontiers"
        )
    return lines


def _subtitle(lines: Sequence[_Line], lower_bound_us: LowerBoundFunction | None) -> str:
    costs = {line.costs for line in lines}
    if len(costs) > 1:
        return "alpha and bandwidth of each machine; a buffer is C chunks"
    (cost_model,) = costs
    alpha, lane = (
        f"alpha {cost_model.alpha_us:g} \u00b5s per step",
        f"{cost_model.gb_per_s:g} GB/s per lane",
    )
    floor = f"; {LOWER_BOUND}: for every chunk count" if lower_bound_us else ""
    return f"{alpha}, {lane}; a buffer is C chunks{floor}"


def _envelope(lines: Sequence[_Line], first: float, last: float) -> list[EnvelopePart]:
    """Return the ranges of sizes with the fastest line of all families in each."""
    points = [(line.point.steps, line.point.cost) for line in lines]
    parts = []
    for won in fastest_by_size(points, lines[0].costs):
        line, until = lines[won.index], min(won.to_bytes or last, last)
        if until > max(won.from_bytes, first):
            color = theme.nth(theme.COLORS, line.number - 1)
            start = max(won.from_bytes, first)
            parts.append(EnvelopePart(line.name, color, start, until, line.time_us))
    return parts


def _crossings(lines: Sequence[_Line], *, several: bool, families: bool) -> list[Crossover]:
    """Return the sizes at which the fastest point changes.

    Args:
        families: whether all lines are compared. Otherwise only lines of the same frontier are.
    """
    crossings = []
    for number in [0] if families else dict.fromkeys(line.number for line in lines):
        group_lines = [line for line in lines if families or line.number == number]
        points = [(line.point.steps, line.point.cost) for line in group_lines]
        crossings += [
            Crossover(
                won.to_bytes,
                group_lines[won.index].time_us(won.to_bytes),
                format_bytes(won.to_bytes) + (f" ({number})" if several and number else ""),
            )
            for won in fastest_by_size(points, group_lines[0].costs)
            if won.to_bytes and won.to_bytes >= 1
        ]
    return crossings


def _axes(frame: Frame) -> dict[str, Any]:
    return {
        "x": alt.X("size:Q", title="Buffer size (bytes)",
                   scale=alt.Scale(type="log", base=2, domain=list(frame.x), nice=False),
                   axis=alt.Axis(grid=False, **size_axis(*frame.x, frame.width))),
        "y": alt.Y("time:Q", title="Time (\u00b5s)",
                   scale=alt.Scale(type="log", domain=list(frame.y), nice=False),
                   axis=alt.Axis(format=theme.NUMBERS, values=theme.decades(*frame.y))),
    }  # fmt: skip


def _curves(lines: Sequence[_Line], frame: Frame, *, several: bool, families: bool) -> ChartType:
    series = [line.name if families else line.series for line in lines]
    names = list(dict.fromkeys(series))
    rows = [
        {"size": size, "time": line.time_us(size), "line": str(i), "name": series[i]}
        for i, line in enumerate(lines)
        for size in _sizes(frame)
    ]
    numbers = [str(i) for i in range(len(lines))]
    by = (
        theme.series_channels(names)
        if several
        else theme.series_channels(numbers, "line:N", has_legend=False)
    )
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_line(strokeWidth=1.3 if families else 2)
        .encode(**_axes(frame), detail="line:N", **by)
    )


def _lower_bound_layer(lower_bound_us: LowerBoundFunction, frame: Frame) -> ChartType:
    rows = [{"size": size, "time": lower_bound_us(size)} for size in _sizes(frame)]
    return (
        alt.Chart(theme.chart_rows([row for row in rows if row["time"] > 0]))
        .mark_line(strokeWidth=1.5, strokeDash=[2, 3], color=theme.INK)
        .encode(**_axes(frame))
    )


def _sizes(frame: Frame) -> list[float]:
    samples = math.ceil((math.log2(frame.x[1]) - math.log2(frame.x[0])) * _PER_OCTAVE)
    return [frame.values(frame.width * n / samples, 0)[0] for n in range(samples + 1)]


def _curve_areas(time_us: LowerBoundFunction, frame: Frame) -> Iterator[Rectangle]:
    times = [(size, time_us(size)) for size in _sizes(frame)]
    curve = [frame.pixels(size, time) for size, time in times if time > 0]
    for ends in pairwise(curve):
        yield from cover_line(*ends)


def _names(
    lines: Sequence[_Line],
    frame: Frame,
    lower_bound_us: LowerBoundFunction | None,
    *,
    several: bool,
    families: bool,
) -> ChartType:
    """Return the layer with each line's name at its right end."""
    last = [line.time_us(frame.x[1]) for line in lines]
    last += [lower_bound_us(frame.x[1])] if lower_bound_us else []
    heights = [frame.pixels(frame.x[1], time)[1] for time in last]
    spread = spread_apart(heights, text_size("")[1], frame.height)
    numbers = list(dict.fromkeys(line.number for line in lines))
    rows = [
        {
            "size": frame.x[1],
            "time": frame.values(0, height)[1],
            "text": line.point.text
            + (f", {line.name}" if families else f" ({line.number})" if several else ""),
            "color": theme.nth(theme.COLORS, numbers.index(line.number) if several else i),
        }
        for i, (line, height) in enumerate(zip(lines, spread, strict=False))
    ]
    if lower_bound_us:
        at = frame.values(0, spread[-1])[1]
        rows.append({"size": frame.x[1], "time": at, "text": LOWER_BOUND, "color": theme.INK})
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_text(align="left", dx=6, fontSize=theme.TEXT)
        .encode(**_axes(frame), text="text:N", color=alt.Color("color:N", scale=None))
    )
