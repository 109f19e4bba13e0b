"""Verify long schedules whose ranks store every arrival, in compiled loops over the rows.

Here a message goes through switches, hop after hop, to exactly one rank. :mod:`sccl.judge.timed`
verifies all other schedules, and writes the texts of violations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import AnyIntArray
from sccl.core.schedule import Schedule, TransferColumns
from sccl.judge.execution_arrays import CopyingExecution, TransferArrays, is_satisfied
from sccl.judge.link_capacity import capacity_violations

MAX_PLACES = 2**29
"""Maximum number of chunks times ranks. A table of their arrivals takes 4 GiB."""

_ROWS_PER_CALL = 2**20  # a few hundredths of a second, then Python handles signals


def is_supported(schedule: Schedule) -> bool:
    """Return whether this module can verify a schedule of this form."""
    collective, topology = schedule.collective, schedule.topology
    if (schedule.message is not None) != bool(topology.switches):
        return False
    if topology.switches and schedule.has_combined_transfers:
        return False
    if collective.combining or topology.switches:
        return True
    return collective.num_chunks * topology.ranks <= MAX_PLACES


def is_valid(schedule: Schedule) -> bool:
    """Return whether a schedule that :func:`is_supported` accepts is proved valid.

    False also if a message is copied or stored on its route. :mod:`sccl.judge.timed` then decides.
    """
    if next(capacity_violations(schedule), None) is not None:
        return False
    collective = schedule.collective
    if schedule.topology.switches:
        transfers = _switched_transfers(schedule)
        return transfers is not None and is_satisfied(collective, transfers)
    if collective.combining:
        rows = TransferColumns(*(getattr(schedule, name) for name in TransferColumns._fields))
        return is_satisfied(collective, _direct_transfers(schedule, rows))
    run = CopyingExecution(collective, np.arange(collective.num_chunks))
    batches = schedule.batches(_ROWS_PER_CALL)
    return (
        all(run.execute(_direct_transfers(schedule, rows)) for rows in batches)
        and run.is_complete()
    )


def _link_lags(schedule: Schedule) -> NDArray[np.int64]:
    clock = schedule.clock
    lags = [clock.lag(i) for i in range(len(schedule.topology.links))]
    return np.array(lags, dtype=np.int64)


def _link_ends(schedule: Schedule) -> NDArray[np.int64]:
    return np.array([k.edge for k in schedule.topology.links], dtype=np.int64)


def _direct_transfers(schedule: Schedule, rows: TransferColumns) -> TransferArrays:
    """Return rows over links between ranks as transfers."""
    (src, dst), start = _link_ends(schedule)[rows.link].T, rows.start.astype(np.int64)
    arrives = rows.end.astype(np.int64) + _link_lags(schedule)[rows.link]
    return TransferArrays(start, arrives, rows.chunk.astype(np.int64), src, dst, rows.reduce)


def _switched_transfers(schedule: Schedule) -> TransferArrays | None:
    """Return each message as one transfer from rank to rank, or None if this is not possible.

    It is possible if each message goes to a single rank without being copied, no byte leaves a
    switch too early, and messages wait only in switches with unlimited buffers.
    """
    assert schedule.message is not None
    topology = schedule.topology
    numbers, message = np.unique(schedule.message, return_inverse=True)
    nodes = [(False, False, False)] * topology.ranks
    nodes += [(True, s.cut_through, s.buffer_chunks is None) for s in topology.switches]
    of_nodes, alpha = np.array(nodes), np.array(schedule.clock.alpha, dtype=np.int64)
    of_links = (_link_ends(schedule), alpha, _link_lags(schedule))
    start, arrives, chunk, src, dst = np.zeros((5, len(numbers)), np.int64)
    passages = TransferArrays(start, arrives, chunk, src, dst, np.zeros(len(numbers), np.bool_))
    at, first, last, passage = np.full((4, len(numbers)), -1, dtype=np.int64)
    begun = 0
    for position, rows in enumerate(schedule.batches(_ROWS_PER_CALL)):
        columns = (
            rows.start,
            rows.end,
            rows.chunk,
            rows.link,
            message[position * _ROWS_PER_CALL :],
        )
        hops = tuple(column[: len(rows.start)].astype(np.int64) for column in columns)
        begun = _advance_messages(
            hops, rows.reduce, of_links, of_nodes, (at, first, last, passage), passages, begun
        )
        if begun < 0:
            return None
    return passages if (at < 0).all() else None


@compiled
def _advance_messages(  # noqa: PLR0913, PLR0917 - a state
    hops: tuple[AnyIntArray, ...],
    reduce: NDArray[np.bool_],
    of_links: tuple[AnyIntArray, AnyIntArray, AnyIntArray],
    of_nodes: NDArray[np.bool_],
    state: tuple[AnyIntArray, AnyIntArray, AnyIntArray, AnyIntArray],
    passages: TransferArrays,
    begun: int,
) -> int:
    """Advance messages by their hops. Return the number of passages begun so far.

    A passage is the transfer of a message from its source rank to its destination rank. The result
    is -1 if a hop does not continue its message's passage, or is too early or too late.

    Args:
        hops: Columns of hops: start, end, chunk, link, message.
        reduce: Whether each hop reduces.
        of_links: Columns of links: both ends (shape (links, 2)), ticks from the start of a hop to
            the arrival of its first byte, and ticks from its end to the arrival of its last byte.
        of_nodes: Properties of nodes, shape (nodes, 3): whether it is a switch, whether it cuts
            through, and whether its buffer is unlimited.
        state: Columns of messages: the switch that holds it (-1: none), the ticks at which its
            first and last byte arrived there, and its passage (-1: not begun).
        passages: Passages, which are updated.
        begun: Number of passages begun before.
    """
    start, end, chunk, link, message = hops
    (ends, alpha, lags), (at, first, last, passage) = of_links, state
    for i in range(len(start)):
        k, m = link[i], message[i]
        src, dst = ends[k, 0], ends[k, 1]
        is_switch, cut_through, roomy = of_nodes[src]
        if not is_switch:
            if passage[m] >= 0:
                return -1
            passage[m] = begun
            passages.start[begun], passages.chunk[begun], passages.src[begun] = (
                start[i],
                chunk[i],
                src,
            )
            begun += 1
        else:
            if at[m] != src or chunk[i] != passages.chunk[passage[m]] or end[i] < last[m]:
                return -1
            early = start[i] < (first[m] if cut_through else last[m])
            waits = last[m] < (start[i] if cut_through else end[i])
            if early or (waits and not roomy):
                return -1
        at[m], first[m], last[m] = -1, start[i] + alpha[k], end[i] + lags[k]
        if of_nodes[dst, 0]:
            if reduce[i]:
                return -1
            at[m] = dst
        else:
            row = passage[m]
            if passages.src[row] == dst:  # a message must not return to its source
                return -1
            passages.arrives[row], passages.dst[row], passages.reduce[row] = last[m], dst, reduce[i]
    return begun
