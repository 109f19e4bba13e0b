"""Decide validity by the rules of :mod:`sccl.judge.execution`, on arrays in compiled loops.

Steps are treated as times: a send of step s starts at s and arrives at s + 1. So one loop for
collectives that copy and one for reductions serve algorithms and schedules. Every transfer arrives
after its start. So in the order of starts, all data that have arrived by the start of a transfer
belong to earlier transfers.

Chunks are independent. They are executed in groups whose state fits in the cache. If there are too
many transfers to sort, one table of arrivals holds all chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import AnyIntArray, IntArray, UInt64Array
from sccl.core.collective import Collective, Relation, RelationKind

_NEVER = np.iinfo(np.int64).max
_ROWS_PER_CALL = 2**20  # a few hundredths of a second, then Python handles signals
_SET_ROWS_PER_CALL = 2**14  # the same for rows with sets of contributions, which take longer
_GROUP_WORDS = 2**19  # 64-bit words in the state of a group: 4 MiB
_MASK_PLACES = 2**22  # pairs of chunk and rank in one mask


class TransferArrays(NamedTuple):
    """Transfers from rank to rank, as arrays of shape (transfers,).

    Attributes:
        start: Tick or step at which each transfer starts.
        arrives: Tick or step at which its last byte arrives at the destination.
        chunk: Chunk number, or index among the executed chunks.
        src: Rank that sends.
        dst: Rank that receives.
        reduce: Whether the destination reduces the chunk into its value.
    """

    start: AnyIntArray
    arrives: AnyIntArray
    chunk: AnyIntArray
    src: AnyIntArray
    dst: AnyIntArray
    reduce: NDArray[np.bool_]


def is_satisfied(
    collective: Collective, transfers: TransferArrays, chunks: IntArray | None = None
) -> bool:
    """Return whether transfers satisfy a collective.

    Args:
        collective: Collective.
        transfers: Transfers in any order. All numbers must be in range.
        chunks: Chunks to check, ascending. Others are ignored. None: all chunks.
    """
    row = transfers.chunk
    if chunks is None:
        chunks = np.arange(collective.num_chunks)
    else:
        row = np.searchsorted(chunks, row)
    each = max(_GROUP_WORDS // (collective.ranks * _word_count(collective)), 1)
    group = row // each
    order = np.lexsort((transfers.start, group))
    ends = np.searchsorted(group[order], np.arange(-(-len(chunks) // each) + 1))
    is_group_satisfied = _is_reduced if collective.combining else _is_copied
    for number, (begin, end) in enumerate(pairwise(ends.tolist())):
        rows = order[begin:end]
        of_group = TransferArrays(
            start=transfers.start[rows],
            arrives=transfers.arrives[rows],
            chunk=row[rows] - number * each,
            src=transfers.src[rows],
            dst=transfers.dst[rows],
            reduce=transfers.reduce[rows],
        )
        if not is_group_satisfied(
            collective, chunks[number * each : (number + 1) * each], of_group
        ):
            return False
    return True


def relation_mask(
    relation: Relation, collective: Collective, chunks: IntArray
) -> NDArray[np.bool_]:
    """Return whether each chunk is related to each rank, shape (len(chunks), ranks)."""
    ranks, row = collective.ranks, np.arange(len(chunks))
    mask = np.zeros((len(chunks), ranks), np.bool_)
    match relation.kind:
        case RelationKind.ALL:
            mask[:] = True
        case RelationKind.SCATTERED:
            mask[row, chunks % ranks] = True
        case RelationKind.TRANSPOSE:
            mask[row, chunks // ranks % ranks] = True
        case RelationKind.ROOT:
            mask[:, relation.root] = True
        case RelationKind.PAIRS:
            for of_chunk, chunk in zip(mask, chunks.tolist(), strict=True):
                of_chunk[list(relation.ranks_of(chunk, ranks))] = True
    return mask


def _mask_blocks(
    relation: Relation, collective: Collective, chunks: IntArray
) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
    """Yield consecutive slices of the chunks, each with its relation mask."""
    each = max(_MASK_PLACES // collective.ranks, 1)
    for first in range(0, len(chunks), each):
        rows = slice(first, min(first + each, len(chunks)))
        yield rows, relation_mask(relation, collective, chunks[rows])


# --- collectives that copy ------------------------------------------------------------------------


class CopyingExecution:
    """Execution for collectives that copy: the first arrivals of some chunks on all ranks."""

    def __init__(self, collective: Collective, chunks: IntArray) -> None:
        self.collective, self.chunks = collective, chunks
        self.arrival = np.full((len(chunks), collective.ranks), _NEVER, np.int64)
        for rows, mask in _mask_blocks(collective.pre, collective, chunks):
            self.arrival[rows][mask] = 0

    def execute(self, transfers: TransferArrays) -> bool:
        """Execute transfers, and return whether each sender holds its chunk.

        Args:
            transfers: Transfers of these chunks, ascending by start, also over several calls.
        """
        if transfers.reduce.any():
            return False
        return all(
            _is_held_by_senders(
                self.arrival, *(column[begin : begin + _ROWS_PER_CALL] for column in transfers[:5])
            )
            for begin in range(0, len(transfers.start), _ROWS_PER_CALL)
        )

    def is_complete(self) -> bool:
        """Return whether each chunk has arrived at all its destinations."""
        masks = _mask_blocks(self.collective.post, self.collective, self.chunks)
        return all(bool((self.arrival[rows][mask] != _NEVER).all()) for rows, mask in masks)


def _is_copied(collective: Collective, chunks: IntArray, transfers: TransferArrays) -> bool:
    run = CopyingExecution(collective, chunks)
    return run.execute(transfers) and run.is_complete()


@compiled
def _is_held_by_senders(  # noqa: PLR0913, PLR0917 - columns
    arrival: NDArray[np.int64],
    start: AnyIntArray,
    arrives: AnyIntArray,
    chunk: AnyIntArray,
    src: AnyIntArray,
    dst: AnyIntArray,
) -> bool:
    """Return whether each sender holds its chunk, and record the first arrivals."""
    for i in range(len(start)):
        if arrival[chunk[i], src[i]] > start[i]:
            return False
        arrival[chunk[i], dst[i]] = min(arrival[chunk[i], dst[i]], arrives[i])
    return True


# --- collectives that reduce ----------------------------------------------------------------------


def _word_count(collective: Collective) -> int:
    """Return the number of 64-bit words that the value of one chunk at one rank takes."""
    return -(-collective.ranks // 64) if collective.combining else 1


def _is_reduced(collective: Collective, chunks: IntArray, transfers: TransferArrays) -> bool:
    """Return whether transfers, ascending by start, satisfy a collective that reduces.

    The value of a chunk at a rank is the set of its contributions, as bits. A transfer in flight
    carries the set that its sender had at its start.
    """
    ranks, arrives = collective.ranks, transfers.arrives
    src, dst = (transfers.chunk * ranks + rank for rank in (transfers.src, transfers.dst))
    order = np.argsort(arrives, kind="stable")
    values, everyone = _contributions(collective, chunks)
    under_way = np.zeros(
        (_max_in_flight(transfers.start, arrives[order]), values.shape[1]), np.uint64
    )
    slots = np.zeros(len(arrives), dtype=np.int32)
    free = np.arange(len(under_way), dtype=np.int32)
    last = np.full(len(values), -1, dtype=np.int64)
    stored = np.zeros(len(values), dtype=np.bool_)
    state = np.array([0, len(free)], dtype=np.int64)
    for begin in range(0, len(arrives) + 1, _SET_ROWS_PER_CALL):
        until = min(begin + _SET_ROWS_PER_CALL, len(arrives))
        if not _reduce_rows(
            values, under_way, (transfers.start, arrives, order, src, dst, transfers.reduce),
            (slots, free, last, stored, state), begin, until,
        ):  # fmt: skip
            return False
    by_chunk = values.reshape(len(chunks), ranks, -1)
    return all(
        bool((by_chunk[rows][mask] == everyone[rows][np.nonzero(mask)[0]]).all())
        for rows, mask in _mask_blocks(collective.post, collective, chunks)
    )


def _contributions(collective: Collective, chunks: IntArray) -> tuple[UInt64Array, UInt64Array]:
    """Return the initial contributions as bits.

    Returns:
        The contribution of each rank to each chunk, shape (chunks * ranks, words), and the union
        over all ranks for each chunk, shape (chunks, words).
    """
    ranks, words = collective.ranks, _word_count(collective)
    values = np.zeros((len(chunks), ranks, words), dtype=np.uint64)
    for rows, mask in _mask_blocks(collective.pre, collective, chunks):
        chunk, rank = np.nonzero(mask)
        bits = np.uint64(1) << (rank % 64).astype(np.uint64)
        values[rows][chunk, rank, rank // 64] = bits
    return values.reshape(-1, words), np.bitwise_or.reduce(values, axis=1)


def _max_in_flight(start: AnyIntArray, arrives: AnyIntArray) -> int:
    """Return the maximum number of transfers that have started and not arrived.

    Args:
        start: Starts, ascending.
        arrives: Arrivals, ascending.
    """
    arrived = np.searchsorted(arrives, start, side="right")
    return int((np.arange(1, len(start) + 1) - arrived).max(initial=1))


@compiled
def _reduce_rows(  # noqa: PLR0913, PLR0917 - a state
    values: NDArray[np.uint64],
    under_way: NDArray[np.uint64],
    rows: tuple[AnyIntArray, AnyIntArray, AnyIntArray, AnyIntArray, AnyIntArray, NDArray[np.bool_]],
    state: tuple[AnyIntArray, AnyIntArray, AnyIntArray, NDArray[np.bool_], AnyIntArray],
    begin: int,
    until: int,
) -> bool:
    """Execute rows ``begin`` to ``until - 1``, and return whether they are valid.

    A row is invalid if its sender has no contribution to send, or if it arrives with a conflicting
    or doubly counted value. After the last of all rows, the remaining arrivals are executed.
    """
    start, arrives, order, src, dst, reduce = rows
    slots, free, last, stored, counters = state
    words = values.shape[1]
    for i in range(begin, until + 1):
        if i == until and until < len(start):
            return True
        while counters[0] < len(order) and (
            i == len(start) or arrives[order[counters[0]]] <= start[i]
        ):
            row = order[counters[0]]
            counters[0] += 1
            sent, place, held = under_way[slots[row]], dst[row], values[dst[row]]
            together = last[place] == arrives[row]
            differs = False
            counted = False
            for w in range(words):
                differs |= sent[w] != held[w]
                counted |= (sent[w] & held[w]) != 0
            mixed = reduce[row] == stored[place] or (stored[place] and differs)
            if (together and mixed) or (reduce[row] and counted):
                return False
            for w in range(words):
                held[w] = (held[w] | sent[w]) if reduce[row] else sent[w]
            last[place], stored[place] = arrives[row], not reduce[row]
            free[counters[1]] = slots[row]
            counters[1] += 1
        if i == len(start):
            return True
        something = False
        counters[1] -= 1
        slots[i] = free[counters[1]]
        for w in range(words):
            under_way[slots[i], w] = values[src[i], w]
            something |= values[src[i], w] != 0
        if not something:
            return False
    return True
