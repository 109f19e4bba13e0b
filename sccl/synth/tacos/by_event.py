"""The matching of links that cost unlike, from its arrays to transfers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.synth.network.demands import with_relays
from sccl.synth.network.groups import Ticks
from sccl.synth.network.machine import Net
from sccl.synth.network.sends import Demand, Pause, Sends, Timed, stalled
from sccl.synth.tacos.bits import ALL, rows_of_bits, shuffled
from sccl.synth.tacos.events import Events, go_on
from sccl.synth.tacos.resumed import Given, arrived, resume
from sccl.synth.tacos.traffic import traffic_of

_PIECE = 100_000
"""Transfers of one call: they cost more than those of rounds."""


class Style(NamedTuple):
    """How links choose.

    Attributes:
        sample: how many chunks a link chooses among.
        onward: whether it looks first at those to which it is on a shortest way.
    """

    sample: int
    last: int
    between: int


USUAL = Style(16, 2, 0)


class ByEvent:
    """Matchings of one demand on one machine. The seed determines the layout of chunks.

    Ranks on the path of a chunk want it, too, but a chunk may take another path in the end:
    transfers that nobody wants or forwards are left out.
    """

    def __init__(self, net: Net, asked: Demand, seed: int) -> None:
        """Make one from a demand.

        Raises:
            UnreachableError: a rank has no path from any source of a chunk it wants.
        """
        self.asked, demand = asked, with_relays(asked, net)
        if demand.wanted is not None:  # who is near may have no use for a chunk, nor pass it on
            net = net._replace(level=np.zeros_like(net.level))
        self.net, self.demand = net, demand
        self.place = shuffled(demand.chunks, seed)
        self.shape = (net.nodes, demand.chunks)
        self.wanted = np.full(self.shape[0] * -(-self.shape[1] // 64), ALL)
        if demand.wanted is not None and demand.wanted_by is not None:
            self.wanted = rows_of_bits(demand.wanted_by, self.place[demand.wanted], self.shape)

    def matched(self, seed: int, pause: Pause, given: Given, style: Style) -> Timed:
        """Return the tick at which every rank holds all that it wants, and the transfers.

        Args:
            given: the state to continue from.

        Raises:
            UnreachableError: that is impossible.
        """
        state = self._begun(given, style)
        before = len(given.kept.start)
        coming = before - len(arrived(self.net, given))
        left = int(state.missing.sum()) + coming
        traffic = traffic_of(self.net, seed, left, left + before - coming)
        resume(traffic, self.net, given, self.place)
        done = not left
        while not done:
            done = go_on(state, traffic, self.net, _PIECE)
            if not done and int(traffic.left[1]) == before:
                raise stalled()
            pause(int(traffic.left[1]) - before, done)
            before = int(traffic.left[1])
        chunk_at = np.argsort(self.place).astype(np.int32)
        chunk, link = chunk_at[traffic.chunk], traffic.link.astype(np.int32)
        sends = Sends(traffic.when, chunk, link, np.zeros(len(link), dtype=np.bool_)).ordered()
        if self.asked.wanted is None or self.asked.wanted_by is None:
            return int(traffic.now[0]), sends
        return self._serving(sends, self.asked.wanted * self.shape[0] + self.asked.wanted_by)

    def _serving(self, sends: Sends, wanted: Ticks) -> Timed:
        """Return the finish of the demand, and the transfers that serve it.

        Read backwards, a rank that got a useless chunk would have to send a sum that it does not
        have.

        Args:
            wanted: chunk by chunk, of as many numbers each as there are nodes.
        """
        nodes = self.shape[0]
        chunk, link = sends.chunk.astype(np.int64), sends.link.astype(np.int64)
        into, out = chunk * nodes + self.net.dst[link], chunk * nodes + self.net.src[link]
        kept = np.ones(len(link), dtype=np.bool_)
        while True:
            serves = np.isin(into, np.concatenate([wanted, out[kept]])) & kept
            if np.array_equal(serves, kept):
                break
            kept = serves
        left = Sends(sends.start[kept], sends.chunk[kept], sends.link[kept], sends.reduce[kept])
        return int((left.start + self.net.cost[left.link]).max(initial=0)), left

    def _begun(self, given: Given, style: Style) -> Events:
        net, demand, (nodes, chunks) = self.net, self.demand, self.shape
        to, what = net.dst[given.kept.link].astype(np.int64), self.place[given.kept.chunk]
        there = arrived(net, given)
        have = rows_of_bits(
            np.concatenate([demand.held_by, to[there]]),
            np.concatenate([self.place[demand.held], what[there]]),
            self.shape,
        )
        sent = have | rows_of_bits(to, what, self.shape)
        holders = np.zeros(chunks, dtype=np.uint32)
        everyone = np.concatenate([demand.held, given.kept.chunk])
        holders[self.place] = np.bincount(everyone, minlength=chunks)
        groups = int(net.near.max()) + 1
        crossed = np.zeros((groups, len(have) // nodes), dtype=np.uint64)
        for row in net.near.reshape(-1, nodes)[1:]:
            np.bitwise_or.at(crossed, row, sent.reshape(nodes, -1))
        return Events(
            have=have,
            got=sent | ~self.wanted,
            crossed=crossed.reshape(-1),
            missing=_counts(self.wanted & ~sent, nodes, chunks),
            holders=holders,
            sample=style.sample,
            last=np.uint64(style.last),
            between=np.uint64(style.between),
        )


def _counts(rows: NDArray[np.uint64], nodes: int, chunks: int) -> NDArray[np.uint64]:
    """Return how many of the chunks are set in each row."""
    as_bytes = rows.view(np.uint8).reshape(nodes, -1)
    bits = np.unpackbits(as_bytes, axis=1, bitorder="little", count=chunks)
    counts: NDArray[np.uint64] = bits.sum(axis=1, dtype=np.uint64)
    return counts
