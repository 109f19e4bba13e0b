"""Place labels that overlap neither one another nor marks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sccl.view.drawing.layout import Rectangle
from sccl.view.theme import TEXT

_WIDE, _HIGH = 0.6, 1.15  # width and height of a letter with a margin, in font sizes
_DIRECTIONS = ((1, -1), (0, -1), (-1, -1), (1, 0), (1, 1), (-1, 0), (0, 1), (-1, 1))
"""Possible positions of a label relative to its mark, best first."""
_DASH = 5.0  # px between the rectangles that cover a line
_GAP = 9.0  # px between a label and its pixel
_DISTANCES = (1.0, 1.8, 2.8)


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a chart: its size in pixels, and the ranges of its axes.

    Attributes:
        x: first and last value of the horizontal axis.
        y: first and last value of the vertical axis, from bottom to top.
        log_x: whether the horizontal axis is logarithmic.
        log_y: whether the vertical axis is logarithmic.
    """

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    log_x: bool = False
    log_y: bool = False

    def pixels(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixel of data values."""
        across = _to_fraction(x, *self.x, log=self.log_x)
        return across * self.width, (1 - _to_fraction(y, *self.y, log=self.log_y)) * self.height

    def values(self, x: float, y: float) -> tuple[float, float]:
        """Return the data values at a pixel."""
        across = _from_fraction(x / self.width, *self.x, log=self.log_x)
        return across, _from_fraction(1 - y / self.height, *self.y, log=self.log_y)


def _to_fraction(value: float, first: float, last: float, *, log: bool) -> float:
    if log:
        value, first, last = math.log(value), math.log(first), math.log(last)
    return (value - first) / (last - first)


def _from_fraction(part: float, first: float, last: float, *, log: bool) -> float:
    if log:
        return math.exp(math.log(first) + part * (math.log(last) - math.log(first)))
    return first + part * (last - first)


def text_size(text: str) -> tuple[float, float]:
    """Return the maximum width and height of a text, in pixels."""
    return _WIDE * TEXT * len(text), _HIGH * TEXT


def dot_area(at: tuple[float, float], radius: float) -> Rectangle:
    """Return the rectangle around a round mark."""
    return _centered_at(at, 2 * radius, 2 * radius)


def cover_line(start: tuple[float, float], end: tuple[float, float]) -> list[Rectangle]:
    """Return small rectangles that cover a line between two pixels."""
    count = max(1, math.ceil(math.dist(start, end) / _DASH))
    parts = (i / count for i in range(count + 1))
    return [
        dot_area((start[0] + t * (end[0] - start[0]), start[1] + t * (end[1] - start[1])), 2)
        for t in parts
    ]


def place_labels(
    labels: Sequence[tuple[tuple[float, float], str]],
    frame: Frame,
    taken: Iterable[Rectangle],
) -> list[tuple[float, float] | None]:
    """Return the center of each label in pixels, or None if there is no space for it.

    A label is nearer to the pixel that it names than to that of any other label.

    Args:
        labels: pixel that each label names, and its text.
        frame: frame of the chart, which contains all labels.
        taken: areas that labels must not cover.
    """
    occupied = list(taken)
    paper = Rectangle(0, 0, frame.width, frame.height)
    centers: list[tuple[float, float] | None] = []
    for (x, y), text in labels:
        others = [at for at, _ in labels if at != (x, y)]
        width, height = text_size(text)
        for far in _DISTANCES:
            options = (
                (x + dx * (_GAP * far + width / 2), y + dy * (_GAP * far * 0.6 + height / 2))
                for dx, dy in _DIRECTIONS
            )
            candidates = (
                c for c in options if all(math.dist(c, at) > math.dist(c, (x, y)) for at in others)
            )
            center = next(
                (c for c in candidates if _is_free(c, width, height, occupied, paper)), None
            )
            if center:
                occupied.append(_centered_at(center, width, height))
                break
        centers.append(center)
    return centers


def _is_free(
    at: tuple[float, float],
    width: float,
    height: float,
    occupied: Sequence[Rectangle],
    paper: Rectangle,
) -> bool:
    box = _centered_at(at, width, height)
    return box.is_within(paper) and not any(box.overlaps(rectangle) for rectangle in occupied)


def _centered_at(at: tuple[float, float], width: float, height: float) -> Rectangle:
    return Rectangle(at[0] - width / 2, at[1] - height / 2, at[0] + width / 2, at[1] + height / 2)


def spread_apart(wanted: Sequence[float], gap: float, last: float) -> list[float]:
    """Return positions from 0 to ``last`` near the wanted ones, ordered and ``gap`` apart."""
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    gap = min(gap, last / max(len(order) - 1, 1))
    placed: dict[int, float] = {}
    floor = 0.0
    for i in order:  # move downwards as far as needed
        placed[i] = max(wanted[i], floor)
        floor = placed[i] + gap
    ceiling = last
    for i in reversed(order):  # move back up if that has left the frame
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return [placed[i] for i in range(len(wanted))]
