"""Chart of the periods that searches for a training step's plan find, as bars beside the bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_SEARCH_ROW = 26  # px
_MILLI = 1000.0


def searches_chart(
    title: str, periods_us: Sequence[tuple[str, float]], bound_us: float
) -> ChartType:
    """Return periods as bars, with the lower bound as a line.

    Args:
        periods_us: of each search, by its name, microseconds.
    """
    names = [name for name, _ in periods_us]
    rows = [
        {"search": name, "ms": us / _MILLI, "above": f"{us / bound_us - 1:.1%}" if bound_us else ""}
        for name, us in periods_us
    ]
    longest = max((us / _MILLI for _, us in periods_us), default=1.0)
    across = alt.X("ms:Q", title="Time of an iteration (ms)",
                   scale=alt.Scale(domain=[0, longest * 1.12], nice=False),
                   axis=alt.Axis(format=theme.NUMBERS, grid=False))  # fmt: skip
    down = alt.Y("search:N", title=None, sort=names, axis=alt.Axis(grid=False, ticks=False))
    base = alt.Chart(theme.chart_rows(rows))
    bars = base.mark_bar(color=theme.COLORS[0], height={"band": 0.7}).encode(x=across, y=down)
    said = base.mark_text(align="left", dx=4, fontSize=11, font=theme.FONT).encode(
        x=across, y=down, text="above:N"
    )
    line = (
        alt.Chart(theme.chart_rows([{"ms": bound_us / _MILLI}]))
        .mark_rule(strokeWidth=1.5, strokeDash=[4, 3], color=theme.COLORS[1])
        .encode(x=across)
    )
    heading = alt.Title(
        title, subtitle="dashed: lower bound for these options; at the bars: gap to it"
    )
    return theme.apply_theme(
        alt.layer(bars, said, line).properties(
            width=theme.WIDTH, height=max(len(rows), 1) * _SEARCH_ROW, title=heading
        )
    )
