"""MultiTree: a spanning tree from each rank, all built at once over links that are still free."""

from __future__ import annotations

import numpy as np

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.synth.baselines.pattern import Maker, Pattern, backwards, cut, pattern_of, there_and_back
from sccl.synth.baselines.pattern.links import Room, check_links
from sccl.synth.contract import Request

NAME = "multitree"
SOURCE = "Huang, Majumder, Kim, Muzahid, Yum, Kim, ISCA 2021"

MAX_RANKS = 1024
"""Beyond, the trees take minutes to build."""

Rows = list[tuple[int, int, int, int]]


class _Growing:
    """A tree while it grows.

    Attributes:
        ranks: those that it has, in the order in which they came.
        ahead: links from ranks of earlier steps, not tried in this one.
    """

    def __init__(self, root: int) -> None:
        self.ranks = [root]
        self.known = {root}
        self.ahead: list[Edge] = []

    def begin(self, successors: tuple[tuple[int, ...], ...]) -> None:
        """Collect the links that may be taken in a step, the ones tried first last."""
        reaching = [(u, v) for u in self.ranks for v in successors[u] if v not in self.known]
        kept = {u for u, _ in reaching}
        self.ranks = [u for u in self.ranks if u in kept]  # the others never reach anyone anew
        self.ahead = reaching[::-1]

    def grow(self, room: Room) -> Edge | None:
        """Take the first link that is free and leads to a new rank; None: there is none."""
        while self.ahead:
            src, dst = edge = self.ahead.pop()
            if dst not in self.known and room.of(edge):
                room.take(edge)
                self.ranks.append(dst)
                self.known.add(dst)
                return src, dst
        return None


def grown(topology: Topology) -> Rows:
    """Return the edges of all trees as rows (step, root, src, dst).

    In each step trees take turns, by their roots, to add one link each, as long as any can: from a
    rank that they had before the step to a new one, over a link with a lane still free in it. Ranks
    that came first are tried first, so that trees stay low.
    """
    trees = [_Growing(root) for root in range(topology.ranks)]
    successors, room, rows = topology.successors(), Room(topology), Rows()
    step = 0
    while active := [root for root, tree in enumerate(trees) if len(tree.known) < topology.ranks]:
        room.clear()
        for root in active:
            trees[root].begin(successors)
        while active:
            edges = [(root, trees[root].grow(room)) for root in active]
            rows += [(step, root, *edge) for root, edge in edges if edge]
            active = [root for root, edge in edges if edge]
        step += 1
    return rows


def _allgather(request: Request, pieces: int) -> Pattern:
    check_links("MultiTree", request.topology, MAX_RANKS)
    step, chunk, src, dst = np.array(grown(request.topology)).T
    pattern = pattern_of(request.spec.at(1), step=step, chunk=chunk, src=src, dst=dst)
    return cut(pattern, pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
