"""Draw the house from its own imports: ``python -m docs.house``.

Rooms stand on their floors (the table of ``tests/house/test_layers.py``), and an arrow leads from a
room to one that it imports. What follows from other arrows is drawn faintly. The nouns in ``core``
and ``errors`` are left out: every room imports them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

import networkx as nx

from tests.house.test_layers import FLOORS, dependency, imports, modules, room_of

PICTURE = Path(__file__).parent / "pictures" / "house.svg"

_EVERYWHERE = {"core", "core/files", "errors"}
_WIDTH, _ROW, _BOX, _MARGIN = 1240, 76, 32, 132
_SWEEPS = 12
_INK, _PALE, _ACCENT, _PAPER = "#1b1d22", "#8a8f99", "#c2410c", "#ffffff"


@dataclass(frozen=True, slots=True)
class Box:
    """A room on the page, in pixels."""

    room: str
    left: float
    top: float
    width: float

    @property
    def middle(self) -> float:
        """Return where arrows end."""
        return self.left + self.width / 2


def arrows() -> nx.DiGraph:
    """Return which room imports which, function-local imports too."""
    graph = nx.DiGraph()
    graph.add_nodes_from(FLOORS)
    for path in modules():
        room = room_of(path)
        for name in imports(path):
            target = dependency(name)
            if name.startswith("sccl.") and target in FLOORS and target != room:
                graph.add_edge(room, target)
    return graph


def upward(graph: nx.DiGraph) -> list[tuple[str, str]]:
    """Return the imports that lead to a higher floor."""
    return sorted((a, b) for a, b in graph.edges if FLOORS[b] > FLOORS[a])


def drawing() -> str:
    """Return the drawing as SVG.

    Raises:
        ValueError: an import leads to a higher floor.
    """
    graph = arrows()
    if wrong := upward(graph):
        raise ValueError(f"these imports lead upwards: {wrong}")
    down = nx.DiGraph((a, b) for a, b in graph.edges if FLOORS[b] < FLOORS[a])
    needed = set(nx.transitive_reduction(down).edges)
    shown = nx.DiGraph((a, b) for a, b in graph.edges if b not in _EVERYWHERE)
    boxes = _placed(_ordered(shown))
    height = max(box.top for box in boxes.values()) + _BOX + 46
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
            'font-family="system-ui, sans-serif" font-size="13">'
        ),
        "<title>Rooms of sccl by floor, and what each imports</title>",
        _STYLE,
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="{_PAPER}"/>',
        *_floors(boxes),
        *(_room(room, shown, needed, boxes) for room in boxes),
        (
            f'<text x="{_MARGIN - 100}" y="{height - 16:.0f}" fill="{_PALE}">An arrow: imports. '
            "Faint: follows from others. core and errors are imported by all, and their arrows "
            "left out. Point at a room to see its own.</text>"
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


_STYLE = f"""<style>
path {{ fill: none; stroke: {_INK}; stroke-width: 1.1; stroke-opacity: .55; }}
path.implied {{ stroke: {_PALE}; stroke-opacity: .22; }}
g:hover > path {{ stroke: {_ACCENT}; stroke-opacity: 1; stroke-width: 1.8; }}
g:hover > rect {{ stroke: {_ACCENT}; }}
</style>"""


def _rows() -> dict[int, list[str]]:
    rows: dict[int, list[str]] = {}
    for room, floor in FLOORS.items():
        if room not in {"", "__main__", "prove"}:  # they only name what they hold
            rows.setdefault(floor, []).append(room)
    return rows


def _ordered(graph: nx.DiGraph) -> dict[int, list[str]]:
    """Return the rooms of each floor from left to right, near to what they are joined to."""
    rows = _rows()
    place = {room: i / len(row) for row in rows.values() for i, room in enumerate(row)}
    both = graph.to_undirected()
    for _ in range(_SWEEPS):
        for row in rows.values():
            wanted = {room: _mean(place, both, room) for room in row}
            row.sort(key=lambda room: (wanted[room], room))
            place |= {room: (i + 0.5) / len(row) for i, room in enumerate(row)}
    return rows


def _mean(place: dict[str, float], graph: nx.Graph, room: str) -> float:
    near = [place[r] for r in sorted(graph[room]) if r in place] if room in graph else []
    return sum(near) / len(near) if near else place[room]


def _placed(rows: dict[int, list[str]]) -> dict[str, Box]:
    boxes = {}
    for level, floor in enumerate(sorted(rows, reverse=True)):
        widths = [7.6 * len(room) + 26 for room in rows[floor]]
        free = _WIDTH - _MARGIN - 30 - sum(widths)
        gap = min(free / (len(widths) + 1), 190)
        left = _MARGIN + (_WIDTH - _MARGIN - 30 - sum(widths) - gap * (len(widths) - 1)) / 2
        for room, width in zip(rows[floor], widths, strict=True):
            boxes[room] = Box(room, left, 24 + level * _ROW, width)
            left += width + gap
    return boxes


def _floors(boxes: dict[str, Box]) -> Iterable[str]:
    tops = sorted({box.top: FLOORS[box.room] for box in boxes.values()}.items())
    for top, floor in tops:
        yield f'<text x="32" y="{top + 22:.0f}" fill="{_PALE}">floor {floor}</text>'
    for (above, _), (below, _) in pairwise(tops):
        y = (above + _BOX + below) / 2
        yield f'<line x1="32" x2="{_WIDTH - 30}" y1="{y:.0f}" y2="{y:.0f}" stroke="#eceef1"/>'


def _room(room: str, graph: nx.DiGraph, needed: set[tuple[str, str]], boxes: dict[str, Box]) -> str:
    box = boxes[room]
    targets = sorted(graph[room]) if room in graph else []
    kind = {True: "needed", False: "implied"}
    lines = [
        f'<path class="{kind[(room, target) in needed]}" d="{_curve(box, boxes[target])}"/>'
        for target in targets
        if target in boxes
    ]
    return "\n".join(
        [
            "<g>",
            *lines,
            (
                f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
                f'height="{_BOX}" rx="8" fill="{_PAPER}" stroke="{_INK}"/>'
            ),
            (
                f'<text x="{box.middle:.1f}" y="{box.top + 22:.1f}" text-anchor="middle" '
                f'fill="{_INK}">{escape(room)}</text>'
            ),
            "</g>",
        ]
    )


def _curve(source: Box, target: Box) -> str:
    """Return a curve from under one box to above another; under both if they are neighbours."""
    x, y, to_x, to_y = source.middle, source.top + _BOX, target.middle, target.top
    if source.top == target.top:
        low = y + 16
        return f"M{x:.1f} {y} C{x:.1f} {low} {to_x:.1f} {low} {to_x:.1f} {y}"
    bend = (to_y - y) / 2
    return f"M{x:.1f} {y} C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y}"


def main() -> None:
    """Write the drawing."""
    PICTURE.write_text(drawing(), encoding="utf-8")


if __name__ == "__main__":
    main()
