"""Binomial trees: ceil(log2 n) steps down, with the farthest ranks first."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import Maker, Pattern, backwards, chained, cut, turned
from sccl.synth.baselines.pattern.trees import Tree, dealt, spread
from sccl.synth.contract import Request

NAME = "binomial-tree"
SOURCE = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"


def binomial(ranks: int) -> Tree:
    """Return the binomial tree: the parent of a number is that without its lowest bit."""
    number = np.arange(ranks)
    low = number & -number
    step = (ranks - 1).bit_length() - 1 - np.log2(np.maximum(low, 1)).astype(int)
    return Tree(number - low, np.where(number > 0, step, -1))


def _broadcast(request: Request, pieces: int) -> Pattern:
    spec = request.spec
    return cut(spread(spec.at(1), binomial(spec.ranks).rooted(spec.root or 0), 0), pieces)


def _scatter(request: Request, pieces: int) -> Pattern:
    spec = request.spec
    tree = binomial(spec.ranks).rooted(spec.root or 0)
    return cut(dealt(spec.at(spec.unit), tree), pieces)


def _allreduce(request: Request, pieces: int) -> Pattern:
    """Return a reduce to rank 0, and a broadcast from it."""
    whole = request.spec.at(request.spec.unit)
    down = spread(whole, binomial(request.spec.ranks), np.arange(whole.num_chunks))
    return cut(chained(turned(down, whole), down, whole), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allreduce": _allreduce,
    "broadcast": _broadcast,
    "reduce": backwards(_broadcast),
    "scatter": _scatter,
    "gather": backwards(_scatter),
}
