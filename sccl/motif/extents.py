"""Which elements motifs are about: those of two that share none need not wait for one another."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sccl.core.motif import Motif, MotifShare

Spans = NDArray[np.int64]
"""Rows of where elements begin and end, in their order, none of which touch."""


def spans_of(motif: Motif) -> Spans:
    """Return the elements that a motif moves."""
    parts = [_cells(motif, share, cells_of(share.cells)) for share in motif.shares]
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
    """Return where cells begin, and the end of the last; groups often have the same ones."""
    row = np.array(cells, dtype=np.int64)
    row.flags.writeable = False
    return row


def extent(motif: Motif) -> int:
    """Return how many elements a motif moves."""
    spans = spans_of(motif)
    return int((spans[:, 1] - spans[:, 0]).sum())


def buffer_of(motif: Motif) -> int:
    """Return the number of elements of a rank's largest buffer for a motif.

    They are counted as for a collective: the whole buffer of an allreduce, broadcast, or reduce.
    The output of an allgather. The input of a reducescatter or alltoall. The root's buffer of a
    gather or scatter.
    """
    return max(_largest(motif, share) for share in motif.shares)


def _largest(motif: Motif, share: MotifShare) -> int:
    cells = cells_of(share.cells)
    number = np.arange(len(cells) - 1)
    whose = np.zeros(len(number), np.int64)
    if motif.collective == "alltoall":
        number, whose, _ = _exchanges(motif, share, itself=True)
    elif share.owns:
        number = np.array(list(chain.from_iterable(share.owns)), dtype=np.int64)
        whose = np.zeros(len(number), np.int64)
    begin, end = (cut_off(np.diff(cells)[number], part) for part in motif.part)
    each = np.zeros(len(share.group), np.int64)
    np.add.at(each, whose, end - begin)
    return int(each.max())


def work_of(motif: Motif) -> int:
    """Return the approximate number of reads and writes of cells, the cost of executing a motif."""
    found = 0
    for share in motif.shares:
        cells = sum(map(len, share.owns)) if share.owns else len(share.cells) - 1
        if motif.collective == "alltoall":
            sent = len(motif.offsets or share.group) / len(share.group)
            found += int(2 * cells * sum(map(len, share.wants)) * sent)
        else:
            found += cells * len(share.group)
    return found


def meet(some: Spans, others: Spans) -> bool:
    """Return whether some elements are among others."""
    if not len(some) or not len(others):
        return False
    before = np.searchsorted(others[:, 0], some[:, 1]) - 1  # the last that begins before it ends
    there = others[np.maximum(before, 0), 1]
    return bool(((before >= 0) & (there > some[:, 0])).any())


def _cells(motif: Motif, share: MotifShare, cells: NDArray[np.int64]) -> Spans:
    """Return the begin and end of the part of each cell that a group moves."""
    number = _numbers(motif, share)
    size = cells[number + 1] - cells[number]
    parts = [cut_off(size, part) for part in motif.part]
    return np.stack([cells[number] + part for part in parts], axis=1)


def cut_off(size: NDArray[np.int64], part: Fraction) -> NDArray[np.int64]:
    """Return a part of sizes, cut off downwards."""
    up, down = part.as_integer_ratio()
    if int(size.max(initial=0)) * max(up, 1) < 2**63:
        return size * up // down
    return np.array([n * up // down for n in size.tolist()], dtype=np.int64)


def _numbers(motif: Motif, share: MotifShare) -> NDArray[np.int64]:
    """Return the numbers of the cells that a group moves."""
    if motif.collective == "alltoall":
        return _exchanges(motif, share)[0]
    owns = share.owns or ((*range(len(share.cells) - 1),),)
    if share.root is not None and share.owns:  # what the root has of its own stays there
        owns = tuple(own for place, own in enumerate(owns) if place != share.root)
    return np.array(list(chain.from_iterable(owns)), dtype=np.int64)


def exchanged(motif: Motif) -> tuple[NDArray[np.int64], ...]:
    """Return the moves of an alltoall: first elements, ends, sources, and targets."""
    columns = []
    for share in motif.shares:
        cells = cells_of(share.cells)
        number, here, there = _exchanges(motif, share)
        begin, size = cells[number], np.diff(cells)[number]
        start, stop = (begin + cut_off(size, part) for part in motif.part)
        group = np.array(share.group, dtype=np.int64)
        columns.append(np.stack([start, stop, group[here], group[there]]))
    rows = np.concatenate(columns, axis=1)
    start, stop, source, target = rows[:, rows[0] < rows[1]]
    return start, stop, source, target


def _exchanges(
    motif: Motif, share: MotifShare, *, itself: bool = False
) -> tuple[NDArray[np.int64], ...]:
    """Return the cells that a group moves of an alltoall, and from which place to which.

    Args:
        itself: whether those are among them that a rank has for itself.
    """
    width = len(share.group)
    everyone = int(np.sqrt(len(share.cells) - 1) + 0.5)
    ends = []
    for owns in (share.owns, share.wants):
        place = np.repeat(np.arange(width), [len(own) for own in owns])
        ends.append((place, np.array(list(chain.from_iterable(owns)), dtype=np.int64)))
    (here, source), (there, target) = ends
    on = (there[None, :] - here[:, None]) % width
    sends = on >= (0 if itself else 1)
    if motif.offsets:
        sends &= np.isin(on, motif.offsets)
    row, column = np.nonzero(sends)
    return source[row] * everyone + target[column], here[row], there[column]
