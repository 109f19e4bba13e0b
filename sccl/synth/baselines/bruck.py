"""Bruck's algorithms: ceil(log2 n) steps for any number of ranks."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import Maker, Pattern, backwards, cut, pattern_of, there_and_back
from sccl.synth.contract import Request

NAME = "bruck"
SOURCE = "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11), 1997, with radix 2"


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return the concatenation: the j-th chunk that a rank gets starts j ranks after it."""
    ranks = request.spec.ranks
    place, rank = np.ogrid[1:ranks, :ranks]
    step = np.floor(np.log2(place)).astype(int)
    pattern = pattern_of(
        request.spec.at(1),
        step=step,
        chunk=(rank + place) % ranks,
        src=(rank + 2**step) % ranks,
        dst=rank,
    )
    return cut(pattern, pieces)


def _alltoall(request: Request, pieces: int) -> Pattern:
    """Return the index operation: a chunk goes on by 2^i in step i if its way has bit i."""
    ranks = request.spec.ranks
    bits = (ranks - 1).bit_length()
    step, way, start = np.ogrid[:bits, :ranks, :ranks]
    step, way = (a.ravel() for a in np.broadcast_arrays(step[..., 0], way[..., 0]))
    moves = (way >> step & 1).astype(bool)
    step, way = step[moves][:, None], way[moves][:, None]
    src = start[0] + way % 2**step
    pattern = pattern_of(
        request.spec.at(ranks),
        step=step,
        chunk=start[0] + ranks * ((start[0] + way) % ranks),
        src=src % ranks,
        dst=(src + 2**step) % ranks,
    )
    return cut(pattern, pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
    "alltoall": _alltoall,
}
