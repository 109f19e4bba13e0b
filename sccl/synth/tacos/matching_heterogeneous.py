"""The matching of links that cost unlike, from its arrays to transfers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.demand import add_relays
from sccl.synth.network.transfers import Demand, Pause, Sends, TimedSends, stalled_error
from sccl.synth.tacos.bitsets import ALL_BITS, bit_rows, shuffle_chunks
from sccl.synth.tacos.expanded_network import initial_state
from sccl.synth.tacos.matching_heterogeneous_loops import HeterogeneousState, run_events
from sccl.synth.tacos.partial_schedule import PartialSchedule, arrived_sends, resume_from

_SENDS_PER_CALL = 100_000
"""Transfers of one call: they cost more than those of rounds."""


class ChoiceStyle(NamedTuple):
    """How links choose.

    Attributes:
        sample: how many chunks a link chooses among.
    """

    sample: int
    last_level_factor: int
    middle_level_factor: int


DEFAULT_STYLE = ChoiceStyle(16, 2, 0)


class HeterogeneousMatching:
    """Matchings of one demand on one machine. The seed determines the layout of chunks.

    Ranks on the path of a chunk want it, too, but a chunk may take another path in the end:
    transfers that nobody wants or forwards are left out.
    """

    def __init__(self, net: NetworkArrays, asked: Demand, seed: int) -> None:
        """Make one from a demand.

        Raises:
            UnreachableError: a rank has no path from any source of a chunk it wants.
        """
        self.requested_demand, demand = asked, add_relays(asked, net)
        if demand.wanted is not None:  # who is near may have no use for a chunk, nor pass it on
            net = net._replace(level=np.zeros_like(net.level))
        self.net, self.demand = net, demand
        self.chunk_position = shuffle_chunks(demand.chunks, seed)
        self.shape = (net.nodes, demand.chunks)
        self.wanted = np.full(self.shape[0] * -(-self.shape[1] // 64), ALL_BITS)
        if demand.wanted is not None and demand.wanted_by is not None:
            self.wanted = bit_rows(demand.wanted_by, self.chunk_position[demand.wanted], self.shape)

    def match(
        self, seed: int, pause: Pause, prior: PartialSchedule, style: ChoiceStyle
    ) -> TimedSends:
        """Return the tick at which every rank holds all that it wants, and the transfers.

        Args:
            prior: the state to continue from.

        Raises:
            UnreachableError: that is impossible.
        """
        state = self._initial_state(prior, style)
        before = len(prior.sends.start)
        coming = before - len(arrived_sends(self.net, prior))
        left = int(state.missing.sum()) + coming
        traffic = initial_state(self.net, seed, left, left + before - coming)
        resume_from(traffic, self.net, prior, self.chunk_position)
        done = not left
        while not done:
            done = run_events(state, traffic, self.net, _SENDS_PER_CALL)
            if not done and int(traffic.remaining[1]) == before:
                raise stalled_error()
            pause(int(traffic.remaining[1]) - before, done)
            before = int(traffic.remaining[1])
        chunk_at = np.argsort(self.chunk_position).astype(np.int32)
        chunk, link = chunk_at[traffic.chunk], traffic.link.astype(np.int32)
        sends = Sends(traffic.when, chunk, link, np.zeros(len(link), dtype=np.bool_)).sorted_sends()
        if self.requested_demand.wanted is None or self.requested_demand.wanted_by is None:
            return int(traffic.now[0]), sends
        return self._prune_unneeded(
            sends, self.requested_demand.wanted * self.shape[0] + self.requested_demand.wanted_by
        )

    def _prune_unneeded(self, sends: Sends, wanted: IntArray) -> TimedSends:
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

    def _initial_state(self, prior: PartialSchedule, style: ChoiceStyle) -> HeterogeneousState:
        net, demand, (nodes, chunks) = self.net, self.demand, self.shape
        to, places = (
            net.dst[prior.sends.link].astype(np.int64),
            self.chunk_position[prior.sends.chunk],
        )
        arrived_rows = arrived_sends(net, prior)
        have = bit_rows(
            np.concatenate([demand.held_by, to[arrived_rows]]),
            np.concatenate([self.chunk_position[demand.held], places[arrived_rows]]),
            self.shape,
        )
        sent = have | bit_rows(to, places, self.shape)
        holders = np.zeros(chunks, dtype=np.uint32)
        everyone = np.concatenate([demand.held, prior.sends.chunk])
        holders[self.chunk_position] = np.bincount(everyone, minlength=chunks)
        groups = int(net.near.max()) + 1
        crossed = np.zeros((groups, len(have) // nodes), dtype=np.uint64)
        for row in net.near.reshape(-1, nodes)[1:]:
            np.bitwise_or.at(crossed, row, sent.reshape(nodes, -1))
        return HeterogeneousState(
            held=have,
            held_or_pending=sent | ~self.wanted,
            group_held=crossed.reshape(-1),
            missing=_count_bits(self.wanted & ~sent, nodes, chunks),
            holders=holders,
            sample=style.sample,
            last_level_factor=np.uint64(style.last_level_factor),
            middle_level_factor=np.uint64(style.middle_level_factor),
        )


def _count_bits(rows: NDArray[np.uint64], nodes: int, chunks: int) -> NDArray[np.uint64]:
    """Return how many of the chunks are set in each row."""
    as_bytes = rows.view(np.uint8).reshape(nodes, -1)
    bits = np.unpackbits(as_bytes, axis=1, bitorder="little", count=chunks)
    counts: NDArray[np.uint64] = bits.sum(axis=1, dtype=np.uint64)
    return counts
