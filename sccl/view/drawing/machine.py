"""A machine: its ranks where the layout puts them, links as wide as their lanes, and boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.drawing.budgets import behind_a_budget, budget_lines
from sccl.view.drawing.layout import NAME, Layout, layout
from sccl.view.drawing.links import Line, link_layers, link_lines, strokes
from sccl.view.libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_LEAST_SIDE, _MOST_SIDE = 560, 1200  # px of the layout's square
_MOST_PAIRS = 6000
_MARGIN = 0.01  # around all that is drawn
_LONGEST_NAME = 6
_LEAST_TEXT = 7  # px; smaller texts are left out
_GOOD_TEXT = 10  # px; for numbers of this size a drawing may grow
_DIGIT, _TALL, _INSIDE = 0.56, 0.72, 0.9  # sizes of digits, and the part of a circle for them
_LETTER, _BELOW = 0.55, 0.65  # width of a letter; part of the room between boxes for their names
_OUTLINE, _BOLD = 1.5, 4.0  # px


def topology_chart(topology: Topology) -> ChartType:
    """Return a drawing of a machine.

    A line is a link in both directions; an arrow one that goes one way, or has other lanes than the
    way back; dashed links share a budget, such as that of a bus, and all links of a rank with a
    thick outline do. Machines with thousands of links are drawn without them.
    """
    drawn = layout(topology)
    lines = link_lines(topology, drawn)
    digits = len(str(topology.ranks - 1))
    longest = max((len(_short(s.name)) for s in topology.switches), default=0)
    canvas = _canvas(drawn, lines, digits, longest)
    layers, names = _boxes(drawn, canvas)
    if 0 < len(lines) <= _MOST_PAIRS:
        widths, opacity = strokes(lines, canvas.side, canvas.width, canvas.height)
        layers += link_layers(lines, canvas.axes(), widths, opacity)
    layers += [*names, *_nodes(topology, drawn, canvas)]
    chart = alt.layer(*layers).properties(
        width=canvas.width,
        height=canvas.height,
        title=alt.Title(topology.name, subtitle=_notes(topology, lines, canvas)),
        view=alt.ViewBackground(stroke=None),
    )
    return theme.themed(chart)


@dataclass(frozen=True, slots=True)
class _Canvas:
    """The part of the layout's square that is drawn, and how large.

    Attributes:
        side: of the whole square, in px.
        number: size of the numbers of ranks in px, 0 if there is no room for them.
        name: likewise, of the names of switches.
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
        """Return its width in pixels."""
        return round(self.side * (self.right - self.left))

    @property
    def height(self) -> int:
        """Return its height in pixels."""
        return round(self.side * (self.bottom - self.top))

    def axes(self) -> dict[str, Any]:
        """Return the encoding of places."""
        across = alt.Scale(domain=[self.left, self.right], nice=False, zero=False)
        down = alt.Scale(domain=[self.bottom, self.top], nice=False, zero=False)
        return {
            "x": alt.X("x:Q", axis=None, scale=across),
            "y": alt.Y("y:Q", axis=None, scale=down),
        }


def _canvas(drawn: Layout, lines: Sequence[Line], digits: int, letters: int) -> _Canvas:
    """Return the part to draw: all of the square's width, and more where links leave it.

    Args:
        digits: of the longest number of a rank.
        letters: of the longest name of a switch.
    """
    ends = [point for line in lines for point in line.points]
    ends += [(x + side, y + side) for x, y in drawn.positions
             for side in (-drawn.radius, drawn.radius)]  # fmt: skip
    ends += [(box.left, box.top - NAME) for box in drawn.boxes]  # with the room of its name
    ends += [(box.right, box.bottom) for box in drawn.boxes]
    xs, ys = [x for x, _ in ends], [y for _, y in ends]
    need = (_GOOD_TEXT + _OUTLINE) / _text_per_px(drawn, max(digits, letters))
    side = min(
        max(_LEAST_SIDE, math.ceil(max(need, _GOOD_TEXT / _label_per_px(drawn)))), _MOST_SIDE
    )
    number, name = (
        min(theme.TEXT + 2, math.floor(_text_per_px(drawn, length) * side - _OUTLINE / 2))
        for length in (digits, letters)
    )
    return _Canvas(
        min(*xs, _MARGIN) - _MARGIN, min(ys) - _MARGIN,
        max(*xs, 1 - _MARGIN) + _MARGIN, max(ys) + _MARGIN, side,
        number if number >= _LEAST_TEXT else 0, name if name >= _LEAST_TEXT else 0,
    )  # fmt: skip


def _text_per_px(drawn: Layout, length: int) -> float:
    """Return the size of a text that fits into a node, for each pixel of the square's side."""
    return _INSIDE * 2 * drawn.radius / math.hypot(_DIGIT * max(length, 2), _TALL)


def _label_per_px(drawn: Layout) -> float:
    """Return the size of the names of boxes that fit above these, likewise."""
    wide = [(b.right - b.left) / (_LETTER * len(b.label)) for b in drawn.boxes]
    high = [
        (lower.top - upper.bottom) * _BELOW
        for lower, upper in permutations(drawn.boxes, 2)
        if upper.bottom < lower.top and upper.left < lower.right and lower.left < upper.right
    ]
    return min([*wide, *high], default=1.0)


def _notes(topology: Topology, lines: Sequence[Line], canvas: _Canvas) -> list[str]:
    """Return what is counted, what budgets say, and what is left out."""
    count = f"{topology.ranks} ranks, {len(topology.links)} links"
    lanes = {line.lanes for line in lines}
    if len(lines) > _MOST_PAIRS:
        count += ", which are too many to draw"
    elif len(lanes) == 1:
        count += f", {min(lanes)} lane{'' if lanes == {1} else 's'} each"
    notes = [count, *budget_lines(topology)]
    if not topology.equally_fast:
        slow, fast = (f(k.gb_per_s for k in topology.links) for f in (min, max))
        notes.append(f"lanes are not equally fast: {slow:g} to {fast:g} GB/s; widths count lanes")
    if behind_a_budget(topology):
        notes.append("a thick outline: a budget for all links out of, or into, a node")
    if not canvas.number:
        notes.append("ranks are drawn without their numbers, for which there is no room")
    if topology.switches and not canvas.name:
        notes.append("switches (squares) are drawn without their names")
    return notes


def _boxes(drawn: Layout, canvas: _Canvas) -> tuple[list[ChartType], list[ChartType]]:
    """Return the frames, and their names, which links may cross."""
    if not drawn.boxes:
        return [], []
    rows = [
        {"x": b.left, "y": b.top, "right": b.right, "bottom": b.bottom, "text": b.label}
        for b in drawn.boxes
    ]
    base = alt.Chart(theme.rows(rows)).encode(**canvas.axes())
    size = min(theme.TEXT, math.floor(_label_per_px(drawn) * canvas.side))
    frame = base.mark_rect(cornerRadius=8, fill="#f2f2f2", stroke="#9a9a9a")
    frames = [frame.encode(x2="right:Q", y2="bottom:Q")]
    if size < _LEAST_TEXT:
        return frames, []
    texts = base.encode(text="text:N")
    place: dict[str, Any] = {"align": "left", "baseline": "bottom", "dy": -3, "fontSize": size}
    behind = texts.mark_text(**place, stroke="white", strokeWidth=5, strokeJoin="round")
    return frames, [behind, texts.mark_text(**place, color=theme.GREY)]


def _nodes(topology: Topology, drawn: Layout, canvas: _Canvas) -> list[ChartType]:
    across = 2 * drawn.radius * canvas.side
    base = alt.Chart(theme.rows(_rows(topology, drawn, max(_OUTLINE, min(_BOLD, across / 8)))))
    shapes = alt.Scale(domain=["rank", "switch"], range=["circle", "square"])
    marks = base.mark_point(
        filled=True, fill="white", stroke=theme.INK, opacity=1, size=across * across
    ).encode(
        **canvas.axes(),
        shape=alt.Shape("kind:N", legend=None, scale=shapes),
        strokeWidth=alt.StrokeWidth("outline:Q", scale=None),
        tooltip=["text:N", "name:N", "kind:N"],
    )
    texts = [
        base.mark_text(fontSize=size)
        .encode(**canvas.axes(), text="text:N")
        .transform_filter(f"datum.kind == '{kind}'")
        for kind, size in (("rank", canvas.number), ("switch", canvas.name))
        if size and (kind == "rank" or topology.switches)
    ]
    return [marks, *texts]


def _rows(topology: Topology, drawn: Layout, bold: float) -> list[dict[str, Any]]:
    """Return a row for each node; the outline is bold where a budget is that of a whole node."""
    # Ranks by number, as everywhere else; what the machine calls them may be long.
    ranks = [(str(r), topology.label(r), "rank") for r in range(topology.ranks)]
    switches = [(_short(s.name), s.name, "switch") for s in topology.switches]
    behind = behind_a_budget(topology)
    return [
        {"x": x, "y": y, "text": text, "name": name, "kind": kind,
         "outline": bold if i in behind else _OUTLINE}
        for i, ((x, y), (text, name, kind)) in enumerate(
            zip(drawn.positions, [*ranks, *switches], strict=True))
    ]  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\u2026"
