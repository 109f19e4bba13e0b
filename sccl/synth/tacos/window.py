"""The last rounds once more: what misses the bound by a little is matched again from near its end.

A matching of links that all cost alike loses a round where the last chunks that some ranks lack are
all with one neighbour. So the rounds before the bound, 2 of them, then 4, and so on, are matched
again with more care, until the bound is met or as many tries are spent.
"""

from __future__ import annotations

import numpy as np

from sccl.synth.network.machine import Net
from sccl.synth.network.sends import Demand, Sends
from sccl.synth.tacos.bits import random_state
from sccl.synth.tacos.fitted import MOST_LINKS, NEVER, Fitting, fit

MOST_PLACES = 2**22
"""Ranks times chunks: their rounds take 8 MB, and are gone through at every try."""

_WINDOWS = (2, 4, 8, 16, 32)
_TRIES = 4
"""Of each window."""


def again(net: Net, demand: Demand, finish: int, sends: Sends, seed: int) -> tuple[int, Sends]:
    """Return the finish and the transfers of a matching, better ones if that can be.

    Args:
        demand: that all ranks hold all chunks.
        finish: of transfers that follow it, in rounds of equal length.
    """
    busy = int(net.busy[0])
    degree = np.diff(net.in_first.astype(np.int64))
    held = np.bincount(demand.held_by, minlength=net.nodes).astype(np.int64)
    # No rank gets more than one chunk from each link; one without links holds all.
    least = int((-((held - demand.chunks) // np.maximum(degree, 1))).max())
    if net.nodes * demand.chunks > MOST_PLACES or degree.max() > MOST_LINKS:
        return finish, sends
    for number, rounds in enumerate(np.repeat(_WINDOWS, _TRIES).tolist()):
        if finish <= least * busy or rounds >= 2 * least:
            break  # it is the best, or all of it was matched again already
        begin = max(least - rounds, 0)
        finish, sends = _rematched(net, demand, finish, sends, (begin, seed + number + 1))
    return finish, sends


def _rematched(
    net: Net, demand: Demand, finish: int, sends: Sends, at: tuple[int, int]
) -> tuple[int, Sends]:
    """Return what is matched again from a round on with a seed, if it ends earlier than before."""
    (begin, seed), busy = at, int(net.busy[0])
    keep = int(np.searchsorted(sends.start, begin * busy))
    state = _fitting(net, demand, sends, keep, seed)
    rounds = int(fit(state, np.uint64(finish // busy - 1 - begin)))
    if state.counts[0]:
        return finish, sends
    came = state.came[: int(state.counts[1])]
    order = np.lexsort((net.into[came[:, 1]], came[:, 2], came[:, 0]))
    number, slot, chunk = came[order].T
    start = (number.astype(np.int64) + begin) * busy
    return (begin + rounds) * busy, Sends(
        np.concatenate((sends.start[:keep], start)),
        np.concatenate((sends.chunk[:keep], chunk.astype(np.int32))),
        np.concatenate((sends.link[:keep], net.into[slot].astype(np.int32))),
        np.zeros(keep + len(start), dtype=np.bool_),
    )


def _fitting(net: Net, demand: Demand, sends: Sends, keep: int, seed: int) -> Fitting:
    """Return what is held and lacked after so many transfers, in their order."""
    nodes, chunks = net.nodes, demand.chunks
    since = np.full((nodes, chunks), NEVER, dtype=np.uint16)
    since[demand.held_by, demand.held] = 0
    since[net.dst[sends.link[:keep]], sends.chunk[:keep]] = 0
    node, lacks = np.nonzero(since)
    missing = np.bincount(node, minlength=nodes).astype(np.uint64)
    return Fitting(
        first=net.in_first,
        src=net.src[net.into],
        since=since.reshape(-1),
        lacks_first=np.cumsum(missing) - missing,
        lacks=lacks.astype(np.uint32),
        missing=missing,
        holders=(nodes - np.bincount(lacks, minlength=chunks)).astype(np.uint32),
        random=random_state(seed % 2**63),
        came=np.empty((len(lacks), 3), dtype=np.uint32),
        counts=np.array([len(lacks), 0], dtype=np.uint64),
    )
