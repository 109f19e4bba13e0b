"""Chart of a machine's performance after a failure, as bars beside the whole machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_FAILURE_ROW = 22  # px


@dataclass(frozen=True, slots=True)
class FailureBar:
    """A failure.

    Attributes:
        name: the failed part, and the number of equivalent failures.
        slowdown: time per byte, relative to the whole machine. None: it is disconnected.
        steps: the lowest S. None: it is disconnected.
    """

    name: str
    slowdown: float | None
    steps: int | None


def failures_chart(title: str, bars: Sequence[FailureBar], whole_steps: int) -> ChartType:
    """Return bars of time per byte and of the least number of steps, a row for each failure.

    Args:
        whole_steps: the least S of the whole machine.
    """
    names = [bar.name for bar in bars]
    down = alt.Y("name:N", title=None, sort=names, axis=alt.Axis(grid=False, ticks=False))
    bare = alt.Y("name:N", title=None, sort=names, axis=None)
    rows = [
        {
            "name": bar.name,
            "slowdown": bar.slowdown or 0,
            "steps": bar.steps or 0,
            "said": "cut in two" if bar.steps is None else f"{bar.slowdown or 1:.2f}",
            "least": "" if bar.steps is None else str(bar.steps),
        }
        for bar in bars
    ]
    max_slowdown = max([1.0, *(bar.slowdown or 0 for bar in bars)])
    steps = max([whole_steps, *(bar.steps or 0 for bar in bars)])
    panels = (
        _Panel("slowdown", "Time per byte (whole machine: 1)", "said", 1.0, max_slowdown, 300),
        _Panel("steps", "Fewest steps", "least", float(whole_steps), float(steps), 140),
    )
    data, height = theme.chart_rows(rows), max(len(rows), 1) * _FAILURE_ROW
    drawn = [
        panel.draw(data, down if number == 0 else bare).properties(width=panel.width, height=height)
        for number, panel in enumerate(panels)
    ]
    heading = alt.Title(title, subtitle="dashed: the whole machine; each bar: without that part")
    return theme.apply_theme(alt.hconcat(*drawn, spacing=24).properties(title=heading))


@dataclass(frozen=True, slots=True)
class _Panel:
    """Bars of one number.

    Attributes:
        field: field of the number.
        text_field: field of the text beside bars.
        baseline: the number of the whole machine.
        max_value: the largest number.
        width: pixels.
    """

    field: str
    title: str
    text_field: str
    baseline: float
    max_value: float
    width: int

    def draw(self, data: alt.Data, down: alt.Y) -> alt.LayerChart:
        """Return the bars, the text beside them, and a line for the whole machine."""
        across = alt.X(f"{self.field}:Q", title=self.title,
                       scale=alt.Scale(domain=[0, self.max_value * 1.2], nice=False),
                       axis=alt.Axis(grid=False, tickCount=4))  # fmt: skip
        base = alt.Chart(data)
        bars = base.mark_bar(color=theme.COLORS[0], height={"band": 0.7}).encode(x=across, y=down)
        text = base.mark_text(align="left", dx=4, fontSize=11, font=theme.FONT)
        said = text.encode(x=across, y=down, text=f"{self.text_field}:N")
        line = (
            alt.Chart(theme.chart_rows([{self.field: self.baseline}]))
            .mark_rule(strokeWidth=1.5, strokeDash=[4, 3], color=theme.COLORS[1])
            .encode(x=across)
        )
        return alt.LayerChart(layer=[bars, said, line])
