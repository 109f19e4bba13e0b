"""The cost of a breadth-first allgather, on any machine without budgets.

Each chunk reaches each rank as early as possible, over links from ranks that are one link closer to
its source. So in step t a rank receives the chunks at distance t, each over one of some links into
it. By Hall's theorem the load of the fullest link is a maximum over all sets of links: the number
of chunks that only these links may carry, divided by their lanes. Ranks and steps are independent.
One rank of each orbit is enough. Source: Zhao et al., NSDI 2025 (arXiv 2202.03356), breadth-first
broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sccl.core.graphs import UNREACHED, distances
from sccl.core.topology import Topology
from sccl.errors import UnreachableError
from sccl.synth.constructions.bipartite_split import min_max_load
from sccl.synth.limits import MAX_SUBSET


def step_costs(topology: Topology, ranks: Iterable[int] | None = None) -> tuple[Fraction, ...]:
    """Return the fewest rounds per chunk of each step if each chunk arrives as early as possible.

    The result is exact for machines without shared budgets. Budgets may lengthen a step.

    Args:
        topology: The machine.
        ranks: Ranks whose arrivals are considered. None: all.

    Raises:
        UnreachableError: A rank cannot reach another one.
    """
    far = all_distances(topology)
    into: list[list[int]] = [[] for _ in range(topology.ranks)]
    lanes: list[list[int]] = [[] for _ in range(topology.ranks)]
    for link in topology.links:
        into[link.dst].append(link.src)
        lanes[link.dst].append(link.lanes)
    max_loads: list[Fraction] = []
    for rank in range(topology.ranks) if ranks is None else ranks:
        rank_distances = far[:, rank]
        nearer = far[:, into[rank]] == rank_distances[:, None] - 1
        take = _loads_by_subsets if len(lanes[rank]) <= MAX_SUBSET else _loads_by_flows
        loads = take(rank_distances, nearer, lanes[rank], max_loads)
        max_loads = [max(pair) for pair in zip(loads, max_loads, strict=False)] + [
            *loads[len(max_loads) :],
            *max_loads[len(loads) :],
        ]
    return tuple(max_loads)


@lru_cache(maxsize=2)
def all_distances(topology: Topology) -> NDArray[np.int16]:
    """Return the distances in links, shape (sources, destinations).

    Raises:
        UnreachableError: A rank cannot reach another one.
    """
    successors = topology.successors()
    far = np.array([distances(successors, [rank]) for rank in range(topology.ranks)], np.int16)
    if (far == UNREACHED).any():
        raise UnreachableError(
            f"topology {topology.name!r}: some rank does not reach another; add a link"
        )
    far.flags.writeable = False
    return far


def _loads_by_subsets(
    far: NDArray[np.int16], nearer: NDArray[np.bool_], lanes: list[int], max_loads: list[Fraction]
) -> list[Fraction]:
    """Return the load of each step on the links into a rank, or ``max_loads`` if that is larger.

    The number of chunks that only a set of links may carry is a sum over the subsets of this set.
    All sets are computed at once.
    """
    links, steps = len(lanes), int(far.max())
    masks = nearer @ (1 << np.arange(links))
    table = np.zeros((steps, 1 << links), dtype=np.int64)
    others = far > 0
    np.add.at(table, (far[others] - 1, masks[others]), 1)
    widths = np.zeros(1 << links, dtype=np.int64)
    for link, width in enumerate(lanes):
        view = table.reshape(steps, -1, 2, 1 << link)
        view[:, :, 1] += view[:, :, 0]
        widths.reshape(-1, 2, 1 << link)[:, 1] += width
    loads = []
    for step, row in enumerate(table):
        load = max_loads[step] if step < len(max_loads) else Fraction(0)
        while (over := row[1:] * load.denominator > load.numerator * widths[1:]).any():
            at = 1 + int(np.argmax(np.where(over, row[1:] / widths[1:], -1.0)))
            load = Fraction(int(row[at]), int(widths[at]))
        loads.append(load)
    return loads


def _loads_by_flows(
    far: NDArray[np.int16], nearer: NDArray[np.bool_], lanes: list[int], _most: list[Fraction]
) -> list[Fraction]:
    """Return the load of each step on the links into a rank that has many links."""
    loads = []
    for step in range(1, int(far.max()) + 1):
        masks, counts = np.unique(nearer[far == step], axis=0, return_counts=True)
        bits = [sum(1 << i for i in np.flatnonzero(mask).tolist()) for mask in masks]
        classes = tuple(zip(bits, counts.tolist(), strict=True))
        loads.append(min_max_load(classes, tuple(lanes)))
    return loads
