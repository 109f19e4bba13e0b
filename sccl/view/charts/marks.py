"""Marks of a frontier: its points, open and refuted candidates, without overlaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sccl.core.frontier import Point
from sccl.view import theme
from sccl.view.charts.known import axes
from sccl.view.charts.labels import Frame
from sccl.view.charts.values import Cost, FrontierData
from sccl.view.libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_BETWEEN = 13  # px between marks, so that they can be told apart
_STATES = {"approached": "approached, not attained"}
_SEARCHED = "proved for the k and C searched"
_LIMIT = "limit of R/C for this S"
_MARKS = {
    "proved": ("circle", True, ""),
    _SEARCHED: ("circle", False, ""),
    "best found": ("square", False, ""),
    "approached, not attained": ("diamond", False, ""),
    "open candidate": ("triangle-up", False, "#D55E00"),
    "refuted candidate": ("M-1,-1L1,1M-1,1L1,-1", False, theme.GREY),
    _LIMIT: ("stroke", False, theme.INK),
}
"""Marks by kind: shape, whether it is filled, and colour (empty: its frontier's)."""


def marks_of(
    frontiers: Sequence[FrontierData], frame: Frame, *, single: bool
) -> list[dict[str, Any]]:
    """Return the marks as rows. Candidates without room are left out."""
    found: dict[tuple[str, int, Fraction, str], dict[str, Any]] = {}
    for one in frontiers:
        for steps, cost, state, text in _of(one, frame, single=single):
            if frame.y[0] <= cost <= frame.y[1]:
                found.setdefault(
                    (one.name, steps, cost, state),
                    {"steps": steps, "cost": float(cost), "state": state, "name": one.name,
                     "R/C": str(cost), "algorithm": text},
                )  # fmt: skip
    return list(found.values())


def _of(one: FrontierData, frame: Frame, *, single: bool) -> list[tuple[int, Fraction, str, str]]:
    at = [(p.steps, p.cost) for p in one.points]
    candidates = _apart(one.open, at, frame)
    # Where all are too near, one of them is marked still: nobody knows whether it can be had.
    hidden = {s for s, _ in one.open} - {s for s, _ in candidates}
    candidates += [min(c for c in one.open if c[0] == steps) for steps in sorted(hidden)]
    found = [(p.steps, p.cost, _kind(p), p.text) for p in one.points]
    found += [(s, c, "open candidate", f"S={s}") for s, c in candidates]
    if not single:
        return found
    # On the dashed line of the bound on R/C a dash would not be seen.
    limits = [x for x in one.limits if x not in at and x[1] != one.bandwidth]
    refuted = _apart(one.refuted, [*at, *candidates, *limits], frame)
    found += [(s, c, _LIMIT, f"S={s}") for s, c in limits]
    found += [(s, c, "refuted candidate", f"S={s}") for s, c in refuted]
    return found


def _kind(point: Point) -> str:
    if point.state == "proved" and point.within:
        return _SEARCHED
    return _STATES.get(point.state, point.state)


def _apart(wanted: Iterable[Cost], taken: Iterable[Cost], frame: Frame) -> list[Cost]:
    """Return candidates whose marks lie clear of those taken and of one another."""
    pixels = [_pixels(one, frame) for one in taken]
    found = []
    for one in sorted(wanted, reverse=True):
        own = _pixels(one, frame)
        if all(math.dist(own, other) >= _BETWEEN for other in pixels):
            pixels.append(own)
            found.append(one)
    return found


def _pixels(at: Cost, frame: Frame) -> tuple[float, float]:
    return frame.pixels(at[0], max(float(at[1]), frame.y[0]))


def mark_layers(
    marks: Sequence[dict[str, Any]], frontiers: Sequence[FrontierData], frame: Frame
) -> list[ChartType]:
    """Return marks in the colours of their frontiers, and their legend."""
    scale = theme.series_scale([one.name for one in frontiers], theme.COLOURS)
    colours = dict(zip(scale.domain, scale.range, strict=True))
    rows = []
    for mark in sorted(marks, key=lambda mark: -list(_MARKS).index(mark["state"])):
        _, filled, colour = _MARKS[mark["state"]]
        of_class = len(frontiers) > 1 and mark["state"] == _LIMIT
        stroke = colours[mark["name"]] if of_class else colour or colours[mark["name"]]
        rows.append({**mark, "stroke": stroke, "inside": stroke if filled else "white"})
    kinds = [kind for kind in _MARKS if any(mark["state"] == kind for mark in marks)]
    shapes = alt.Scale(domain=kinds, range=[_MARKS[kind][0] for kind in kinds])
    drawn = (
        alt.Chart(theme.rows(rows))
        .mark_point(size=110, strokeWidth=2, opacity=1)
        .encode(
            **axes(frame),
            shape=alt.Shape("state:N", scale=shapes, legend=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            fill=alt.Fill("inside:N", scale=None),
            tooltip=["name:N", "algorithm:N", "R/C:N", "state:N"],
        )
    )
    plain = theme.COLOURS[0] if len(frontiers) == 1 else theme.INK
    return [_legend(kinds, plain, frame), drawn]


def _legend(kinds: Sequence[str], plain: str, frame: Frame) -> ChartType:
    """Return marks of no size, whose legend shows each kind as it is drawn.

    Args:
        plain: the colour of kinds that are drawn in their frontier's.
    """
    legend = alt.Legend(orient="bottom", columns=3, symbolSize=90)
    strokes = [_MARKS[kind][2] or plain for kind in kinds]
    inside = [
        colour if _MARKS[kind][1] else "white" for kind, colour in zip(kinds, strokes, strict=True)
    ]
    ranges = {"shape": [_MARKS[kind][0] for kind in kinds], "stroke": strokes, "fill": inside}
    at = {"steps": frame.x[0], "cost": frame.y[0]}
    channels: dict[str, Any] = {
        name: {"field": "state", "type": "nominal", "title": None, "legend": legend.to_dict(),
               "scale": {"domain": list(kinds), "range": values}}
        for name, values in ranges.items()
    }  # fmt: skip
    return (
        alt.Chart(theme.rows([{**at, "state": kind} for kind in kinds]))
        .mark_point(size=0, strokeWidth=2, opacity=1)
        .encode(**axes(frame), **channels)
    )
