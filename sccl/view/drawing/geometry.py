"""Points in the plane."""

from __future__ import annotations

import math
from collections.abc import Sequence

Position = tuple[float, float]


def on_circle(count: int, turn: float = 0.0) -> list[Position]:
    """Return ``count`` points on the unit circle, clockwise as drawn, the first at the top.

    Args:
        turn: by how many places, or parts of one, all are moved on.
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
    """Return the distance of a point from a straight line between two others."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    square = dx * dx + dy * dy
    along = ((point[0] - start[0]) * dx + (point[1] - start[1]) * dy) / square if square else 0.0
    along = min(max(along, 0.0), 1.0)
    return math.dist(point, (start[0] + along * dx, start[1] + along * dy))
