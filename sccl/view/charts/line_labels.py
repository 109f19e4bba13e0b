"""Names of lines at their right ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sccl.view import theme
from sccl.view.charts.label_placement import Frame, spread_apart, text_size
from sccl.view.charts.proved_regions import with_field
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_LEADER, _GAP = 14, 4  # px: length of the line that leads to a name, and space after it


@dataclass(frozen=True, slots=True)
class LineEnd:
    """The right end of a line.

    Attributes:
        name: Name of the line.
        at: Data values, across and upwards, where the line ends.
        color: Colour of the line.
        text: Colour of the name.
    """

    name: str
    at: tuple[float, float]
    color: str
    text: str


def label_capacity(frame: Frame) -> int:
    """Return how many names fit next to a chart, one below the other."""
    return int(frame.height / text_size("")[1]) + 1


def end_labels(
    ends: Sequence[LineEnd], frame: Frame, channels: Mapping[str, Any]
) -> list[ChartType]:
    """Return layers that write each line's name to the right of the chart.

    Names do not overlap: a thin leader joins each to the end of its line.

    Args:
        ends: Lines to label, at most :func:`label_capacity`.
        frame: Plane of the chart.
        channels: Horizontal and vertical channel of the chart, ``x`` and ``y``.
    """
    heights = [min(max(frame.pixels(*end.at)[1], 0.0), float(frame.height)) for end in ends]
    names = spread_apart(heights, text_size("")[1], frame.height)
    right, text = (frame.values(frame.width + x, 0)[0] for x in (_LEADER, _LEADER + _GAP))
    rows = [
        {
            "end_x": end.at[0], "end_y": frame.values(0, height)[1], "label_x": right,
            "label_y": frame.values(0, name)[1], "text_x": text, "text": end.name,
            "line": end.color, "ink": end.text,
        }
        for end, height, name in zip(ends, heights, names, strict=True)
    ]  # fmt: skip
    base = alt.Chart(theme.chart_rows(rows))
    return [
        base.mark_rule(strokeWidth=1, clip=False).encode(
            x=with_field(channels["x"], "end_x"), y=with_field(channels["y"], "end_y"),
            x2="label_x:Q", y2="label_y:Q", color=alt.Color("line:N", scale=None),
        ),
        base.mark_text(align="left", baseline="middle", fontSize=theme.TEXT, clip=False).encode(
            x=with_field(channels["x"], "text_x"), y=with_field(channels["y"], "label_y"),
            text="text:N", color=alt.Color("ink:N", scale=None),
        ),
    ]  # fmt: skip
