"""Draw the proved region below a frontier, which has no algorithms, and the lower bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sccl.view import theme
from sccl.view.charts.frontier_data import FrontierData
from sccl.view.charts.label_placement import Frame, text_size
from sccl.view.drawing.layout import Rectangle
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_MAX_TICKS = 16
_SHADES = {
    "no algorithm, for any k and C": "#c4c4c4",
    "refuted for the k and C searched": "#e6e6e6",
}


def axes(frame: Frame) -> dict[str, Any]:
    """Return the Altair channels of S and R/C, for the fields ``steps`` and ``cost``."""
    first, last = math.ceil(frame.x[0]), math.floor(frame.x[1])
    interval = math.ceil((last - first + 1) / _MAX_TICKS)
    ticks = list(range(first, last + 1, interval))
    scale = alt.Scale(domain=list(frame.y), type="log" if frame.log_y else "linear", nice=False)
    return {
        "x": alt.X("steps:Q", title="Latency cost S (steps)",
                   scale=alt.Scale(domain=list(frame.x), nice=False),
                   axis=alt.Axis(values=ticks, format="d", grid=False)),
        "y": alt.Y("cost:Q", title="Bandwidth cost R/C (rounds per chunk)", scale=scale,
                   axis=alt.Axis(format=theme.NUMBERS, grid=True, **(
                       {"values": theme.decades(*frame.y)} if frame.log_y else {"tickCount": 6}))),
    }  # fmt: skip


def _lower_bound(frontier: FrontierData, steps: int) -> Fraction | None:
    """Return the lower bound on R/C for a number of steps, or None if there is no algorithm.

    A limit for more steps is also a lower bound.
    """
    if frontier.min_steps is not None and steps < frontier.min_steps:
        return None
    limits = [cost for s, cost in frontier.limits if s >= steps]
    return max([*limits, frontier.bandwidth or Fraction(0)])


def _refuted_below(frontier: FrontierData, steps: int) -> Fraction:
    """Return the R/C below which all candidates with a number of steps are refuted."""
    before = [p for p in frontier.points if p.steps <= steps]
    if not before or steps in {s for s, _ in frontier.open}:
        return Fraction(0)
    last = before[-1]
    beyond = steps > frontier.points[-1].steps and steps not in {s for s, _ in frontier.refuted}
    return last.cost if last.state == "proved" and not beyond else Fraction(0)


def shade_regions(frontier: FrontierData, frame: Frame) -> list[ChartType]:
    """Return the layer that shades the region without algorithms."""
    never, searched = _SHADES
    bottom, top = frame.y
    strips = []
    for steps in range(math.floor(frame.x[0]), math.ceil(frame.x[1])):
        left, right = max(steps, frame.x[0]), min(steps + 1, frame.x[1])
        floor = _lower_bound(frontier, steps)
        height = top if floor is None else max(float(floor), bottom)
        tops = [(never, bottom, height)]
        if floor is not None:
            tops.append((searched, height, max(float(_refuted_below(frontier, steps)), height)))
        strips += [
            {"steps": left, "right": right, "cost": low, "top": high, "what": kind}
            for kind, low, high in tops
            if high > low and right > left
        ]
    names = [name for name in _SHADES if any(s["what"] == name for s in strips)]
    if not names:
        return []
    scale = alt.Scale(domain=names, range=[_SHADES[n] for n in names])
    legend = alt.Legend(orient="bottom", symbolType="square", direction="horizontal")
    return [
        alt.Chart(theme.chart_rows(strips))
        .mark_rect(strokeWidth=1)
        .encode(
            **axes(frame),
            x2="right:Q",
            y2="top:Q",
            fill=alt.Fill("what:N", title=None, scale=scale, legend=legend),
            # An outline in the same color hides light seams between strips.
            stroke=alt.Stroke("what:N", scale=scale, legend=None),
        )
    ]


def bound_lines(frontier: FrontierData, frame: Frame) -> tuple[list[ChartType], list[Rectangle]]:
    """Return the layers of the bounds, as lines with names, and the areas that they cover."""
    lines: list[dict[str, Any]] = []
    taken = []
    if frontier.min_steps is not None:
        text = f"S \u2265 {frontier.min_steps}"
        width, height = text_size(text)
        x = frame.pixels(frontier.min_steps, frame.y[0])[0]
        name = Rectangle(x + 6, 14 - height / 2, x + 6 + width, 14 + height / 2)
        ends = {"right": frontier.min_steps, "top": frame.y[1]}
        lines.append(
            {
                "steps": frontier.min_steps,
                "cost": frame.y[0],
                **ends,
                **_label_row(text, name, frame),
            }
        )
        taken += [name, Rectangle(x - 2, 0, x + 2, frame.height)]
    if frontier.bandwidth:
        text = f"R/C \u2265 {frontier.bandwidth}"
        width, height = text_size(text)
        cost = float(frontier.bandwidth)
        y = frame.pixels(frame.x[0], cost)[1]
        name = Rectangle(frame.width - 6 - width, y + 6, frame.width - 6, y + 6 + height)
        ends = {"right": frame.x[1], "top": cost}
        lines.append({"steps": frame.x[0], "cost": cost, **ends, **_label_row(text, name, frame)})
        taken += [name, Rectangle(0, y - 2, frame.width, y + 2)]
    return (_bound_layers(lines, frame), taken) if lines else ([], [])


def _label_row(text: str, box: Rectangle, frame: Frame) -> dict[str, Any]:
    x, y = frame.values(*box.center)
    return {"text": text, "tx": x, "ty": y}


def _bound_layers(lines: list[dict[str, Any]], frame: Frame) -> list[ChartType]:
    channels = axes(frame)
    base = alt.Chart(theme.chart_rows(lines))
    rules = base.mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=theme.INK).encode(
        **channels, x2="right:Q", y2="top:Q"
    )
    names = base.mark_text(fontSize=theme.TEXT, color=theme.INK).encode(
        x=with_field(channels["x"], "tx"), y=with_field(channels["y"], "ty"), text="text:N"
    )
    return [rules, names]


def with_field(channel: Any, field: str) -> Any:
    """Return the channel of an axis for another field."""
    result = channel.copy()
    result["shorthand"] = f"{field}:Q"
    return result
