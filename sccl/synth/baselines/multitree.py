"""MultiTree: a spanning tree from each rank, all built at once over links that are still free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.topology import Topology
from sccl.synth.baselines.pattern import Maker, Pattern, backwards, cut, pattern_of, there_and_back
from sccl.synth.baselines.pattern.links import check_links
from sccl.synth.contract import Request

NAME = "multitree"
SOURCE = "Huang, Majumder, Kim, Muzahid, Yum, Kim, ISCA 2021"

MAX_RANKS = 2048
"""Beyond, the trees take minutes to build."""


def grown(topology: Topology) -> NDArray[np.int32]:
    """Return the edges of all trees, as rows (step, root, src, dst).

    In each step trees take turns, by their roots, to add one link each, as long as any can: from a
    rank that they had before the step to a new one, over a link with a lane still free in it. Ranks
    that came first are tried first, so that trees stay low.
    """
    from sccl.synth.baselines.pattern.growing import Bandwidth, Trees, grow  # noqa: PLC0415 - Numba

    trees, bandwidth = Trees.of(topology.ranks), Bandwidth.of(topology)
    step, parts = 0, []
    while (trees.size < topology.ranks).any():
        edges = grow(trees, bandwidth)
        parts.append(np.insert(edges, 0, step, axis=1))
        step += 1
    return np.concatenate(parts)


def _allgather(request: Request, pieces: int) -> Pattern:
    check_links("MultiTree", request.topology, MAX_RANKS)
    step, chunk, src, dst = grown(request.topology).T
    pattern = pattern_of(request.spec.at(1), step=step, chunk=chunk, src=src, dst=dst)
    return cut(pattern, pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
