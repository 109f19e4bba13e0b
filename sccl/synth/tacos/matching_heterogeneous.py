"""Set up the matching of links with different costs, and return its transfers.

Source: TACOS (MICRO 2024), section IV-F. The choices of the links are in
:mod:`sccl.synth.tacos.matching_heterogeneous_loops`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.synth.limits import SENDS_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.demand import add_relays
from sccl.synth.network.transfers import Demand, Pause, Sends, TimedSends, stalled_error
from sccl.synth.tacos.bitsets import ALL_BITS, bit_rows, shuffle_chunks
from sccl.synth.tacos.expanded_network import initial_state
from sccl.synth.tacos.matching_heterogeneous_loops import HeterogeneousState, run_events
from sccl.synth.tacos.partial_schedule import PartialSchedule, arrived_sends, resume_from


class ChoiceStyle(NamedTuple):
    """The parameters of a link's choice.

    Let m be the number of chunks that the link's destination wants and neither holds nor receives.
    Let s be the number of chunks that cheaper links bring there during one transfer over the link.

    Attributes:
        sample: Number of chunks among which a link chooses.
        last_level_factor: A link that finds no chunk at level 1 looks for any chunk if
            last_level_factor * s < m.
        middle_level_factor: A link that finds no chunk at a level L above 1 searches level L - 1 if
            middle_level_factor * s < m.
    """

    sample: int
    last_level_factor: int
    middle_level_factor: int


DEFAULT_STYLE = ChoiceStyle(16, 2, 0)


class HeterogeneousMatching:
    """Matchings of one demand on one machine. The seed determines the layout of chunks.

    The ranks on a path of a chunk are added to its destinations. The chunk may take another path in
    the end, so useless transfers are pruned.
    """

    def __init__(self, net: NetworkArrays, requested_demand: Demand, seed: int) -> None:
        """Add relays to the demand.

        Raises:
            UnreachableError: A rank has no path from any source of a chunk that it needs.
        """
        self.requested_demand = requested_demand
        demand = add_relays(requested_demand, net)
        if demand.wanted is not None:  # near nodes may neither need a chunk nor forward it
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
        """Return the completion time in ticks, and the transfers.

        Args:
            seed: Seed of the links' choices.
            pause: Called after each piece of work.
            prior: The partial schedule to continue.
            style: Parameters of the links' choices.

        Raises:
            UnreachableError: A rank cannot get a chunk that it needs.
        """
        state = self._initial_state(prior, style)
        num_sends = len(prior.sends.start)
        in_flight = num_sends - len(arrived_sends(self.net, prior))
        missing_arrivals = int(state.missing.sum()) + in_flight
        log_capacity = missing_arrivals + num_sends - in_flight
        traffic = initial_state(self.net, seed, missing_arrivals, log_capacity)
        resume_from(traffic, self.net, prior, self.chunk_position)
        done = not missing_arrivals
        while not done:
            done = run_events(state, traffic, self.net, SENDS_PER_CALL)
            new_sends = int(traffic.remaining[1]) - num_sends
            if not done and not new_sends:
                raise stalled_error()
            pause(new_sends, done)
            num_sends += new_sends
        chunk_at = np.argsort(self.chunk_position).astype(np.int32)
        chunk, link = chunk_at[traffic.chunk], traffic.link.astype(np.int32)
        sends = Sends(traffic.when, chunk, link, np.zeros(len(link), dtype=np.bool_)).sorted_sends()
        if self.requested_demand.wanted is None or self.requested_demand.wanted_by is None:
            return int(traffic.now[0]), sends
        return self._prune_unneeded(
            sends, self.requested_demand.wanted * self.shape[0] + self.requested_demand.wanted_by
        )

    def _prune_unneeded(self, sends: Sends, wanted: IntArray) -> TimedSends:
        """Return the completion time and the transfers that serve the demand.

        A rank with a useless chunk would have to send a sum that it does not have when time is
        reversed for a reduction.

        Args:
            sends: All transfers.
            wanted: chunk * nodes + rank for each demand.
        """
        nodes = self.shape[0]
        chunk, link = sends.chunk.astype(np.int64), sends.link.astype(np.int64)
        received = chunk * nodes + self.net.dst[link]
        forwarded = chunk * nodes + self.net.src[link]
        kept = np.ones(len(link), dtype=np.bool_)
        while True:
            useful = np.isin(received, np.concatenate([wanted, forwarded[kept]])) & kept
            if np.array_equal(useful, kept):
                break
            kept = useful
        pruned = Sends(sends.start[kept], sends.chunk[kept], sends.link[kept], sends.reduce[kept])
        return int((pruned.start + self.net.cost[pruned.link]).max(initial=0)), pruned

    def _initial_state(self, prior: PartialSchedule, style: ChoiceStyle) -> HeterogeneousState:
        net, demand, (nodes, chunks) = self.net, self.demand, self.shape
        destinations = net.dst[prior.sends.link].astype(np.int64)
        positions = self.chunk_position[prior.sends.chunk]
        arrived = arrived_sends(net, prior)
        held = bit_rows(
            np.concatenate([demand.held_by, destinations[arrived]]),
            np.concatenate([self.chunk_position[demand.held], positions[arrived]]),
            self.shape,
        )
        held_or_sent = held | bit_rows(destinations, positions, self.shape)
        holders = np.zeros(chunks, dtype=np.uint32)
        copies = np.concatenate([demand.held, prior.sends.chunk])
        holders[self.chunk_position] = np.bincount(copies, minlength=chunks)
        groups = int(net.near.max()) + 1
        group_held = np.zeros((groups, len(held) // nodes), dtype=np.uint64)
        for group_of_node in net.near.reshape(-1, nodes)[1:]:
            np.bitwise_or.at(group_held, group_of_node, held_or_sent.reshape(nodes, -1))
        return HeterogeneousState(
            held=held,
            held_or_pending=held_or_sent | ~self.wanted,
            group_held=group_held.reshape(-1),
            missing=_count_bits(self.wanted & ~held_or_sent, nodes, chunks),
            holders=holders,
            sample=style.sample,
            last_level_factor=np.uint64(style.last_level_factor),
            middle_level_factor=np.uint64(style.middle_level_factor),
        )


def _count_bits(rows: NDArray[np.uint64], nodes: int, chunks: int) -> NDArray[np.uint64]:
    """Return the number of set bits in each row."""
    as_bytes = rows.view(np.uint8).reshape(nodes, -1)
    bits = np.unpackbits(as_bytes, axis=1, bitorder="little", count=chunks)
    counts: NDArray[np.uint64] = bits.sum(axis=1, dtype=np.uint64)
    return counts
