"""The frontier chart: steps against R/C, with the proved region below it and open candidates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.frontier_data import Cost, FrontierData, common_question, name_by_class
from sccl.view.charts.frontier_marks import build_marks, mark_layers
from sccl.view.charts.label_placement import Frame, Rectangle, cover_line, dot_area, place_labels
from sccl.view.charts.proved_regions import axes, bound_lines, shade_regions
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_LOG_FROM = 6.0  # largest over smallest R/C


def frontier_chart(frontiers: Sequence[FrontierData]) -> ChartType:
    """Return a chart of steps against R/C, for one frontier or several over one another.

    For one frontier, the region without algorithms is shaded, with the bounds and the refuted
    candidates. Several frontiers are drawn without bounds and limits. For several classes of one
    frontier the region below the bounds of all of them is shaded, and each has its limits.

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
    drawn = alt.layer(*layers).properties(
        width=frame.width, height=frame.height, title=title
    )  # fmt: skip
    # Shades and marks have separate legends. Lines share one of colors and dashes.
    scales: dict[str, Any] = dict.fromkeys(("fill", "stroke", "shape"), "independent")
    return theme.apply_theme(drawn.resolve_scale(**scales))


def _framed_costs(frontier: FrontierData, *, single: bool) -> list[Cost]:
    """Return the points that axes must contain.

    One frontier among several has no bounds and limits.
    """
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
    """Return the border of the region that the points dominate, as a line."""
    names = [frontier.name for frontier in frontiers]
    corners = [
        {"steps": steps, "cost": cost, "name": frontier.name, "order": i}
        for frontier in frontiers
        for i, (steps, cost) in enumerate(_corners(frontier, frame))
    ]
    legend = theme.series_legend(names)
    return (
        alt.Chart(theme.chart_rows(corners))
        .mark_line(strokeWidth=2)
        .encode(
            **axes(frame),
            color=alt.Color("name:N", title=None, legend=legend,
                            scale=theme.series_scale(names, theme.COLORS)),
            strokeDash=alt.StrokeDash("name:N", title=None, legend=legend,
                                      scale=theme.series_scale(names, theme.DASHES)),
            order="order:Q",
        )
    )  # fmt: skip


def _corners(frontier: FrontierData, frame: Frame) -> list[tuple[float, float]]:
    """Return the corners of the line above which everything is dominated."""
    return [
        (steps, float(p.cost))
        for p, following in zip_longest(frontier.points, frontier.points[1:])
        for steps in (p.steps, following.steps if following else frame.x[1])
    ]


def _labels(
    frontiers: Sequence[FrontierData], frame: Frame, taken: Sequence[Rectangle]
) -> list[ChartType]:
    """Return the exact R/C of every point that has room for it."""
    names = [frontier.name for frontier in frontiers]
    colours = theme.series_scale(names, theme.COLORS).range
    points = {
        (p.steps, p.cost, i): str(p.cost)
        for i, frontier in enumerate(frontiers)
        for p in frontier.points
    }
    wanted = [(frame.pixels(s, float(c)), text) for (s, c, _), text in points.items()]
    rows = []
    for ((_, _, i), text), centre in zip(
        points.items(), place_labels(wanted, frame, taken), strict=True
    ):
        if centre:
            x, y = frame.values(*centre)
            rows.append({"steps": x, "cost": y, "text": text, "colour": colours[i]})
    if not rows:
        return []
    return [
        alt.Chart(theme.chart_rows(rows))
        .mark_text(fontSize=theme.TEXT, fontWeight="bold")
        .encode(**axes(frame), text="text:N", color=alt.Color("colour:N", scale=None))
    ]
