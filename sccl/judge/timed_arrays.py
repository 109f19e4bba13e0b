"""Verify long schedules whose ranks store every arrival, with compiled loops over the rows.

:mod:`sccl.judge.timed` words the violations, and decides the schedules that this module does not
follow: here a message goes straight through switches, one hop after the other, to one rank.

Copying collectives: rows ascend by start, and no row arrives before its start. So everything that
has arrived by the start of a row belongs to an earlier row. One table of arrivals is enough, and
rows are checked in batches. Combining collectives: every place has a set of contributions, as bits,
and a row on its way carries the set that its sender had at its start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import AnyIntArray
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule, TransferColumns
from sccl.judge.link_capacity import capacity_violations

MAX_PLACES = 2**29
"""Pairs of a chunk and a rank. A table of their arrivals takes 4 GiB."""

MAX_WORDS = 2**28
"""Limit for all sets of contributions together, in 64-bit words: 2 GiB."""

_NEVER = np.iinfo(np.int64).max
_ROWS_PER_CALL = (
    2**20
)  # rows of a call: a few hundredths of a second, after which signals are heard
_SET_ROWS_PER_CALL = 2**14  # likewise, of rows with sets


class RankTransfers(NamedTuple):
    """The passages from rank to rank, by start: arrays of one length, of 64 bits.

    Attributes:
        start: tick at which the first hop begins.
        arrives: tick at which the last byte is at the destination rank.
        reduce: whether the destination reduces it into its value.
    """

    start: AnyIntArray
    arrives: AnyIntArray
    chunk: AnyIntArray
    src: AnyIntArray
    dst: AnyIntArray
    reduce: NDArray[np.bool_]


def is_supported(schedule: Schedule) -> bool:
    """Return whether this judge knows such schedules."""
    collective, topology = schedule.collective, schedule.topology
    if (schedule.message is not None) != bool(topology.switches):
        return False
    if topology.switches and schedule.has_combined_transfers:
        return False
    places = collective.num_chunks * topology.ranks
    if not collective.combining:
        return places <= MAX_PLACES
    return (places + len(topology.links)) * _word_count(topology.ranks) <= MAX_WORDS


def is_valid(schedule: Schedule) -> bool:
    """Return whether a schedule that :func:`is_supported` accepts has no violation.

    If a message does not go straight to one rank, return False. Then :mod:`sccl.judge.timed`
    decides.
    """
    if next(capacity_violations(schedule), None) is not None:
        return False
    combining = schedule.collective.combining
    if schedule.topology.switches:
        passages = _switched_transfers(schedule)
    elif combining:
        rows = TransferColumns(*(getattr(schedule, name) for name in TransferColumns._fields))
        passages = _direct_transfers(schedule, rows)
    else:
        batches = schedule.batches(_ROWS_PER_CALL)
        return _is_copying_valid(schedule, (_direct_transfers(schedule, rows) for rows in batches))
    if passages is None:
        return False
    return (
        _is_reduction_valid(schedule, passages)
        if combining
        else _is_copying_valid(schedule, [passages])
    )


def _link_lags(schedule: Schedule) -> NDArray[np.int64]:
    clock = schedule.clock
    lags = [clock.lag(i) for i in range(len(schedule.topology.links))]
    return np.array(lags, dtype=np.int64)


def _link_ends(schedule: Schedule) -> NDArray[np.int64]:
    return np.array([k.edge for k in schedule.topology.links], dtype=np.int64)


def _direct_transfers(schedule: Schedule, rows: TransferColumns) -> RankTransfers:
    """Return rows as passages, where each link leads from rank to rank."""
    (src, dst), start = _link_ends(schedule)[rows.link].T, rows.start.astype(np.int64)
    arrives = rows.end.astype(np.int64) + _link_lags(schedule)[rows.link]
    return RankTransfers(start, arrives, rows.chunk.astype(np.int64), src, dst, rows.reduce)


def _switched_transfers(schedule: Schedule) -> RankTransfers | None:
    """Return messages as passages, if each goes straight from rank to rank, and no byte too early.

    And none waits in a switch that has not room for all.
    """
    assert schedule.message is not None
    topology = schedule.topology
    numbers, message = np.unique(schedule.message, return_inverse=True)
    nodes = [(False, False, False)] * topology.ranks
    nodes += [(True, s.cut_through, s.buffer_chunks is None) for s in topology.switches]
    of_nodes, alpha = np.array(nodes), np.array(schedule.clock.alpha, dtype=np.int64)
    of_links = (_link_ends(schedule), alpha, _link_lags(schedule))
    start, arrives, chunk, src, dst = np.zeros((5, len(numbers)), np.int64)
    passages = RankTransfers(start, arrives, chunk, src, dst, np.zeros(len(numbers), np.bool_))
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
    passages: RankTransfers,
    begun: int,
) -> int:
    """Advance messages and return the number begun so far, or -1 if one does not go straight on.

    Args:
        hops: start, end, chunk, link, message.
        of_links: both ends, and ticks from the start of a hop to its first byte, and from its end
            to its last byte.
        of_nodes: whether the node is a switch, cuts through, and has an unlimited buffer.
        state: by message: the switch where it is (-1: at none), the ticks at which its first and
            last byte came there, and its passage (-1: not begun).
        begun: the number begun before.
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
            if passages.src[row] == dst:  # it only passes there
                return -1
            passages.arrives[row], passages.dst[row], passages.reduce[row] = last[m], dst, reduce[i]
    return begun


def _is_copying_valid(schedule: Schedule, batches: Iterable[RankTransfers]) -> bool:
    collective, ranks = schedule.collective, schedule.topology.ranks
    arrival = np.full((collective.num_chunks, ranks), _NEVER, dtype=np.int64)
    for (holders, _), chunks in collective.chunk_classes().items():
        arrival[np.ix_(chunks, sorted(holders))] = 0
    for passages in batches:
        if passages.reduce.any():
            return False
        for begin in range(0, len(passages.start), _ROWS_PER_CALL):
            if not _is_held_by_senders(
                arrival, *(column[begin : begin + _ROWS_PER_CALL] for column in passages[:5])
            ):
                return False
    return all(
        bool((arrival[np.ix_(chunks, sorted(wanted))] != _NEVER).all())
        for (_, wanted), chunks in collective.chunk_classes().items()
    )


@compiled
def _is_held_by_senders(  # noqa: PLR0913, PLR0917 - columns
    arrival: NDArray[np.int64],
    start: AnyIntArray,
    arrives: AnyIntArray,
    chunk: AnyIntArray,
    src: AnyIntArray,
    dst: AnyIntArray,
) -> bool:
    """Return whether each sender holds its chunk, and note when chunks arrive."""
    for i in range(len(start)):
        if arrival[chunk[i], src[i]] > start[i]:
            return False
        arrival[chunk[i], dst[i]] = min(arrival[chunk[i], dst[i]], arrives[i])
    return True


def _word_count(ranks: int) -> int:
    """Return how many words of 64 bits a set of ranks takes."""
    return -(-ranks // 64)


def _is_reduction_valid(schedule: Schedule, passages: RankTransfers) -> bool:
    collective, ranks = schedule.collective, schedule.topology.ranks
    chunk, arrives = passages.chunk, passages.arrives
    src, dst = chunk * ranks + passages.src, chunk * ranks + passages.dst
    order = np.argsort(arrives, kind="stable")
    values = _initial_contributions(collective, per_place=True)
    under_way = np.zeros(
        (_max_in_flight(passages.start, arrives[order]), values.shape[1]), np.uint64
    )
    slots = np.zeros(len(arrives), dtype=np.int32)
    free = np.arange(len(under_way), dtype=np.int32)
    last = np.full(len(values), -1, dtype=np.int64)
    stored = np.zeros(len(values), dtype=np.bool_)
    state = np.array([0, len(free)], dtype=np.int64)
    for begin in range(0, len(arrives) + 1, _SET_ROWS_PER_CALL):
        until = min(begin + _SET_ROWS_PER_CALL, len(arrives))
        if not _reduce_rows(
            values, under_way, (passages.start, arrives, order, src, dst, passages.reduce),
            (slots, free, last, stored, state), begin, until,
        ):  # fmt: skip
            return False
    everyone = _initial_contributions(collective, per_place=False)
    wanted = np.zeros((collective.num_chunks, ranks), dtype=np.bool_)
    for (_, ranks_), chunks in collective.chunk_classes().items():
        wanted[np.ix_(chunks, sorted(ranks_))] = True
    of_chunk, _ = np.nonzero(wanted)
    return bool((values[wanted.reshape(-1)] == everyone[of_chunk]).all())


def _initial_contributions(collective: Collective, *, per_place: bool) -> NDArray[np.uint64]:
    """Return of each place its own contribution, or of each chunk those of all, as bits."""
    ranks = collective.ranks
    count = collective.num_chunks * (ranks if per_place else 1)
    contributions = np.zeros((count, _word_count(ranks)), dtype=np.uint64)
    for (holders, _), chunks in collective.chunk_classes().items():
        for rank in holders:
            places = np.array(chunks) * ranks + rank if per_place else np.array(chunks)
            contributions[places, rank // 64] |= np.uint64(1 << rank % 64)
    return contributions


def _max_in_flight(start: AnyIntArray, arrives: AnyIntArray) -> int:
    """Return how many rows have started and not arrived at most, of rows in order of both."""
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
    """Return whether every row starts with a value, and the values that arrive by then fit.

    After the last row everything arrives.
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
