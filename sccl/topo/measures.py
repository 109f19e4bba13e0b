"""What one wants to know of a topology at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.topology import UNREACHED, Topology, distances


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of a topology.

    Attributes:
        diameter: the most links a shortest path between two ranks has; None if some pair has none.
        unreachable: a pair (src, dst) without a path, if there is one.
        out_lanes: chunks per round that leave each rank, as its links allow.
        in_lanes: chunks per round that enter each rank, as its links allow.
    """

    diameter: int | None
    unreachable: tuple[int, int] | None
    out_lanes: tuple[int, ...]
    in_lanes: tuple[int, ...]


def measure(topology: Topology) -> Measures:
    """Return the :class:`Measures` of a topology."""
    successors = topology.successors()
    diameter, unreachable = 0, None
    for src in range(topology.ranks):
        far = distances(successors, [src])[: topology.ranks]
        diameter = max(diameter, *far)
        if UNREACHED in far and unreachable is None:
            unreachable = (src, far.index(UNREACHED))
    out_lanes, in_lanes = [0] * topology.ranks, [0] * topology.ranks
    for link in topology.links:
        if link.src < topology.ranks:
            out_lanes[link.src] += link.lanes
        if link.dst < topology.ranks:
            in_lanes[link.dst] += link.lanes
    return Measures(
        None if unreachable else diameter, unreachable, tuple(out_lanes), tuple(in_lanes)
    )
