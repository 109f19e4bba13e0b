"""Draw heat maps of an algorithm: the load of links in each step, and the arrival of chunks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sccl.core.algorithm import Algorithm
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.drawing.budgets import binding_budgets
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_MAX_ROWS, _MAX_CELLS = 320, 40_000
_ROW, _MIN_ROW = 18, 14  # px, height of a row, and minimum for its name and numbers
_HEIGHT, _TALLEST = 900, 2400  # px, height of many rows, and maximum that is readable
_CELL, _MIN_CELL = 46, 32  # px, width of a cell, and minimum for numbers
_NARROWEST, _WIDEST = 220, 800  # px, width of all cells together
_NUMBERS = 12  # px, size of numbers
_MAX_NAMES = _TALLEST // _MIN_ROW
_LEGEND = 120  # px
_MAX_LISTED = 12  # maximum number of steps whose rounds are listed
_SCHEME: Final = "blues"  # its lightness decreases monotonically, also in grayscale


def utilization_chart(algorithm: Algorithm) -> ChartType:
    """Draw a heat map of the used share of each link's capacity in each step.

    Rows of shared budgets are above those of links. If there are too many links to name, a row
    represents all links that leave a rank. There is a single row if all rows are equal.
    """
    title, rows = _rows(algorithm.topology)
    load: Counter[tuple[Edge, int]] = Counter((s.edge, s.step) for s in algorithm.sends)
    shares = {
        name: tuple(
            sum(load[e, step] for e in edges) / (room * rounds) if rounds > 0 else 0.0
            for step, rounds in enumerate(algorithm.rounds_per_step)
        )
        for name, edges, room in rows
    }
    if len(shares) > 1 and len({*shares.values()}) == 1:
        shares = {f"all {len(shares)}": shares.popitem()[1]}
    cells: list[dict[str, Any]] = [
        {"column": step, "row": name, "value": round(share, 4),
         "text": f"{share:.0%}" if share else ""}
        for name, row_shares in shares.items() for step, share in enumerate(row_shares)
    ]  # fmt: skip
    full = max([1.0, *(c["value"] for c in cells)])
    color = alt.Color(
        "value:Q",
        title=["Chunks sent, share", "of the capacity", "(white: none)"],
        scale=alt.Scale(scheme=_SCHEME, domain=[0, full]),
        legend=alt.Legend(format="%", values=[0, 0.25, 0.5, 0.75, full], gradientLength=_LEGEND),
    )
    down = (title, list(shares))
    across = ("Step", range(algorithm.steps))
    drawn = _heat_map(cells, across, down, _contrast_color("datum.value === 0", color), full / 2)
    return _add_title(drawn, algorithm, "link utilization")


def _rows(topology: Topology) -> tuple[str, list[tuple[str, tuple[Edge, ...], int]]]:
    """Return the title of rows, and the name, the links, and the chunks per round of each row."""
    lanes = topology.lanes()
    budgets = [(budget, set(budget.edges)) for budget in binding_budgets(topology)]
    single = len(lanes) + len(budgets) <= _MAX_NAMES
    by_name: dict[str, list[Edge]] = {}
    for src, dst in lanes:
        by_name.setdefault(f"{src} \u2192 {dst}" if single else str(src), []).append((src, dst))
    rows = []
    for name, edges in by_name.items():
        above = [b.chunks_per_round for b, over in budgets if not single and over.issuperset(edges)]
        rows.append((name, tuple(edges), min([sum(lanes[e] for e in edges), *above])))
    edge_sets = [set(edges) for edges in by_name.values()]
    shared = [(b.name, b.edges, b.chunks_per_round) for b, over in budgets if over not in edge_sets]
    if len(shared) + len(rows) > _MAX_NAMES:
        shared = []
    links = "link (from \u2192 to)" if single else "links that leave rank"
    return f"Shared budget, {links}" if shared else links.capitalize(), [*shared, *rows]


def arrival_chart(algorithm: Algorithm) -> ChartType:
    """Draw a heat map of the step in which each chunk reaches each rank.

    For reductions, this is the last step that adds a contribution. If there are more than a few
    hundred chunks, only the first are drawn, with a note.
    """
    collective = algorithm.collective
    shown = range(min(collective.num_chunks, _MAX_ROWS, max(_MAX_CELLS // collective.ranks, 1)))
    cells = _arrivals(algorithm, shown)
    last = algorithm.steps - 1
    color = alt.Color(
        "value:Q",
        title="Step of arrival",
        scale=alt.Scale(scheme=_SCHEME, domain=[0, max(last, 1)]),
        legend=alt.Legend(format="d", type="symbol", symbolType="square", symbolStrokeWidth=0,
                          values=list(range(0, last + 1, math.ceil(last / 8) or 1))),
    )  # fmt: skip
    part = "" if len(shown) == collective.num_chunks else (
        f", the first {len(shown)} of {collective.num_chunks}"
    )  # fmt: skip
    down = (f"Chunk{part}", [str(chunk) for chunk in shown])
    across = ("Rank", range(collective.ranks))
    drawn = _heat_map(cells, across, down, _contrast_color("datum.value === null", color), last / 2)
    if _has_numbers(len(across[1]), len(shown)):
        return _add_title(drawn, algorithm, "arrival of chunks")
    note = "A dash: the chunk starts there. White: it never arrives there."
    starts = _dashes([cell for cell in cells if cell["value"] is None], collective.ranks)
    return _add_title(drawn + starts, algorithm, "arrival of chunks", note)


def _arrivals(algorithm: Algorithm, shown: range) -> list[dict[str, Any]]:
    """Return a cell for each chunk and rank: the step of arrival, or None for an initial holder."""
    collective = algorithm.collective
    arrival: dict[tuple[int, int], int] = {}
    for send in algorithm.sends:  # ascending by step, so the last one remains
        arrival[send.chunk, send.dst] = send.step
    cells: list[dict[str, Any]] = []
    for chunk in shown:
        for rank in range(collective.ranks):
            step = arrival.get((chunk, rank))
            if step is not None:
                cells.append({"column": rank, "row": str(chunk), "value": step, "text": str(step)})
            elif rank in collective.holders(chunk):
                cells.append({"column": rank, "row": str(chunk), "value": None, "text": "start"})
    return cells


def _dashes(starts: Sequence[dict[str, Any]], ranks: int) -> ChartType:
    """Return a dash in the cell of each initial holder, for cells too small for text."""
    length = _width(ranks) / ranks / 2
    return (
        alt.Chart(theme.chart_rows(starts))
        .mark_point(shape="stroke", size=length**2, stroke=theme.INK, strokeWidth=1, opacity=1)
        .encode(x="column:O", y="row:N")
    )


def _heat_map(
    cells: Sequence[dict[str, Any]],
    across: tuple[str, range],
    down: tuple[str, Sequence[str]],
    color: Any,
    dark: float,
) -> ChartType:
    """Return the layers of cells and, if there is space, of their texts.

    Args:
        cells: rows with ``column``, ``row``, ``value`` and ``text``.
        across: title of columns, and their numbers.
        down: title of rows, and their names.
        dark: value above which the text of a cell is white.
    """
    columns, rows = len(across[1]), len(down[1])
    width, height = _width(columns), _height(rows)
    y_step = 1 if height >= _MIN_ROW * rows else math.ceil(_ROW * rows / height)
    x_step = math.ceil(_MIN_CELL * columns / width)
    axes: dict[str, Any] = {
        "x": alt.X("column:O", title=across[0], sort=list(across[1]),
                   scale=alt.Scale(domain=list(across[1])),
                   axis=alt.Axis(orient="top", labelAngle=0, values=list(across[1][::x_step]))),
        "y": alt.Y("row:N", title=down[0], sort=list(down[1]),
                   scale=alt.Scale(domain=list(down[1])),
                   axis=alt.Axis(values=list(down[1][::y_step]))),
    }  # fmt: skip
    base = alt.Chart(theme.chart_rows(cells)).encode(**axes)
    drawn = base.mark_rect(stroke="white", strokeWidth=1 if y_step == 1 else 0).encode(
        color=color, tooltip=["row:N", "column:O", "text:N"]
    )
    if not _has_numbers(columns, rows):
        return alt.layer(drawn).properties(width=width, height=height)
    light = alt.when(f"datum.value > {dark}").then(alt.value("white"))
    numbers = base.mark_text(fontSize=_NUMBERS).encode(
        text="text:N", color=light.otherwise(alt.value(theme.INK))
    )
    return alt.layer(drawn, numbers).properties(width=width, height=height)


def _contrast_color(where: str, color: alt.Color) -> Any:
    """Return a color channel that is white in cells that satisfy the condition ``where``."""
    return alt.when(where).then(alt.value("white")).otherwise(color)


def _width(columns: int) -> int:
    return min(max(_CELL * columns, _NARROWEST), _WIDEST)


def _height(rows: int) -> int:
    """Return the height of all rows, with space for their names unless there are too many."""
    if _MIN_ROW * rows > _TALLEST:
        return max(_HEIGHT, rows)
    return max(min(_ROW * rows, _HEIGHT), _MIN_ROW * rows, 2 * _ROW)


def _has_numbers(columns: int, rows: int) -> bool:
    return _width(columns) >= _MIN_CELL * columns and _height(rows) >= _MIN_ROW * rows


def _add_title(drawn: ChartType, algorithm: Algorithm, subject: str, *notes: str) -> ChartType:
    a = algorithm
    costs = f"C={a.collective.chunks} S={a.steps} R={a.rounds}"
    title = alt.Title(
        f"{a.collective.name} on {a.topology.name}: {subject}",
        subtitle=[f"{costs}; rounds per step: {_rounds_text(a.rounds_per_step)}", *notes],
    )
    return theme.apply_theme(drawn.properties(title=title))


def _rounds_text(per_step: Sequence[int]) -> str:
    """Format the rounds of each step, or only their range for many steps."""
    low, high = min(per_step), max(per_step)
    if len(per_step) <= _MAX_LISTED:
        return ", ".join(map(str, per_step))
    return str(low) if low == high else f"{low} to {high}"
