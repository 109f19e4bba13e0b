"""Lay out groups of ranks, each in a cell of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sccl.view.drawing.graph_forms import (
    Drawing,
    Neighbors,
    Position,
    is_clique,
    on_circle,
    recognized_forms,
    segment_distance,
)
from sccl.view.drawing.stress_layout import push_apart, spread_by_stress

_RING = 20  # maximum number of groups in a circle, beyond which they form rows
_GAP, _CORRIDOR = 0.5, 1.8  # distance of cells of side 1, without and with nodes between them
_NAME = (
    0.02  # additional distance per group for the names of boxes, since many groups are drawn small
)
_NODE_DISTANCE, _ROUNDS = 0.35, 20  # minimum distance of nodes between cells, and iterations
_TILT = 0.25  # rotation of a circle by a part of a place, so that ranks of cells do not line up

_CLEAR = 0.15  # distance of a link from a rank below which it seems to end there
_OBSTRUCTION_COST = 10.0

_TURNS: tuple[Callable[[float, float], Position], ...] = (
    lambda x, y: (x, y),
    lambda x, y: (-x, y),
    lambda x, y: (x, -y),
    lambda x, y: (-x, -y),
    lambda x, y: (y, x),  # from here on, width and height are exchanged
    lambda x, y: (-y, x),
    lambda x, y: (y, -x),
    lambda x, y: (-y, -x),
)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of nodes, with its label."""

    members: tuple[int, ...]
    label: str


def arrange(
    nodes: Sequence[int],
    neighbours: Neighbors,
    groups: Sequence[NodeGroup] = (),
    depth: int = 0,
    gap: float = _GAP,
) -> tuple[Drawing, list[NodeGroup]]:
    """Return a drawing by groups, and the groups. Without groups, draw by graph distances.

    Args:
        nodes: nodes to draw, ascending.
        neighbours: neighbors of every node of the graph.
        groups: groups. Empty: cliques of consecutive nodes, if there are any.
        depth: number of groups that contain this drawing. Two cells lie side by side at even
            depths, and one below the other at odd ones.
        gap: distance between cells of side 1.
    """
    all_groups = list(groups) or clique_groups(nodes, neighbours)
    if not all_groups:
        return spread_by_stress(nodes, neighbours), []
    inside = [_group_drawing(group.members, neighbours, depth + 1) for group in all_groups]
    across, down = (max(_extent(d, axis) for d in inside) for axis in (0, 1))
    below = gap + _NAME * min(len(all_groups), _RING)
    centers = _cell_centers(len(all_groups), across + gap, down + below, tall=depth % 2 == 1)
    cell = {node: group for group in all_groups for node in group.members}
    placed: Drawing = {}
    for _ in range(2):  # in the second pass, all other groups are already placed
        for group, drawing, center in zip(all_groups, inside, centers, strict=True):
            for node in group.members:
                placed.pop(node, None)
            options = [
                {n: (x + center[0], y + center[1]) for n, (x, y) in turned.items()}
                for turned in _turned_drawings(drawing)
            ]
            costs = [round(_cost(option, placed, neighbours, cell), 9) for option in options]
            placed |= options[costs.index(min(costs))]
    return placed, all_groups


def _turned_drawings(drawing: Drawing) -> Iterator[Drawing]:
    """Yield a drawing in all turns, those that exchange width and height only if it is square."""
    is_square = abs(_extent(drawing, 0) - _extent(drawing, 1)) < 0.2
    for turn in _TURNS if is_square else _TURNS[:4]:
        yield {node: turn(*point) for node, point in drawing.items()}


def arrange_around(
    nodes: Sequence[int], neighbours: Neighbors, groups: Sequence[NodeGroup]
) -> Drawing:
    """Return a drawing by groups, with all other nodes between them.

    Each other node is at the mean of its neighbors' positions, where the neighbors in one group
    count as one position, their mean.
    """
    ranks = sorted(node for group in groups for node in group.members)
    placed, _ = arrange(ranks, neighbours, groups, gap=_CORRIDOR)
    others = [node for node in nodes if node not in placed]
    points = dict.fromkeys(others, _centroid(list(placed.values())))
    cells = [{*group.members} for group in groups] + [{node} for node in others]
    for _ in range(_ROUNDS):
        for node in others:
            positions = placed | points
            near = [sorted(neighbours[node] & cell) for cell in cells]
            points[node] = _centroid(
                [_centroid([positions[n] for n in members]) for members in near if members]
            )
    return placed | dict(
        zip(others, push_apart(list(points.values()), _NODE_DISTANCE), strict=True)
    )


def star_by_groups(
    nodes: Sequence[int], neighbours: Neighbors, groups: Sequence[NodeGroup]
) -> Drawing | None:
    """Return a star with its groups in sequence on a circle, a gap after each, or None if none."""
    if (star := next(recognized_forms(nodes, neighbours), None)) is None or (
        0.0,
        0.0,
    ) not in star.values():
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


def _centroid(points: Sequence[Position]) -> Position:
    count = len(points) or 1
    return sum(x for x, _ in points) / count, sum(y for _, y in points) / count


def clique_groups(nodes: Sequence[int], neighbours: Neighbors) -> list[NodeGroup]:
    """Return the partition into the largest equal cliques of consecutive nodes, or an empty list.

    It must satisfy one of two conditions: cliques of three or more nodes contain most of the links,
    or every two cliques are joined by the same number of links, at most as many as a clique has.
    """
    for size in range(len(nodes) // 2, 1, -1):
        parts = [tuple(nodes[i : i + size]) for i in range(0, len(nodes), size)]
        if len(nodes) % size or not all(is_clique(part, neighbours) for part in parts):
            continue
        within = size * (size - 1) // 2
        between = [sum(len(neighbours[n] & {*b}) for n in a) for a, b in combinations(parts, 2)]
        alike = len(set(between)) == 1 and between[0] <= within
        if alike or (size > 2 and sum(between) < len(parts) * within):
            return [NodeGroup(part, f"group {i}") for i, part in enumerate(parts)]
    return []


def _group_drawing(members: Sequence[int], neighbours: Neighbors, depth: int) -> Drawing:
    """Return the drawing of one group in the square from -1/2 to 1/2."""
    ordered = sorted(members)
    drawing = next(recognized_forms(ordered, neighbours), None)
    if drawing is None:
        drawing, _ = arrange(ordered, neighbours, depth=depth)
    elif len(ordered) > 2 and all(math.isclose(math.hypot(*at), 1.0) for at in drawing.values()):
        drawing = {n: _rotate(point, len(ordered)) for n, point in drawing.items()}
    xs, ys = [x for x, _ in drawing.values()], [y for _, y in drawing.values()]
    size = max(_extent(drawing, 0), _extent(drawing, 1)) or 1.0
    x0, y0 = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return {n: ((x - x0) / size, (y - y0) / size) for n, (x, y) in drawing.items()}


def _rotate(point: Position, count: int) -> Position:
    angle = 2 * math.pi * _TILT / count
    x, y = point
    return (
        x * math.cos(angle) - y * math.sin(angle),
        x * math.sin(angle) + y * math.cos(angle),
    )


def _cell_centers(count: int, across: float, down: float, *, tall: bool) -> list[Position]:
    """Return the centers of cells, given their width and height."""
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


def _cost(
    option: Drawing, placed: Drawing, neighbours: Neighbors, cell: Mapping[int, NodeGroup]
) -> float:
    """Return the sum of squared link lengths to placed nodes, plus a cost for each obstruction."""
    cost = 0.0
    for node, source in option.items():
        for neighbor in sorted(neighbours[node] & placed.keys()):
            target = placed[neighbor]
            cost += math.dist(source, target) ** 2
            third = [point for n, point in option.items() if n != node]
            third += [placed[n] for n in cell[neighbor].members if n != neighbor]
            blocked = sum(segment_distance(point, source, target) < _CLEAR for point in third)
            cost += _OBSTRUCTION_COST * blocked
    return cost
