"""Compute the elements that motifs move. Motifs without common elements are independent."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.training.types.motif import Motif, MotifShare


def spans_of(motif: Motif) -> IntArray:
    """Return the elements that a motif moves, as disjoint sorted spans, shape (spans, 2)."""
    parts = [_cell_spans(motif, share, cells_of(share.cells)) for share in motif.shares]
    rows = np.concatenate(parts)
    rows = rows[rows[:, 0] < rows[:, 1]]
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    if not len(rows):
        return rows
    ends = np.maximum.accumulate(rows[:, 1])
    begins = np.concatenate([[True], rows[1:, 0] > ends[:-1]])
    last = np.concatenate([begins[1:], [True]])
    return np.stack([rows[begins, 0], ends[last]], axis=1)


@lru_cache(maxsize=64)
def cells_of(cells: tuple[int, ...]) -> NDArray[np.int64]:
    """Return offsets of cells as a read-only array. Many groups have the same cells."""
    row = np.array(cells, dtype=np.int64)
    row.flags.writeable = False
    return row


def element_count(motif: Motif) -> int:
    """Return the number of elements that a motif moves."""
    spans = spans_of(motif)
    return int((spans[:, 1] - spans[:, 0]).sum())


def buffer_elements(motif: Motif) -> int:
    """Return the number of elements of a rank's largest buffer for a motif.

    The count is that of a collective: the whole buffer for allreduce, broadcast, and reduce; the
    output for allgather; the input for reducescatter and alltoall; the root's buffer for gather and
    scatter.
    """
    return max(_largest_buffer(motif, share) for share in motif.shares)


def _largest_buffer(motif: Motif, share: MotifShare) -> int:
    cells = cells_of(share.cells)
    number = np.arange(len(cells) - 1)
    owners = np.zeros(len(number), np.int64)
    if motif.collective == "alltoall":
        number, owners, _ = _group_exchanges(motif, share, itself=True)
    elif share.owns:
        number = np.array(list(chain.from_iterable(share.owns)), dtype=np.int64)
        owners = np.zeros(len(number), np.int64)
    begin, end = (floor_part(np.diff(cells)[number], part) for part in motif.part)
    each = np.zeros(len(share.group), np.int64)
    np.add.at(each, owners, end - begin)
    return int(each.max())


def execution_work(motif: Motif) -> int:
    """Return the approximate number of reads and writes of cells, the cost of executing a motif."""
    work = 0
    for share in motif.shares:
        cells = sum(map(len, share.owns)) if share.owns else len(share.cells) - 1
        if motif.collective == "alltoall":
            sent = len(motif.offsets or share.group) / len(share.group)
            work += int(2 * cells * sum(map(len, share.wants)) * sent)
        else:
            work += cells * len(share.group)
    return work


def do_overlap(spans: IntArray, others: IntArray) -> bool:
    """Return whether two sets of spans have common elements."""
    if not len(spans) or not len(others):
        return False
    before = np.searchsorted(others[:, 0], spans[:, 1]) - 1  # last that begins before its end
    ends = others[np.maximum(before, 0), 1]
    return bool(((before >= 0) & (ends > spans[:, 0])).any())


def _cell_spans(motif: Motif, share: MotifShare, cells: NDArray[np.int64]) -> IntArray:
    """Return the begin and end of the part of each cell that a group moves."""
    number = _cell_numbers(motif, share)
    size = cells[number + 1] - cells[number]
    parts = [floor_part(size, part) for part in motif.part]
    return np.stack([cells[number] + part for part in parts], axis=1)


def floor_part(size: NDArray[np.int64], part: Fraction) -> NDArray[np.int64]:
    """Return a fraction of each size, rounded down."""
    up, down = part.as_integer_ratio()
    if int(size.max(initial=0)) * max(up, 1) < 2**63:
        return size * up // down
    return np.array([n * up // down for n in size.tolist()], dtype=np.int64)


def _cell_numbers(motif: Motif, share: MotifShare) -> NDArray[np.int64]:
    """Return the numbers of the cells that a group moves."""
    if motif.collective == "alltoall":
        return _group_exchanges(motif, share)[0]
    owns = share.owns or ((*range(len(share.cells) - 1),),)
    if share.root is not None and share.owns:  # the root's own data stay there
        owns = tuple(cells for place, cells in enumerate(owns) if place != share.root)
    return np.array(list(chain.from_iterable(owns)), dtype=np.int64)


def list_exchanges(motif: Motif) -> tuple[NDArray[np.int64], ...]:
    """Return the moves of an alltoall: first elements, ends, sources, and targets."""
    columns = []
    for share in motif.shares:
        cells = cells_of(share.cells)
        number, source_place, target_place = _group_exchanges(motif, share)
        begin, size = cells[number], np.diff(cells)[number]
        start, stop = (begin + floor_part(size, part) for part in motif.part)
        group = np.array(share.group, dtype=np.int64)
        columns.append(np.stack([start, stop, group[source_place], group[target_place]]))
    rows = np.concatenate(columns, axis=1)
    start, stop, source, target = rows[:, rows[0] < rows[1]]
    return start, stop, source, target


def _group_exchanges(
    motif: Motif, share: MotifShare, *, itself: bool = False
) -> tuple[NDArray[np.int64], ...]:
    """Return the cells that a group moves in an alltoall, with source and target places.

    Args:
        itself: Whether to include a rank's data for itself.
    """
    width = len(share.group)
    everyone = int(np.sqrt(len(share.cells) - 1) + 0.5)
    ends = []
    for owns in (share.owns, share.wants):
        place = np.repeat(np.arange(width), [len(cells) for cells in owns])
        ends.append((place, np.array(list(chain.from_iterable(owns)), dtype=np.int64)))
    (source_place, source), (target_place, target) = ends
    on = (target_place[None, :] - source_place[:, None]) % width
    sends = on >= (0 if itself else 1)
    if motif.offsets:
        sends &= np.isin(on, motif.offsets)
    row, column = np.nonzero(sends)
    return source[row] * everyone + target[column], source_place[row], target_place[column]
