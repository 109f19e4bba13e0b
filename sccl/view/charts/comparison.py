"""Time or bandwidth of many systems over the size of a buffer, beside what nothing beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.view import theme
from sccl.view.charts.timing import size_axis
from sccl.view.libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

MOST_NAMED = 6
"""Systems with a colour of their own; the others are grey."""

BOUND = "bound"

Times = tuple[tuple[int, float], ...]
"""(size in bytes, microseconds)."""


class Measured(StrEnum):
    """What is drawn upwards."""

    TIME = "time"
    BANDWIDTH = "bandwidth"


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """A system and its times, by size."""

    name: str
    times: Times


def comparison_chart(
    systems: Sequence[ComparedSystem],
    bound: Sequence[tuple[int, float]],
    title: str,
    subtitle: str,
    measured: Measured = Measured.BANDWIDTH,
) -> ChartType:
    """Return a line for each system and one for what nothing beats, both axes logarithmic.

    Named are those that are fastest somewhere, then those that are nearest to the bound on average.

    Args:
        bound: microseconds that nothing takes less than, by size.

    Raises:
        ParameterError: nobody has a time.
    """
    if not systems:
        raise ParameterError("there is nothing to draw: no system has a time")
    named = [system.name for system in _by_merit(systems, dict(bound))[:MOST_NAMED]]
    others = len(systems) - len(named)
    grey = counted(others, "other") if others else ""
    rows = [
        _row(system.name, system.name if system.name in named else grey, size, us, measured)
        for system in systems
        for size, us in system.times
    ]
    rows += [_row(BOUND, BOUND, size, us, measured) for size, us in bound if us]
    names = [BOUND, *named, *([grey] if grey else [])]
    drawn = _lines(rows, names, measured, others=bool(grey)).properties(
        width=theme.WIDTH, height=theme.HEIGHT, title=alt.Title(title, subtitle=[subtitle])
    )
    return theme.themed(drawn)


def _by_merit(systems: Sequence[ComparedSystem], bound: dict[int, float]) -> list[ComparedSystem]:
    """Return systems, those that are fastest somewhere first, then by their mean distance to it.

    Of several that are equally fast the first is the one that tables name.
    """
    best: dict[int, tuple[float, str]] = {}
    for system in systems:
        for size, us in system.times:
            if size not in best or us < best[size][0]:
                best[size] = us, system.name
    told = {name for _, name in best.values()}

    def merit(system: ComparedSystem) -> tuple[bool, int, float]:
        """Return how it ranks: less is better."""
        wins = sum(us <= best[size][0] for size, us in system.times)
        above = [math.log(us / (bound.get(size) or us)) for size, us in system.times if us]
        return system.name not in told, -wins, sum(above) / max(len(above), 1)

    return sorted(systems, key=merit)


def _row(name: str, series: str, size: int, us: float, measured: Measured) -> dict[str, Any]:
    value = us if measured is Measured.TIME else size / us / 1000 if us else None
    return {"name": name, "series": series, "size": size, "value": value}


def _lines(
    rows: list[dict[str, Any]], names: Sequence[str], measured: Measured, *, others: bool
) -> ChartType:
    kept = [row for row in rows if row["value"]]
    sizes = [row["size"] for row in kept]
    ends = (min(sizes) / 1.15, max(sizes) * 1.15)
    decimal = not any(size % 1000 for size in sizes)
    values = [row["value"] for row in kept]
    low, high = min(values) / 1.3, max(values) * 1.3
    colours = [theme.INK, *(theme.nth(theme.COLOURS, i) for i in range(len(names) - 1))]
    dashes = [(6, 4), *(theme.nth(theme.DASHES, i) for i in range(len(names) - 1))]
    if others:
        colours[-1], dashes[-1] = "#c4c4c4", (1, 0)
    legend = theme.series_legend(names)
    title = "Time (\u00b5s)" if measured is Measured.TIME else "Size / time (GB/s)"
    base = alt.Chart(theme.rows(kept)).encode(
        x=alt.X("size:Q", title="Buffer of a rank (bytes)",
                scale=alt.Scale(type="log", base=2, domain=list(ends), nice=False),
                axis=alt.Axis(grid=False, **size_axis(*ends, theme.WIDTH, decimal=decimal))),
        y=alt.Y("value:Q", title=title,
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(format=theme.NUMBERS, values=theme.decades(low, high))),
        detail="name:N",
        color=alt.Color("series:N", title=None, legend=legend,
                        scale=alt.Scale(domain=list(names), range=colours)),
        strokeDash=alt.StrokeDash("series:N", title=None, legend=legend,
                                  scale=alt.Scale(domain=list(names), range=dashes)),
        tooltip=["name:N", "size:Q", "value:Q"],
    )  # fmt: skip
    alone = len(set(sizes)) == 1  # then there is no line to be seen
    if not others:
        return base.mark_line(strokeWidth=2, point=alone)
    is_other = f"datum.series === {names[-1]!r}"
    return alt.layer(
        base.mark_line(strokeWidth=1.2, point=alone).transform_filter(is_other),
        base.mark_line(strokeWidth=2, point=alone).transform_filter(f"!({is_other})"),
    )
