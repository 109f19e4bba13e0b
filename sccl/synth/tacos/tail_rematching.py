"""Match the last rounds again if a matching of equal links misses the lower bound.

Not in TACOS (MICRO 2024). A matching loses a round if the last chunks that some rank lacks are all
at one neighbor. So the last rounds before the bound (2, then 4, and so on) are matched again by
:mod:`~sccl.synth.tacos.transversal_matching`, until the bound is attained or the tries are spent.
"""

from __future__ import annotations

import numpy as np

from sccl.synth.limits import MAX_TABLE_ROWS, REPEATS
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Demand, Sends
from sccl.synth.tacos.bitsets import random_state
from sccl.synth.tacos.transversal_matching import (
    MAX_LINKS,
    NOT_HELD,
    TransversalState,
    match_rounds,
)

_WINDOW_ROUNDS = (2, 4, 8, 16, 32)
"""Numbers of last rounds that are matched again."""


def rematch_tail(
    net: NetworkArrays, demand: Demand, finish: int, sends: Sends, seed: int
) -> tuple[int, Sends]:
    """Return the completion time and the transfers of a matching, improved if possible.

    Args:
        net: The machine, whose links have equal costs.
        demand: A demand of all chunks on all ranks.
        finish: Completion time of ``sends``.
        sends: Transfers in rounds of equal length.
        seed: Seed of the tries.
    """
    busy = int(net.busy[0])
    degree = np.diff(net.in_first.astype(np.int64))
    held = np.bincount(demand.held_by, minlength=net.nodes).astype(np.int64)
    # A rank receives at most one chunk over each link. A rank without links holds all chunks.
    min_rounds = int((-((held - demand.chunks) // np.maximum(degree, 1))).max())
    if net.nodes * demand.chunks > MAX_TABLE_ROWS or degree.max() > MAX_LINKS:
        return finish, sends
    for number, rounds in enumerate(np.repeat(_WINDOW_ROUNDS, REPEATS).tolist()):
        if finish <= min_rounds * busy or rounds >= 2 * min_rounds:
            break  # it is optimal, or all rounds have been matched again
        first_round = max(min_rounds - rounds, 0)
        finish, sends = _rematch_from(net, demand, finish, sends, (first_round, seed + number + 1))
    return finish, sends


def _rematch_from(
    net: NetworkArrays,
    demand: Demand,
    finish: int,
    sends: Sends,
    first_round_and_seed: tuple[int, int],
) -> tuple[int, Sends]:
    """Return the matching with all later rounds matched again, if it ends earlier than before."""
    (first_round, seed), busy = first_round_and_seed, int(net.busy[0])
    keep = int(np.searchsorted(sends.start, first_round * busy))
    state = _initial_state(net, demand, sends, keep, seed)
    rounds = int(match_rounds(state, np.uint64(finish // busy - 1 - first_round)))
    if state.counts[0]:
        return finish, sends
    rows = state.sends[: int(state.counts[1])]
    order = np.lexsort((net.into[rows[:, 1]], rows[:, 2], rows[:, 0]))
    round_number, slot, chunk = rows[order].T
    start = (round_number.astype(np.int64) + first_round) * busy
    return (first_round + rounds) * busy, Sends(
        np.concatenate((sends.start[:keep], start)),
        np.concatenate((sends.chunk[:keep], chunk.astype(np.int32))),
        np.concatenate((sends.link[:keep], net.into[slot].astype(np.int32))),
        np.zeros(keep + len(start), dtype=np.bool_),
    )


def _initial_state(
    net: NetworkArrays, demand: Demand, sends: Sends, keep: int, seed: int
) -> TransversalState:
    """Return the state after the first ``keep`` transfers."""
    nodes, chunks = net.nodes, demand.chunks
    held_since = np.full((nodes, chunks), NOT_HELD, dtype=np.uint16)
    held_since[demand.held_by, demand.held] = 0
    held_since[net.dst[sends.link[:keep]], sends.chunk[:keep]] = 0
    node, missing_chunks = np.nonzero(held_since)
    missing = np.bincount(node, minlength=nodes).astype(np.uint64)
    return TransversalState(
        first_slot=net.in_first,
        src=net.src[net.into],
        held_since=held_since.reshape(-1),
        missing_start=np.cumsum(missing) - missing,
        missing_chunks=missing_chunks.astype(np.uint32),
        missing_count=missing,
        holders=(nodes - np.bincount(missing_chunks, minlength=chunks)).astype(np.uint32),
        random=random_state(seed % 2**63),
        sends=np.empty((len(missing_chunks), 3), dtype=np.uint32),
        counts=np.array([len(missing_chunks), 0], dtype=np.uint64),
    )
