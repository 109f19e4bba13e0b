"""A machine: its ranks where the layout puts them, links as wide as their lanes, and boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.budgets import shared, words
from sccl.view.geometry import Point
from sccl.view.layout import Layout, control_points, layout, on_curve

if TYPE_CHECKING:
    from altair.typing import ChartType

_SIDE = 560  # px
_POINTS = 24  # of a bent link
_MOST_PAIRS = 6000
_WIDEST = 7.0  # px
_APART = 0.012  # between the directions of a pair whose lanes differ
_ARROW = "M0,-1.7L0.8,1L-0.8,1Z"  # upwards; longer than wide, so that its tip is seen
_LONGEST_NAME = 6
_OWN, _SHARED = "a link with its own lanes", "links that share a budget (above)"
_DASHES = {_OWN: (1, 0), _SHARED: (5, 3)}
_LEAST_TEXT = 7  # px; smaller numbers are left out


def topology_chart(topology: Topology) -> ChartType:
    """Return a drawing of a machine.

    A line is a link in both directions; an arrow one that goes one way, or has other lanes than the
    way back; dashed links share a budget, such as that of a bus. Machines
    with thousands of links are drawn without them.
    """
    import altair as alt  # noqa: PLC0415 - loads much

    drawn = layout(topology)
    lines = _lines(topology, drawn)
    curves = [_curve(drawn, line) for line in lines]
    top, bottom = _extent(drawn, curves)
    axes = _axes(top, bottom)
    layers, names = _boxes(drawn, axes)
    note = f"{topology.ranks} ranks, {len(topology.links)} links"
    if len(lines) > _MOST_PAIRS:
        note += ", which are too many to draw"
    elif lines:
        layers += _links(lines, curves, axes)
        counts = {line.lanes for line in lines}
        if len(counts) == 1:
            note += f", {min(counts)} lane{'' if counts == {1} else 's'} each"
    layers += [*names, *_ranks(topology, drawn, axes)]
    chart = alt.layer(*layers).properties(
        width=_SIDE,
        height=round(_SIDE * (bottom - top)),
        title=alt.Title(topology.name, subtitle=[note, *words(topology)]),
        view=alt.ViewBackground(stroke=None),
    )
    return theme.themed(chart)


@dataclass(frozen=True, slots=True)
class _Line:
    """What is drawn as one line."""

    edge: Edge
    lanes: int
    shared: bool
    bend: float
    one_way: bool


def _axes(top: float, bottom: float) -> dict[str, Any]:
    import altair as alt  # noqa: PLC0415

    return {
        "x": alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False)),
        "y": alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[bottom, top], nice=False)),
    }


def _lines(topology: Topology, drawn: Layout) -> list[_Line]:
    tied = shared(topology)
    kinds = {edge: (lanes, edge in tied) for edge, lanes in topology.lanes().items()}
    bends = dict(zip((link.edge for link in topology.links), drawn.bends, strict=True))
    found = []
    for (src, dst), kind in kinds.items():
        back = kinds.get((dst, src))
        if back == kind and src < dst:
            found.append(_Line((src, dst), *kind, bends[src, dst], one_way=False))
        elif back != kind:
            aside = _APART if back else 0.0
            found.append(_Line((src, dst), *kind, bends[src, dst] + aside, one_way=True))
    return found


def _curve(drawn: Layout, line: _Line) -> list[Point]:
    """Return the points of a line, but one where it is straight."""
    src, dst = line.edge
    curve = control_points(drawn.positions[src], drawn.positions[dst], line.bend)
    last = _POINTS if line.bend else 1
    return [on_curve(curve, i / last) for i in range(last + 1)]


def _extent(drawn: Layout, curves: Sequence[Sequence[Point]]) -> tuple[float, float]:
    """Return the first and the last height that is drawn at."""
    heights = [y for curve in curves for _, y in curve]
    heights += [y + side for _, y in drawn.positions for side in (-drawn.radius, drawn.radius)]
    tops = [box.top - 0.04 for box in drawn.boxes]  # with the room of its name
    bottoms = [box.bottom for box in drawn.boxes]
    return min([*heights, *tops]) - 0.01, max([*heights, *bottoms]) + 0.01


def _links(
    lines: Sequence[_Line], curves: Sequence[Sequence[Point]], axes: Mapping[str, Any]
) -> list[ChartType]:
    import altair as alt  # noqa: PLC0415

    rows = [
        {"x": x, "y": y, "link": f"{line.edge[0]}->{line.edge[1]}", "lanes": line.lanes,
         "budget": _SHARED if line.shared else _OWN, "order": i}
        for line, curve in zip(lines, curves, strict=True)
        for i, (x, y) in enumerate(curve)
    ]  # fmt: skip
    counts = sorted({line.lanes for line in lines})
    dashes = [kind for kind in _DASHES if any(row["budget"] == kind for row in rows)]
    widths = [max(1.2, min(1.6 * n, _WIDEST * n / counts[-1])) for n in counts]
    legend = alt.Legend(orient="bottom", symbolType="stroke", values=_some(counts))
    links = (
        alt.Chart(theme.rows(rows))
        .mark_line(color="#5b7c99", opacity=0.75)
        .encode(
            **axes,
            detail="link:N",
            order="order:Q",
            strokeWidth=alt.StrokeWidth(
                "lanes:O", title="Lanes (chunks per round)",
                legend=legend if len(counts) > 1 else None,
                scale=alt.Scale(domain=counts, range=widths),
            ),
            strokeDash=alt.StrokeDash(
                "budget:N", title=None,
                legend=theme.dashes() if len(dashes) > 1 else None,
                scale=alt.Scale(domain=dashes, range=[_DASHES[kind] for kind in dashes]),
            ),
        )
    )  # fmt: skip
    arrows = [_arrow(curve) for line, curve in zip(lines, curves, strict=True) if line.one_way]
    if not arrows:
        return [links]
    heads = (
        alt.Chart(theme.rows(arrows))
        .mark_point(shape=_ARROW, filled=True, size=60, color=theme.INK, opacity=1)
        .encode(**axes, angle=alt.Angle("angle:Q", scale=None))
    )
    return [links, heads]


def _arrow(curve: Sequence[Point]) -> dict[str, float]:
    """Return where an arrow stands, beyond the middle of a line, and its turn from upright."""
    last = len(curve) - 1
    (ax, ay), (bx, by) = curve[last // 2], curve[last // 2 + 1]
    part = 0.75 if last == 1 else 0.5
    turn = math.degrees(math.atan2(bx - ax, ay - by))
    return {"x": ax + part * (bx - ax), "y": ay + part * (by - ay), "angle": turn}


def _some(counts: Sequence[int]) -> list[int]:
    """Return at most five of some numbers, the first and the last among them."""
    every = max(1, math.ceil((len(counts) - 1) / 4))
    return sorted({*counts[::every], counts[-1]})


def _boxes(drawn: Layout, axes: Mapping[str, Any]) -> tuple[list[ChartType], list[ChartType]]:
    """Return the frames, and their names, which links may cross."""
    import altair as alt  # noqa: PLC0415

    if not drawn.boxes:
        return [], []
    rows = [
        {"x": b.left, "y": b.top, "right": b.right, "bottom": b.bottom, "text": b.label}
        for b in drawn.boxes
    ]
    base = alt.Chart(theme.rows(rows)).encode(**axes)
    size = min(theme.TEXT, round(min(b.right - b.left for b in drawn.boxes) * _SIDE / 7))
    frame = base.mark_rect(cornerRadius=8, fill="#f2f2f2", stroke="#9a9a9a")
    frames = [frame.encode(x2="right:Q", y2="bottom:Q")]
    if size < _LEAST_TEXT:
        return frames, []
    texts = base.encode(text="text:N")
    place: dict[str, Any] = {"align": "left", "baseline": "bottom", "dy": -3, "fontSize": size}
    behind = texts.mark_text(**place, stroke="white", strokeWidth=5, strokeJoin="round")
    return frames, [behind, texts.mark_text(**place, color=theme.GREY)]


def _ranks(topology: Topology, drawn: Layout, axes: Mapping[str, Any]) -> list[ChartType]:
    import altair as alt  # noqa: PLC0415

    # Ranks by number, as everywhere else; what the machine calls them may be long.
    names = [topology.label(r) for r in range(topology.ranks)] + list(topology.switches)
    texts = [str(r) for r in range(topology.ranks)] + [_short(name) for name in topology.switches]
    rows = [
        {
            "x": x,
            "y": y,
            "text": text,
            "name": name,
            "kind": "rank" if i < topology.ranks else "switch",
        }
        for i, ((x, y), name, text) in enumerate(zip(drawn.positions, names, texts, strict=True))
    ]
    across = 2 * drawn.radius * _SIDE
    base = alt.Chart(theme.rows(rows))
    kinds = alt.Shape(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=["rank", "switch"], range=["circle", "square"]),
    )
    marks = base.mark_point(
        filled=True, fill="white", stroke=theme.INK, strokeWidth=1.5, opacity=1,
        size=across * across,
    ).encode(**axes, shape=kinds, tooltip=["text:N", "name:N", "kind:N"])  # fmt: skip
    longest = max(map(len, texts))
    size = min(theme.TEXT + 2, math.floor(across / (0.62 * max(longest, 2))))
    if size < _LEAST_TEXT:
        return [marks]
    return [marks, base.mark_text(fontSize=size).encode(**axes, text="text:N")]


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\u2026"
