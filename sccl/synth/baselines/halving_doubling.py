"""Recursive halving and doubling: exchanges of half as much with nearer ranks, and back."""

from __future__ import annotations

from math import lcm

import numpy as np

from sccl.synth.baselines.pattern import Maker, Pattern, backwards, chained, cut, turned
from sccl.synth.baselines.pattern.exchanges import doubling, folded, power_of_two, with_surplus
from sccl.synth.contract import Request

NAME = "halving-doubling"
SOURCE = "Rabenseifner, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"


def _allgather(request: Request, pieces: int) -> Pattern:
    ranks = request.spec.ranks
    power_of_two("halving-doubling, but for allreduce,", ranks, "Bruck's algorithm takes any")
    return cut(doubling(request.spec.at(1), np.arange(ranks)), pieces)


def _allreduce(request: Request, pieces: int) -> Pattern:
    """Return the halving and doubling of 2^k ranks. The others fold theirs before."""
    stay, surplus = folded(request.spec.ranks)
    whole = request.spec.at(lcm(request.spec.unit, len(stay)))
    spread = doubling(whole, stay)
    return cut(with_surplus(chained(turned(spread, whole), spread, whole), surplus), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": _allreduce,
}
