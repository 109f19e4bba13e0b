"""Bine trees: binomial trees of negabinary numbers, whose edges are a third shorter."""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import AnyIntArray
from sccl.errors import ParameterError
from sccl.synth.baselines.pattern import Pattern, split_chunks, with_inverses
from sccl.synth.baselines.pattern.grid import Grid
from sccl.synth.baselines.pattern.pairwise_exchanges import (
    butterfly_allgather,
    butterfly_alltoall,
    require_power_of_two,
)
from sccl.synth.baselines.pattern.spanning_trees import SpanningTree, broadcast_down, scatter_down
from sccl.synth.baselines.swing import peers
from sccl.synth.common.contract import Request

NAME = "bine"
SOURCE = "De Sensi et al., SC 2025 (arXiv 2508.17311), as in libbine of HLC-Lab/pico"

_ODD_BITS = 0xAAAAAAAA
"""The digits that count negatively in base -2."""


def negabinary(numbers: AnyIntArray) -> AnyIntArray:
    """Return the digits of numbers in base -2, as bits."""
    return (numbers + _ODD_BITS) ^ _ODD_BITS


def from_negabinary(bits: AnyIntArray) -> AnyIntArray:
    """Return the numbers with these digits in base -2."""
    return (bits ^ _ODD_BITS) - _ODD_BITS


def bine_tree(ranks: int) -> SpanningTree:
    """Return the tree of 2^k ranks whose edges become shorter from step to step.

    In step s a rank sends to the rank whose last k - s digits are all inverted. It receives its own
    data in the first step s in which its last k - s digits are all equal.
    """
    bits = ranks.bit_length() - 1
    digits = negabinary(np.arange(ranks))
    step, parent = np.full(ranks, -1), np.zeros(ranks, dtype=np.int64)
    for last in range(1, bits + 1):  # shorter edges first: longer ones overwrite them
        mask = 2**last - 1
        ends = np.isin(digits & mask, (0, mask)) & (np.arange(ranks) > 0)
        step[ends] = bits - last
        parent[ends] = (from_negabinary(digits ^ mask) % ranks)[ends]
    return SpanningTree(parent, step)


def _tree(request: Request) -> SpanningTree:
    require_power_of_two("a Bine tree", request.spec.ranks, "binomial-tree takes any")
    return bine_tree(request.spec.ranks).rotate_to_root(request.spec.root or 0)


def _broadcast(request: Request, pieces: int) -> Pattern:
    return split_chunks(broadcast_down(request.spec.at(1), _tree(request), 0), pieces)


def _scatter(request: Request, pieces: int) -> Pattern:
    return split_chunks(scatter_down(request.spec.at(request.spec.unit), _tree(request)), pieces)


def _allgather(request: Request, pieces: int) -> Pattern:
    ranks = request.spec.ranks
    if ranks % 2:
        raise ParameterError(
            f"a Bine butterfly needs an even number of ranks, and there are {ranks}: give another"
        )
    steps = peers(Grid((ranks,)), 0, 1)[::-1]
    return split_chunks(butterfly_allgather(request.spec.at(1), steps, "a Bine butterfly"), pieces)


def _alltoall(request: Request, pieces: int) -> Pattern:
    ranks = request.spec.ranks
    require_power_of_two("the alltoall of Bine trees", ranks, "Bruck's algorithm takes any")
    return split_chunks(
        butterfly_alltoall(request.spec.at(ranks), peers(Grid((ranks,)), 0, 1)), pieces
    )


COLLECTIVES = with_inverses(
    allgather=_allgather, alltoall=_alltoall, broadcast=_broadcast, scatter=_scatter
)
