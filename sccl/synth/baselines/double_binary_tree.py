"""Two binary trees at once: who has children in one is a leaf of the other."""

from __future__ import annotations

from math import lcm

import numpy as np

from sccl.synth.baselines.pattern import Pattern, pipeline_chunks, run_in_parallel, with_inverses
from sccl.synth.baselines.pattern.spanning_trees import (
    SpanningTree,
    broadcast_down,
    reduce_and_broadcast,
    tree_by_levels,
)
from sccl.synth.common.contract import Request

NAME = "double-binary-tree"
SOURCE = "Sanders, Speck, Traeff, Parallel Computing 35(12), 2009, edges not colored"


def two_trees(ranks: int) -> tuple[SpanningTree, SpanningTree]:
    """Return two binary trees of ranks 1, 2, ... in order, with rank 0 above both.

    The inner ranks of the first tree are even. The second tree is the mirrored first one, or if the
    number of ranks is even, the first one shifted by one. So its inner ranks are odd.
    """
    number = np.arange(ranks)
    low = number & -number
    up = number - low | 2 * low
    first = tree_by_levels(np.where(up < ranks, up, number - low))
    if ranks % 2:
        names = (ranks - number) % ranks
    else:
        names = np.where(number > 0, number % max(ranks - 1, 1) + 1, 0)
    return first, first.relabel(names)


def _broadcast(request: Request, pieces: int) -> Pattern:
    spec = request.spec
    trees = (tree.rotate_to_root(spec.root or 0) for tree in two_trees(spec.ranks))
    return pipeline_chunks(
        run_in_parallel([broadcast_down(spec.at(1), tree, 0) for tree in trees]), pieces
    )


def _allreduce(request: Request, pieces: int) -> Pattern:
    spec = request.spec
    return reduce_and_broadcast(spec.at(lcm(spec.unit, 2 * pieces)), two_trees(spec.ranks), pieces)


COLLECTIVES = with_inverses(allreduce=_allreduce, broadcast=_broadcast)
