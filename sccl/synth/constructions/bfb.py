"""Breadth-first allgather on any machine without budgets: the arrivals at each rank, by link.

In step t - 1 a rank receives the chunks of ranks at distance t. They are split over the links from
ranks at distance t - 1 such that the maximum load is minimal
(:mod:`sccl.synth.constructions.bfb_costs`). Arrivals at other ranks, or in other steps, are
independent of that split. If only the identity of the symmetries fixes a rank, the arrivals on one
rank of each orbit determine all. A chunk that starts at v and is sent over a link is mapped so that
v becomes the representative of its orbit. This image is a chunk of the representative, and each
link has exactly one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np

from sccl.core.algorithm import Send
from sccl.core.arrays import IntArray
from sccl.core.topology import Topology
from sccl.synth.constructions.bfb_costs import all_distances, step_costs
from sccl.synth.constructions.bipartite_split import DemandClasses, split_demands
from sccl.synth.constructions.send_rows import sorted_sends
from sccl.synth.limits import MAX_PAIRED_RANKS, MAX_TABLE_ROWS
from sccl.topo.symmetry.regular_groups import SemiregularGroup


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The arrivals at a rank in a step.

    Attributes:
        step: The step.
        rank: The receiving rank.
        sources: Ranks at this distance, ascending, for each class of usable links.
        classes: Usable links and size of each class.
        link_sources: Sources of the links into the rank.
        lanes: Lanes of the links into the rank.
    """

    step: int
    rank: int
    sources: tuple[IntArray, ...]
    classes: DemandClasses
    link_sources: tuple[int, ...]
    lanes: tuple[int, ...]

    def chunk_senders(
        self, pieces: int, rounds: int, ranks: int
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield (chunks, senders) for the pieces of each class in order, link by link.

        Args:
            pieces: C.
            rounds: Number of rounds, which must suffice.
            ranks: Number of ranks.
        """
        split = split_demands(self.classes, self.lanes, pieces, rounds)
        for roots, amounts in zip(self.sources, split, strict=True):
            chunks = (roots[:, None] + ranks * np.arange(pieces)).ravel()
            yield chunks, np.repeat(np.array(self.link_sources), amounts)


def enumerate_arrivals(topology: Topology, ranks: Iterable[int]) -> Iterator[Arrivals]:
    """Yield the arrivals at each of the given ranks in each step.

    Raises:
        UnreachableError: A rank cannot reach another one.
    """
    far = all_distances(topology)
    entering: dict[int, list[tuple[int, int]]] = {}
    for link in topology.links:
        entering.setdefault(link.dst, []).append((link.src, link.lanes))
    for rank in ranks:
        into, lanes = (tuple(column) for column in zip(*entering[rank], strict=True))
        nearer = far[:, into] == far[:, rank, None] - 1
        for t in range(1, int(far[:, rank].max()) + 1):
            roots = np.flatnonzero(far[:, rank] == t)
            by_mask: dict[int, list[int]] = {}
            for root, usable in zip(roots.tolist(), nearer[roots].tolist(), strict=True):
                mask = sum(1 << i for i, may in enumerate(usable) if may)
                by_mask.setdefault(mask, []).append(root)
            masks = sorted(by_mask)
            classes = tuple((mask, len(by_mask[mask])) for mask in masks)
            sources = tuple(np.array(by_mask[mask]) for mask in masks)
            yield Arrivals(t - 1, rank, sources, classes, into, lanes)


def build_sends(
    topology: Topology, group: SemiregularGroup | None, pieces: int, steps: int, rounds: int
) -> tuple[tuple[int, ...], list[Send]] | None:
    """Return the rounds of each step, and the sends of the representatives' chunks.

    None: not possible, or there are too many sends.

    Args:
        topology: The machine.
        group: Group of symmetries. None: each rank is its own orbit.
        pieces: C.
        steps: Number of steps. It must be the largest distance.
        rounds: Number of rounds.
    """
    ranks = topology.ranks
    firsts = group.representatives if group else tuple(range(ranks))
    if ranks > MAX_PAIRED_RANKS or len(firsts) * (ranks - 1) * pieces > MAX_TABLE_ROWS:
        return None
    min_rounds = [ceil(pieces * cost) for cost in cached_costs(topology, firsts)]
    if len(min_rounds) != steps or sum(min_rounds) > rounds:
        return None
    parts = []
    for arrived in enumerate_arrivals(topology, firsts):
        for chunks, senders in arrived.chunk_senders(pieces, min_rounds[arrived.step], ranks):
            moved = _move_to_representatives(group, chunks, senders, arrived.rank, ranks)
            parts.append(np.vstack([np.full_like(chunks, arrived.step), moved]))
    sent = sorted_sends(np.concatenate(parts, axis=1))
    return (min_rounds[0] + rounds - sum(min_rounds), *min_rounds[1:]), sent


@lru_cache(maxsize=16)
def cached_costs(topology: Topology, firsts: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Return the step costs of a breadth-first allgather, cached for sweeps."""
    return step_costs(topology, firsts)


def _move_to_representatives(
    group: SemiregularGroup | None, chunks: IntArray, senders: IntArray, rank: int, ranks: int
) -> IntArray:
    """Return (chunk, source, destination) of arrivals, mapped to representatives' chunks."""
    if group is None:
        return np.stack([chunks, senders, np.full_like(chunks, rank)])
    roots = chunks % ranks
    back = group.element_to[roots]
    row = np.arange(len(roots))
    moved = chunks - roots + group.representative[roots]
    return np.stack([moved, back[row, senders].astype(np.int64), back[:, rank].astype(np.int64)])
