"""The judge of long schedules that copy and pass nothing on: a compiled loop over their rows.

Rows ascend by their start, and none arrives before it has started, so whatever has arrived by the
start of a row was in a row before it: one table of arrivals is all that has to be kept. What it
finds wrong, :mod:`sccl.judge.timed` puts into words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.schedule import Schedule, Whole
from sccl.judge.pipes import pipe_violations

MOST_PLACES = 2**29
"""Pairs of a chunk and a rank; a table of their arrivals takes 4 GiB."""

_NEVER = np.iinfo(np.int64).max
_PIECE = 2**20  # rows of a call: a few hundredths of a second, after which signals are heard


def takes(schedule: Schedule) -> bool:
    """Return whether this judge knows such schedules."""
    collective, topology = schedule.collective, schedule.topology
    places = collective.num_chunks * topology.ranks
    plain = not (collective.combining or topology.switches) and schedule.message is None
    return plain and places <= MOST_PLACES


def is_valid(schedule: Schedule) -> bool:
    """Return whether nothing is wrong with a schedule that :func:`takes` accepts."""
    if next(pipe_violations(schedule), None) is not None:
        return False
    collective, ranks = schedule.collective, schedule.topology.ranks
    arrival = np.full((collective.num_chunks, ranks), _NEVER, dtype=np.int64)
    for (holders, _), chunks in collective.classes().items():
        arrival[np.ix_(chunks, sorted(holders))] = 0
    ends = np.array([k.edge for k in schedule.topology.links], dtype=np.int64)
    clock = schedule.clock
    lags = np.array([clock.lag(i) for i in range(len(ends))], dtype=np.int64)
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
