"""Draw the links of a layout, and the frames around groups of ranks.

The width of a line shows the lanes of a link. One-way links have arrows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.drawing.budgets import shared_links
from sccl.view.drawing.graph_forms import Position
from sccl.view.drawing.layout import NAME, Layout, control_points, on_curve
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

OUTLINE = 1.5  # px, width of the outline of a node
MIN_TEXT = 7  # px, size below which texts are omitted
_MIN_SIDE, _MAX_SIDE = 560, 1200  # px, side of the layout's square
_MARGIN = 0.01  # margin around the drawing, as a share of the square
_PREFERRED_TEXT = 10  # px, text size for which a drawing is enlarged
_DIGIT, _TALL, _INSIDE = 0.56, 0.72, 0.9  # width and height of digits, share of a circle for them
_LETTER, _BELOW = 0.55, 0.65  # width of a letter, and names' share of the gap between boxes


@dataclass(frozen=True, slots=True)
class Canvas:
    """The drawn part of the layout's square, and its scale.

    Attributes:
        left: left edge, in units of the square.
        top: top edge, in units of the square.
        right: right edge, in units of the square.
        bottom: bottom edge, in units of the square.
        side: side of the square in px.
        number: text size of rank numbers in px. 0: there is no space for them.
        name: text size of switch names in px. 0: there is no space for them.
    """

    left: float
    top: float
    right: float
    bottom: float
    side: int
    number: int
    name: int

    @property
    def width(self) -> int:
        """Return the width in pixels."""
        return round(self.side * (self.right - self.left))

    @property
    def height(self) -> int:
        """Return the height in pixels."""
        return round(self.side * (self.bottom - self.top))

    def axes(self) -> dict[str, Any]:
        """Return the Altair encoding of positions."""
        across = alt.Scale(domain=[self.left, self.right], nice=False, zero=False)
        down = alt.Scale(domain=[self.bottom, self.top], nice=False, zero=False)
        return {
            "x": alt.X("x:Q", axis=None, scale=across),
            "y": alt.Y("y:Q", axis=None, scale=down),
        }


def fit_canvas(drawn: Layout, lines: Sequence[LinkLine], digits: int, letters: int) -> Canvas:
    """Return the part to draw: the square's full width, extended if links leave it.

    Args:
        digits: number of digits of the longest rank number.
        letters: number of letters of the longest switch name.
    """
    ends = [point for line in lines for point in line.points]
    ends += [(x + side, y + side) for x, y in drawn.positions
             for side in (-drawn.radius, drawn.radius)]  # fmt: skip
    ends += [(box.left, box.top - NAME) for box in drawn.boxes]  # with the space for its name
    ends += [(box.right, box.bottom) for box in drawn.boxes]
    xs, ys = [x for x, _ in ends], [y for _, y in ends]
    fits = (
        _text_per_px(drawn.radius, digits),
        _text_per_px(drawn.switch_radius, letters),
    )
    need = (_PREFERRED_TEXT + OUTLINE) / min(fits)
    side = min(
        max(_MIN_SIDE, math.ceil(max(need, _PREFERRED_TEXT / _label_per_px(drawn)))), _MAX_SIDE
    )
    number, name = (min(theme.TEXT + 2, math.floor(per_px * side - OUTLINE / 2)) for per_px in fits)
    return Canvas(
        min(*xs, _MARGIN) - _MARGIN, min(ys) - _MARGIN,
        max(*xs, 1 - _MARGIN) + _MARGIN, max(ys) + _MARGIN, side,
        number if number >= MIN_TEXT else 0, name if name >= MIN_TEXT else 0,
    )  # fmt: skip


def _text_per_px(radius: float, length: int) -> float:
    """Return the size of the text that fits into a node, relative to the square's side."""
    return _INSIDE * 2 * radius / math.hypot(_DIGIT * max(length, 2), _TALL)


def _label_per_px(drawn: Layout) -> float:
    """Return the size of box names that fit above the boxes, relative to the square's side."""
    wide = [(b.right - b.left) / (_LETTER * len(b.label)) for b in drawn.boxes]
    high = [
        (lower.top - upper.bottom) * _BELOW
        for lower, upper in permutations(drawn.boxes, 2)
        if upper.bottom < lower.top and upper.left < lower.right and lower.left < upper.right
    ]
    return min([*wide, *high], default=1.0)


def box_layers(drawn: Layout, canvas: Canvas) -> tuple[list[ChartType], list[ChartType]]:
    """Return the layers of the boxes' frames and of their names, which links may cross."""
    if not drawn.boxes:
        return [], []
    rows = [
        {"x": b.left, "y": b.top, "right": b.right, "bottom": b.bottom, "text": b.label}
        for b in drawn.boxes
    ]
    base = alt.Chart(theme.chart_rows(rows)).encode(**canvas.axes())
    size = min(theme.TEXT, math.floor(_label_per_px(drawn) * canvas.side))
    frame = base.mark_rect(cornerRadius=8, fill="#f2f2f2", stroke="#9a9a9a")
    frames = [frame.encode(x2="right:Q", y2="bottom:Q")]
    if size < MIN_TEXT:
        return frames, []
    texts = base.encode(text="text:N")
    place: dict[str, Any] = {"align": "left", "baseline": "bottom", "dy": -3, "fontSize": size}
    behind = texts.mark_text(**place, stroke="white", strokeWidth=5, strokeJoin="round")
    return frames, [behind, texts.mark_text(**place, color=theme.GRAY)]


_POINTS = 24  # line segments of a bent link
_PER_LANE, _WIDEST, _THINNEST = 1.6, 7.0, 1.0  # px
_COVERED = 0.15  # maximum share of the picture that lines may cover
_OPACITY, _FAINTEST = 0.8, 0.12
_APART = 0.012  # offset of both directions of a pair if their lanes differ
_ARROW = "M0,-1.7L0.8,1L-0.8,1Z"  # points upwards, longer than wide so that its tip is visible
_UNSHARED, _SHARED = "a link with its own lanes", "links that share a budget (above)"
_DASHES = {_UNSHARED: (1, 0), _SHARED: (5, 3)}


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A line of the drawing: a link, or both directions of a pair.

    Attributes:
        lanes: lanes of the link, or of each direction.
        shared: whether the link shares a budget with others.
        one_way: whether the line shows only one direction.
        points: points of the line, two if it is straight.
    """

    edge: Edge
    lanes: int
    shared: bool
    one_way: bool
    points: tuple[Position, ...]


def link_lines(topology: Topology, drawn: Layout) -> list[LinkLine]:
    """Return the lines of a machine. If the directions of a pair differ, they get two lines."""
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
    """Return the line width in px for each number of lanes, and the opacity of lines.

    Widths are proportional to lanes unless the thinnest line would hardly be visible. Then they
    grow linearly from a minimum. Lines that would cover too much of the picture are thinner and, if
    that does not suffice, fainter.

    Args:
        lines: lines, in units of the layout's square.
        side: side of that square in px.
        width: width of the picture in px.
        height: height of the picture in px.
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
    """Return the layers of a chart that draw links, with legends for widths and dashes."""
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
    """Return the layer that draws the arrows of one-way links, or an empty list without any."""
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
    """Return the position of an arrow, past the middle of a line, and its rotation in degrees."""
    last = len(points) - 1
    (ax, ay), (bx, by) = points[last // 2], points[last // 2 + 1]
    part = 0.75 if last == 1 else 0.5
    turn = math.degrees(math.atan2(bx - ax, ay - by))
    return {"x": ax + part * (bx - ax), "y": ay + part * (by - ay), "angle": turn}


def _sample_counts(counts: Sequence[int]) -> list[int]:
    """Return at most five of the numbers, including the first and the last."""
    interval = max(1, math.ceil((len(counts) - 1) / 4))
    return sorted({*counts[::interval], counts[-1]})
