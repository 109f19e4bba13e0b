"""Draw a training step as a Gantt chart: computation by stream, motifs by channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

COMPUTATION = "computation"

_ROW, _THIN_ROW, _LINE = 28, 18, 96  # px of rows with and without labels, characters of a subtitle
_WIDTH = theme.WIDTH + 140  # px
_TICKS = 8  # approximate number of ticks of the time axis
_LETTER = 6.2  # px, width of a letter of a label
_MIN_LETTERS = 4  # minimum number of letters of a shortened label
_MANY_US = 10_000.0  # duration from which times are in milliseconds
_PALE = "#c9c9c9"
_WINDOW = "#f6d9c6"  # color of the part that another panel enlarges


@dataclass(frozen=True, slots=True)
class StepBar:
    """A bar for an activity.

    Attributes:
        kind: :data:`COMPUTATION`, or the name of a collective.
        what: full description, shown on hover.
        label: text on the bar, if there is space.
    """

    row: int
    since_us: float
    until_us: float
    kind: str
    what: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class StepPanel:
    """A part of a plan's timeline. All times are in microseconds.

    Attributes:
        rows: names of rows, from top to bottom: streams, then channels.
        marks_us: starts of iterations.
        outlined_us: start and end of a part that another panel enlarges. None: no such part.
    """

    title: str
    notes: tuple[str, ...]
    rows: tuple[str, ...]
    bars: tuple[StepBar, ...]
    since_us: float
    until_us: float
    marks_us: tuple[float, ...] = ()
    outlined_us: tuple[float, float] | None = None


def step_gantt_chart(panels: Sequence[StepPanel]) -> ChartType:
    """Draw the activity of streams and channels, with panels one below the other.

    Raises:
        ParameterError: There is no panel.
    """
    if not panels:
        raise ParameterError("there is nothing to draw: expected at least one timeline")
    kinds = kinds_of([bar for panel in panels for bar in panel.bars])
    drawn = [_panel(panel, kinds, legend=panel is panels[-1]) for panel in panels]
    return theme.stack_charts(drawn) if len(drawn) > 1 else theme.apply_theme(drawn[0])


def _panel(panel: StepPanel, kinds: Sequence[str], *, legend: bool) -> ChartType:
    """Return one panel.

    Args:
        kinds: Kinds of bars in the whole picture, each with a color of its own.
        legend: Whether the legend of kinds is below the panel.
    """
    notes = theme.wrap_notes(*panel.notes, length=_LINE)
    drawn = [_window_band(panel)] if panel.outlined_us else []
    drawn.append(_bars(panel, kinds, legend=legend))
    if labels := _labels(panel):
        drawn.append(labels)
    if panel.marks_us:
        drawn.append(_iteration_lines(panel))
    row = _ROW if any(bar.label for bar in panel.bars) else _THIN_ROW
    return (
        alt.layer(*drawn)
        .resolve_scale(color="independent")
        .properties(
            width=_WIDTH,
            height=max(len(panel.rows), 1) * row,
            title=alt.Title(panel.title, subtitle=notes),
        )
    )


def kinds_of(bars: Sequence[StepBar]) -> list[str]:
    """Return the kinds of bars, computation first."""
    kinds = sorted({bar.kind for bar in bars})
    return sorted(kinds, key=lambda kind: kind != COMPUTATION)


def _unit(steps: StepPanel) -> tuple[str, float]:
    """Return the unit of the time axis, and the number of units per microsecond."""
    return ("ms", 0.001) if steps.until_us - steps.since_us >= _MANY_US else ("\u00b5s", 1.0)


def _time_axis(steps: StepPanel) -> Any:
    unit, scale = _unit(steps)
    return alt.X("time:Q", title=f"Time ({unit})",
                 scale=alt.Scale(domain=[steps.since_us * scale, steps.until_us * scale],
                                 nice=False),
                 axis=alt.Axis(format=theme.NUMBERS, grid=False, tickCount=_TICKS,
                               labelOverlap="greedy", labelSeparation=12))  # fmt: skip


def _row_axis(steps: StepPanel) -> Any:
    return alt.Y("row:N", title=None, sort=list(steps.rows),
                 scale=alt.Scale(domain=list(steps.rows), paddingInner=0.2, paddingOuter=0.1),
                 axis=alt.Axis(labelFontSize=11, grid=False, ticks=False,
                               labelLimit=220))  # fmt: skip


def _bars(steps: StepPanel, kinds: Sequence[str], *, legend: bool) -> ChartType:
    colors = [_PALE] * (COMPUTATION in kinds)
    colors += [theme.nth(theme.COLORS, k) for k in range(len(kinds) - len(colors))]
    unit, scale = _unit(steps)
    since, until = f"from ({unit})", f"to ({unit})"
    rows: list[dict[str, Any]] = [
        {"row": steps.rows[bar.row], "time": max(bar.since_us, steps.since_us) * scale,
         "until": min(bar.until_us, steps.until_us) * scale, "kind": bar.kind, "what": bar.what,
         since: bar.since_us * scale, until: bar.until_us * scale}
        for bar in steps.bars
    ]  # fmt: skip
    few = len(rows) <= len(steps.rows) * 60
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_bar(stroke="white", strokeWidth=0.7 if few else 0)
        .encode(
            x=_time_axis(steps), x2="until:Q", y=_row_axis(steps),
            color=alt.Color("kind:N", title=None,
                            scale=alt.Scale(domain=list(kinds), range=colors),
                            legend=alt.Legend(orient="bottom", symbolType="square", columns=5)
                            if legend else None),
            tooltip=["what:N", "row:N",
                     *(alt.Tooltip(f"{name}:Q", format=".6") for name in (since, until))],
        )
    )  # fmt: skip


def _labels(steps: StepPanel) -> ChartType | None:
    """Return the labels of bars, shortened if necessary, or None if no bar has space for one."""
    scale = _WIDTH / ((steps.until_us - steps.since_us) or 1.0)
    unit = _unit(steps)[1]
    rows: list[dict[str, Any]] = []
    for bar in steps.bars:
        since, until = max(bar.since_us, steps.since_us), min(bar.until_us, steps.until_us)
        letters = int(((until - since) * scale - 6) / _LETTER)
        if letters >= min(len(bar.label), _MIN_LETTERS) > 0:
            cut = f"{bar.label[: letters - 1]}\u2026"
            ink = "black" if bar.kind == COMPUTATION else "white"
            rows.append({"row": steps.rows[bar.row], "time": (since + until) / 2 * unit,
                         "label": bar.label if letters >= len(bar.label) else cut,
                         "ink": ink})  # fmt: skip
    if not rows:
        return None
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_text(fontSize=10, font=theme.FONT)
        .encode(
            x=_time_axis(steps), y=_row_axis(steps), text="label:N",
            color=alt.Color("ink:N", scale=None, legend=None),
        )
    )  # fmt: skip


def _window_band(steps: StepPanel) -> ChartType:
    """Return a band behind the part that another panel enlarges."""
    unit = _unit(steps)[1]
    since, until = steps.outlined_us or (0.0, 0.0)
    return (
        alt.Chart(theme.chart_rows([{"time": since * unit, "until": until * unit}]))
        .mark_rect(color=_WINDOW, stroke=theme.COLORS[1], strokeWidth=1)
        .encode(x=_time_axis(steps), x2="until:Q")
    )


def _iteration_lines(steps: StepPanel) -> ChartType:
    unit = _unit(steps)[1]
    rows = [
        {"time": mark * unit} for mark in steps.marks_us if steps.since_us <= mark <= steps.until_us
    ]
    return (
        alt.Chart(theme.chart_rows(rows))
        .mark_rule(strokeWidth=1.2, strokeDash=[4, 3], color=theme.INK)
        .encode(x=_time_axis(steps))
    )
