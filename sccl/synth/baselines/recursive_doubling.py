"""Recursive doubling: log2 n exchanges with ranks that are twice as far each time."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import Pattern, PatternMaker, split_chunks
from sccl.synth.baselines.pattern.pairwise_exchanges import (
    add_folded_ranks,
    exchange_sums,
    fold_ranks,
    recursive_doubling,
    require_power_of_two,
)
from sccl.synth.common.contract import Request

NAME = "recursive-doubling"
SOURCE = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"


def _allgather(request: Request, pieces: int) -> Pattern:
    ranks = request.spec.ranks
    require_power_of_two("the allgather of recursive doubling", ranks, "Bruck's takes any number")
    return split_chunks(recursive_doubling(request.spec.at(1), np.arange(ranks)), pieces)


def _allreduce(request: Request, pieces: int) -> Pattern:
    """Return the exchange of whole vectors. Ranks beyond a power of two fold their data before."""
    stay, surplus = fold_ranks(request.spec.ranks)
    pattern = exchange_sums(request.spec.at(request.spec.unit), stay)
    return split_chunks(add_folded_ranks(pattern, surplus), pieces)


COLLECTIVES: dict[str, PatternMaker] = {"allgather": _allgather, "allreduce": _allreduce}
