"""Draw the house from its own imports: ``python -m docs.house``.

Rooms stand on their floors (the table of ``tests/house/test_layers.py``), and an arrow leads from a
room to one that it imports; it passes other rooms at their sides. What follows from other arrows
shows only when a room is pointed at. What leads to ``core``, ``core/files`` and ``errors`` is left
out: most rooms import them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias
from xml.sax.saxutils import escape

import igraph
import networkx as nx

from tests.house.test_layers import FLOORS, dependency, imports, modules, room_of

PICTURE = Path(__file__).parent / "pictures" / "house.svg"

Way: TypeAlias = tuple[tuple[float, float], ...]
"""Points by which an arrow passes other floors, in pixels."""

Place: TypeAlias = tuple[str] | tuple[str, str, int]
"""A room, or where the arrow from a room to another passes a level between them."""

_EVERYWHERE = {"core", "core/files", "errors"}
_WIDTH, _ROW, _BOX, _MARGIN, _GAP = 1240, 76, 32, 132, 44
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
    held = {room for row in _rows().values() for room in row}
    needed = [edge for edge in nx.transitive_reduction(down).edges if held.issuperset(edge)]
    boxes, ways = _placed(sorted((a, b) for a, b in needed if b not in _EVERYWHERE))
    shown = nx.DiGraph((a, b) for a, b in graph.edges if b not in _EVERYWHERE)
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
        *(_room(room, shown, ways, boxes) for room in boxes),
        (
            f'<text x="{_MARGIN - 100}" y="{height - 16:.0f}" fill="{_PALE}">A line: the upper '
            "imports the lower. What follows from others is not drawn, nor that most import core, "
            "core/files and errors. Point at a room to see all of its own.</text>"
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


_STYLE = f"""<style>
path {{ fill: none; stroke: {_INK}; stroke-width: 1.1; stroke-opacity: .55; }}
path.implied {{ stroke-opacity: 0; pointer-events: none; }}
g:hover > path {{ stroke: {_ACCENT}; stroke-opacity: 1; stroke-width: 1.8; }}
g:hover > rect {{ stroke: {_ACCENT}; }}
</style>"""


def _rows() -> dict[int, list[str]]:
    rows: dict[int, list[str]] = {}
    for room, floor in FLOORS.items():
        if room not in {"", "__main__", "prove"}:  # they only name what they hold
            rows.setdefault(floor, []).append(room)
    return rows


def _placed(needed: list[tuple[str, str]]) -> tuple[dict[str, Box], dict[tuple[str, str], Way]]:
    """Return where rooms stand, and by which points the arrows between them pass other floors."""
    rows = _rows()
    levels = {floor: level for level, floor in enumerate(sorted(rows, reverse=True))}
    level_of: dict[Place, int] = {
        (room,): levels[floor] for floor, row in rows.items() for room in row
    }
    lines: list[tuple[Place, Place]] = []
    for a, b in needed:
        between = range(level_of[(a,)] + 1, level_of[(b,)])
        passed: list[Place] = [(a, b, level) for level in between]
        level_of |= {place: place[2] for place in passed if len(place) == 3}
        lines += pairwise([(a,), *passed, (b,)])
    across = _across(level_of, lines)
    boxes = {
        place[0]: Box(place[0], across[place] - _wide(place), 24 + level * _ROW, 2 * _wide(place))
        for place, level in level_of.items()
        if len(place) == 1
    }
    ways: dict[tuple[str, str], Way] = {
        (a, b): tuple(
            (across[a, b, level], 24 + level * _ROW + part)
            for level in range(level_of[(a,)] + 1, level_of[(b,)])
            for part in (0, _BOX)
        )
        for a, b in needed
    }
    return boxes, ways


def _wide(place: Place) -> float:
    """Return half of the room that a room, or an arrow that passes, takes."""
    return (7.6 * len(place[0]) + 26) / 2 if len(place) == 1 else 2


def _across(level_of: dict[Place, int], lines: list[tuple[Place, Place]]) -> dict[Place, float]:
    """Return how far from the left everything lies: by few crossings, and nothing upon another."""
    places = sorted({place for line in lines for place in line})
    graph = igraph.Graph([(places.index(a), places.index(b)) for a, b in lines], directed=True)
    layers = [level_of[place] for place in places]
    layout = graph.layout_sugiyama(layers, hgap=_GAP, vgap=1, maxiter=1000)
    across = dict.fromkeys(level_of, 0.0)
    across |= {place: x for place, (x, _) in zip(places, layout.coords, strict=True)}
    for level in set(level_of.values()):
        row = sorted((p for p in level_of if level_of[p] == level), key=lambda p: (across[p], p))
        for left, right in pairwise(row):
            least = across[left] + _wide(left) + _wide(right) + 14
            across[right] = max(across[right], least)
    used = [place for place in places if len(place) == 1]
    shift = _WIDTH / 2 + 24 - (min(across[p] for p in used) + max(across[p] for p in used)) / 2
    return {
        place: x + shift if place in used or len(place) == 3 else _WIDTH / 2 + 24
        for place, x in across.items()
    }


def _floors(boxes: dict[str, Box]) -> Iterable[str]:
    tops = sorted({box.top: FLOORS[box.room] for box in boxes.values()}.items())
    for top, floor in tops:
        yield f'<text x="32" y="{top + 22:.0f}" fill="{_PALE}">floor {floor}</text>'
    for (above, _), (below, _) in pairwise(tops):
        y = (above + _BOX + below) / 2
        yield f'<line x1="32" x2="{_WIDTH - 30}" y1="{y:.0f}" y2="{y:.0f}" stroke="#eceef1"/>'


def _room(
    room: str, graph: nx.DiGraph, ways: dict[tuple[str, str], Way], boxes: dict[str, Box]
) -> str:
    box = boxes[room]
    lines = []
    for target in sorted(graph[room]) if room in graph else []:
        if target in boxes:
            way = ways.get((room, target))
            kind = "implied" if way is None else "needed"
            lines.append(f'<path class="{kind}" d="{_curve(box, way or (), boxes[target])}"/>')
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


def _curve(source: Box, way: Way, target: Box) -> str:
    """Return a curve from under one box, by points between others, to above another."""
    x, y = source.middle, source.top + _BOX
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in (*way, (target.middle, target.top)):
        bend = (to_y - y) / 2
        parts.append(f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(parts)


def main() -> None:
    """Write the drawing."""
    PICTURE.write_text(drawing(), encoding="utf-8")


if __name__ == "__main__":
    main()
