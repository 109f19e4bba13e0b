"""Draw the lower envelope of the times of several families, and its crossovers.

The envelope is the time of the fastest family at each buffer size. A crossover is a size at which
another algorithm becomes the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from sccl.view import theme
from sccl.view.charts.label_placement import Frame, dot_area, text_size
from sccl.view.charts.proved_regions import with_field
from sccl.view.drawing.layout import Rectangle
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_WIDTH = 6  # px, width of the envelope's line
STRIP = 20  # px, height of the strip with names at the bottom of the chart


@dataclass(frozen=True, slots=True)
class EnvelopePart:
    """A range of buffer sizes in which one algorithm is the fastest.

    Attributes:
        time_us: Time in microseconds, as a function of the size.
    """

    family: str
    color: str
    from_bytes: float
    to_bytes: float
    time_us: Callable[[float], float]


def envelope_curve(parts: Sequence[EnvelopePart], axes: Mapping[str, Any]) -> ChartType:
    """Return the envelope as a thick line, in the color of the fastest family.

    Args:
        parts: Parts of the envelope, ascending by size.
        axes: Channels of ``size`` and ``time``.
    """
    rows = [
        {"size": size, "time": part.time_us(size), "part": str(i), "color": part.color}
        for i, part in enumerate(parts)
        for size in _samples(part)
    ]
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_line(strokeWidth=_WIDTH, opacity=0.55, strokeCap="round")
        .encode(**axes, detail="part:N", color=alt.Color("color:N", scale=None))
    )


def family_strip(
    parts: Sequence[EnvelopePart], frame: Frame, axes: Mapping[str, Any]
) -> list[ChartType]:
    """Return a strip at the bottom of the chart that names the fastest family by size."""
    rows: list[dict[str, Any]] = []
    top, middle = (frame.values(0, frame.height - y)[1] for y in (STRIP, STRIP / 2))
    for family, run in groupby(parts, key=lambda part: part.family):
        group = list(run)
        left, right = (
            frame.pixels(size, frame.y[0])[0] for size in (group[0].from_bytes, group[-1].to_bytes)
        )
        fits = text_size(family)[0] + 6 <= right - left
        rows.append(
            {
                "size": group[0].from_bytes, "until": group[-1].to_bytes, "time": frame.y[0],
                "top": top, "middle": frame.values((left + right) / 2, 0)[0], "height": middle,
                "text": family if fits else "", "family": family, "color": group[0].color,
            }
        )  # fmt: skip
    base = alt.Chart(theme.chart_rows(rows))
    return [
        base.mark_rect(stroke="white", opacity=1).encode(
            **axes, x2="until:Q", y2="top:Q", color=alt.Color("color:N", scale=None),
            tooltip=["family:N"],
        ),
        base.mark_text(color="white", baseline="middle", fontSize=theme.TEXT).encode(
            x=with_field(axes["x"], "middle"), y=with_field(axes["y"], "height"), text="text:N"
        ),
    ]  # fmt: skip


def strip_area(frame: Frame) -> Rectangle:
    """Return the part of the chart that the strip covers."""
    return Rectangle(0, frame.height - STRIP, frame.width, frame.height)


def _samples(part: EnvelopePart) -> list[float]:
    """Return sizes of a part, including its ends, close enough for a smooth line."""
    count = max(2, math.ceil(4 * math.log2(part.to_bytes / part.from_bytes)))
    ratio = part.to_bytes / part.from_bytes
    return [part.from_bytes * ratio ** (i / count) for i in range(count + 1)]


_HANG = 24  # px, minimum distance from a crossover to its label
_SIDE_GAP = 6  # px from the leader to its label


@dataclass(frozen=True, slots=True)
class Crossover:
    """A size at which the fastest point of a frontier changes.

    Attributes:
        time_us: time at this size in microseconds.
        text: label: the size, and the number of the frontier if there are several.
    """

    size_bytes: float
    time_us: float
    text: str


def crossover_layers(
    crossings: Sequence[Crossover],
    curves: Sequence[Rectangle],
    frame: Frame,
    axes: Mapping[str, Any],
) -> tuple[list[ChartType], list[str]]:
    """Return the layers of crossovers, as dots with labels, and a note on those without a label.

    Args:
        curves: areas that labels must not cover.
        axes: channels of ``size`` and ``time``.
    """
    rows: list[dict[str, Any]] = []
    left_out = []
    labels = _place_labels(crossings, curves, frame)
    for crossing, label in zip(crossings, labels, strict=True):
        row: dict[str, Any] = {"size": crossing.size_bytes, "time": crossing.time_us, "text": ""}
        if label:
            across, upwards = frame.values(*label.center)
            row |= {"text": crossing.text, "tx": across, "ty": upwards}
        else:
            left_out.append(crossing.text)
        rows.append(row)
    base = alt.Chart(theme.chart_rows(rows))
    places = {"x": with_field(axes["x"], "tx"), "y": with_field(axes["y"], "ty")}
    layers: list[ChartType] = [
        base.mark_rule(color=theme.GRAY).encode(**axes, y2="ty:Q"),
        base.mark_point(filled=True, size=70, color=theme.INK, opacity=1).encode(**axes),
        base.mark_text(fontSize=theme.TEXT, fontWeight="bold").encode(**places, text="text:N"),
    ]
    note = f"Crossovers without a label: {', '.join(left_out)}"
    return layers, theme.wrap_notes(note) if left_out else []


def _place_labels(
    crossings: Sequence[Crossover], curves: Sequence[Rectangle], frame: Frame
) -> list[Rectangle | None]:
    """Return the area of each label, clear of lines, dots and other labels, or None."""
    pixels = [frame.pixels(crossing.size_bytes, crossing.time_us) for crossing in crossings]
    dots = [dot_area(pixel, 6) for pixel in pixels]
    labels: list[Rectangle] = []
    leads: list[Rectangle] = []
    paper = Rectangle(0, 0, frame.width, frame.height)
    places: list[Rectangle | None] = [None] * len(crossings)
    order = sorted(range(len(crossings)), key=lambda i: pixels[i], reverse=True)
    for i in order:  # from right to left, so that labels on the left are lower
        apart = [other_dot for other_dot in dots if not other_dot.overlaps(dots[i])]
        for label, lead in _label_options(pixels[i], crossings[i].text, frame):
            covered = any(map(label.overlaps, [*dots, *labels, *leads, *curves]))
            if (
                label.is_within(paper)
                and not covered
                and not any(map(lead.overlaps, apart + labels))
            ):
                places[i] = label
                labels.append(label)
                leads.append(lead)
                break
    return places


def _label_options(
    pixel: tuple[float, float], text: str, frame: Frame
) -> Iterator[tuple[Rectangle, Rectangle]]:
    """Yield possible areas of a label and its leader, first below, where there are fewer curves."""
    x, y = pixel
    width, height = text_size(text)
    for down, level in product((1, -1), range(int(frame.height / height))):
        at = y + down * (_HANG + level * height)
        lead = Rectangle(x - 1, min(y, at), x + 1, max(y, at))
        for left in (x + _SIDE_GAP, x - _SIDE_GAP - width):
            yield Rectangle(left, at - height / 2, left + width, at + height / 2), lead
