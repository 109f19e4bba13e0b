"""Draw the frontier chart: steps against R/C, with the proved region and open candidates.

Points, open candidates, and refuted candidates are marked without overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from sccl.core.frontier import Point
from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.frontier_data import Cost, FrontierData, common_question, name_by_class
from sccl.view.charts.label_placement import Frame, cover_line, dot_area, place_labels
from sccl.view.charts.proved_regions import axes, bound_lines, shade_regions
from sccl.view.drawing.layout import Rectangle
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_LOG_FROM = 6.0  # ratio of the largest to the smallest R/C above which the axis is logarithmic


def frontier_chart(frontiers: Sequence[FrontierData]) -> ChartType:
    """Draw steps against R/C, for one frontier or several in the same chart.

    For one frontier, the region without algorithms is shaded, and the bounds and the refuted
    candidates are drawn. Several frontiers are drawn without bounds and limits. For several classes
    of one frontier, the region below the bounds of all classes is shaded, and each class is drawn
    with its limits.

    Raises:
        ParameterError: there is nothing to draw.
    """
    if not any(frontier.points for frontier in frontiers):
        raise ParameterError("there is no point to draw: give a frontier that has one")
    question = common_question(frontiers)
    frontiers = name_by_class(frontiers)
    single = frontiers[0] if len(frontiers) == 1 else None
    if question:
        first = frontiers[0]
        single = FrontierData(question, (), first.min_steps, first.bandwidth)
    frame = _frame(frontiers, single=single is not None)
    marks = build_marks(frontiers, frame, single=single is not None)
    lines, covered = bound_lines(single, frame) if single else ([], [])
    layers: list[ChartType] = [*(shade_regions(single, frame) if single else ()), *lines]
    layers += [_staircase(frontiers, frame), *mark_layers(marks, frontiers, frame)]
    taken = [dot_area(frame.pixels(m["steps"], m["cost"]), 6) for m in marks]
    for frontier in frontiers:
        for start, end in pairwise(frame.pixels(*corner) for corner in _corners(frontier, frame)):
            taken += cover_line(start, end)
    layers += _labels(frontiers, frame, [*taken, *covered])
    name = single.name if single else "Pareto frontiers"
    title = alt.Title(f"{name}: latency against bandwidth")
    if single and single.scope:
        title.subtitle = f"Algorithms: {single.scope}"
    # Shades and marks have separate legends. Lines share one of colors and dashes.
    scales: dict[str, Any] = dict.fromkeys(("fill", "stroke", "shape"), "independent")
    drawn = alt.layer(*layers).resolve_scale(**scales)
    return theme.finish_chart(drawn, title, width=frame.width, height=frame.height)


def _framed_costs(frontier: FrontierData, *, single: bool) -> list[Cost]:
    """Return the points that the axes must contain: with bounds and limits if ``single``."""
    costs = [*((p.steps, p.cost) for p in frontier.points), *frontier.open]
    if not single:
        return costs
    bound = (
        [(frontier.min_steps or 1, frontier.bandwidth)] if frontier.bandwidth is not None else []
    )
    return [*costs, *frontier.limits, *bound]


def _frame(frontiers: Sequence[FrontierData], *, single: bool) -> Frame:
    all_costs = [c for frontier in frontiers for c in _framed_costs(frontier, single=single)]
    refuted = [*frontiers[0].refuted] if single else []
    steps = [s for s, _ in [*all_costs, *refuted]]
    costs = [float(c) for _, c in all_costs]
    low, high = min(costs), max(costs)
    log = high > _LOG_FROM * low
    if log:
        ends = (low / (high / low) ** 0.15, high * (high / low) ** 0.2)
    else:
        room = (high - low) or high / 2
        ends = (max(low - 0.3 * room, 0.0), high + 0.3 * room)
    first, last = min(steps), max(steps)
    return Frame(theme.WIDTH, theme.HEIGHT, (first - 0.75, last + 0.75), ends, log_y=log)


def _staircase(frontiers: Sequence[FrontierData], frame: Frame) -> ChartType:
    """Return the line along the border of the region that the points dominate."""
    names = [frontier.name for frontier in frontiers]
    corners = [
        {"steps": steps, "cost": cost, "name": frontier.name, "order": i}
        for frontier in frontiers
        for i, (steps, cost) in enumerate(_corners(frontier, frame))
    ]
    return (
        alt.Chart(theme.chart_rows(corners))
        .mark_line(strokeWidth=2)
        .encode(**axes(frame), **theme.series_channels(names), order="order:Q")
    )


def _corners(frontier: FrontierData, frame: Frame) -> list[tuple[float, float]]:
    """Return the corners of the line above which every point is dominated."""
    return [
        (steps, float(p.cost))
        for p, following in zip_longest(frontier.points, frontier.points[1:])
        for steps in (p.steps, following.steps if following else frame.x[1])
    ]


def _labels(
    frontiers: Sequence[FrontierData], frame: Frame, taken: Sequence[Rectangle]
) -> list[ChartType]:
    """Return the layer of labels: the exact R/C of every point that has space for it."""
    names = [frontier.name for frontier in frontiers]
    colors = theme.series_scale(names, theme.COLORS).range
    points = {
        (p.steps, p.cost, i): str(p.cost)
        for i, frontier in enumerate(frontiers)
        for p in frontier.points
    }
    wanted = [(frame.pixels(s, float(c)), text) for (s, c, _), text in points.items()]
    rows = []
    for ((_, _, i), text), center in zip(
        points.items(), place_labels(wanted, frame, taken), strict=True
    ):
        if center:
            x, y = frame.values(*center)
            rows.append({"steps": x, "cost": y, "text": text, "color": colors[i]})
    if not rows:
        return []
    return [
        alt.Chart(theme.chart_rows(rows))
        .mark_text(fontSize=theme.TEXT, fontWeight="bold")
        .encode(**axes(frame), text="text:N", color=alt.Color("color:N", scale=None))
    ]


_MIN_DISTANCE = 13  # px, minimum distance of marks that are distinguishable
_STATES = {"approached": "approached, not attained"}
_SEARCHED = "proved for the k and C searched"
_LIMIT = "limit of R/C for this S"
_MARKS = {
    "proved": ("circle", True, ""),
    _SEARCHED: ("circle", False, ""),
    "best found": ("square", False, ""),
    "approached, not attained": ("diamond", False, ""),
    "open candidate": ("triangle-up", False, "#D55E00"),
    "refuted candidate": ("M-1,-1L1,1M-1,1L1,-1", False, theme.GRAY),
    _LIMIT: ("stroke", False, theme.INK),
}
"""Shape, whether it is filled, and color (empty: the frontier's) of each kind of mark."""


def build_marks(
    frontiers: Sequence[FrontierData], frame: Frame, *, single: bool
) -> list[dict[str, Any]]:
    """Return the marks as rows. Candidates that are too close to other marks are left out."""
    rows: dict[tuple[str, int, Fraction, str], dict[str, Any]] = {}
    for frontier in frontiers:
        for steps, cost, state, text in _marks_of_frontier(frontier, frame, single=single):
            if frame.y[0] <= cost <= frame.y[1]:
                rows.setdefault(
                    (frontier.name, steps, cost, state),
                    {"steps": steps, "cost": float(cost), "state": state, "name": frontier.name,
                     "R/C": str(cost), "algorithm": text},
                )  # fmt: skip
    return list(rows.values())


def _marks_of_frontier(
    frontier: FrontierData, frame: Frame, *, single: bool
) -> list[tuple[int, Fraction, str, str]]:
    at = [(p.steps, p.cost) for p in frontier.points]
    candidates = _thin_out(frontier.open, at, frame)
    # If all candidates of a step are too close, one is still marked, as it may be attainable.
    hidden = {s for s, _ in frontier.open} - {s for s, _ in candidates}
    candidates += [min(c for c in frontier.open if c[0] == steps) for steps in sorted(hidden)]
    rows = [(p.steps, p.cost, _mark_kind(p), p.text) for p in frontier.points]
    rows += [(s, c, "open candidate", f"S={s}") for s, c in candidates]
    if not single:
        return rows
    # A limit equal to the bound on R/C would be invisible on the bound's dashed line.
    limits = [x for x in frontier.limits if x not in at and x[1] != frontier.bandwidth]
    refuted = _thin_out(frontier.refuted, [*at, *candidates, *limits], frame)
    rows += [(s, c, _LIMIT, f"S={s}") for s, c in limits]
    rows += [(s, c, "refuted candidate", f"S={s}") for s, c in refuted]
    return rows


def _mark_kind(point: Point) -> str:
    if point.state == "proved" and point.within:
        return _SEARCHED
    return _STATES.get(point.state, point.state)


def _thin_out(wanted: Iterable[Cost], taken: Iterable[Cost], frame: Frame) -> list[Cost]:
    """Return candidates whose marks overlap neither taken marks nor one another."""
    pixels = [_pixels(cost, frame) for cost in taken]
    kept = []
    for cost in sorted(wanted, reverse=True):
        pixel = _pixels(cost, frame)
        if all(math.dist(pixel, other_pixel) >= _MIN_DISTANCE for other_pixel in pixels):
            pixels.append(pixel)
            kept.append(cost)
    return kept


def _pixels(at: Cost, frame: Frame) -> tuple[float, float]:
    return frame.pixels(at[0], max(float(at[1]), frame.y[0]))


def mark_layers(
    marks: Sequence[dict[str, Any]], frontiers: Sequence[FrontierData], frame: Frame
) -> list[ChartType]:
    """Return the layers of the legend and of marks in the colors of their frontiers."""
    scale = theme.series_scale([frontier.name for frontier in frontiers], theme.COLORS)
    colors = dict(zip(scale.domain, scale.range, strict=True))
    rows = []
    for mark in sorted(marks, key=lambda mark: -list(_MARKS).index(mark["state"])):
        _, filled, color = _MARKS[mark["state"]]
        of_class = len(frontiers) > 1 and mark["state"] == _LIMIT
        stroke = colors[mark["name"]] if of_class else color or colors[mark["name"]]
        rows.append({**mark, "stroke": stroke, "inside": stroke if filled else "white"})
    kinds = [kind for kind in _MARKS if any(mark["state"] == kind for mark in marks)]
    shapes = alt.Scale(domain=kinds, range=[_MARKS[kind][0] for kind in kinds])
    drawn = (
        alt.Chart(theme.chart_rows(rows))
        .mark_point(size=110, strokeWidth=2, opacity=1)
        .encode(
            **axes(frame),
            shape=alt.Shape("state:N", scale=shapes, legend=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            fill=alt.Fill("inside:N", scale=None),
            tooltip=["name:N", "algorithm:N", "R/C:N", "state:N"],
        )
    )
    plain = theme.COLORS[0] if len(frontiers) == 1 else theme.INK
    return [_legend(kinds, plain, frame), drawn]


def _legend(kinds: Sequence[str], plain: str, frame: Frame) -> ChartType:
    """Return invisible marks whose legend shows each kind as it is drawn.

    Args:
        plain: color, in the legend, of kinds that are drawn in their frontier's color.
    """
    legend = alt.Legend(orient="bottom", columns=3, symbolSize=90)
    strokes = [_MARKS[kind][2] or plain for kind in kinds]
    inside = [
        color if _MARKS[kind][1] else "white" for kind, color in zip(kinds, strokes, strict=True)
    ]
    ranges = {"shape": [_MARKS[kind][0] for kind in kinds], "stroke": strokes, "fill": inside}
    at = {"steps": frame.x[0], "cost": frame.y[0]}
    channels: dict[str, Any] = {
        name: {"field": "state", "type": "nominal", "title": None, "legend": legend.to_dict(),
               "scale": {"domain": list(kinds), "range": values}}
        for name, values in ranges.items()
    }  # fmt: skip
    return (
        alt.Chart(theme.chart_rows([{**at, "state": kind} for kind in kinds]))
        .mark_point(size=0, strokeWidth=2, opacity=1)
        .encode(**axes(frame), **channels)
    )
