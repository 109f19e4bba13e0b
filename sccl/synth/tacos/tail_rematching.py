"""The last rounds once more: what misses the bound by a little is matched again from near its end.

A matching of links that all cost alike loses a round where the last chunks that some ranks lack are
all with one neighbour. So the rounds before the bound, 2 of them, then 4, and so on, are matched
again with more care, until the bound is met or as many tries are spent.
"""

from __future__ import annotations

import numpy as np

from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Demand, Sends
from sccl.synth.tacos.bitsets import random_state
from sccl.synth.tacos.transversal_matching import (
    MAX_LINKS,
    NOT_HELD,
    TransversalState,
    match_rounds,
)

MAX_STATES = 2**22
"""Ranks times chunks: their rounds take 8 MB, and are gone through at every try."""

_WINDOW_ROUNDS = (2, 4, 8, 16, 32)
_TRIES = 4
"""Of each window."""


def rematch_tail(
    net: NetworkArrays, demand: Demand, finish: int, sends: Sends, seed: int
) -> tuple[int, Sends]:
    """Return the finish and the transfers of a matching, better ones if that can be.

    Args:
        demand: that all ranks hold all chunks.
        finish: of transfers that follow it, in rounds of equal length.
    """
    busy = int(net.busy[0])
    degree = np.diff(net.in_first.astype(np.int64))
    held = np.bincount(demand.held_by, minlength=net.nodes).astype(np.int64)
    # A rank gets at most one chunk from each link, so a rank without links holds all.
    min_rounds = int((-((held - demand.chunks) // np.maximum(degree, 1))).max())
    if net.nodes * demand.chunks > MAX_STATES or degree.max() > MAX_LINKS:
        return finish, sends
    for number, rounds in enumerate(np.repeat(_WINDOW_ROUNDS, _TRIES).tolist()):
        if finish <= min_rounds * busy or rounds >= 2 * min_rounds:
            break  # it is the best, or all of it was matched again already
        begin = max(min_rounds - rounds, 0)
        finish, sends = _rematch_from(net, demand, finish, sends, (begin, seed + number + 1))
    return finish, sends


def _rematch_from(
    net: NetworkArrays, demand: Demand, finish: int, sends: Sends, at: tuple[int, int]
) -> tuple[int, Sends]:
    """Return what is matched again from a round on with a seed, if it ends earlier than before."""
    (begin, seed), busy = at, int(net.busy[0])
    keep = int(np.searchsorted(sends.start, begin * busy))
    state = _initial_state(net, demand, sends, keep, seed)
    rounds = int(match_rounds(state, np.uint64(finish // busy - 1 - begin)))
    if state.counts[0]:
        return finish, sends
    came = state.sends[: int(state.counts[1])]
    order = np.lexsort((net.into[came[:, 1]], came[:, 2], came[:, 0]))
    number, slot, chunk = came[order].T
    start = (number.astype(np.int64) + begin) * busy
    return (begin + rounds) * busy, Sends(
        np.concatenate((sends.start[:keep], start)),
        np.concatenate((sends.chunk[:keep], chunk.astype(np.int32))),
        np.concatenate((sends.link[:keep], net.into[slot].astype(np.int32))),
        np.zeros(keep + len(start), dtype=np.bool_),
    )


def _initial_state(
    net: NetworkArrays, demand: Demand, sends: Sends, keep: int, seed: int
) -> TransversalState:
    """Return what is held and lacked after so many transfers, in their order."""
    nodes, chunks = net.nodes, demand.chunks
    since = np.full((nodes, chunks), NOT_HELD, dtype=np.uint16)
    since[demand.held_by, demand.held] = 0
    since[net.dst[sends.link[:keep]], sends.chunk[:keep]] = 0
    node, lacks = np.nonzero(since)
    missing = np.bincount(node, minlength=nodes).astype(np.uint64)
    return TransversalState(
        first_slot=net.in_first,
        src=net.src[net.into],
        held_since=since.reshape(-1),
        missing_start=np.cumsum(missing) - missing,
        missing_chunks=lacks.astype(np.uint32),
        missing_count=missing,
        holders=(nodes - np.bincount(lacks, minlength=chunks)).astype(np.uint32),
        random=random_state(seed % 2**63),
        sends=np.empty((len(lacks), 3), dtype=np.uint32),
        counts=np.array([len(lacks), 0], dtype=np.uint64),
    )
