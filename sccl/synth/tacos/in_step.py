"""The rounds of links that all cost alike, from their arrays to transfers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.synth.tacos.bits import random_state, rows_of_bits, shuffled
from sccl.synth.tacos.machine import Net
from sccl.synth.tacos.rounds import Rounds, Slots, go_on
from sccl.synth.tacos.sends import PIECE, Demand, Pause, Sends, stalled

_FIRST_ROWS = 64


def in_rounds(
    net: Net, demand: Demand, seed: int, pause: Pause, *, keeps: bool = True
) -> tuple[int, Sends]:
    """Return the tick at which every rank holds every chunk, and the transfers, if they are kept.

    Raises:
        UnreachableError: that cannot be.
    """
    slots, slot_link = _slots(net)
    place = shuffled(demand.chunks, seed)
    state = _begun(net, demand, place, seed, keeps=keeps)
    while True:
        before = int(state.left[0]), int(state.left[1])
        done = go_on(state, slots, PIECE)
        pause(before[0] - int(state.left[0]), done)
        if done:
            break
        if before[0] == int(state.left[0]) and before[1] != int(state.left[1]):
            raise stalled()
        if int(state.left[1]) == len(state.fired):
            state = state._replace(fired=np.concatenate([state.fired, state.fired * 0]))
    busy = int(net.busy[0])
    chunk_at = np.argsort(place).astype(np.int32)
    return int(state.left[1]) * busy, _transfers(state, slot_link, chunk_at, busy)


def _slots(net: Net) -> tuple[Slots, NDArray[np.int32]]:
    """Return the links by where they lead to, and the link of each slot."""
    slot_of = np.argsort(net.into)
    slots = Slots(
        first=net.in_first,
        src=net.src[net.into].astype(np.uint32),
        out_first=net.out_first,
        out=slot_of[net.out].astype(np.uint32),
    )
    return slots, net.into.astype(np.int32)


def _begun(net: Net, demand: Demand, place: NDArray[np.int64], seed: int, *, keeps: bool) -> Rounds:
    links, nodes, chunks = len(net.src), net.nodes, demand.chunks
    missing = chunks - np.bincount(demand.held_by, minlength=nodes).astype(np.uint64)
    total = int(missing.sum())
    holders = np.zeros(chunks, dtype=np.uint32)
    holders[place] = np.bincount(demand.held, minlength=chunks)
    rows = _FIRST_ROWS if keeps else 0
    return Rounds(
        have=rows_of_bits(demand.held_by, place[demand.held], (nodes, chunks)),
        missing=missing,
        holders=holders,
        awake=np.ones(links, dtype=np.uint8),
        taken=np.zeros(links, dtype=np.uint32),
        fresh=np.zeros(int(np.diff(net.in_first).max()), dtype=np.uint64),
        random=random_state(seed),
        left=np.array([total, 0, 0], dtype=np.uint64),
        fired=np.zeros((rows, -(-links // 8)), dtype=np.uint8),
        log=np.zeros(total if keeps else 0, dtype=np.uint32),
    )


def _transfers(
    state: Rounds, slot_link: NDArray[np.int32], chunk_at: NDArray[np.int32], busy: int
) -> Sends:
    """Return the transfers of rounds that were kept; each round is put in order by itself."""
    total, at = len(state.log), 0
    start, reduce = np.empty(total, dtype=np.int64), np.zeros(total, dtype=np.bool_)
    chunk, link = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    for number, fired in enumerate(state.fired if total else ()):
        slots = np.flatnonzero(np.unpackbits(fired, count=len(slot_link), bitorder="little"))
        part = slice(at, at + len(slots))
        both = chunk_at[state.log[part]].astype(np.int64) << 32 | slot_link[slots]
        both.sort()
        start[part], chunk[part], link[part] = number * busy, both >> 32, both & 0xFFFFFFFF
        at += len(slots)
    return Sends(start, chunk, link, reduce)
