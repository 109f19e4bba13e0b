"""The frontier: steps against R/C, what is known below it, and what is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.labels import Frame, Rectangle, along, dot, place, text_size
from sccl.view.values import Cost, FrontierData

if TYPE_CHECKING:
    from altair.typing import ChartType

_LOG_FROM = 6.0  # largest over smallest R/C
_MOST_TICKS = 16
_BETWEEN = 13  # px between marks of refuted candidates
_SHADES = {"no algorithm, whatever k and C": "#c4c4c4", "refuted for the k searched": "#e6e6e6"}
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
    frame = _frame(frontiers)
    single = frontiers[0] if len(frontiers) == 1 else None
    marks = _marks(frontiers, frame, single=single is not None)
    layers: list[ChartType] = [*(_below(single, frame) if single else ())]
    layers += [_stairs(frontiers, frame), _drawn(marks, frontiers, frame)]
    taken = [dot(frame.pixels(m["steps"], m["cost"]), 6) for m in marks]
    for one in frontiers:
        for start, end in pairwise(frame.pixels(*corner) for corner in _corners(one, frame)):
            taken += along(start, end)
    bounds, texts = _bounds(single, frame) if single else ([], [])
    layers += bounds
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


def _axes(frame: Frame) -> dict[str, Any]:
    import altair as alt  # noqa: PLC0415

    first, last = math.ceil(frame.x[0]), math.floor(frame.x[1])
    every = math.ceil((last - first + 1) / _MOST_TICKS)
    ticks = list(range(first, last + 1, every))
    scale = alt.Scale(domain=list(frame.y), type="log" if frame.log_y else "linear", nice=False)
    return {
        "x": alt.X("steps:Q", title="Latency cost S (steps)",
                   scale=alt.Scale(domain=list(frame.x), nice=False),
                   axis=alt.Axis(values=ticks, format="d", grid=False)),
        "y": alt.Y("cost:Q", title="Bandwidth cost R/C (rounds per chunk)", scale=scale,
                   axis=alt.Axis(format="~g", grid=True, **(
                       {"values": theme.decades(*frame.y)} if frame.log_y else {"tickCount": 6}))),
    }  # fmt: skip


def _floor(one: FrontierData, steps: int) -> Fraction | None:
    """Return what R/C no algorithm of so many steps goes below; None: there is no algorithm.

    A limit holds for fewer steps too.
    """
    if one.min_steps is not None and steps < one.min_steps:
        return None
    limits = [cost for s, cost in one.limits if s >= steps]
    return max([*limits, one.bandwidth or Fraction(0)])


def _searched(one: FrontierData, steps: int) -> Fraction:
    """Return below what R/C all candidates of so many steps have been refuted."""
    before = [p for p in one.points if p.steps <= steps]
    if not before or steps in {s for s, _ in one.open}:
        return Fraction(0)
    last = before[-1]
    beyond = steps > one.points[-1].steps and steps not in {s for s, _ in one.refuted}
    return last.cost if last.state == "proved" and not beyond else Fraction(0)


def _below(one: FrontierData, frame: Frame) -> list[ChartType]:
    """Return the region without algorithms."""
    import altair as alt  # noqa: PLC0415

    never, searched = _SHADES
    bottom, top = frame.y
    strips = []
    for steps in range(math.floor(frame.x[0]), math.ceil(frame.x[1])):
        left, right = max(steps, frame.x[0]), min(steps + 1, frame.x[1])
        floor = _floor(one, steps)
        height = top if floor is None else max(float(floor), bottom)
        tops = [(never, bottom, height)]
        if floor is not None:
            tops.append((searched, height, max(float(_searched(one, steps)), height)))
        strips += [
            {"steps": left, "right": right, "cost": low, "top": high, "what": what}
            for what, low, high in tops
            if high > low and right > left
        ]
    names = [name for name in _SHADES if any(s["what"] == name for s in strips)]
    if not names:
        return []
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=[_SHADES[n] for n in names]),
        legend=alt.Legend(orient="bottom", symbolType="square", direction="horizontal"),
    )
    return [
        alt.Chart(theme.rows(strips))
        .mark_rect(strokeWidth=0)
        .encode(**_axes(frame), x2="right:Q", y2="top:Q", color=colour)
    ]


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
            **_axes(frame),
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
        **_axes(frame),
        shape=alt.Shape("state:N", title=None, scale=shapes, legend=legend),
        **colouring,
        tooltip=["name:N", "algorithm:N", "R/C:N", "state:N"],
    )  # fmt: skip


def _bounds(one: FrontierData, frame: Frame) -> tuple[list[ChartType], list[Rectangle]]:
    """Return the bounds as lines with their names, and where the names lie."""
    lines: list[dict[str, Any]] = []
    taken = []
    if one.min_steps is not None:
        text = f"S \u2265 {one.min_steps}"
        top = frame.values(0, 14)[1]
        at = frame.pixels(one.min_steps, top)
        width, height = text_size(text)
        ends = {"right": one.min_steps, "top": frame.y[1]}
        label = frame.values(at[0] + 6 + width / 2, at[1])
        lines.append({"steps": one.min_steps, "cost": frame.y[0], **ends,
                      "text": text, "tx": label[0], "ty": label[1]})  # fmt: skip
        taken.append(Rectangle(at[0], at[1] - height, at[0] + 6 + width, at[1] + height / 2))
    if one.bandwidth:
        text = f"R/C \u2265 {one.bandwidth}"
        width, height = text_size(text)
        down = frame.pixels(0, float(one.bandwidth))[1] + 6 + height / 2
        centre = (frame.width - 6 - width / 2, down)
        label = frame.values(*centre)
        lines.append({"steps": frame.x[0], "cost": float(one.bandwidth), "right": frame.x[1],
                      "top": float(one.bandwidth), "text": text, "tx": label[0],
                      "ty": label[1]})  # fmt: skip
        taken.append(Rectangle(centre[0] - width / 2, down - height, frame.width, down + height))
    if not lines:
        return [], []
    return _bound_layers(lines, frame), taken


def _bound_layers(lines: list[dict[str, Any]], frame: Frame) -> list[ChartType]:
    import altair as alt  # noqa: PLC0415

    axes = _axes(frame)
    base = alt.Chart(theme.rows(lines))
    rules = base.mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=theme.INK).encode(
        **axes, x2="right:Q", y2="top:Q"
    )
    names = base.mark_text(fontSize=theme.TEXT, color=theme.INK).encode(
        x=_at(axes["x"], "tx"), y=_at(axes["y"], "ty"), text="text:N"
    )
    return [rules, names]


def _at(channel: Any, field: str) -> Any:
    """Return an axis' channel for another field."""
    found = channel.copy()
    found["shorthand"] = f"{field}:Q"
    return found


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
        .encode(**_axes(frame), text="text:N", color=alt.Color("colour:N", scale=None))
    ]
