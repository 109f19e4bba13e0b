"""Place the ranks of a machine in a drawing that shows its structure.

If only switches connect the ranks, nodes are drawn in tiers: switches above the nodes that they
connect. Links are bent around ranks that they do not connect.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sccl.core.graphs import distances
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.view.drawing.graph_forms import (
    Neighbors,
    Position,
    min_distance,
    recognized_forms,
    segment_distance,
)
from sccl.view.drawing.group_layout import NodeGroup, arrange, arrange_around, star_by_groups
from sccl.view.drawing.stress_layout import spread_by_stress

__all__ = ["Box", "Layout", "Rectangle", "control_points", "layout_topology", "on_curve"]

MARGIN = 0.08
NAME = 0.04  # height of the name of a box, above it
_LARGEST_RADIUS = 0.045
_DENSE = 9  # links per rank above which links are not bent, since that makes nothing clearer
_PLAIN = 2  # links per rank up to which large ranks hide nothing, as in a ring
_SHRINK_FACTOR = 0.6  # minimum scale of the radius for which all links can stay straight
_AROUND_SWITCH, _MAX_GROWTH = 18, 4.0  # links at a switch of usual size, and maximum scale of it
_CROWD = 64  # ranks above which they are drawn smaller, so that links stay visible between them


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A part of a picture, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def center(self) -> Position:
        """Return the center."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def overlaps(self, rectangle: Rectangle) -> bool:
        """Return whether both rectangles intersect."""
        across = self.left < rectangle.right and rectangle.left < self.right
        return across and self.top < rectangle.bottom and rectangle.top < self.bottom

    def is_within(self, rectangle: Rectangle) -> bool:
        """Return whether this rectangle lies within ``rectangle``."""
        across = rectangle.left <= self.left and self.right <= rectangle.right
        return across and rectangle.top <= self.top and self.bottom <= rectangle.bottom


@dataclass(frozen=True, slots=True)
class Box(Rectangle):
    """A labeled rectangle around a group of ranks, in the unit square."""

    label: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing of a topology in the unit square, y downwards.

    Attributes:
        positions: position of every rank, then of every switch.
        bends: offset of the middle of each link of ``topology.links`` from the straight line, in
            units of the square, to the left in the direction from src to dst.
            :func:`control_points` gives the curve. The two directions of a pair share one curve:
            code that draws both must separate them.
        boxes: boxes of chassis, or of groups found in the graph.
        radius: radius of a rank, such that no two ranks touch and no link meets a third rank.
        switch_radius: half the side of the square that shows a switch. It exceeds ``radius`` if the
            only switch has so many links that their lines would meet outside of the square.
    """

    positions: tuple[Position, ...]
    bends: tuple[float, ...]
    boxes: tuple[Box, ...]
    radius: float
    switch_radius: float


@lru_cache(maxsize=32)  # a machine is drawn in several charts and pages
def layout_topology(topology: Topology) -> Layout:
    """Return the positions of ranks and switches, and the bends of links.

    Equal topologies get equal layouts. Cycles and circulant graphs are drawn on a circle, meshes
    and tori as grids, and hypercubes as cubes. Ranks that only switches connect are drawn in a row,
    and chassis and cliques of ranks as boxes. For other graphs, distances in the drawing
    approximate those in the graph.
    """
    nodes = range(topology.ranks + len(topology.switches))
    neighbours: dict[int, set[int]] = {node: set() for node in nodes}
    for src, dst in topology.edges:
        neighbours[src].add(dst)
        neighbours[dst].add(src)
    placed, boxes = _best_drawing(topology, neighbours)
    positions = tuple(placed[node] for node in nodes)
    room, edges = min_distance(positions), [link.edge for link in topology.links]
    dense = len(edges) > _DENSE * len(positions)
    plain = len(edges) <= _PLAIN * len(positions)
    share = 0.15 if dense else 0.28 if len(positions) <= _CROWD else 0.34 if plain else 0.2
    radius = min(_LARGEST_RADIUS, share * room)
    if len(positions) <= _CROWD:
        narrow = 0.999 * min_clearance(positions, edges) / CLEAR  # links stay straight
        radius = narrow if _SHRINK_FACTOR * radius <= narrow < radius else radius
    bends = [0.0] * len(edges) if dense else compute_bends(positions, edges, radius, room)
    return Layout(
        tuple((round(x, 6), round(y, 6)) for x, y in positions),
        tuple(round(bend, 6) for bend in bends),
        boxes,
        round(radius, 6),
        round(radius * _switch_scale(topology, neighbours), 6),
    )


def _switch_scale(topology: Topology, neighbours: Neighbors) -> float:
    """Return the size of a switch relative to a rank."""
    if len(topology.switches) != 1:
        return 1.0
    return min(max(1.0, len(neighbours[topology.ranks]) / _AROUND_SWITCH), _MAX_GROWTH)


def _best_drawing(
    topology: Topology, neighbours: Neighbors
) -> tuple[dict[int, Position], tuple[Box, ...]]:
    """Return the best drawing and its boxes: a known kind of graph if no chassis overlap in it."""
    nodes = sorted(neighbours)
    chassis = topology.chassis if len(topology.chassis) > 1 else ()
    groups = [
        NodeGroup((*ranks, *_inner_switches(topology, neighbours, ranks)), f"chassis {i}")
        for i, ranks in enumerate(chassis)
    ]
    if (tiers := layout_in_tiers(topology, neighbours)) is not None:
        placed = fit_unit_square(tiers)
        boxes = _group_boxes(placed, groups)
        return placed, boxes if _are_boxes_clear(placed, boxes) else ()
    if groups and (star := star_by_groups(nodes, neighbours, groups)):
        return fit_unit_square(star), ()
    best: tuple[float, dict[int, Position], tuple[Box, ...]] | None = None
    for drawing in recognized_forms(nodes, neighbours):
        placed = fit_unit_square(drawing)
        if not groups:
            return placed, ()
        boxes = _group_boxes(placed, groups)
        leftmost = round(sum(placed[rank][0] for rank in groups[0].members), 6)
        if not _do_boxes_overlap(boxes) and (best is None or leftmost < best[0]):
            best = leftmost, placed, boxes
    if best:
        return best[1:]
    if groups and {rank for group in groups for rank in group.members} != set(nodes):
        return _place_outside_nodes(nodes, neighbours, groups)
    arranged, groups = arrange(nodes, neighbours, groups)
    placed = fit_unit_square(arranged)
    return placed, _group_boxes(placed, groups)


def _inner_switches(topology: Topology, neighbours: Neighbors, ranks: Sequence[int]) -> list[int]:
    """Return the switches that connect only the given ranks of one chassis."""
    switches = range(topology.ranks, topology.ranks + len(topology.switches))
    return [node for node in switches if neighbours[node] and neighbours[node] <= {*ranks}]


def _place_outside_nodes(
    nodes: Sequence[int], neighbours: Neighbors, groups: Sequence[NodeGroup]
) -> tuple[dict[int, Position], tuple[Box, ...]]:
    """Return a drawing with switches, or ranks without a chassis, outside the boxes of chassis.

    There are two candidates: a drawing by distances, and the chassis in cells with the other nodes
    between them. Among those whose boxes are clear of one another and of other nodes, the one with
    the larger minimum distance of nodes is returned. If there is none, the drawing by distances is
    returned without boxes.
    """
    plain = fit_unit_square(spread_by_stress(nodes, neighbours))
    drawn = [(placed, _group_boxes(placed, groups)) for placed in (
        plain, fit_unit_square(arrange_around(nodes, neighbours, groups)))]  # fmt: skip
    clear = [(placed, boxes) for placed, boxes in drawn if _are_boxes_clear(placed, boxes)]
    return max(
        clear,
        key=lambda candidate: round(min_distance(tuple(candidate[0].values())), 6),
        default=(plain, ()),
    )


def _are_boxes_clear(placed: Mapping[int, Position], boxes: Sequence[Box]) -> bool:
    """Return whether no boxes overlap, and none touches a node of another group."""
    around = min(_LARGEST_RADIUS, 0.3 * min_distance(tuple(placed.values())))
    return not _do_boxes_overlap(boxes) and not any(
        box.overlaps(Box(x - around, y - around, x + around, y + around, "", (node,)))
        for box in boxes
        for node, (x, y) in placed.items()
        if node not in box.ranks
    )


def fit_unit_square(drawing: Mapping[int, Position]) -> dict[int, Position]:
    """Return a drawing, moved and scaled proportionally into the unit square."""
    xs, ys = [x for x, _ in drawing.values()], [y for _, y in drawing.values()]
    across, down = max(xs) - min(xs), max(ys) - min(ys)
    scale = (1 - 2 * MARGIN) / (max(across, down) or 1.0)
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    return {
        node: (0.5 + (x - middle[0]) * scale, 0.5 + (y - middle[1]) * scale)
        for node, (x, y) in drawing.items()
    }


def _group_boxes(placed: Mapping[int, Position], groups: Sequence[NodeGroup]) -> tuple[Box, ...]:
    """Return boxes around groups, with padding of about half the distance between nodes."""
    around = 0.55 * min_distance(tuple(placed.values()))
    for pad in (min(0.07, around * part) for part in (1.0, 0.75, 0.5)):
        boxes = tuple(_group_box([placed[r] for r in g.members], g, pad) for g in groups)
        named = [replace(box, top=box.top - NAME) for box in boxes]
        if not _do_boxes_overlap(named) and _are_boxes_clear(placed, boxes):
            break
    return boxes


def _do_boxes_overlap(boxes: Sequence[Box]) -> bool:
    return any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def _group_box(points: Sequence[Position], group: NodeGroup, pad: float) -> Box:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    edges = (min(xs) - pad, min(ys) - pad, max(xs) + pad, max(ys) + pad)
    left, top, right, bottom = (round(edge, 6) for edge in edges)
    return Box(left, top, right, bottom, group.label, group.members)


_WIDEST = 64
"""Maximum number of ranks in a row. More would be indistinguishable."""

_APART = 0.16
"""Distance between tiers, as a share of the width."""


def layout_in_tiers(topology: Topology, neighbours: Neighbors) -> dict[int, Position] | None:
    """Return ranks in a row by chassis, with switches of a chassis below it and others above.

    The row of a switch above is its distance from the nearest rank. The result is None if a link
    connects two ranks, there are fewer than two switches or too many ranks, or a switch cannot be
    reached.
    """
    ranks, switches = range(topology.ranks), range(topology.ranks, len(neighbours))
    joined = any(peer < topology.ranks for rank in ranks for peer in neighbours[rank])
    far = distances(tuple(tuple(neighbours[node]) for node in sorted(neighbours)), ranks)
    if len(switches) < 2 or joined or len(ranks) > _WIDEST or min(far) < 0:
        return None
    across = _row(topology)
    width = max(across.values()) or 1.0
    placed = {rank: (x, 0.0) for rank, x in across.items()}
    home = {frozenset(members) for members in topology.chassis if len(topology.chassis) > 1}
    inner = [s for s in switches if any(neighbours[s] <= members for members in home)]
    for switch in inner:
        placed[switch] = (_mean([across[rank] for rank in neighbours[switch]]), _APART * width)
    for tier in range(1, max(far) + 1):
        row = [s for s in switches if far[s] == tier and s not in inner]
        placed |= _place_switches(row, neighbours, placed, width, -_APART * width * tier)
    return placed


def _row(topology: Topology) -> dict[int, float]:
    """Return the position of each rank in a row, with a gap between chassis."""
    parts = topology.chassis if len(topology.chassis) > 1 else ()
    placed: dict[int, float] = {}
    position = 0.0
    for part in (*parts, tuple(sorted(set(range(topology.ranks)).difference(*parts)))):
        for rank in part:
            placed[rank] = position
            position += 1.0
        position += 1.0
    return placed


def _place_switches(
    row: Sequence[int],
    neighbours: Neighbors,
    placed: dict[int, Position],
    width: float,
    height: float,
) -> dict[int, Position]:
    """Return positions of a row of switches, spread out, each near its lower neighbors."""
    means = {s: _mean([placed[n][0] for n in neighbours[s] if n in placed]) for s in row}
    order = sorted(row, key=lambda switch: (round(means[switch], 6), switch))
    return {s: ((i + 0.5) * width / len(order), height) for i, s in enumerate(order)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_MAX_PAIRS = 20_000  # maximum number of pairs with bends. With more, single links are invisible
CLEAR = 1.15  # minimum distance of a link from the center of a third rank, in radii
_BENDS = (0.25, 0.35, 0.45, 0.55, 0.7, 0.9, 1.2, 1.6, 2.2, 3.0)
_HIT_COST, _OVERLAY_COST, _OUTSIDE_COST = 10.0, 1.5, 4.0


def control_points(
    start: Position, end: Position, bend: float
) -> tuple[Position, Position, Position, Position]:
    """Return the cubic Bezier curve of a link whose middle is ``bend`` to the left of straight.

    Its inner control points are next to the ends, so that a long link leaves a row of ranks
    quickly.
    """
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    off = (dy / length * bend * 4 / 3, -dx / length * bend * 4 / 3)
    return start, (start[0] + off[0], start[1] + off[1]), (end[0] + off[0], end[1] + off[1]), end


def on_curve(curve: Sequence[Position], t: float) -> Position:
    """Return the point of a cubic Bezier curve at t, from 0 (start) to 1 (end)."""
    u = 1 - t
    a, b, c, d = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
    (px, py), (qx, qy), (rx, ry), (sx, sy) = curve
    return a * px + b * qx + c * rx + d * sx, a * py + b * qy + c * ry + d * sy


def compute_bends(
    positions: Sequence[Position], edges: Sequence[Edge], radius: float, room: float
) -> list[float]:
    """Return the bend of every edge. Opposite edges get opposite bends, so they share a curve.

    Args:
        room: Minimum distance between two nodes.
    """
    pairs = sorted({(min(edge), max(edge)) for edge in edges})
    if len(pairs) > _MAX_PAIRS:
        return [0.0] * len(edges)
    planner = _BendPlanner(positions, radius * CLEAR, room)
    # Short links are bent first, since long ones have more alternatives.
    order = sorted(pairs, key=lambda p: (round(math.dist(positions[p[0]], positions[p[1]]), 9), p))
    bends = {pair: planner.bend(pair) for pair in order}
    return [bends[edge] if edge[0] < edge[1] else -bends[edge[1], edge[0]] for edge in edges]


def min_clearance(positions: Sequence[Position], edges: Sequence[Edge]) -> float:
    """Return the minimum distance between a straight link and a node that it does not connect."""
    return min(
        (
            segment_distance(point, positions[src], positions[dst])
            for src, dst in {(min(edge), max(edge)) for edge in edges}
            for node, point in enumerate(positions)
            if node not in {src, dst}
        ),
        default=math.inf,
    )


class _BendPlanner:
    """Greedy planner that bends links one by one, around ranks and around links bent before."""

    def __init__(self, positions: Sequence[Position], clear: float, room: float) -> None:
        self.positions, self.clear, self.room = positions, clear, room
        self.cells: dict[tuple[int, int], list[int]] = defaultdict(list)
        for node, point in enumerate(positions):
            self.cells[self._cell(point)].append(node)
        self.bent: dict[tuple[int, int], list[Position]] = defaultdict(list)

    def bend(self, pair: Edge) -> float:
        """Choose the bend of a pair's links, and record the resulting curve."""
        lowest_cost, best = self._cost(pair, 0.0, math.inf), 0.0
        if not lowest_cost:
            return 0.0
        for option in (sign * bend * self.room for bend in _BENDS for sign in (1, -1)):
            cost = self._cost(pair, option, lowest_cost)
            if cost < lowest_cost:
                lowest_cost, best = cost, option
        for point in self._points(pair, best) if best else ():
            self.bent[self._cell(point)].append(point)
        return best

    def _cell(self, point: Position) -> tuple[int, int]:
        return math.floor(point[0] / self.room), math.floor(point[1] / self.room)

    def _points(self, pair: Edge, bend: float) -> Iterator[Position]:
        curve = control_points(self.positions[pair[0]], self.positions[pair[1]], bend)
        count = max(12, math.ceil(4 * math.dist(curve[0], curve[3]) / self.room))
        return (on_curve(curve, i / count) for i in range(1, count))

    def _cost(self, pair: Edge, bend: float, limit: float) -> float:
        """Return the cost of a bend: ranks that it crosses, links that it overlaps, and its size.

        Args:
            limit: cost at which the calculation may stop.
        """
        hit: set[int] = set()
        cost, is_beside = abs(bend) / self.room, False
        for point in self._points(pair, bend):
            if cost >= limit:
                break
            column, row = self._cell(point)
            for cell in ((column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
                for node in self.cells.get(cell, ()):
                    near = math.dist(self.positions[node], point) < self.clear
                    if near and node not in pair and node not in hit:
                        hit.add(node)
                        cost += _HIT_COST
            if bend:
                near_bent = self.bent.get((column, row), ())
                before, is_beside = (
                    is_beside,
                    any(math.dist(p, point) < self.clear / 3 for p in near_bent),
                )
                cost += _OVERLAY_COST * (before and is_beside)  # one near point is a crossing
                cost += _OUTSIDE_COST * (not (0 < point[0] < 1 and 0 < point[1] < 1))
        return cost
