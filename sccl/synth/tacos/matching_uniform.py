"""The rounds of links that all cost alike, from the arrays of a machine to a log."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import UInt64Array
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import WORK_PER_CALL, Demand, Pause, stalled_error
from sccl.synth.tacos.bitsets import IN_WORD, ONE, random_state, shuffle_chunks
from sccl.synth.tacos.matching_uniform_loops import LinkSlots, UniformState, run_rounds
from sccl.synth.tacos.thread_pair import WorkerThreads, node_blocks

_MAX_GROUPS = 64
_CACHE_LINE_BITS = 3
"""Words of a cache line, as a power of two: a group has no fewer."""


class RoundLog(NamedTuple):
    """The transfers of links, in the form of a packed schedule.

    Attributes:
        fired: by round a bit per slot, in words.
        chunk: the chunks, by round and slot.
    """

    fired: UInt64Array
    chunk: NDArray[np.unsignedinteger[Any]]


def match_uniform(net: NetworkArrays, demand: Demand, seed: int, pause: Pause) -> RoundLog:
    """Return the rounds after which every rank holds every chunk.

    Raises:
        UnreachableError: that cannot be.
    """
    slots = _build_slots(net)
    blocks = node_blocks(net.in_first)
    state = _initial_state(net, demand, seed, len(blocks) - 1)
    with WorkerThreads(len(blocks) - 2) as crew:
        while state.left[0]:
            before = int(state.left[0])
            if int(state.left[1]) == len(state.fired):
                state = state._replace(fired=_double_rows(state.fired))
            if not _run_rounds(state, slots, crew, blocks):
                raise stalled_error()
            pause(before - int(state.left[0]), not state.left[0])
    return RoundLog(state.fired[: int(state.left[1])].copy(), state.log)


def _run_rounds(
    state: UniformState, slots: LinkSlots, crew: WorkerThreads, blocks: UInt64Array
) -> int:
    """Make some rounds; return how many chunks were taken in the last one."""
    threads = len(blocks) - 1
    state.barrier_count[:] = 0
    states = [state, *(state._replace(left=state.left.copy()) for _ in range(1, threads))]
    max_links = np.uint64(WORK_PER_CALL * threads)
    parts = [(each, slots, blocks, np.uint64(i), max_links) for i, each in enumerate(states)]
    return int(crew.map_parts(run_rounds, parts)[0])


def _double_rows(fired: UInt64Array) -> UInt64Array:
    more = np.zeros((2 * len(fired), fired.shape[1]), dtype=np.uint64)
    more[: len(fired)] = fired
    return more


def _build_slots(net: NetworkArrays) -> LinkSlots:
    return LinkSlots(
        first_slot=net.in_first.astype(np.uint32),
        src=net.src[net.into].astype(np.uint32),
        max_degree=np.diff(net.in_first).max(),
    )


def _initial_state(net: NetworkArrays, demand: Demand, seed: int, blocks: int) -> UniformState:
    links, nodes, chunks = len(net.src), net.nodes, demand.chunks
    place = shuffle_chunks(chunks, seed)
    missing = chunks - np.bincount(demand.held_by, minlength=nodes)
    holders = np.zeros(chunks, dtype=np.uint32)
    holders[place] = np.bincount(demand.held, minlength=chunks)
    words = -(-chunks // 64)
    bits = max((-(-words // _MAX_GROUPS) - 1).bit_length(), _CACHE_LINE_BITS)
    # Words that no chunk is in would send all that begin there to the first one that has some.
    bits = min(bits, (words - 1).bit_length())
    groups = -(-words >> bits)
    total = int(missing.sum())
    rows = -(-total // max(links, 1)) + 1  # as many as there are at least
    return UniformState(
        groups=np.uint64(groups),
        bits=np.uint64(bits),
        held=_held_bits(demand.held_by, place[demand.held], nodes, groups, bits),
        missing=missing.astype(np.uint32),
        holders=np.tile(holders, (blocks, 1)),
        may_offer=np.full(links, (1 << groups) - 1, dtype=np.uint64),
        has_news=np.zeros(nodes, dtype=np.uint64),
        chosen=np.zeros(links, dtype=np.uint32),
        place=place.astype(np.uint32),
        chunk=np.argsort(place).astype(np.uint32),
        left=np.array([total, 0, 0, random_state(seed)[0]], dtype=np.uint64),
        counts=np.zeros(blocks, dtype=np.uint64),
        barrier_count=np.zeros(1, dtype=np.uint64),
        fired=np.zeros((rows, -(-links // 64)), dtype=np.uint64),
        log=np.zeros(total, dtype=np.uint16 if chunks <= 2**16 else np.uint32),
    )


def _held_bits(
    rank: NDArray[np.int64], place: NDArray[np.int64], nodes: int, groups: int, bits: int
) -> UInt64Array:
    """Return the chunks that nodes hold, as bits by group, node and word."""
    have = np.zeros((groups, nodes, 1 << bits), dtype=np.uint64)
    word, mask = place >> 6, ONE << (place.astype(np.uint64) & IN_WORD)
    np.bitwise_or.at(have, (word >> bits, rank, word & ((1 << bits) - 1)), mask)
    return have.reshape(-1)
