"""Bruck's algorithms: ceil(log2 n) steps for any number of ranks."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.common.contract import Request

NAME = "bruck"
SOURCE = "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11), 1997, with radix 2"


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return the concatenation: the j-th chunk that a rank receives starts j ranks after it."""
    ranks = request.spec.ranks
    place, rank = np.ogrid[1:ranks, :ranks]
    step = np.floor(np.log2(place)).astype(int)
    pattern = build_pattern(
        request.spec.at(1),
        step=step,
        chunk=(rank + place) % ranks,
        src=(rank + 2**step) % ranks,
        dst=rank,
    )
    return split_chunks(pattern, pieces)


def _alltoall(request: Request, pieces: int) -> Pattern:
    """Return the index operation: in step i a chunk moves by 2^i if its distance has bit i."""
    ranks = request.spec.ranks
    bits = (ranks - 1).bit_length()
    step, distance, start = np.ogrid[:bits, :ranks, :ranks]
    step, distance = (a.ravel() for a in np.broadcast_arrays(step[..., 0], distance[..., 0]))
    moves = (distance >> step & 1).astype(bool)
    step, distance = step[moves][:, None], distance[moves][:, None]
    src = start[0] + distance % 2**step
    pattern = build_pattern(
        request.spec.at(ranks),
        step=step,
        chunk=start[0] + ranks * ((start[0] + distance) % ranks),
        src=src % ranks,
        dst=(src + 2**step) % ranks,
    )
    return split_chunks(pattern, pieces)


COLLECTIVES = with_inverses(allgather=_allgather, alltoall=_alltoall)
