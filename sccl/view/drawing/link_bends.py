"""How links are bent so that they pass beside the ranks they do not join."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sccl.core.ids import Edge
from sccl.view.drawing.geometry import Position, segment_distance

_MAX_PAIRS = 20_000  # beyond, nothing is seen of a single link anyway
CLEAR = 1.15  # radii of a rank that a link keeps away from its centre
_BENDS = (0.25, 0.35, 0.45, 0.55, 0.7, 0.9, 1.2, 1.6, 2.2, 3.0)
_HIT_COST, _OVERLAY_COST, _OUTSIDE_COST = 10.0, 1.5, 4.0


def control_points(
    start: Position, end: Position, bend: float
) -> tuple[Position, Position, Position, Position]:
    """Return the cubic Bezier curve of a link, whose middle lies ``bend`` to the left of straight.

    Its inner points lie beside the ends, so that a long link leaves a row of ranks quickly.
    """
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    off = (dy / length * bend * 4 / 3, -dx / length * bend * 4 / 3)
    return start, (start[0] + off[0], start[1] + off[1]), (end[0] + off[0], end[1] + off[1]), end


def on_curve(curve: Sequence[Position], t: float) -> Position:
    """Return the point of a cubic Bezier curve at t, 0 (its start) to 1 (its end)."""
    u = 1 - t
    a, b, c, d = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
    (px, py), (qx, qy), (rx, ry), (sx, sy) = curve
    return a * px + b * qx + c * rx + d * sx, a * py + b * qy + c * ry + d * sy


def compute_bends(
    positions: Sequence[Position], edges: Sequence[Edge], radius: float, room: float
) -> list[float]:
    """Return the bend of every edge. Opposite edges get opposite bends, which draws one curve.

    Args:
        positions: Position of every node.
        edges: Directed edges.
        radius: Radius of a node.
        room: Smallest distance between two nodes.
    """
    pairs = sorted({(min(edge), max(edge)) for edge in edges})
    if len(pairs) > _MAX_PAIRS:
        return [0.0] * len(edges)
    planner = _BendPlanner(positions, radius * CLEAR, room)
    # Short links are bent first: long ones have more ways round.
    order = sorted(pairs, key=lambda p: (round(math.dist(positions[p[0]], positions[p[1]]), 9), p))
    bends = {pair: planner.bend(pair) for pair in order}
    return [bends[edge] if edge[0] < edge[1] else -bends[edge[1], edge[0]] for edge in edges]


def min_clearance(positions: Sequence[Position], edges: Sequence[Edge]) -> float:
    """Return how near straight links come to the third node that is nearest to one of them."""
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
    """Bends one link after another, around ranks and around links that are bent already."""

    def __init__(self, positions: Sequence[Position], clear: float, room: float) -> None:
        self.positions, self.clear, self.room = positions, clear, room
        self.cells: dict[tuple[int, int], list[int]] = defaultdict(list)
        for node, point in enumerate(positions):
            self.cells[self._cell(point)].append(node)
        self.bent: dict[tuple[int, int], list[Position]] = defaultdict(list)

    def bend(self, pair: Edge) -> float:
        """Return how far the links of a pair are bent, and remember where they then run."""
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
            limit: the calculation may stop at this cost.
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
                cost += _OVERLAY_COST * (before and is_beside)  # otherwise they only cross
                cost += _OUTSIDE_COST * (not (0 < point[0] < 1 and 0 < point[1] < 1))
        return cost
