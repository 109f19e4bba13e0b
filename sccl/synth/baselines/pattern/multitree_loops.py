"""Compiled loops that grow trees over a machine's links, step by step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import Int32Array
from sccl.core.topology import Topology


class GrowingTrees(NamedTuple):
    """A growing tree from each rank.

    Attributes:
        order: Ranks of each tree in the order in which they joined, shape (roots, ranks).
        size: Number of ranks of each tree, shape (roots,).
        has_rank: Whether each tree contains each rank, shape (roots, ranks).
        first_open: Position in ``order`` before which no rank has a link to a rank outside the
            tree, shape (roots,).
    """

    order: Int32Array
    size: Int32Array
    has_rank: NDArray[np.bool_]
    first_open: Int32Array

    @classmethod
    def of(cls, ranks: int) -> GrowingTrees:
        """Return trees that contain only their roots."""
        order = np.zeros((ranks, ranks), dtype=np.int32)
        order[:, 0] = np.arange(ranks)
        size, first = np.ones(ranks, dtype=np.int32), np.zeros(ranks, dtype=np.int32)
        return cls(order, size, np.eye(ranks, dtype=np.bool_), first)


class LinkBandwidth(NamedTuple):
    """The links of a machine and the constraints on their bandwidth.

    Attributes:
        first_link: Index of the first link of each rank. Links are numbered as in the topology.
        link_target: Destination of each link.
        constraint_start: Index in ``link_constraints`` of the first constraint of each link.
        link_constraints: Constraints of each link, concatenated.
        chunks: Number of chunks that each constraint allows in a round.
    """

    first_link: Int32Array
    link_target: Int32Array
    constraint_start: Int32Array
    link_constraints: Int32Array
    chunks: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> LinkBandwidth:
        """Return the links and constraints of a machine without switch nodes."""
        number = {link.edge: i for i, link in enumerate(topology.links)}
        over: list[list[int]] = [[] for _ in number]
        for c, constraint in enumerate(topology.constraints()):
            for edge in constraint.edges:
                over[number[edge]].append(c)
        sources = [link.src for link in topology.links]
        columns = (
            np.searchsorted(sources, np.arange(topology.ranks + 1)),
            [link.dst for link in topology.links],
            np.cumsum([0, *map(len, over)]),
            [c for constraints in over for c in constraints],
            [c.chunks_per_round for c in topology.constraints()],
        )
        return cls(*(np.array(column, dtype=np.int32) for column in columns))


class GrowthRound(NamedTuple):
    """The state of all trees in a round.

    Attributes:
        size_before: Number of ranks of each tree at the start of the round, shape (roots,).
        free_chunks: Remaining capacity of each constraint, shape (constraints,).
        place: Position in ``order`` of the rank whose links are tried, shape (roots,).
        link: Link that each tree tries next, shape (roots,).
    """

    size_before: Int32Array
    free_chunks: Int32Array
    place: Int32Array
    link: Int32Array


@compiled
def _skip_exhausted(root: int, trees: GrowingTrees, begin: Int32Array, ends: Int32Array) -> None:
    """Advance ``first_open`` of a tree to a rank with a link to a rank outside the tree."""
    order, size, reached, first = trees
    while first[root] < size[root] - 1:
        rank = order[root, first[root]]
        for k in range(begin[rank], begin[rank + 1]):
            if not reached[root, ends[k]]:
                return
        first[root] += 1


@compiled
def _next_link(root: int, trees: GrowingTrees, bandwidth: LinkBandwidth, now: GrowthRound) -> int:
    """Return the next link of a tree that has capacity and leads to a new rank. -1: none."""
    begin, ends, over_begin, over, _ = bandwidth
    before, left, place, link = now
    while place[root] < before[root]:
        rank = trees.order[root, place[root]]
        while link[root] < begin[rank + 1]:
            k = link[root]
            link[root] += 1
            if trees.has_rank[root, ends[k]]:
                continue
            free = True
            for i in range(over_begin[k], over_begin[k + 1]):
                free = free and left[over[i]] > 0
            if free:
                return int(k)
        place[root] += 1
        if place[root] < before[root]:
            link[root] = begin[trees.order[root, place[root]]]
    return -1


@compiled
def grow_round(trees: GrowingTrees, bandwidth: LinkBandwidth) -> Int32Array:
    """Let trees add one link each in turn until a round is full. Return rows (root, src, dst)."""
    order, size, reached, first = trees
    begin, ends, over_begin, over, chunks = bandwidth
    ranks, now = len(size), GrowthRound(size.copy(), chunks.copy(), first.copy(), first.copy())
    edges = np.empty((chunks.sum(), 3), dtype=np.int32)
    filled = 0
    for root in range(ranks):
        _skip_exhausted(root, trees, begin, ends)
        now.place[root] = first[root]
        now.link[root] = begin[order[root, first[root]]]
    active = now.size_before < ranks
    while active.any():
        for root in range(ranks):
            if not active[root]:
                continue
            k = _next_link(root, trees, bandwidth, now)
            active[root] = k >= 0
            if k >= 0:
                for i in range(over_begin[k], over_begin[k + 1]):
                    now.free_chunks[over[i]] -= 1
                edges[filled, 0] = root
                edges[filled, 1] = order[root, now.place[root]]
                edges[filled, 2] = ends[k]
                filled += 1
                order[root, size[root]] = ends[k]
                size[root] += 1
                reached[root, ends[k]] = True
    return edges[:filled]
