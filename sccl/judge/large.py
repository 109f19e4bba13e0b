"""The judge of long schedules whose ranks keep all that comes: compiled loops over their rows.

What it finds wrong, :mod:`sccl.judge.timed` puts into words.

Copying collectives: rows ascend by their start, and none arrives before it has started, so whatever
has arrived by the start of a row was in a row before it: one table of arrivals is all that has to
be kept, and rows are looked at batch by batch. Combining ones: every place has a set of
contributions, as bits, and a row on its way has the set that its sender had when it started.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule, Whole
from sccl.judge.pipes import pipe_violations

MOST_PLACES = 2**29
"""Pairs of a chunk and a rank; a table of their arrivals takes 4 GiB."""

MOST_WORDS = 2**28
"""Of all sets of contributions together: 2 GiB."""

_NEVER = np.iinfo(np.int64).max
_PIECE = 2**20  # rows of a call: a few hundredths of a second, after which signals are heard
_SMALL_PIECE = 2**14  # likewise, of rows with sets


def takes(schedule: Schedule) -> bool:
    """Return whether this judge knows such schedules."""
    collective, topology = schedule.collective, schedule.topology
    if topology.switches or schedule.message is not None:
        return False
    places = collective.num_chunks * topology.ranks
    if not collective.combining:
        return places <= MOST_PLACES
    return (places + len(topology.links)) * _words(topology.ranks) <= MOST_WORDS


def is_valid(schedule: Schedule) -> bool:
    """Return whether nothing is wrong with a schedule that :func:`takes` accepts."""
    if next(pipe_violations(schedule), None) is not None:
        return False
    run = _reduces if schedule.collective.combining else _copies
    return run(schedule)


def _lags(schedule: Schedule) -> NDArray[np.int64]:
    clock = schedule.clock
    lags = [clock.lag(i) for i in range(len(schedule.topology.links))]
    return np.array(lags, dtype=np.int64)


def _ends(schedule: Schedule) -> NDArray[np.int64]:
    """Return the source and the destination of each link."""
    return np.array([k.edge for k in schedule.topology.links], dtype=np.int64)


def _copies(schedule: Schedule) -> bool:
    collective, ranks = schedule.collective, schedule.topology.ranks
    arrival = np.full((collective.num_chunks, ranks), _NEVER, dtype=np.int64)
    for (holders, _), chunks in collective.classes().items():
        arrival[np.ix_(chunks, sorted(holders))] = 0
    ends, lags = _ends(schedule), _lags(schedule)
    for rows in schedule.batches(_PIECE):
        if rows.reduce.any():
            return False
        if not _held(arrival, rows.start, rows.end, rows.chunk, rows.link, ends, lags):
            return False
    return all(
        bool((arrival[np.ix_(chunks, sorted(wanted))] != _NEVER).all())
        for (_, wanted), chunks in collective.classes().items()
    )


@compiled
def _held(  # noqa: PLR0913, PLR0917 - columns
    arrival: NDArray[np.int64],
    start: Whole,
    end: Whole,
    chunk: Whole,
    link: Whole,
    ends: NDArray[np.int64],
    lags: NDArray[np.int64],
) -> bool:
    """Return whether each sender holds what it sends, and note when chunks arrive."""
    for i in range(len(start)):
        k = link[i]
        if arrival[chunk[i], ends[k, 0]] > start[i]:
            return False
        arrives = end[i] + lags[k]
        arrival[chunk[i], ends[k, 1]] = min(arrival[chunk[i], ends[k, 1]], arrives)
    return True


def _words(ranks: int) -> int:
    """Return how many words of 64 bits a set of ranks takes."""
    return -(-ranks // 64)


def _reduces(schedule: Schedule) -> bool:
    collective, ranks = schedule.collective, schedule.topology.ranks
    ends, link = _ends(schedule), schedule.link
    chunk = schedule.chunk.astype(np.int64)
    src, dst = (chunk * ranks + ends[link, side] for side in (0, 1))
    arrives = schedule.end.astype(np.int64) + _lags(schedule)[link]
    order = np.argsort(arrives, kind="stable")
    values = _contributions(collective, own=True)
    under_way = np.zeros(
        (_most_under_way(schedule.start, arrives[order]), values.shape[1]), np.uint64
    )
    slots = np.zeros(len(link), dtype=np.int32)
    free = np.arange(len(under_way), dtype=np.int32)
    last = np.full(len(values), -1, dtype=np.int64)
    stored = np.zeros(len(values), dtype=np.bool_)
    state = np.array([0, len(free)], dtype=np.int64)
    for begin in range(0, len(link) + 1, _SMALL_PIECE):
        until = min(begin + _SMALL_PIECE, len(link))
        if not _reduced(
            values, under_way, (schedule.start, arrives, order, src, dst, schedule.reduce),
            (slots, free, last, stored, state), begin, until,
        ):  # fmt: skip
            return False
    everyone = _contributions(collective, own=False)
    wanted = np.zeros((collective.num_chunks, ranks), dtype=np.bool_)
    for (_, ranks_), chunks in collective.classes().items():
        wanted[np.ix_(chunks, sorted(ranks_))] = True
    of_chunk, _ = np.nonzero(wanted)
    return bool((values[wanted.reshape(-1)] == everyone[of_chunk]).all())


def _contributions(collective: Collective, *, own: bool) -> NDArray[np.uint64]:
    """Return of each place its own contribution, or of each chunk those of all, as bits."""
    ranks = collective.ranks
    count = collective.num_chunks * (ranks if own else 1)
    found = np.zeros((count, _words(ranks)), dtype=np.uint64)
    for (holders, _), chunks in collective.classes().items():
        for rank in holders:
            places = np.array(chunks) * ranks + rank if own else np.array(chunks)
            found[places, rank // 64] |= np.uint64(1 << rank % 64)
    return found


def _most_under_way(start: Whole, arrives: NDArray[np.int64]) -> int:
    """Return how many rows have started and not arrived at most, of rows in order of both."""
    arrived = np.searchsorted(arrives, start, side="right")
    return int((np.arange(1, len(start) + 1) - arrived).max(initial=1))


@compiled
def _reduced(  # noqa: PLR0913, PLR0917 - a state
    values: NDArray[np.uint64],
    under_way: NDArray[np.uint64],
    rows: tuple[Whole, Whole, Whole, Whole, Whole, NDArray[np.bool_]],
    state: tuple[Whole, Whole, Whole, NDArray[np.bool_], Whole],
    begin: int,
    until: int,
) -> bool:
    """Return whether some rows start with something, and what has arrived by then fits.

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
            sent, place, here = under_way[slots[row]], dst[row], values[dst[row]]
            together = last[place] == arrives[row]
            differs = False
            counted = False
            for w in range(words):
                differs |= sent[w] != here[w]
                counted |= (sent[w] & here[w]) != 0
            mixed = reduce[row] == stored[place] or (stored[place] and differs)
            if (together and mixed) or (reduce[row] and counted):
                return False
            for w in range(words):
                here[w] = (here[w] | sent[w]) if reduce[row] else sent[w]
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
