"""Recursive doubling: log2 n exchanges with ranks that are twice as far each time."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import Maker, Pattern, cut
from sccl.synth.baselines.pattern.exchanges import (
    doubling,
    folded,
    power_of_two,
    swapping,
    with_surplus,
)
from sccl.synth.contract import Request

NAME = "recursive-doubling"
SOURCE = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"


def _allgather(request: Request, pieces: int) -> Pattern:
    ranks = request.spec.ranks
    power_of_two("the allgather of recursive doubling", ranks, "Bruck's takes any number")
    return cut(doubling(request.spec.at(1), np.arange(ranks)), pieces)


def _allreduce(request: Request, pieces: int) -> Pattern:
    """Return the exchange of whole vectors. Ranks beyond a power of two fold theirs before."""
    stay, surplus = folded(request.spec.ranks)
    whole = swapping(request.spec.at(request.spec.unit), stay)
    return cut(with_surplus(whole, surplus), pieces)


COLLECTIVES: dict[str, Maker] = {"allgather": _allgather, "allreduce": _allreduce}
