"""Draw networks by the costs of a collective on them: steps and R/C, with the frontier joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_MAX_NAMED = 8
_FAR = 4
"""Ratio of R/C to its lower bound above which the R/C axis is logarithmic."""


def _ticks(low: int, high: int) -> list[int]:
    """Return the round numbers from ``low`` to ``high``."""
    return [n * 10**e for e in range(6) for n in (1, 2, 3, 5, 7) if low <= n * 10**e <= high]


@dataclass(frozen=True, slots=True)
class DesignMark:
    """A network with its costs.

    Attributes:
        bandwidth: R/C divided by the lower bound on R/C for networks of this size.
        best: whether the network is on the frontier.
    """

    name: str
    steps: int
    bandwidth: float
    best: bool


def designs_chart(title: str, marks: Sequence[DesignMark], min_steps: int) -> ChartType:
    """Draw a mark for each network. Those of the frontier have names and are joined.

    Args:
        min_steps: lower bound on the steps of networks of this size.
    """
    rows = [
        {"name": m.name, "steps": m.steps, "bandwidth": m.bandwidth, "best": m.best} for m in marks
    ]
    best = [row for row in rows if row["best"]]
    reach = [min_steps, *(m.steps for m in marks)]
    across = alt.X("steps:Q", title="Steps",
                   scale=alt.Scale(type="log", domain=[min(reach) * 0.9, max(reach) * 1.1],
                                   nice=False),
                   axis=alt.Axis(format="d", values=_ticks(min(reach), max(reach))))  # fmt: skip
    highest = max((m.bandwidth for m in marks), default=1.0)
    far = highest > _FAR
    ends = [0.9, 1.5 * highest] if far else [1 - 0.1 * (highest - 1), 1 + 1.3 * (highest - 1) or 2]
    up = alt.Y("bandwidth:Q", title="R/C / lower bound",
               scale=alt.Scale(type="log" if far else "linear", domain=ends, nice=False),
               axis=alt.Axis(values=_ticks(1, int(ends[1]))) if far else alt.Axis())  # fmt: skip
    tooltip = ["name:N", "steps:Q", "bandwidth:Q"]
    others = theme.chart_rows([row for row in rows if not row["best"]])
    dots = alt.Chart(others).mark_circle(color="#c4c4c4", size=36, opacity=0.8)
    frontier = alt.Chart(theme.chart_rows(best)).encode(x=across, y=up)
    line = frontier.mark_line(color=theme.COLORS[0], interpolate="step-after")
    good = frontier.mark_circle(color=theme.COLORS[0], size=64, opacity=1).encode(tooltip=tooltip)
    names = [  # each higher than the one before, since good networks are close together
        alt.Chart(theme.chart_rows([row]))
        .mark_text(align="left", dx=9, dy=-12 - 15 * above, fontSize=11, font=theme.FONT, limit=300)
        .encode(x=across, y=up, text="name:N")
        for above, row in enumerate(reversed(best[:_MAX_NAMED]))
    ]
    moore = theme.dashed_line(across, "steps", min_steps)
    return theme.finish_chart(
        alt.layer(moore, dots.encode(x=across, y=up, tooltip=tooltip), line, good, *names),
        title,
        "dashed: no network of this size takes fewer steps (Moore); below 1 is none",
    )
