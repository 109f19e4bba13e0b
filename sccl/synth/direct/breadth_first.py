"""The cost of a breadth-first allgather, on any machine without budgets.

Each chunk reaches each rank as early as possible, over links from ranks that are one nearer to its
source. So in step t a rank gets the chunks t links away, each over one of some links into it. By
Hall's theorem the load of the fullest of these is the maximum, over all sets of links, of the
chunks that only these may carry, over their lanes. Ranks and steps are independent. One rank of
each orbit is enough. Source: Zhao et al., NSDI 2025 (arXiv 2202.03356), breadth-first broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sccl.core.topology import Topology
from sccl.errors import UnreachableError
from sccl.synth.direct.shares import least_load

Ints = NDArray[np.int64]

MAX_RANKS = 4096
"""Beyond, the distances of all pairs of ranks take more than some 100 MB."""

_FEW_LINKS = 10  # of a rank: all sets of so many are looked at, of more by flows


def costs(topology: Topology, ranks: Iterable[int] | None = None) -> tuple[Fraction, ...]:
    """Return the rounds per chunk of each step: the best of all that use shortest paths only.

    That is exact for machines without shared budgets. With these a step may take longer.

    Args:
        ranks: those whose arrivals are looked at. None: all.

    Raises:
        UnreachableError: some rank does not reach another.
    """
    far = all_distances(topology)
    into: list[list[int]] = [[] for _ in range(topology.ranks)]
    lanes: list[list[int]] = [[] for _ in range(topology.ranks)]
    for link in topology.links:
        into[link.dst].append(link.src)
        lanes[link.dst].append(link.lanes)
    most: list[Fraction] = []
    for rank in range(topology.ranks) if ranks is None else ranks:
        own = far[:, rank]
        nearer = far[:, into[rank]] == own[:, None] - 1
        take = _by_all_sets if len(lanes[rank]) <= _FEW_LINKS else _by_flows
        loads = take(own, nearer, lanes[rank], most)
        most = [max(pair) for pair in zip(loads, most, strict=False)] + [
            *loads[len(most) :],
            *most[len(loads) :],
        ]
    return tuple(most)


@lru_cache(maxsize=2)
def all_distances(topology: Topology) -> NDArray[np.int16]:
    """Return how many links each rank (row) is from each.

    Raises:
        UnreachableError: some rank does not reach another.
    """
    unreached = UnreachableError(
        f"topology {topology.name!r}: some rank does not reach another; add a link"
    )
    ranks = topology.ranks
    src, dst = np.array([k.edge for k in topology.links], np.int64).T
    order = np.argsort(dst, kind="stable")
    src, dst = src[order], dst[order]
    starts = np.searchsorted(dst, np.arange(ranks))
    if (np.bincount(dst, minlength=ranks) == 0).any():
        raise unreached
    reached = np.eye(ranks, dtype=bool)
    far = np.where(reached, 0, -1).astype(np.int16)
    steps = 0
    while (far < 0).any():
        steps += 1
        # by column: what a rank is reached by is what those before it are
        there = np.logical_or.reduceat(reached[:, src], starts, axis=1) & (far < 0)
        if not there.any():
            raise unreached
        far[there] = steps
        reached |= there
    far.flags.writeable = False
    return far


def _by_all_sets(
    far: NDArray[np.int16], nearer: NDArray[np.bool_], lanes: list[int], most: list[Fraction]
) -> list[Fraction]:
    """Return the load of each step on the links into a rank, where it is more than ``most``.

    The chunks that only a set of links may carry are the sum over its subsets, for all sets at
    once.
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
    found = []
    for step, row in enumerate(table):
        load = most[step] if step < len(most) else Fraction(0)
        while (over := row[1:] * load.denominator > load.numerator * widths[1:]).any():
            at = 1 + int(np.argmax(np.where(over, row[1:] / widths[1:], -1.0)))
            load = Fraction(int(row[at]), int(widths[at]))
        found.append(load)
    return found


def _by_flows(
    far: NDArray[np.int16], nearer: NDArray[np.bool_], lanes: list[int], _most: list[Fraction]
) -> list[Fraction]:
    """Return the load of each step on the links into a rank that has many."""
    found = []
    for step in range(1, int(far.max()) + 1):
        masks, counts = np.unique(nearer[far == step], axis=0, return_counts=True)
        bits = [sum(1 << i for i in np.flatnonzero(mask).tolist()) for mask in masks]
        classes = tuple(zip(bits, counts.tolist(), strict=True))
        found.append(least_load(classes, tuple(lanes)))
    return found
