"""The matching of links that cost unlike, from its arrays to transfers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.synth.tacos.bits import ALL, rows_of_bits, shuffled
from sccl.synth.tacos.events import Events, go_on
from sccl.synth.tacos.machine import Net
from sccl.synth.tacos.sends import Demand, Pause, Sends, stalled
from sccl.synth.tacos.traffic import traffic_of

_PIECE = 100_000
"""Transfers of one call: they cost more than those of rounds."""


def by_event(net: Net, demand: Demand, seed: int, pause: Pause) -> tuple[int, Sends]:
    """Return the tick at which every rank holds what it wants, and the transfers.

    Raises:
        UnreachableError: that cannot be.
    """
    if demand.wanted is not None:  # what is near a rank may have no use for a chunk, nor pass it on
        net = net._replace(level=np.zeros_like(net.level))
    place = shuffled(demand.chunks, seed)
    state = _begun(net, demand, place)
    total = int(state.missing.sum())
    traffic = traffic_of(net, seed, total, total)
    done, before = not total, 0
    while not done:
        done = go_on(state, traffic, net, _PIECE)
        if not done and int(traffic.left[1]) == before:
            raise stalled()
        pause(int(traffic.left[1]) - before, done)
        before = int(traffic.left[1])
    chunk_at = np.argsort(place).astype(np.int32)
    chunk, link = chunk_at[traffic.chunk], traffic.link.astype(np.int32)
    sends = Sends(traffic.when, chunk, link, np.zeros(len(link), dtype=np.bool_))
    return int(traffic.now[0]), sends.ordered()


def _begun(net: Net, demand: Demand, place: NDArray[np.int64]) -> Events:
    nodes, chunks = net.nodes, demand.chunks
    have = rows_of_bits(demand.held_by, place[demand.held], (nodes, chunks))
    wanted = np.full_like(have, ALL)
    if demand.wanted is not None and demand.wanted_by is not None:
        wanted = rows_of_bits(demand.wanted_by, place[demand.wanted], (nodes, chunks))
    missing = _counts(wanted & ~have, nodes, chunks)
    holders = np.zeros(chunks, dtype=np.uint32)
    holders[place] = np.bincount(demand.held, minlength=chunks)
    groups = int(net.near.max()) + 1
    crossed = np.zeros((groups, len(have) // nodes), dtype=np.uint64)
    for row in net.near.reshape(-1, nodes)[1:]:
        np.bitwise_or.at(crossed, row, have.reshape(nodes, -1))
    return Events(
        have=have,
        got=have | ~wanted,
        crossed=crossed.reshape(-1),
        missing=missing,
        holders=holders,
    )


def _counts(rows: NDArray[np.uint64], nodes: int, chunks: int) -> NDArray[np.uint64]:
    """Return how many of the chunks are set in each row."""
    as_bytes = rows.view(np.uint8).reshape(nodes, -1)
    bits = np.unpackbits(as_bytes, axis=1, bitorder="little", count=chunks)
    counts: NDArray[np.uint64] = bits.sum(axis=1, dtype=np.uint64)
    return counts
