"""Binomial trees: ceil(log2 n) steps down, with the farthest ranks first."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import (
    Pattern,
    concatenate_patterns,
    invert_pattern,
    split_chunks,
    with_inverses,
)
from sccl.synth.baselines.pattern.spanning_trees import SpanningTree, broadcast_down, scatter_down
from sccl.synth.common.contract import Request

NAME = "binomial-tree"
SOURCE = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"


def build_binomial_tree(ranks: int) -> SpanningTree:
    """Return the binomial tree: the parent of a number is the number without its lowest bit."""
    number = np.arange(ranks)
    low = number & -number
    step = (ranks - 1).bit_length() - 1 - np.log2(np.maximum(low, 1)).astype(int)
    return SpanningTree(number - low, np.where(number > 0, step, -1))


def _broadcast(request: Request, pieces: int) -> Pattern:
    spec = request.spec
    return split_chunks(
        broadcast_down(
            spec.at(1), build_binomial_tree(spec.ranks).rotate_to_root(spec.root or 0), 0
        ),
        pieces,
    )


def _scatter(request: Request, pieces: int) -> Pattern:
    spec = request.spec
    tree = build_binomial_tree(spec.ranks).rotate_to_root(spec.root or 0)
    return split_chunks(scatter_down(spec.at(spec.unit), tree), pieces)


def _allreduce(request: Request, pieces: int) -> Pattern:
    """Return a reduce to rank 0, followed by a broadcast from it."""
    collective = request.spec.at(request.spec.unit)
    down = broadcast_down(
        collective, build_binomial_tree(request.spec.ranks), np.arange(collective.num_chunks)
    )
    return split_chunks(
        concatenate_patterns(invert_pattern(down, collective), down, collective), pieces
    )


COLLECTIVES = with_inverses(allreduce=_allreduce, broadcast=_broadcast, scatter=_scatter)
