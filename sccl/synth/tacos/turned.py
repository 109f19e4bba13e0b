"""Schedules turned round in time, put one after the other, and moved to where they can begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.core.topology import Topology
from sccl.sim.compiled import compiled
from sccl.synth.tacos.machine import Net
from sccl.synth.tacos.sends import PIECE, Sends

_MOST_PLACES = 2**27
"""Of pairs of ranks and chunks whose times are kept: a GiB."""


def ticks(net: Net) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return of each link how long it is busy with a chunk, and when that arrives after this."""
    kind = net.kind.astype(np.int64)
    return net.busy[kind], net.lag[kind]


def finish_of(sends: Sends, net: Net) -> int:
    """Return when the last transfer arrives; 0: there is none."""
    busy, lag = ticks(net)
    return int((sends.start + (busy + lag)[sends.link]).max(initial=0))


def links_back(topology: Topology) -> NDArray[np.int64]:
    """Return which link of a topology goes against each link of the reversed one."""
    place = {link.edge: i for i, link in enumerate(topology.links)}
    return np.array([place[k.dst, k.src] for k in topology.reversed().links], dtype=np.int64)


def turned(sends: Sends, finish: int, backwards: Net, topology: Topology, *, reduce: bool) -> Sends:
    """Return the sends of a dual on the reversed machine as those of what it is the dual of.

    A transfer that starts at s is away from its sender until s, and at its receiver from
    s + busy + lag on. Read backwards from the finish F, the receiver sends from F - (s + busy +
    lag), so the link is busy until F - (s + lag), and what is sent arrives at F - s. What a rank
    received at t or before, and passed on at s >= t, it now gets at F - s or before, and sends on
    at F - t or after. Each link's times are shifted by one constant, so they still do not overlap.
    (That is for an alpha that travels; where it occupies, lag is 0.) A rank was sent each chunk
    once, so it sends its sum once: each contribution is counted once.
    """
    busy, lag = ticks(backwards)
    start = finish - (sends.start + busy[sends.link] + lag[sends.link])
    link = links_back(topology)[sends.link].astype(np.int32)
    return Sends(start, sends.chunk, link, np.full_like(sends.reduce, reduce)).ordered()


@compiled
def _earliest(
    rows: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
    ends: tuple[NDArray[np.int64], NDArray[np.int64]],
    costs: tuple[NDArray[np.int64], NDArray[np.int64]],
    chunks: int,
    since: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> None:
    """Move each row to when its link is free and its sender has all that was sent to it before.

    Args:
        rows: start, chunk and link; the first becomes what it can be.
        since: when each link is free; when the last of each node's arrivals of each chunk is.
            Zeros, and then what rows before have made of them.
    """
    free, there = since
    for row in range(len(rows[0])):
        chunk, link = np.int64(rows[1][row]), rows[2][row]
        start = max(free[link], there[ends[0][link] * chunks + chunk])
        rows[0][row] = start
        free[link] = start + costs[0][link]
        place = ends[1][link] * chunks + chunk
        there[place] = max(there[place], free[link] + costs[1][link])


def joined(first: Sends, finish: int, then: Sends, net: Net, chunks: int) -> Sends:
    """Return one schedule after another of the same chunks: for allreduce.

    What can begin sooner does, each link still in its order, where no budget has a part in it. A
    rank that sends a sum has then got all that was sent to it before, and a rank that passes a
    result on has got that: the arrival of a result is after the rank's own sum has gone.
    """
    both = Sends(
        np.concatenate([first.start, then.start + finish]),
        np.concatenate([first.chunk, then.chunk]),
        np.concatenate([first.link, then.link]),
        np.concatenate([first.reduce, then.reduce]),
    )
    if len(net.room) or net.nodes * chunks > _MOST_PLACES:
        return both
    since = np.zeros(len(net.src), dtype=np.int64), np.zeros(net.nodes * chunks, dtype=np.int64)
    ends = net.src.astype(np.int64), net.dst.astype(np.int64)
    for first_row in range(0, len(both.start), PIECE):
        rows = slice(first_row, first_row + PIECE)
        part = both.start[rows], both.chunk[rows], both.link[rows]
        _earliest(part, ends, ticks(net), chunks, since)
    return both.ordered()
