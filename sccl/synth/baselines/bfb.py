"""BFB: every chunk on shortest paths only, split over their last links as evenly as can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np

from sccl.core.topology import Topology, distances
from sccl.synth.baselines.pattern import Maker, Pattern, backwards, cut, pattern_of, there_and_back
from sccl.synth.baselines.pattern.links import check_links
from sccl.synth.baselines.pattern.noun import Numbers, check_rows
from sccl.synth.contract import Request
from sccl.synth.direct.breadth_first import costs
from sccl.synth.direct.shares import Classes, shares

NAME = "bfb"
SOURCE = "Zhao et al., NSDI 2025 (arXiv 2202.03356), breadth-first broadcast"

MAX_RANKS = 1024
"""Beyond, it takes minutes."""


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """What comes to a rank in a step.

    Attributes:
        sources: by class of roots, those that are that far from the rank.
        classes: over which of the links into it each class may come, and how many it has.
        into: the ranks at which these links start.
    """

    step: int
    rank: int
    sources: list[list[int]]
    classes: Classes
    into: tuple[int, ...]
    lanes: tuple[int, ...]


def _arrivals(topology: Topology) -> Iterator[_Arrivals]:
    """Yield them for each rank and step: a root at distance t from the rank arrives in step t - 1.

    It comes from where it was in the step before: over links from ranks at distance t - 1.
    """
    successors = topology.successors()
    far = np.array([distances(successors, [root]) for root in range(topology.ranks)])
    entering: list[list[tuple[int, int]]] = [[] for _ in range(topology.ranks)]
    for link in topology.links:
        entering[link.dst].append((link.src, link.lanes))
    for rank, links in enumerate(entering):
        into, lanes = (tuple(column) for column in zip(*links, strict=True))
        for t in range(1, int(far[:, rank].max()) + 1):
            by_mask: dict[int, list[int]] = {}
            for root in np.flatnonzero(far[:, rank] == t).tolist():
                mask = sum(1 << i for i, w in enumerate(into) if far[root, w] == t - 1)
                by_mask.setdefault(mask, []).append(root)
            masks = sorted(by_mask)
            classes = tuple((mask, len(by_mask[mask])) for mask in masks)
            yield _Arrivals(t - 1, rank, [by_mask[m] for m in masks], classes, into, lanes)


def _rows(arrived: _Arrivals, pieces: int, rounds: int, ranks: int) -> Iterator[Numbers]:
    """Yield rows (step, chunk, src, dst): pieces of each class in order, link after link."""
    split = shares(arrived.classes, arrived.lanes, pieces, rounds)
    for roots, amounts in zip(arrived.sources, split, strict=True):
        chunks = (np.array(roots)[:, None] + ranks * np.arange(pieces)).ravel()
        src = np.repeat(np.array(arrived.into), amounts)
        yield np.stack(np.broadcast_arrays(arrived.step, chunks, src, arrived.rank))


def _allgather(request: Request, pieces: int) -> Pattern:
    topology = request.topology
    check_links("BFB", topology, MAX_RANKS)
    arrivals = list(_arrivals(topology))
    least = costs(topology)
    split = lcm(*(cost.denominator for cost in least))
    collective = request.spec.at(split)
    check_rows(collective.num_chunks * (topology.ranks - 1), collective)
    rounds = [int(cost * split) for cost in least]
    rows = [row for a in arrivals for row in _rows(a, split, rounds[a.step], topology.ranks)]
    step, chunk, src, dst = np.concatenate(rows, axis=1)
    return cut(pattern_of(collective, step=step, chunk=chunk, src=src, dst=dst), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
