"""The part of a layout that is drawn, how large, and the frames around groups of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from sccl.view import theme
from sccl.view.drawing.layout import NAME, Layout
from sccl.view.drawing.link_lines import LinkLine
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

OUTLINE = 1.5  # px, of a node
MIN_TEXT = 7  # px, below which texts are omitted
_MIN_SIDE, _MAX_SIDE = 560, 1200  # px of the layout's square
_MARGIN = 0.01  # around all that is drawn
_PREFERRED_TEXT = 10  # px, for which a drawing may grow
_DIGIT, _TALL, _INSIDE = 0.56, 0.72, 0.9  # sizes of digits, and the part of a circle for them
_LETTER, _BELOW = 0.55, 0.65  # width of a letter, and names' share of the gap between boxes


@dataclass(frozen=True, slots=True)
class Canvas:
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


def fit_canvas(drawn: Layout, lines: Sequence[LinkLine], digits: int, letters: int) -> Canvas:
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
    """Return the size of a text that fits into a node, for each pixel of the square's side."""
    return _INSIDE * 2 * radius / math.hypot(_DIGIT * max(length, 2), _TALL)


def _label_per_px(drawn: Layout) -> float:
    """Return the size of the names of boxes that fit above these, likewise."""
    wide = [(b.right - b.left) / (_LETTER * len(b.label)) for b in drawn.boxes]
    high = [
        (lower.top - upper.bottom) * _BELOW
        for lower, upper in permutations(drawn.boxes, 2)
        if upper.bottom < lower.top and upper.left < lower.right and lower.left < upper.right
    ]
    return min([*wide, *high], default=1.0)


def box_layers(drawn: Layout, canvas: Canvas) -> tuple[list[ChartType], list[ChartType]]:
    """Return the frames, and their names, which links may cross."""
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
