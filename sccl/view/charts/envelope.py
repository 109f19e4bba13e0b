"""The lower envelope of several families: the fastest one at each buffer size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sccl.view import theme
from sccl.view.charts.label_placement import Frame, Rectangle, text_size
from sccl.view.charts.proved_regions import with_field
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_WIDTH = 6  # px, of the envelope's line
STRIP = 20  # px, of the strip with names at the foot of the chart


@dataclass(frozen=True, slots=True)
class EnvelopePart:
    """A range of buffer sizes in which one algorithm is the fastest.

    Attributes:
        family: Name of the algorithm's family.
        color: Colour of the family.
        from_bytes: Smallest size.
        to_bytes: Largest size.
        time_us: Time by size.
    """

    family: str
    color: str
    from_bytes: float
    to_bytes: float
    time_us: Callable[[float], float]


def envelope_curve(parts: Sequence[EnvelopePart], axes: Mapping[str, Any]) -> ChartType:
    """Return the envelope as a thick line, in the colour of the fastest family.

    Args:
        parts: By ascending size.
        axes: Channels of ``size`` and ``time``.
    """
    rows = [
        {"size": size, "time": part.time_us(size), "part": str(i), "colour": part.color}
        for i, part in enumerate(parts)
        for size in _samples(part)
    ]
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_line(strokeWidth=_WIDTH, opacity=0.55, strokeCap="round")
        .encode(**axes, detail="part:N", color=alt.Color("colour:N", scale=None))
    )


def family_strip(
    parts: Sequence[EnvelopePart], frame: Frame, axes: Mapping[str, Any]
) -> list[ChartType]:
    """Return a strip at the foot of the chart that names the fastest family by size."""
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
                "text": family if fits else "", "family": family, "colour": group[0].color,
            }
        )  # fmt: skip
    base = alt.Chart(theme.chart_rows(rows))
    return [
        base.mark_rect(stroke="white", opacity=1).encode(
            **axes, x2="until:Q", y2="top:Q", color=alt.Color("colour:N", scale=None),
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
    """Return sizes of a part that are close enough for a smooth line, its ends among them."""
    count = max(2, math.ceil(4 * math.log2(part.to_bytes / part.from_bytes)))
    ratio = part.to_bytes / part.from_bytes
    return [part.from_bytes * ratio ** (i / count) for i in range(count + 1)]
