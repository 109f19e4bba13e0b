"""PAT: Bruck's steps backwards, far ranks first, and as many chunks at once as a buffer holds."""

from __future__ import annotations

import numpy as np

from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.common.contract import Request

NAME = "pat"
SOURCE = "Jeaugey, arXiv 2506.20252, as in NCCL 2.23 and later"

BY_SIZE = True

SLOT_BYTES = 2**19
"""A slot of NCCL's buffers: 4 MiB in eight slots."""

SLOTS = 8
"""Slots of NCCL's buffers."""


def chunks_per_message(ranks: int, shard_bytes: int) -> int:
    """Return the number of chunks of a message: as many as fit into a slot, and into eight slots.

    The number is a power of two that grows while it is less than half of the ranks.
    """
    together, slots = 1, SLOTS
    while SLOT_BYTES // (shard_bytes * together) >= 2 and together < ranks // 2:
        together *= 2
    while slots > 1 and together < ranks // 2:
        together, slots = 2 * together, slots // 2
    return together


def depth_first(bits: int) -> list[int]:
    """Return 1 .. 2^bits - 1 in the depth-first order of a binomial tree, large branches first."""
    order: list[int] = []
    for bit in range(bits):
        order = [2**bit, *(2**bit + number for number in order), *order]
    return order


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return the trees of all ranks. The chunk of rank r + o reaches r by the bits of o.

    The bits are used from the highest to the lowest. A message holds 2^h chunks. Each of the h
    highest bits takes one step, for all chunks. For each tail of lower bits, in depth-first order,
    one step moves the chunks of all heads.
    """
    ranks = request.spec.ranks
    bits = (ranks - 1).bit_length()
    low = bits - (chunks_per_message(ranks, request.size_bytes).bit_length() - 1)
    offset, rank = np.ogrid[1:ranks, :ranks]
    lowest = offset & -offset
    tails = np.zeros(2**low, dtype=np.int64)
    tails[depth_first(low)] = np.arange(2**low - 1)
    tail = offset % 2**low
    step = np.where(tail > 0, bits - low + tails[tail], bits - 1 - np.log2(lowest).astype(int))
    steps = np.unique(step)  # some tails have no rank
    pattern = build_pattern(
        request.spec.at(1),
        step=np.searchsorted(steps, step),
        chunk=(rank + offset) % ranks,
        src=(rank + lowest) % ranks,
        dst=rank,
    )
    return split_chunks(pattern, pieces)


COLLECTIVES = with_inverses(allgather=_allgather)
