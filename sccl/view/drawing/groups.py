"""Groups of ranks, each drawn by its own form in a cell of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sccl.view.drawing.forms import Drawing, Neighbours, is_clique, natural
from sccl.view.drawing.geometry import Position, on_circle, to_segment
from sccl.view.drawing.stress import pushed_apart, spread

_RING = 20  # groups that stand in a circle; more stand in rows
_GAP, _CORRIDOR = 0.5, 1.8  # between cells, beside a cell's side of 1; also with others between
_NAME = (
    0.02  # likewise, for the names of boxes and each group: the more, the smaller they are drawn
)
_BESIDE, _ROUNDS = 0.35, 20  # between such nodes, likewise
_TILT = 0.25  # of a place: ranks of neighbouring cells are then not in line with one another

_CLEAR = 0.15  # of a cell: nearer to a rank, a straight link would seem to lead to it
_IN_THE_WAY = 10.0

_TURNS: tuple[Callable[[float, float], Position], ...] = (
    lambda x, y: (x, y),
    lambda x, y: (-x, y),
    lambda x, y: (x, -y),
    lambda x, y: (-x, -y),
    lambda x, y: (y, x),  # from here on, what was wide becomes tall
    lambda x, y: (-y, x),
    lambda x, y: (y, -x),
    lambda x, y: (-y, -x),
)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that belong together, and their label."""

    members: tuple[int, ...]
    label: str


def arrange(
    nodes: Sequence[int],
    neighbours: Neighbours,
    groups: Sequence[NodeGroup] = (),
    depth: int = 0,
    gap: float = _GAP,
) -> tuple[Drawing, list[NodeGroup]]:
    """Return a drawing by groups, and the groups. By distances if there are none.

    Args:
        nodes: ascending. The part of the graph to draw.
        neighbours: of every node.
        groups: given ones. Otherwise fully joined groups of consecutive nodes are looked for.
        depth: how many groups this one lies in. Two cells change direction with it.
        gap: between cells, beside a cell's side of 1.
    """
    found = list(groups) or fully_joined(nodes, neighbours)
    if not found:
        return spread(nodes, neighbours), []
    inside = [_inside(group.members, neighbours, depth + 1) for group in found]
    across, down = (max(_extent(d, axis) for d in inside) for axis in (0, 1))
    below = gap + _NAME * min(len(found), _RING)
    centres = _centres(len(found), across + gap, down + below, tall=depth % 2 == 1)
    cell = {node: group for group in found for node in group.members}
    placed: Drawing = {}
    for _ in range(2):  # the second time, all the others are there to turn towards
        for group, drawing, centre in zip(found, inside, centres, strict=True):
            for node in group.members:
                placed.pop(node, None)
            options = [
                {n: _moved(turn(*point), centre) for n, point in drawing.items()}
                for turn in (
                    _TURNS if abs(_extent(drawing, 0) - _extent(drawing, 1)) < 0.2 else _TURNS[:4]
                )
            ]
            costs = [round(_cost(option, placed, neighbours, cell), 9) for option in options]
            placed |= options[costs.index(min(costs))]
    return placed, found


def arrange_around(
    nodes: Sequence[int], neighbours: Neighbours, groups: Sequence[NodeGroup]
) -> Drawing:
    """Return a drawing by given groups, with all other nodes between them.

    Each of the others stands in the middle of its neighbours, those of one group as one.
    """
    ranks = sorted(node for group in groups for node in group.members)
    placed, _ = arrange(ranks, neighbours, groups, gap=_CORRIDOR)
    others = [node for node in nodes if node not in placed]
    points = dict.fromkeys(others, _middle(list(placed.values())))
    cells = [{*group.members} for group in groups] + [{node} for node in others]
    for _ in range(_ROUNDS):
        for node in others:
            known = placed | points
            near = [sorted(neighbours[node] & cell) for cell in cells]
            points[node] = _middle([_middle([known[n] for n in some]) for some in near if some])
    return placed | dict(zip(others, pushed_apart(list(points.values()), _BESIDE), strict=True))


def star_by_groups(
    nodes: Sequence[int], neighbours: Neighbours, groups: Sequence[NodeGroup]
) -> Drawing | None:
    """Return a star with its groups in sequence on a circle, a gap after each. None: no star."""
    if (star := next(natural(nodes, neighbours), None)) is None or (0.0, 0.0) not in star.values():
        return None
    hub = next(node for node, point in star.items() if point == (0.0, 0.0))
    if any(neighbours[node] != {hub} for node in nodes if node != hub):
        return None
    grouped = [group.members for group in groups]
    rest = tuple(sorted({*nodes} - {hub} - {n for group in grouped for n in group}))
    order = [node for group in (*grouped, rest) if group for node in (*group, None)]
    places = on_circle(len(order), 0.5)
    placed = {node: place for node, place in zip(order, places, strict=True) if node is not None}
    return placed | {hub: (0.0, 0.0)}


def _middle(points: Sequence[Position]) -> Position:
    count = len(points) or 1
    return sum(x for x, _ in points) / count, sum(y for _, y in points) / count


def fully_joined(nodes: Sequence[int], neighbours: Neighbours) -> list[NodeGroup]:
    """Return the largest fully joined groups of consecutive nodes that the graph consists of.

    They hold most of the links, or every two of them are joined alike, by at most as many links as
    there are in one.
    """
    for size in range(len(nodes) // 2, 1, -1):
        parts = [tuple(nodes[i : i + size]) for i in range(0, len(nodes), size)]
        if len(nodes) % size or not all(is_clique(part, neighbours) for part in parts):
            continue
        within, between = size * (size - 1) // 2, _between(parts, neighbours)
        alike = len(set(between)) == 1 and between[0] <= within
        if alike or (size > 2 and sum(between) < len(parts) * within):
            return [NodeGroup(part, f"group {i}") for i, part in enumerate(parts)]
    return []


def _between(parts: Sequence[tuple[int, ...]], neighbours: Neighbours) -> list[int]:
    """Return how many links join each two of some parts."""
    return [
        sum(len(neighbours[node] & set(other)) for node in part)
        for part, other in combinations(parts, 2)
    ]


def _inside(members: Sequence[int], neighbours: Neighbours, depth: int) -> Drawing:
    """Return the drawing of one group in the square from -1/2 to 1/2."""
    ordered = sorted(members)
    drawing = next(natural(ordered, neighbours), None)
    if drawing is None:
        drawing, _ = arrange(ordered, neighbours, depth=depth)
    elif len(ordered) > 2 and _is_round(drawing):
        drawing = {n: _turned(point, len(ordered)) for n, point in drawing.items()}
    xs, ys = [x for x, _ in drawing.values()], [y for _, y in drawing.values()]
    size = max(_extent(drawing, 0), _extent(drawing, 1)) or 1.0
    x0, y0 = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return {n: ((x - x0) / size, (y - y0) / size) for n, (x, y) in drawing.items()}


def _is_round(drawing: Drawing) -> bool:
    return all(math.isclose(math.hypot(*point), 1.0) for point in drawing.values())


def _turned(point: Position, count: int) -> Position:
    angle = 2 * math.pi * _TILT / count
    x, y = point
    return (
        x * math.cos(angle) - y * math.sin(angle),
        x * math.sin(angle) + y * math.cos(angle),
    )


def _centres(count: int, across: float, down: float, *, tall: bool) -> list[Position]:
    """Return the centres of cells of a width and a height."""
    if count == 2:
        return [(0.0, 0.0), (0.0, down) if tall else (across, 0.0)]
    if count <= _RING and count != 4:
        ring = on_circle(count)
        scale = max(
            min(across / (abs(a[0] - b[0]) or 1e-9), down / (abs(a[1] - b[1]) or 1e-9))
            for i, a in enumerate(ring)
            for b in ring[:i]
        )
        return [(x * scale, y * scale) for x, y in ring]
    columns = math.ceil(math.sqrt(count))
    return [(i % columns * across, i // columns * down) for i in range(count)]


def _extent(drawing: Drawing, axis: int) -> float:
    along = [point[axis] for point in drawing.values()]
    return max(along) - min(along)


def _moved(point: Position, centre: Position) -> Position:
    return point[0] + centre[0], point[1] + centre[1]


def _cost(
    option: Drawing, placed: Drawing, neighbours: Neighbours, cell: Mapping[int, NodeGroup]
) -> float:
    """Return the squared length of links to placed nodes, plus a cost for obstacles."""
    found = 0.0
    for node, here in option.items():
        for other in sorted(neighbours[node] & placed.keys()):
            there = placed[other]
            found += math.dist(here, there) ** 2
            third = [point for n, point in option.items() if n != node]
            third += [placed[n] for n in cell[other].members if n != other]
            blocked = sum(to_segment(point, here, there) < _CLEAR for point in third)
            found += _IN_THE_WAY * blocked
    return found
