"""The frontier: steps against R/C, what is known below it, and what is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.known import axes, bounds, shaded
from sccl.view.labels import Frame, Rectangle, along, dot, place
from sccl.view.values import Cost, FrontierData, distinct

if TYPE_CHECKING:
    from altair.typing import ChartType

_LOG_FROM = 6.0  # largest over smallest R/C
_BETWEEN = 13  # px between marks of refuted candidates
_MARKS = {
    "proved": ("circle", True, ""),
    "best found": ("square", False, ""),
    "approached, not attained": ("diamond", False, ""),
    "open candidate": ("triangle-up", False, "#D55E00"),
    "refuted candidate": ("M-1,-1L1,1M-1,1L1,-1", False, "#6b6b6b"),
    "limit of R/C for this S": ("stroke", False, theme.INK),
}
"""What is drawn of each kind: shape, whether it is filled, and colour (none: its frontier's)."""


def frontier_chart(frontiers: Sequence[FrontierData]) -> ChartType:
    """Return steps against R/C, for one frontier or several over one another.

    Of one, the region without algorithms is shaded, with the bounds and the candidates that were
    refuted; of several, bounds and limits are left to the charts of each.

    Raises:
        ParameterError: there is nothing to draw.
    """
    import altair as alt  # noqa: PLC0415 - loads much

    if not any(one.points for one in frontiers):
        raise ParameterError("there is no point to draw: give a frontier that has one")
    frontiers = distinct(frontiers)
    frame = _frame(frontiers)
    single = frontiers[0] if len(frontiers) == 1 else None
    marks = _marks(frontiers, frame, single=single is not None)
    layers: list[ChartType] = [*(shaded(single, frame) if single else ())]
    layers += [_stairs(frontiers, frame), _drawn(marks, frontiers, frame)]
    taken = [dot(frame.pixels(m["steps"], m["cost"]), 6) for m in marks]
    for one in frontiers:
        for start, end in pairwise(frame.pixels(*corner) for corner in _corners(one, frame)):
            taken += along(start, end)
    lines, texts = bounds(single, frame) if single else ([], [])
    layers += lines
    layers += _labels(frontiers, frame, [*taken, *texts])
    name = single.name if single else "Pareto frontiers"
    title = alt.Title(f"{name}: latency against bandwidth")
    if single and single.scope:
        title.subtitle = f"Class: {single.scope}"
    drawn = alt.layer(*layers).properties(
        width=frame.width, height=frame.height, title=title
    )  # fmt: skip
    # Shades have colours of their own; colours of several frontiers share a legend with dashes.
    return theme.themed(drawn.resolve_scale(color="independent") if single else drawn)


def _costs(one: FrontierData) -> list[tuple[int, Fraction]]:
    points = [(p.steps, p.cost) for p in one.points]
    bound = [(one.min_steps or 1, one.bandwidth)] if one.bandwidth is not None else []
    return [*points, *one.open, *one.limits, *bound]


def _frame(frontiers: Sequence[FrontierData]) -> Frame:
    known = [c for one in frontiers for c in _costs(one)]
    refuted = [c for one in frontiers if len(frontiers) == 1 for c in one.refuted]
    steps = [s for s, _ in [*known, *refuted]]
    costs = [float(c) for _, c in known]
    low, high = min(costs), max(costs)
    log = high > _LOG_FROM * low
    if log:
        ends = (low / (high / low) ** 0.15, high * (high / low) ** 0.2)
    else:
        room = (high - low) or high / 2
        ends = (max(low - 0.3 * room, 0.0), high + 0.3 * room)
    first, last = min(steps), max(steps)
    return Frame(theme.WIDTH, theme.HEIGHT, (first - 0.75, last + 0.75), ends, log_y=log)


def _stairs(frontiers: Sequence[FrontierData], frame: Frame) -> ChartType:
    """Return what is dominated by the points, as a line."""
    import altair as alt  # noqa: PLC0415

    names = [one.name for one in frontiers]
    corners = [
        {"steps": steps, "cost": cost, "name": one.name, "order": i}
        for one in frontiers
        for i, (steps, cost) in enumerate(_corners(one, frame))
    ]
    legend = theme.series_legend(names)
    return (
        alt.Chart(theme.rows(corners))
        .mark_line(strokeWidth=2)
        .encode(
            **axes(frame),
            color=alt.Color("name:N", title=None, legend=legend,
                            scale=theme.series_scale(names, theme.COLOURS)),
            strokeDash=alt.StrokeDash("name:N", title=None, legend=legend,
                                      scale=theme.series_scale(names, theme.DASHES)),
            order="order:Q",
        )
    )  # fmt: skip


def _corners(one: FrontierData, frame: Frame) -> list[tuple[float, float]]:
    """Return the corners of the line above which everything is dominated."""
    return [
        (steps, float(p.cost))
        for p, following in zip(one.points, [*one.points[1:], None], strict=True)
        for steps in (p.steps, following.steps if following else frame.x[1])
    ]


def _marks(
    frontiers: Sequence[FrontierData], frame: Frame, *, single: bool
) -> list[dict[str, Any]]:
    states = {"approached": "approached, not attained"}
    found: dict[tuple[str, int, Fraction, str], dict[str, Any]] = {}
    for one in frontiers:
        marks = [(p.steps, p.cost, states.get(p.state, p.state), p.text) for p in one.points]
        marks += [(s, c, "open candidate", f"S={s}") for s, c in one.open]
        if single:
            at = {(p.steps, p.cost) for p in one.points}
            marks += [(s, c, "limit of R/C for this S", f"S={s}") for s, c in one.limits
                      if (s, c) not in at]  # fmt: skip
            marks += [(s, c, "refuted candidate", f"S={s}") for s, c in _thinned(one, frame)]
        for steps, cost, state, text in marks:
            if frame.y[0] <= cost <= frame.y[1]:
                found.setdefault(
                    (one.name, steps, cost, state),
                    {"steps": steps, "cost": float(cost), "state": state, "name": one.name,
                     "R/C": str(cost), "algorithm": text},
                )  # fmt: skip
    return list(found.values())


def _thinned(one: FrontierData, frame: Frame) -> list[Cost]:
    """Return refuted candidates that lie far enough apart for their marks to be told apart."""
    kept: dict[int, float] = {}
    found = []
    for steps, cost in sorted(one.refuted, reverse=True):
        height = frame.pixels(steps, max(float(cost), frame.y[0]))[1]
        if height - kept.get(steps, -math.inf) >= _BETWEEN:
            kept[steps] = height
            found.append((steps, cost))
    return found


def _drawn(
    marks: Sequence[dict[str, Any]], frontiers: Sequence[FrontierData], frame: Frame
) -> ChartType:
    import altair as alt  # noqa: PLC0415

    kinds = [kind for kind in _MARKS if any(m["state"] == kind for m in marks)]
    names = [one.name for one in frontiers]
    scale = theme.series_scale(names, theme.COLOURS)
    colours = dict(zip(names, scale.range, strict=True))
    for mark in marks:
        _, filled, colour = _MARKS[mark["state"]]
        mark["stroke"] = colour or colours[mark["name"]]
        mark["inside"] = mark["stroke"] if filled else "white"
    order = sorted(marks, key=lambda m: -list(_MARKS).index(m["state"]))
    own = [(_MARKS[k][2] or theme.COLOURS[0], _MARKS[k][1]) for k in kinds]
    shown: dict[str, Any] = {
        "symbolStrokeColor": theme.INK,
        "symbolFillColor": "white",
    }
    legend = alt.Legend(orient="bottom", columns=3, **(shown if len(names) > 1 else {}))
    shapes = alt.Scale(domain=kinds, range=[_MARKS[k][0] for k in kinds])
    colouring: dict[str, Any]
    if len(names) == 1:
        strokes = alt.Scale(domain=kinds, range=[colour for colour, _ in own])
        inside = alt.Scale(domain=kinds, range=[c if filled else "white" for c, filled in own])
        colouring = {
            "stroke": alt.Stroke("state:N", title=None, scale=strokes, legend=legend),
            "fill": alt.Fill("state:N", title=None, scale=inside, legend=legend),
        }
    else:
        colouring = {"stroke": alt.Stroke("stroke:N", scale=None),
                     "fill": alt.Fill("inside:N", scale=None)}  # fmt: skip
    return alt.Chart(theme.rows(order)).mark_point(size=110, strokeWidth=2, opacity=1).encode(
        **axes(frame),
        shape=alt.Shape("state:N", title=None, scale=shapes, legend=legend),
        **colouring,
        tooltip=["name:N", "algorithm:N", "R/C:N", "state:N"],
    )  # fmt: skip


def _labels(
    frontiers: Sequence[FrontierData], frame: Frame, taken: Sequence[Rectangle]
) -> list[ChartType]:
    """Return the exact R/C of every point that has room for it."""
    import altair as alt  # noqa: PLC0415

    names = [one.name for one in frontiers]
    colours = theme.series_scale(names, theme.COLOURS).range
    points = {
        (p.steps, p.cost, i): str(p.cost) for i, one in enumerate(frontiers) for p in one.points
    }
    wanted = [(frame.pixels(s, float(c)), text) for (s, c, _), text in points.items()]
    rows = []
    for ((_, _, i), text), centre in zip(points.items(), place(wanted, frame, taken), strict=True):
        if centre:
            x, y = frame.values(*centre)
            rows.append({"steps": x, "cost": y, "text": text, "colour": colours[i]})
    if not rows:
        return []
    return [
        alt.Chart(theme.rows(rows))
        .mark_text(fontSize=theme.TEXT, fontWeight="bold")
        .encode(**axes(frame), text="text:N", color=alt.Color("colour:N", scale=None))
    ]
