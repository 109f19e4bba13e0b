"""Place the ranks of a machine in a drawing, so that its structure shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from sccl.core.topology import Topology
from sccl.view.drawing.geometry import Position, min_distance
from sccl.view.drawing.graph_forms import Neighbors, recognized_forms
from sccl.view.drawing.group_layout import NodeGroup, arrange, arrange_around, star_by_groups
from sccl.view.drawing.link_bends import (
    CLEAR,
    compute_bends,
    control_points,
    min_clearance,
    on_curve,
)
from sccl.view.drawing.stress_layout import spread_by_stress
from sccl.view.drawing.tiered_layout import layout_in_tiers

__all__ = ["Box", "Layout", "control_points", "layout_topology", "on_curve"]

MARGIN = 0.08
NAME = 0.04  # height of the name of a box, above it
_LARGEST_RADIUS = 0.045
_DENSE = 9  # links of a rank beyond which bending them makes nothing clearer
_PLAIN = 2  # likewise, up to which nothing is hidden by large ranks, as in a ring
_SHRINK_FACTOR = 0.6  # of the usual radius, if links can then stay straight
_AROUND_SWITCH, _MAX_GROWTH = 18, 4.0  # lines around a switch of usual size, and maximum size
_CROWD = 64  # ranks from which they are drawn smaller, so that links stay visible between them


@dataclass(frozen=True, slots=True)
class Box:
    """A labelled rectangle around ranks that belong together, in the unit square, y downwards."""

    left: float
    top: float
    right: float
    bottom: float
    label: str
    ranks: tuple[int, ...]

    def overlaps(self, box: Box) -> bool:
        """Return whether two boxes share some area."""
        across = self.left < box.right and box.left < self.right
        return across and self.top < box.bottom and box.top < self.bottom


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing of a topology in the unit square, y downwards.

    Attributes:
        positions: of every rank, then of every switch.
        bends: for each of ``topology.links``, in their order, how far the middle of the link lies
            from the straight line, in units of the square, to the left in the direction from src to
            dst. :func:`control_points` makes a curve of it. The two directions of a pair share one
            curve: code that draws both separates them.
        boxes: chassis, or groups found in the graph.
        radius: of a rank, such that no two touch and no link runs into a third rank.
        switch_radius: of a switch, half the side of its square: larger than that of a rank if one
            switch joins so many ranks that their lines would meet outside of it.
    """

    positions: tuple[Position, ...]
    bends: tuple[float, ...]
    boxes: tuple[Box, ...]
    radius: float
    switch_radius: float


@lru_cache(maxsize=32)  # a machine is drawn in several charts and pages
def layout_topology(topology: Topology) -> Layout:
    """Return the places of ranks, switches and links. Equal topologies get equal layouts.

    Cycles and vertex-transitive graphs are drawn on a circle, meshes and tori as grids, hypercubes
    as cubes, ranks that only switches join in a row, chassis and groups of joined ranks as boxes.
    Other graphs are drawn with distances near those in the graph.
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
        narrow = 0.999 * min_clearance(positions, edges) / CLEAR  # equal links: all bent, or none
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
    """Return how many times as large as a rank a switch is drawn."""
    if len(topology.switches) != 1:
        return 1.0
    return min(max(1.0, len(neighbours[topology.ranks]) / _AROUND_SWITCH), _MAX_GROWTH)


def _best_drawing(
    topology: Topology, neighbours: Neighbors
) -> tuple[dict[int, Position], tuple[Box, ...]]:
    """Return the best drawing, and its boxes: a known form, if all chassis lie apart in it."""
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
    """Return the switches that join ranks of one chassis only."""
    switches = range(topology.ranks, topology.ranks + len(topology.switches))
    return [node for node in switches if neighbours[node] and neighbours[node] <= {*ranks}]


def _place_outside_nodes(
    nodes: Sequence[int], neighbours: Neighbors, groups: Sequence[NodeGroup]
) -> tuple[dict[int, Position], tuple[Box, ...]]:
    """Return a drawing with switches, or ranks without a chassis, outside the boxes of chassis.

    Distances alone may show the chassis as they are. Otherwise these are arranged, with the others
    between them. The drawing in which nodes are farther apart is the better one. Without boxes if
    in none of them these are free of one another and of other nodes.
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
    """Return whether boxes hold their own nodes only, and no other touches one."""
    around = min(_LARGEST_RADIUS, 0.3 * min_distance(tuple(placed.values())))
    return not _do_boxes_overlap(boxes) and not any(
        box.overlaps(Box(x - around, y - around, x + around, y + around, "", (node,)))
        for box in boxes
        for node, (x, y) in placed.items()
        if node not in box.ranks
    )


def fit_unit_square(drawing: Mapping[int, Position], margin: float = MARGIN) -> dict[int, Position]:
    """Return a drawing moved and scaled into the unit square, its proportions kept."""
    xs, ys = [x for x, _ in drawing.values()], [y for _, y in drawing.values()]
    across, down = max(xs) - min(xs), max(ys) - min(ys)
    scale = (1 - 2 * margin) / (max(across, down) or 1.0)
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    return {
        node: (0.5 + (x - middle[0]) * scale, 0.5 + (y - middle[1]) * scale)
        for node, (x, y) in drawing.items()
    }


def _group_boxes(placed: Mapping[int, Position], groups: Sequence[NodeGroup]) -> tuple[Box, ...]:
    """Return boxes around groups, with as much room around the ranks as there is between them."""
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
