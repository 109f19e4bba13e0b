"""Set up the matching of links with equal costs, and run its rounds.

Source: TACOS (MICRO 2024), section IV-E. The rounds are in
:mod:`sccl.synth.tacos.matching_uniform_loops`, which implements Algorithms 1 and 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import UInt64Array
from sccl.synth.limits import WORK_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Demand, Pause, stalled_error
from sccl.synth.tacos.bitsets import IN_WORD, ONE, random_state, shuffle_chunks
from sccl.synth.tacos.matching_uniform_loops import (
    ROUND,
    UNSATISFIED,
    LinkSlots,
    UniformState,
    run_rounds,
)


class RoundLog(NamedTuple):
    """The transfers of all rounds, in the form of a packed schedule.

    Attributes:
        fired: Bits of the slots that carry a chunk in each round, in words.
        chunk: The chunks, by round and slot.
    """

    fired: UInt64Array
    chunk: NDArray[np.unsignedinteger[Any]]


def match_uniform(net: NetworkArrays, demand: Demand, seed: int, pause: Pause) -> RoundLog:
    """Return the rounds after which every rank holds every chunk.

    Raises:
        UnreachableError: No path leads from a chunk's source to some rank.
    """
    slots, state = _build_slots(net), _initial_state(net, demand, seed)
    while state.progress[UNSATISFIED]:
        unsatisfied = int(state.progress[UNSATISFIED])
        if int(state.progress[ROUND]) == len(state.fired):
            state = state._replace(fired=_double_rows(state.fired))
        if not run_rounds(state, slots, np.uint64(WORK_PER_CALL)):
            raise stalled_error()
        pause(unsatisfied - int(state.progress[UNSATISFIED]), not state.progress[UNSATISFIED])
    return RoundLog(state.fired[: int(state.progress[ROUND])].copy(), state.log)


def _double_rows(fired: UInt64Array) -> UInt64Array:
    doubled = np.zeros((2 * len(fired), fired.shape[1]), dtype=np.uint64)
    doubled[: len(fired)] = fired
    return doubled


def _build_slots(net: NetworkArrays) -> LinkSlots:
    return LinkSlots(
        first_slot=net.in_first.astype(np.uint32), src=net.src[net.into].astype(np.uint32)
    )


def _initial_state(net: NetworkArrays, demand: Demand, seed: int) -> UniformState:
    links, nodes, chunks = len(net.src), net.nodes, demand.chunks
    position = shuffle_chunks(chunks, seed)
    missing = chunks - np.bincount(demand.held_by, minlength=nodes)
    holders = np.zeros(chunks, dtype=np.uint32)
    holders[position] = np.bincount(demand.held, minlength=chunks)
    words = -(-chunks // 64)
    # At most 64 groups, the bits of a word, of at least 8 words, a cache line.
    group_bits = max((-(-words // 64) - 1).bit_length(), 3)
    # No more words than chunks need: all links whose search starts at an empty word would go on to
    # the same nonempty word, and choose among the same chunks.
    group_bits = min(group_bits, (words - 1).bit_length())
    groups = -(-words >> group_bits)
    unsatisfied = int(missing.sum())
    min_rounds = -(-unsatisfied // max(links, 1))
    return UniformState(
        groups=np.uint64(groups),
        group_bits=np.uint64(group_bits),
        seed=random_state(seed)[0],
        held=_held_bits(demand.held_by, position[demand.held], nodes, groups, group_bits),
        missing=missing.astype(np.uint32),
        holders=holders,
        may_offer=np.full(links, (1 << groups) - 1, dtype=np.uint64),
        has_news=np.zeros(nodes, dtype=np.uint64),
        chosen=np.zeros(links, dtype=np.uint32),
        chunk=np.argsort(position).astype(np.uint32),
        progress=np.array([unsatisfied, 0, 0], dtype=np.uint64),
        fired=np.zeros((min_rounds + 1, -(-links // 64)), dtype=np.uint64),
        log=np.zeros(unsatisfied, dtype=np.uint16 if chunks <= 2**16 else np.uint32),
    )


def _held_bits(
    ranks: NDArray[np.int64],
    positions: NDArray[np.int64],
    nodes: int,
    groups: int,
    group_bits: int,
) -> UInt64Array:
    """Return the chunks that nodes hold, as bits, by group, node, and word."""
    held = np.zeros((groups, nodes, 1 << group_bits), dtype=np.uint64)
    word, mask = positions >> 6, ONE << (positions.astype(np.uint64) & IN_WORD)
    np.bitwise_or.at(held, (word >> group_bits, ranks, word & ((1 << group_bits) - 1)), mask)
    return held.reshape(-1)
