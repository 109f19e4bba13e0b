"""Draw known kinds of graphs: cycles, paths, stars, grids, hypercubes, and circulant graphs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product

Position = tuple[float, float]


def on_circle(count: int, turn: float = 0.0) -> list[Position]:
    """Return ``count`` points on the unit circle, clockwise as drawn, the first at the top.

    Args:
        turn: number of places, possibly fractional, by which all points are rotated.
    """
    angles = (2 * math.pi * ((i + turn) / count - 0.25) for i in range(count))
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


def min_distance(points: Sequence[Position]) -> float:
    """Return the smallest distance between two points (1 if there are fewer)."""
    order = sorted(points)
    nearest = math.inf
    for i, (x, y) in enumerate(order):
        for point in order[i + 1 :]:
            if point[0] - x >= nearest:
                break
            nearest = min(nearest, math.dist((x, y), point))
    return nearest if math.isfinite(nearest) else 1.0


def segment_distance(point: Position, start: Position, end: Position) -> float:
    """Return the distance of a point from the line segment between two others."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    square = dx * dx + dy * dy
    along = ((point[0] - start[0]) * dx + (point[1] - start[1]) * dy) / square if square else 0.0
    along = min(max(along, 0.0), 1.0)
    return math.dist(point, (start[0] + along * dx, start[1] + along * dy))


Neighbors = Mapping[int, AbstractSet[int]]
Drawing = dict[int, Position]

_DENSE = 0.8  # share of joined pairs from which no layout is clearer than a circle
_MISSING = 0.1  # maximum share of missing links with which a grid is still recognized
_MAX_HOLED_NODES = 256  # nodes up to which a grid with one missing node is recognized
_ROW = 10  # maximum length of a path that is drawn in one line
_DEPTH, _BETWEEN, _SLANT = (0.38, 0.32), 0.35, 0.3
"""Fractions of a grid's cell. With these values, no straight link of a hypercube of up to 5
dimensions passes through a third rank.
"""


def recognized_forms(nodes: Sequence[int], neighbours: Neighbors) -> Iterator[Drawing]:
    """Yield drawings of a graph of a known kind, best first. Yield none for other graphs.

    Args:
        nodes: nodes to draw, ascending.
        neighbours: neighbors of every node, including nodes that are not drawn.
    """
    inside = set(nodes)
    number = {node: i for i, node in enumerate(nodes)}
    graph = [{number[n] for n in neighbours[node] & inside} for node in nodes]
    for drawing in _drawings(graph):
        yield {node: drawing[i] for i, node in enumerate(nodes)}


def _drawings(graph: Sequence[AbstractSet[int]]) -> Iterator[Sequence[Position]]:
    size = len(graph)
    pairs = sum(len(near) for near in graph) // 2
    if size <= 2:
        yield [(float(i), 0.0) for i in range(size)]
    elif (hub := _hub(graph)) is not None:
        around = iter(on_circle(size - 1))
        yield [(0.0, 0.0) if i == hub else next(around) for i in range(size)]
    elif (order := _chain(graph)) and not _grid_coordinates(graph):
        closed = order[0] in graph[order[-1]]
        yield from _circles(order) if closed else [_path_line(order)]
    elif coordinates := _grid_coordinates(graph) or _hypercube_coordinates(graph):
        yield _to_positions(coordinates)
    elif _is_rotation_symmetric(graph) or pairs >= _DENSE * size * (size - 1) / 2:
        yield from _circles(range(size))
    elif coordinates := _holed_grid_coordinates(graph):
        yield _to_positions(coordinates)


def _to_positions(coordinates: Sequence[tuple[int, ...]]) -> Sequence[Position]:
    sides = [max(x) + 1 for x in zip(*coordinates, strict=True)]
    return [_oblique(at, sides) for at in coordinates]


def _circles(order: Sequence[int]) -> Iterator[Sequence[Position]]:
    """Yield nodes on a circle, in rotations by half a place."""
    for half in range(2 * len(order)):
        place = dict(zip(order, on_circle(len(order), half / 2), strict=True))
        yield [place[i] for i in range(len(order))]


def _path_line(order: Sequence[int]) -> Sequence[Position]:
    """Return a path as a line or, if it is long, in rows of alternating direction."""
    columns = len(order) if len(order) <= _ROW else math.ceil(math.sqrt(len(order)))
    place: Drawing = {}
    for i, node in enumerate(order):
        row, column = divmod(i, columns)
        place[node] = (float(columns - 1 - column if row % 2 else column), float(row))
    return [place[i] for i in range(len(order))]


def _hub(graph: Sequence[AbstractSet[int]]) -> int | None:
    """Return the center of a star, or None for another graph."""
    hubs = [i for i, near in enumerate(graph) if len(near) == len(graph) - 1]
    is_star = sum(len(near) == 1 for near in graph) == len(graph) - 1
    return hubs[0] if len(graph) > 3 and len(hubs) == 1 and is_star else None


def _chain(graph: Sequence[AbstractSet[int]]) -> list[int]:
    """Return the nodes of a path or a cycle in order, or an empty list for another graph."""
    ends = [i for i, near in enumerate(graph) if len(near) == 1]
    if len(ends) not in {0, 2} or any(not 1 <= len(near) <= 2 for near in graph):
        return []
    order, seen = [ends[0] if ends else 0], {ends[0] if ends else 0}
    while following := sorted(graph[order[-1]] - seen):
        order.append(following[0])
        seen.add(following[0])
    return order if len(order) == len(graph) else []


def _is_rotation_symmetric(graph: Sequence[AbstractSet[int]]) -> bool:
    """Return whether adding one to every number, modulo their count, maps the graph to itself."""
    size = len(graph)
    return all(
        graph[(i + 1) % size] == {(n + 1) % size for n in near} for i, near in enumerate(graph)
    )


def _hypercube_coordinates(graph: Sequence[AbstractSet[int]]) -> list[tuple[int, ...]]:
    """Return the coordinates of the nodes of a hypercube with any numbering, else an empty list."""
    size = len(graph)
    dimensions = size.bit_length() - 1
    if size != 1 << dimensions or any(len(near) != dimensions for near in graph):
        return []
    code = {0: 0} | {node: 1 << i for i, node in enumerate(sorted(graph[0]))}
    rim = sorted(graph[0])
    while rim:
        reached: dict[int, int] = {}
        for node in rim:
            for neighbor in graph[node] - code.keys():
                reached[neighbor] = reached.get(neighbor, 0) | code[node]
        code |= reached
        rim = sorted(reached)
    right = len(set(code.values())) == size and all(
        (code[i] ^ code[n]).bit_count() == 1 for i, near in enumerate(graph) for n in near
    )
    if not right:
        return []
    return [tuple(code[i] >> b & 1 for b in reversed(range(dimensions))) for i in range(size)]


def _holed_grid_coordinates(graph: Sequence[AbstractSet[int]]) -> list[tuple[int, ...]]:
    """Return the coordinates of the nodes of a grid without one node, else an empty list."""
    gaps = range(len(graph) + 1 if len(graph) <= _MAX_HOLED_NODES else 0)
    return next(filter(None, (_grid_coordinates(graph, gap) for gap in gaps)), [])


def _grid_coordinates(
    graph: Sequence[AbstractSet[int]], gap: int | None = None
) -> list[tuple[int, ...]]:
    """Return the coordinates of the nodes of a mesh or torus, else an empty list.

    Nodes must be numbered row by row.

    Args:
        graph: neighbors of each node.
        gap: number of a missing node in the complete grid. None: no node is missing.
    """
    number = [i + (gap is not None and i >= gap) for i in range(len(graph))]
    size = len(graph) + (gap is not None)
    joined = {(number[i], number[n]) for i, near in enumerate(graph) for n in near if i < n}
    jumps = {b - a for a, b in joined}
    if len(jumps) > 2 * size.bit_length():  # two per dimension: next node, and wrap
        return []
    for sides in _sides(jumps, size):
        wanted = {pair for pair in _grid_pairs(sides, jumps) if gap not in pair}
        if joined <= wanted and len(joined) >= (1 - _MISSING) * len(wanted):
            coordinates = list(product(*(range(side) for side in sides)))
            return [coordinates[at] for at in number]
    return []


def _sides(jumps: AbstractSet[int], size: int, stride: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield the possible sides of a grid in which numbers of neighbors differ by ``jumps``."""
    if stride not in jumps:
        return
    if size % stride == 0 and size // stride > 1 and stride > 1:
        yield (size // stride,)
    for longer in sorted(n for n in jumps if n > stride and n % stride == 0 and size % n == 0):
        for rest in _sides(jumps, size, longer):
            yield (*rest, longer // stride)


def _grid_pairs(sides: Sequence[int], jumps: AbstractSet[int]) -> set[tuple[int, int]]:
    """Return the linked pairs of a grid. A dimension wraps around if ``jumps`` has its wrap."""
    pairs = set()
    size, stride = math.prod(sides), 1
    for side in reversed(sides):
        last = (side - 1) * stride
        for node in range(size):
            at = node // stride % side
            if at < side - 1:
                pairs.add((node, node + stride))
            elif side > 2 and last in jumps:
                pairs.add((node - last, node))
        stride *= side
    return pairs


def _oblique(at: Sequence[int], sides: Sequence[int]) -> Position:
    """Return the position of a node of a grid of any dimension.

    The last two coordinates span a plane. The third from last is drawn as depth within a cell of
    the plane, so that no node and no link hides another. For each further coordinate, copies of the
    drawing lie side by side, with a small offset, so that links between them pass next to the ranks
    of a row.
    """
    *outer, row, column = at
    x, y = float(column), float(row)
    extent = [sides[-1] - 1.0, sides[-2] - 1.0]
    if outer:
        depth = outer[-1] / sides[-3]
        x, y = x + 2 * _DEPTH[0] * depth, y - 2 * _DEPTH[1] * depth
        extent = [extent[0] + _DEPTH[0], extent[1] + _DEPTH[1]]
    for i, (position, side) in enumerate(zip(outer[-2::-1], sides[-4::-1], strict=False)):
        along, aside = i % 2, 1 - i % 2
        pitch, slant = extent[along] + _BETWEEN, (-_SLANT if i % 2 else _SLANT)
        shift = {along: pitch * position, aside: slant * position}
        x, y = x + shift[0], y + shift[1]
        extent[along] += pitch * (side - 1)
        extent[aside] += _SLANT * (side - 1)
    return x, y


def is_clique(members: Sequence[int], neighbours: Neighbors) -> bool:
    """Return whether all members are neighbors of one another."""
    inside = set(members)
    return all(inside - {m} <= neighbours[m] for m in members)
