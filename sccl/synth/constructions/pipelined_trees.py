"""Broadcast on lane-disjoint trees in a pipeline of chunks: for many steps, without search.

On every machine there are as many lane-disjoint spanning trees as the minimum cut between the root
and another rank has lanes (Edmonds, Edge-disjoint branchings, 1973). In each step every lane of a
tree carries one chunk. So a tree of height h delivers S - h + 1 chunks in S steps of one round, and
R/C converges to the bandwidth bound as S grows. (Johnsson and Ho 1989 on hypercubes; ForestColl,
arXiv 2402.06787, which does not consider steps.)

All trees are grown at the same time, level by level, with links in random order, so that no tree is
much higher than necessary. A link is taken if every tree can still be completed on the rest of the
machine. A flow decides this (Lovasz, On two minimax theorems in graph theory, 1976).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.answer import Sat
from sccl.core.arrays import IntArray
from sccl.core.collective import Collective, RelationKind
from sccl.core.instance import Instance
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.solvers.network_flow import FlowNetwork
from sccl.synth.limits import MAX_SEARCH_RANKS, MAX_SENDS, MAX_TRIES, MAX_WORK

NAME = "construction (disjoint trees)"

# In 60 steps on mesh:16x16, trees with congestion prices have R/C = 187/171, and these have 30/31.


@dataclass(frozen=True, slots=True, eq=False)
class DisjointTrees:
    """Spanning trees with the same root that share no lane.

    Attributes:
        depth: Depth of each rank, shape (trees, ranks).
        parent_rank: Parent of each rank, shape (trees, ranks). -1: the root.
    """

    depth: IntArray
    parent_rank: IntArray

    def chunks_per_tree(self, steps: int) -> tuple[int, ...]:
        """Return the number of chunks that each tree delivers in ``steps`` steps of one round."""
        return tuple(max(0, steps - int(height) + 1) for height in self.depth.max(axis=1))

    def cost(self, steps: int) -> Fraction | None:
        """Return R/C of ``steps`` steps. None: all trees are too high."""
        chunks = sum(self.chunks_per_tree(steps))
        return Fraction(steps, chunks) if chunks else None

    def algorithm(
        self, topology: Topology, collective: Collective, steps: int, times: int = 1
    ) -> Algorithm | None:
        """Return the verified broadcast. None: it has too many sends.

        Args:
            topology: The machine.
            collective: The broadcast. Its C is at most the number of chunks that the trees deliver.
            steps: Number of steps.
            times: Rounds of each step.
        """
        if collective.num_chunks * (topology.ranks - 1) > MAX_SENDS:
            return None
        slots = [
            (tree, begin)
            for tree, chunks in enumerate(self.chunks_per_tree(steps))
            for begin in range(chunks)
            for _ in range(times)
        ]
        assert collective.num_chunks <= len(slots)
        sends: list[Send] = []
        for chunk, (tree, begin) in enumerate(slots[: collective.num_chunks]):
            for rank, (depth, into) in enumerate(
                zip(self.depth[tree].tolist(), self.parent_rank[tree].tolist(), strict=True)
            ):
                if depth:
                    sends.append(make_send(chunk, into, rank, begin + depth - 1))
        made = Algorithm(topology, collective, (times,) * steps, tuple(sends))
        return require_valid(made, "trees that share no lane")


def answer(instance: Instance) -> Sat | None:
    """Return a verified algorithm for many ranks. None: no trees, or they need more rounds."""
    begin = time.perf_counter()
    topology, collective, steps = instance.topology, instance.collective, instance.steps
    disjoint = disjoint_trees(topology, collective) if topology.ranks > MAX_SEARCH_RANKS else None
    times = instance.rounds // steps
    if disjoint is None or collective.num_chunks > times * sum(disjoint.chunks_per_tree(steps)):
        return None
    made = disjoint.algorithm(topology, collective, steps, times)
    if made is None:
        return None
    first = instance.rounds - times * (steps - 1)
    made = replace(made, rounds_per_step=(first, *made.rounds_per_step[1:]))
    return Sat(made, NAME, time.perf_counter() - begin)


def pipelined_broadcast(topology: Topology, collective: Collective, steps: int) -> Algorithm | None:
    """Return the verified broadcast of ``steps`` steps on lane-disjoint trees.

    None: the collective is no broadcast, links share budgets, the trees are too high, or there are
    too many sends.

    Args:
        topology: The machine.
        collective: The collective, at its smallest C.
        steps: Number of steps.
    """
    trees = disjoint_trees(topology, collective)
    chunks = sum(trees.chunks_per_tree(steps)) if trees else 0
    if trees is None or not chunks:
        return None
    return trees.algorithm(topology, collective.with_chunks(chunks), steps)


def disjoint_trees(topology: Topology, collective: Collective) -> DisjointTrees | None:
    """Return the trees of a broadcast. None: another collective, or the machine has budgets."""
    ends = (collective.pre.kind, collective.post.kind)
    if ends != (RelationKind.ROOT, RelationKind.ALL) or topology.budgets or topology.switches:
        return None
    assert collective.pre.root is not None
    return _pack_trees(topology, collective.pre.root)


@lru_cache(maxsize=8)
def _pack_trees(topology: Topology, root: int) -> DisjointTrees | None:
    """Return as many trees as possible. None: there are none, or it would take too long."""
    number = _min_cut(topology, root)
    work = number * topology.ranks * number * (2 * len(topology.links) + number * topology.ranks)
    if not number or work > MAX_WORK:
        return None
    drawn = np.random.default_rng(0)
    tries = max(1, min(MAX_TRIES, int(MAX_WORK / work)))
    candidates = (_TreePacking(topology, root, number, drawn).run() for _ in range(tries))
    return min(candidates, key=lambda trees: int(trees.depth.max(axis=1).sum()))


def _min_cut(topology: Topology, root: int) -> int:
    """Return the lanes of the minimum cut between the root and another rank."""
    ends = np.array([link.edge for link in topology.links], np.int64).T
    lanes = np.array([link.lanes for link in topology.links], np.int64)
    network = FlowNetwork(topology.ranks, ends[0].copy(), ends[1].copy())
    others = (rank for rank in range(topology.ranks) if rank != root)
    return min(network.max_flow(lanes, root, rank).value for rank in others)


class _TreePacking:
    def __init__(
        self, topology: Topology, root: int, number: int, drawn: np.random.Generator
    ) -> None:
        self.rng = drawn
        src, dst = np.array([link.edge for link in topology.links], np.int64).T.copy()
        ranks, everyone = topology.ranks, np.arange(topology.ranks + 1)
        out_link, in_link = (np.argsort(ends, kind="stable") for ends in (src, dst))
        self.out_start = np.searchsorted(src[out_link], everyone)
        in_start = np.searchsorted(dst[in_link], everyone)
        self.machine = (in_start, in_link, self.out_start, out_link, src, dst)
        self.free_lanes = np.array([link.lanes for link in topology.links], np.int64)
        self.depth = np.full((number, ranks), -1, np.int64)
        self.parent_rank = np.full((number, ranks), -1, np.int64)
        self.depth[:, root] = 0
        nodes = ranks + number
        self.scratch = (
            np.zeros(len(src), np.int64),
            np.zeros(number, np.int64),
            np.zeros(nodes, np.int64),
            np.zeros(nodes, np.int64),
            np.zeros(nodes, np.int64),
        )

    def run(self) -> DisjointTrees:
        """Grow all trees, level by level. A rejected link may be taken later."""
        while (self.depth < 0).any():
            grown, level = 0, 0
            while level <= int(self.depth.max()):
                grown += self._grow_level(level)
                level += 1
            assert grown, "trees can be completed"
        return DisjointTrees(self.depth, self.parent_rank)

    def _grow_level(self, level: int) -> int:
        """Add the neighbors of a level's ranks. Return the number of added ranks."""
        from sccl.synth.constructions.pipelined_tree_loops import can_take_link  # noqa: PLC0415 - Numba is slow to load

        _, _, out_start, out_link, _, dst = self.machine
        several = [
            (tree, rank, link)
            for tree, rank in np.argwhere(self.depth == level).tolist()
            for link in out_link[out_start[rank] : out_start[rank + 1]].tolist()
            if self.depth[tree, dst[link]] < 0 and self.free_lanes[link]
        ]
        grown = 0
        for place in self.rng.permutation(len(several)).tolist():
            tree, rank, link = several[place]
            to = int(dst[link])
            if self.depth[tree, to] >= 0 or not self.free_lanes[link]:
                continue
            if can_take_link(self.machine, self.free_lanes, self.depth, tree, link, self.scratch):
                self.free_lanes[link] -= 1
                self.depth[tree, to], self.parent_rank[tree, to] = level + 1, rank
                grown += 1
        return grown
