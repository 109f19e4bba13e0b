"""Heat maps of an algorithm: what links carry in each step, and when chunks arrive."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sccl.core.algorithm import Algorithm
from sccl.core.ids import Edge
from sccl.view import theme
from sccl.view.budgets import binding

if TYPE_CHECKING:
    import altair as alt
    from altair.typing import ChartType

_MOST_ROWS, _MOST_CELLS = 320, 40_000
_TALLEST, _LEAST_TEXT_ROW = 18, 13  # px of a row; the least of one with numbers in it
_HEIGHT = 900  # px of many rows together
_CELL, _LEAST_TEXT_CELL = 46, 30  # px across
_NARROWEST, _WIDEST = 220, 760  # px of all cells together
_SCHEME: Final = "blues"  # its lightness falls all the way, so that it says the same in greyscale


def utilisation_chart(algorithm: Algorithm) -> ChartType:
    """Return what share of its lanes each link uses in each step, as a heat map.

    Budgets that several links share stand above the links. With more than a few hundred links, a
    row is all links that leave a rank.
    """
    import altair as alt  # noqa: PLC0415 - loads much

    lanes = algorithm.topology.lanes()
    load: Counter[tuple[Edge, int]] = Counter((s.edge, s.step) for s in algorithm.sends)
    single = len(lanes) <= _MOST_ROWS
    shared = binding(algorithm.topology) if single else []
    groups: dict[str, list[Edge]] = {}
    for src, dst in lanes:
        groups.setdefault(f"{src} \u2192 {dst}" if single else str(src), []).append((src, dst))
    rows = [(b.name, b.edges, b.chunks_per_round) for b in shared]
    rows += [(name, tuple(edges), sum(lanes[e] for e in edges)) for name, edges in groups.items()]
    cells: list[dict[str, Any]] = []
    for step, rounds in enumerate(algorithm.rounds_per_step):
        for name, edges, room in rows:
            share = sum(load[e, step] for e in edges) / (room * rounds) if rounds > 0 else 0.0
            cells.append({"column": step, "row": name, "value": round(share, 4),
                          "text": f"{share:.0%}" if share else ""})  # fmt: skip
    full = max([1.0, *(c["value"] for c in cells)])
    colour = alt.Color(
        "value:Q",
        title=["Chunks per round,", "of what is permitted"],
        scale=alt.Scale(scheme=_SCHEME, domain=[0, full]),
        legend=alt.Legend(format="%", tickCount=5),
    )
    what = "Shared budget, link (from \u2192 to)" if shared else "Link (from \u2192 to)"
    down = (what if single else "Links that leave rank", [name for name, _, _ in rows])
    drawn = _heat_map(cells, ("Step", range(algorithm.steps)), down, colour, full / 2)
    return _titled(drawn, algorithm, "link utilisation")


def arrival_chart(algorithm: Algorithm) -> ChartType:
    """Return the step in which each chunk reaches each rank, as a heat map.

    Where chunks are reduced it is the last step that adds something. Of more than a few hundred
    chunks the first are drawn, and the chart says so.
    """
    import altair as alt  # noqa: PLC0415 - loads much

    collective = algorithm.collective
    arrival: dict[tuple[int, int], int] = {}
    for send in algorithm.sends:  # by ascending step, so that the last one stays
        arrival[send.chunk, send.dst] = send.step
    shown = range(min(collective.num_chunks, _MOST_ROWS, max(_MOST_CELLS // collective.ranks, 1)))
    cells: list[dict[str, Any]] = []
    for chunk in shown:
        for rank in range(collective.ranks):
            step = arrival.get((chunk, rank))
            if step is not None:
                cells.append({"column": rank, "row": str(chunk), "value": step, "text": str(step)})
            elif rank in collective.holders(chunk):
                cells.append({"column": rank, "row": str(chunk), "value": None, "text": "start"})
    last = max(algorithm.steps - 1, 1)
    colour = alt.Color(
        "value:Q",
        title="Step of arrival",
        scale=alt.Scale(scheme=_SCHEME, domain=[0, last]),
        legend=alt.Legend(format="d", values=list(range(0, last + 1, math.ceil(last / 8)))),
    )
    part = "" if len(shown) == collective.num_chunks else (
        f", the first {len(shown)} of {collective.num_chunks}"
    )  # fmt: skip
    down = (f"Chunk{part}", [str(chunk) for chunk in shown])
    drawn = _heat_map(cells, ("Rank", range(collective.ranks)), down, colour, last / 2)
    return _titled(drawn, algorithm, "arrival of chunks")


def _heat_map(
    cells: Sequence[dict[str, Any]],
    across: tuple[str, range],
    down: tuple[str, Sequence[str]],
    colour: alt.Color,
    dark: float,
) -> ChartType:
    """Return cells with their numbers, where these have room.

    Args:
        cells: with ``column``, ``row``, ``value`` and ``text``.
        across: the title of columns, and their numbers.
        down: the title of rows, and their names.
        colour: of values.
        dark: the value from which a cell's number is written in white.
    """
    import altair as alt  # noqa: PLC0415

    width = min(max(_CELL * len(across[1]), _NARROWEST), _WIDEST)
    height = max(min(_TALLEST * len(down[1]), _HEIGHT), len(down[1]), 2 * _TALLEST)
    every = math.ceil(_TALLEST * len(down[1]) / height)
    beside = math.ceil(_LEAST_TEXT_CELL * len(across[1]) / width)
    axes: dict[str, Any] = {
        "x": alt.X("column:O", title=across[0], sort=list(across[1]),
                   scale=alt.Scale(domain=list(across[1])),
                   axis=alt.Axis(orient="top", labelAngle=0, values=list(across[1][::beside]))),
        "y": alt.Y("row:N", title=down[0], sort=list(down[1]),
                   scale=alt.Scale(domain=list(down[1])),
                   axis=alt.Axis(values=list(down[1][::every]))),
    }  # fmt: skip
    base = alt.Chart(theme.rows(cells)).encode(**axes)
    drawn = base.mark_rect(stroke="white", strokeWidth=1 if every == 1 else 0).encode(
        color=colour, tooltip=["row:N", "column:O", "text:N"]
    )
    if height / len(down[1]) < _LEAST_TEXT_ROW or width / len(across[1]) < _LEAST_TEXT_CELL:
        return alt.layer(drawn).properties(width=width, height=height)
    light = alt.when(f"datum.value > {dark}").then(alt.value("white"))
    numbers = base.mark_text(fontSize=11).encode(
        text="text:N", color=light.otherwise(alt.value(theme.INK))
    )
    return alt.layer(drawn, numbers).properties(width=width, height=height)


def _titled(drawn: ChartType, algorithm: Algorithm, what: str) -> ChartType:
    import altair as alt  # noqa: PLC0415

    a = algorithm
    rounds = ", ".join(str(r) for r in a.rounds_per_step)
    title = alt.Title(
        f"{a.collective.name} on {a.topology.name}: {what}",
        subtitle=f"C={a.collective.chunks} S={a.steps} R={a.rounds}; rounds per step: {rounds}",
    )
    return theme.themed(drawn.properties(title=title))
