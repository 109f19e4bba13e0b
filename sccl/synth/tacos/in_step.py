"""The rounds of links that all cost alike, from the arrays of a machine to a log."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.synth.network.machine import Net
from sccl.synth.network.sends import PIECE, Demand, Pause, stalled
from sccl.synth.tacos.bits import IN_WORD, ONE, Words, random_state, shuffled
from sccl.synth.tacos.crew import Crew, blocks_of
from sccl.synth.tacos.rounds import Rounds, Slots, go_on

_GROUPS = 64
_LINE = 3
"""Words of a cache line, as a power of two: a group has no fewer."""


class Log(NamedTuple):
    """The transfers of links, in the form of a packed schedule.

    Attributes:
        fired: by round a bit per slot, in words.
        chunk: the chunks, by round and slot.
    """

    fired: Words
    chunk: NDArray[np.unsignedinteger[Any]]


def in_rounds(net: Net, demand: Demand, seed: int, pause: Pause) -> Log:
    """Return the rounds after which every rank holds every chunk.

    Raises:
        UnreachableError: that cannot be.
    """
    slots = _slots(net)
    blocks = blocks_of(net.in_first)
    state = _begun(net, demand, seed, len(blocks) - 1)
    with Crew(len(blocks) - 2) as crew:
        while state.left[0]:
            before = int(state.left[0])
            if int(state.left[1]) == len(state.fired):
                state = state._replace(fired=_doubled(state.fired))
            if not _go_on(state, slots, crew, blocks):
                raise stalled()
            pause(before - int(state.left[0]), not state.left[0])
    return Log(state.fired[: int(state.left[1])].copy(), state.log)


def _go_on(state: Rounds, slots: Slots, crew: Crew, blocks: Words) -> int:
    """Make some rounds; return how many chunks were taken in the last one."""
    threads = len(blocks) - 1
    state.came[:] = 0
    own = [state, *(state._replace(left=state.left.copy()) for _ in range(1, threads))]
    most = np.uint64(PIECE * threads)
    parts = [(each, slots, blocks, np.uint64(i), most) for i, each in enumerate(own)]
    return int(crew.each(go_on, parts)[0])


def _doubled(fired: Words) -> Words:
    more = np.zeros((2 * len(fired), fired.shape[1]), dtype=np.uint64)
    more[: len(fired)] = fired
    return more


def _slots(net: Net) -> Slots:
    """Return the links by where they lead to."""
    return Slots(
        first=net.in_first.astype(np.uint32),
        src=net.src[net.into].astype(np.uint32),
        most=np.diff(net.in_first).max(),
    )


def _begun(net: Net, demand: Demand, seed: int, blocks: int) -> Rounds:
    links, nodes, chunks = len(net.src), net.nodes, demand.chunks
    place = shuffled(chunks, seed)
    missing = chunks - np.bincount(demand.held_by, minlength=nodes)
    holders = np.zeros(chunks, dtype=np.uint32)
    holders[place] = np.bincount(demand.held, minlength=chunks)
    words = -(-chunks // 64)
    bits = max((-(-words // _GROUPS) - 1).bit_length(), _LINE)
    # Words that no chunk is in would send all that begin there to the first one that has some.
    bits = min(bits, (words - 1).bit_length())
    groups = -(-words >> bits)
    total = int(missing.sum())
    rows = -(-total // max(links, 1)) + 1  # as many as there are at least
    return Rounds(
        groups=np.uint64(groups),
        bits=np.uint64(bits),
        have=_held(demand.held_by, place[demand.held], nodes, groups, bits),
        missing=missing.astype(np.uint32),
        holders=np.tile(holders, (blocks, 1)),
        maybe=np.full(links, (1 << groups) - 1, dtype=np.uint64),
        news=np.zeros(nodes, dtype=np.uint64),
        taken=np.zeros(links, dtype=np.uint32),
        place=place.astype(np.uint32),
        chunk=np.argsort(place).astype(np.uint32),
        left=np.array([total, 0, 0, random_state(seed)[0]], dtype=np.uint64),
        counts=np.zeros(blocks, dtype=np.uint64),
        came=np.zeros(1, dtype=np.uint64),
        fired=np.zeros((rows, -(-links // 64)), dtype=np.uint64),
        log=np.zeros(total, dtype=np.uint16 if chunks <= 2**16 else np.uint32),
    )


def _held(
    rank: NDArray[np.int64], place: NDArray[np.int64], nodes: int, groups: int, bits: int
) -> Words:
    """Return the chunks that nodes hold, as bits by group, node and word."""
    have = np.zeros((groups, nodes, 1 << bits), dtype=np.uint64)
    word, one = place >> 6, ONE << (place.astype(np.uint64) & IN_WORD)
    np.bitwise_or.at(have, (word >> bits, rank, word & ((1 << bits) - 1)), one)
    return have.reshape(-1)
