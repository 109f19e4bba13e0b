"""Recursive halving and doubling: exchanges of half as much with nearer ranks, and back."""

from __future__ import annotations

from math import lcm

import numpy as np

from sccl.synth.baselines.pattern import (
    Pattern,
    concatenate_patterns,
    invert_pattern,
    split_chunks,
    with_inverses,
)
from sccl.synth.baselines.pattern.pairwise_exchanges import (
    add_folded_ranks,
    fold_ranks,
    recursive_doubling,
    require_power_of_two,
)
from sccl.synth.common.contract import Request

NAME = "halving-doubling"
SOURCE = "Rabenseifner, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"


def _allgather(request: Request, pieces: int) -> Pattern:
    ranks = request.spec.ranks
    require_power_of_two(
        "halving-doubling, but for allreduce,", ranks, "Bruck's algorithm takes any"
    )
    return split_chunks(recursive_doubling(request.spec.at(1), np.arange(ranks)), pieces)


def _allreduce(request: Request, pieces: int) -> Pattern:
    """Return halving and doubling of 2^k ranks. The other ranks fold their data before."""
    stay, surplus = fold_ranks(request.spec.ranks)
    collective = request.spec.at(lcm(request.spec.unit, len(stay)))
    spread = recursive_doubling(collective, stay)
    return split_chunks(
        add_folded_ranks(
            concatenate_patterns(invert_pattern(spread, collective), spread, collective), surplus
        ),
        pieces,
    )


COLLECTIVES = with_inverses(allgather=_allgather, allreduce=_allreduce)
