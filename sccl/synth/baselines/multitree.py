"""MultiTree: a spanning tree from each rank, all built at once over links that are still free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.topology import Topology
from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.baselines.pattern.link_capacity import check_links
from sccl.synth.common.contract import Request

NAME = "multitree"
SOURCE = "Huang, Majumder, Kim, Muzahid, Yum, Kim, ISCA 2021"

MAX_RANKS = 2048
"""Trees of more ranks take minutes to build."""


def tree_edges(topology: Topology) -> NDArray[np.int32]:
    """Return the edges of all trees, as rows (step, root, src, dst).

    In each step the trees take turns, by their roots, and add one link each as long as possible. A
    link leads from a rank that the tree had before the step to a new rank, and has a lane that is
    still free in this step. Ranks that joined earlier are tried first, so that trees stay low.
    """
    from sccl.synth.baselines.pattern.multitree_loops import GrowingTrees, LinkBandwidth, grow_round  # noqa: PLC0415 - Numba

    trees, bandwidth = GrowingTrees.of(topology.ranks), LinkBandwidth.of(topology)
    step, parts = 0, []
    while (trees.size < topology.ranks).any():
        edges = grow_round(trees, bandwidth)
        parts.append(np.insert(edges, 0, step, axis=1))
        step += 1
    return np.concatenate(parts)


def _allgather(request: Request, pieces: int) -> Pattern:
    check_links("MultiTree", request.topology, MAX_RANKS)
    step, chunk, src, dst = tree_edges(request.topology).T
    pattern = build_pattern(request.spec.at(1), step=step, chunk=chunk, src=src, dst=dst)
    return split_chunks(pattern, pieces)


COLLECTIVES = with_inverses(allgather=_allgather)
