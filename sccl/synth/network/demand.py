"""Convert collectives to demands for matching."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.collective import Collective, Relation, RelationKind
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.shortest_paths import ShortestPaths
from sccl.synth.network.transfers import Demand, stalled_error

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def build_demand(collective: Collective) -> Demand:
    """Return the demand of a collective."""
    held = relation_pairs(collective.pre, collective)
    if collective.post.kind is RelationKind.ALL:
        return Demand(collective.num_chunks, *held)
    return Demand(collective.num_chunks, *held, *relation_pairs(collective.post, collective))


def relation_pairs(relation: Relation, collective: Collective) -> Pairs:
    """Return the (rank, chunk) pairs of a relation, as two columns."""
    ranks, chunk = collective.ranks, np.arange(collective.num_chunks, dtype=np.int64)
    match relation.kind:
        case RelationKind.ALL:
            return np.tile(np.arange(ranks), len(chunk)), np.repeat(chunk, ranks)
        case RelationKind.SCATTERED:
            return chunk % ranks, chunk
        case RelationKind.TRANSPOSE:
            return chunk // ranks % ranks, chunk
        case RelationKind.ROOT:
            return np.full_like(chunk, relation.root), chunk
    pairs = [(r, c) for c in chunk.tolist() for r in sorted(relation.ranks_of(c, ranks))]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def add_relays(demand: Demand, net: NetworkArrays) -> Demand:
    """Return a demand in which relay ranks also need a chunk, if not all ranks need it.

    The relays lie on one shortest path from the nearest holder to each destination.

    Raises:
        UnreachableError: There is no path.
    """
    if demand.wanted is None or demand.wanted_by is None:
        return demand
    sources: dict[int, list[int]] = {}
    for rank, chunk in zip(demand.held_by.tolist(), demand.held.tolist(), strict=True):
        sources.setdefault(chunk, []).append(rank)
    paths, trees = ShortestPaths(net), dict[tuple[int, ...], list[int]]()
    pairs: set[tuple[int, int]] = set()
    for rank, chunk in zip(demand.wanted_by.tolist(), demand.wanted.tolist(), strict=True):
        held_by = tuple(sources[chunk])
        if held_by not in trees:
            trees[held_by] = paths.predecessors(list(held_by))
        node = rank
        while node not in held_by and (chunk, node) not in pairs:
            pairs.add((chunk, node))
            node = trees[held_by][node]
            if node < 0:
                raise stalled_error()
    table = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return demand._replace(wanted_by=table[:, 1], wanted=table[:, 0])
