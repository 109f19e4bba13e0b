"""Verify many sends by step, in columns, between any two ranks, with or without a link.

The rules are those of :mod:`sccl.judge.steps` without links and rounds: a send carries the value
that its sender has when the step begins, and each partial result is tracked as a set of
contributions. Chunks are independent, so a compiled loop executes them one after the other. The
result is only valid or invalid. The step verifier words the violations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import AnyIntArray
from sccl.core.collective import Collective
from sccl.core.ids import Rank

_WORDS_PER_CALL = (
    2**22
)  # of contributions in a call: a tenth of a second, after which signals are heard


def is_valid(  # noqa: PLR0913, PLR0917 - columns
    collective: Collective,
    step: AnyIntArray,
    chunk: AnyIntArray,
    src: AnyIntArray,
    dst: AnyIntArray,
    reduce: NDArray[np.bool_],
) -> bool:
    """Return whether sends satisfy a collective.

    Args:
        step: arrays of one length, in any order. All numbers must be in range.

    Raises:
        TooLargeError: there are too many chunks to index by holders and receivers.
    """
    combining, ranks = collective.combining, collective.ranks
    if reduce.any() and not combining:
        return False
    words = -(-ranks // 64) if combining else 1
    order = np.lexsort((dst, step, chunk))
    ends = np.searchsorted(chunk[order], np.arange(collective.num_chunks + 1))
    step, src, dst, reduce = step[order], src[order], dst[order], reduce[order]
    group, holders, wanted = _class_places(collective)
    value = np.zeros((ranks, words), dtype=np.uint64)
    first = 0
    while first < collective.num_chunks:
        rows = max(_WORDS_PER_CALL // words, 1)
        last = int(np.searchsorted(ends, ends[first] + rows, side="right")) - 1
        last = max(min(last, first + rows // ranks), first + 1)
        if not _execute_chunks(
            first, last, value, combining, ends, group, holders, wanted, step, src, dst, reduce
        ):
            return False
        first = last
    return True


RankSets = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Ranks of classes, one class after the other: where each begins, and all ranks."""


def _class_places(collective: Collective) -> tuple[NDArray[np.int64], RankSets, RankSets]:
    """Return the class of each chunk, and the ranks of each class before and after."""
    group = np.empty(collective.num_chunks, dtype=np.int64)
    for number, chunks in enumerate(collective.chunk_classes().values()):
        group[chunks] = number
    before, after = zip(*collective.chunk_classes(), strict=True)
    return group, _pack_sets(before), _pack_sets(after)


def _pack_sets(sets: tuple[frozenset[Rank], ...]) -> RankSets:
    all_ranks = [rank for ranks in sets for rank in sorted(ranks)]
    return np.cumsum([0, *map(len, sets)]), np.array(all_ranks, dtype=np.int64)


@compiled
def _execute_step(
    value: NDArray[np.uint64], src: AnyIntArray, dst: AnyIntArray, reduce: NDArray[np.bool_]
) -> bool:
    """Execute a chunk's sends in a step, sorted by destination, and return whether they are valid.

    Copies to one rank must be equal and not be mixed with reductions. A reduced value must have no
    contribution in common with the value at the destination.
    """
    sent = np.empty((len(src), value.shape[1]), dtype=np.uint64)
    for i in range(len(src)):
        sent[i] = value[src[i]]
        if not sent[i].any():
            return False
    for i in range(len(src)):
        held = value[dst[i]]
        if i > 0 and dst[i] == dst[i - 1]:
            copied = not (reduce[i] or reduce[i - 1])
            if reduce[i] != reduce[i - 1] or (copied and (sent[i] != sent[i - 1]).any()):
                return False
        for w in range(len(held)):
            if reduce[i] and held[w] & sent[i, w]:
                return False
            held[w] = held[w] | sent[i, w] if reduce[i] else sent[i, w]
    return True


@compiled
def _execute_chunks(  # noqa: PLR0913, PLR0917 - columns
    first: int,
    last: int,
    value: NDArray[np.uint64],
    combining: bool,
    ends: NDArray[np.int64],
    group: NDArray[np.int64],
    holders: RankSets,
    wanted: RankSets,
    step: AnyIntArray,
    src: AnyIntArray,
    dst: AnyIntArray,
    reduce: NDArray[np.bool_],
) -> bool:
    """Return whether the moves of the chunks ``first`` to ``last - 1`` satisfy the demand.

    Args:
        value: Scratch for the contributions on each rank, as bits. Copies use one bit.
    """
    everyone = np.zeros(value.shape[1], dtype=np.uint64)
    for c in range(first, last):
        value[:], everyone[:] = 0, 0
        for i in range(holders[0][group[c]], holders[0][group[c] + 1]):
            rank = holders[1][i]
            bit = rank if combining else 0
            value[rank, bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
            everyone[bit // 64] |= np.uint64(1) << np.uint64(bit % 64)
        row = ends[c]
        while row < ends[c + 1]:
            stop = row
            while stop < ends[c + 1] and step[stop] == step[row]:
                stop += 1
            if not _execute_step(value, src[row:stop], dst[row:stop], reduce[row:stop]):
                return False
            row = stop
        for i in range(wanted[0][group[c]], wanted[0][group[c] + 1]):
            if (value[wanted[1][i]] != everyone).any():
                return False
    return True
