"""Draw machines whose ranks only switches join as tiers: switches above the nodes they join."""

from __future__ import annotations

from collections.abc import Sequence

from sccl.core.topology import Topology, distances
from sccl.view.drawing.geometry import Position
from sccl.view.drawing.graph_forms import Neighbors

_WIDEST = 64
"""Maximum number of ranks in a row. More would be indistinguishable."""

_APART = 0.16
"""Between tiers, as a share of the width."""


def layout_in_tiers(topology: Topology, neighbours: Neighbors) -> dict[int, Position] | None:
    """Return ranks in a row by chassis, the switch of a chassis below it, others in rows above.

    A switch is as many rows up as links away from the nearest rank. None: links join ranks to one
    another, there is one switch or too many ranks, or something is joined to nothing.
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
    """Return the place of each rank in a row, with a gap between chassis."""
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
    """Return positions of a row of switches, spread out, each near its lower neighbours."""
    means = {s: _mean([placed[n][0] for n in neighbours[s] if n in placed]) for s in row}
    order = sorted(row, key=lambda switch: (round(means[switch], 6), switch))
    return {s: ((i + 0.5) * width / len(order), height) for i, s in enumerate(order)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
