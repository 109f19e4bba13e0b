"""The links of a machine as lines, as wide as their lanes, with arrows where they go one way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.drawing.budget_text import shared_links
from sccl.view.drawing.geometry import Position
from sccl.view.drawing.layout import Layout, control_points, on_curve
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_POINTS = 24  # of a bent link
_PER_LANE, _WIDEST, _THINNEST = 1.6, 7.0, 1.0  # px
_COVERED = 0.15  # of a picture: with more, lines become a surface
_OPACITY, _FAINTEST = 0.8, 0.12
_APART = 0.012  # between the directions of a pair whose lanes differ
_ARROW = "M0,-1.7L0.8,1L-0.8,1Z"  # upwards, and longer than wide, so that its tip is visible
_UNSHARED, _SHARED = "a link with its own lanes", "links that share a budget (above)"
_DASHES = {_UNSHARED: (1, 0), _SHARED: (5, 3)}


@dataclass(frozen=True, slots=True)
class LinkLine:
    """One line of the drawing: a link, or both directions of a pair.

    Attributes:
        points: two if it is straight.
    """

    edge: Edge
    lanes: int
    shared: bool
    one_way: bool
    points: tuple[Position, ...]


def link_lines(topology: Topology, drawn: Layout) -> list[LinkLine]:
    """Return the lines of a machine, with different directions of a pair drawn side by side."""
    tied = shared_links(topology)
    kinds = {edge: (lanes, edge in tied) for edge, lanes in topology.lanes().items()}
    bends = dict(zip((link.edge for link in topology.links), drawn.bends, strict=True))
    lines = []
    for edge, kind in kinds.items():
        back = kinds.get(edge[::-1])
        if back != kind:
            bend = bends[edge] + (_APART if back else 0.0)
            lines.append(LinkLine(edge, *kind, one_way=True, points=_points(drawn, edge, bend)))
        elif edge[0] < edge[1]:
            points = _points(drawn, edge, bends[edge])
            lines.append(LinkLine(edge, *kind, one_way=False, points=points))
    return lines


def _points(drawn: Layout, edge: Edge, bend: float) -> tuple[Position, ...]:
    curve = control_points(drawn.positions[edge[0]], drawn.positions[edge[1]], bend)
    last = _POINTS if bend else 1
    return tuple(on_curve(curve, i / last) for i in range(last + 1))


def stroke_widths(
    lines: Sequence[LinkLine], side: float, width: float, height: float
) -> tuple[dict[int, float], float]:
    """Return how wide each number of lanes is drawn, in px, and how opaque lines are.

    Widths are proportional to lanes unless the thinnest would hardly be seen. Then they only grow
    with them. Lines that would cover too much of the picture are thinner, and then fainter.

    Args:
        lines: in units of a square.
        side: of that square, in px.
        width: of the picture, in px.
        height: likewise.
    """
    counts = sorted({line.lanes for line in lines})
    lengths = [side * sum(math.dist(a, b) for a, b in pairwise(line.points)) for line in lines]
    weighted = sum(line.lanes * long for line, long in zip(lines, lengths, strict=True))
    room = _COVERED * width * height
    unit = min(_PER_LANE, _WIDEST / counts[-1], room / weighted)
    if unit * counts[0] >= _THINNEST:
        return {n: round(unit * n, 2) for n in counts}, _OPACITY
    widest = max(unit * counts[-1], _THINNEST * min(len(counts), 3))
    grade = (widest - _THINNEST) / max(counts[-1] - counts[0], 1)
    widths = {n: round(_THINNEST + grade * (n - counts[0]), 2) for n in counts}
    covered = sum(widths[line.lanes] * long for line, long in zip(lines, lengths, strict=True))
    return widths, round(max(_FAINTEST, min(_OPACITY, 3 * _OPACITY * room / covered)), 2)


def link_layers(
    lines: Sequence[LinkLine], axes: Mapping[str, Any], widths: Mapping[int, float], opacity: float
) -> list[ChartType]:
    """Return the layers of a chart that draw links, with legends for their differences."""
    rows = [
        {"x": x, "y": y, "link": f"{line.edge[0]}->{line.edge[1]}", "lanes": line.lanes,
         "budget": _SHARED if line.shared else _UNSHARED, "order": i}
        for line in lines for i, (x, y) in enumerate(line.points)
    ]  # fmt: skip
    links = (
        alt.Chart(theme.chart_rows(rows))
        .mark_line(color="#4a6a86", strokeOpacity=opacity)
        .encode(
            **axes,
            detail="link:N",
            order="order:Q",
            strokeWidth=_widths(widths),
            strokeDash=_dashes(
                [kind for kind in _DASHES if any(r["budget"] == kind for r in rows)]
            ),
        )
    )
    return [links, *arrow_layers(lines, axes)]


def arrow_layers(lines: Sequence[LinkLine], axes: Mapping[str, Any]) -> list[ChartType]:
    """Return the layer that draws the arrows of links that go one way. Empty: there are none."""
    arrows = [_arrow_row(line.points) for line in lines if line.one_way]
    if not arrows:
        return []
    heads = alt.Chart(theme.chart_rows(arrows)).mark_point(
        shape=_ARROW, filled=True, size=60, color=theme.INK, opacity=1
    )
    return [heads.encode(**axes, angle=alt.Angle("angle:Q", scale=None))]


def _widths(widths: Mapping[int, float]) -> Any:
    counts = list(widths)
    legend = alt.Legend(
        orient="bottom", symbolType="stroke", symbolSize=900, values=_sample_counts(counts)
    )
    return alt.StrokeWidth(
        "lanes:O",
        title="Lanes (chunks per round)",
        legend=legend if len(counts) > 1 else None,
        # Vega-Lite's default scale uses only the first two widths.
        scale=alt.Scale(type="ordinal", domain=counts, range=list(widths.values())),
    )


def _dashes(kinds: Sequence[str]) -> Any:
    return alt.StrokeDash(
        "budget:N",
        title=None,
        legend=theme.dash_legend() if len(kinds) > 1 else None,
        scale=alt.Scale(domain=list(kinds), range=[_DASHES[kind] for kind in kinds]),
    )


def _arrow_row(points: Sequence[Position]) -> dict[str, float]:
    """Return where an arrow stands, beyond the middle of a line, and its turn from upright."""
    last = len(points) - 1
    (ax, ay), (bx, by) = points[last // 2], points[last // 2 + 1]
    part = 0.75 if last == 1 else 0.5
    turn = math.degrees(math.atan2(bx - ax, ay - by))
    return {"x": ax + part * (bx - ax), "y": ay + part * (by - ay), "angle": turn}


def _sample_counts(counts: Sequence[int]) -> list[int]:
    """Return at most five of some numbers, the first and the last among them."""
    interval = max(1, math.ceil((len(counts) - 1) / 4))
    return sorted({*counts[::interval], counts[-1]})
