"""Match links of different costs, or with budgets, with chunks: free links choose at each event.

Source: TACOS (MICRO 2024), section IV-F: cheaper links choose first. As in Algorithm 1 each match
is random among the possible ones, but a link chooses the chunk. In the paper an unsatisfied pair
(destination, chunk) chooses the source. Three rules are added:

- A link compares some random candidates and takes the one with the fewest holders.
- It first considers only chunks that no node near its destination has. Near nodes are those with
  cheaper links to it.
- It then considers any chunk, unless cheaper links will probably bring all missing chunks sooner.

(Over 18 tori and dragonflies of two and three speeds, both models of alpha, and 1 and 4 chunks per
rank, completion times are 6 % above the lower bound. Without any one of the three rules they are 10
or 11 % above it. An additional search between the two, for a chunk that no cheaper in-neighbor has,
gained 0.3 %.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.limits import SENDS_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.demand import add_relays
from sccl.synth.network.transfers import Demand, Pause, Sends, TimedSends, stalled_error
from sccl.synth.tacos.bitsets import (
    ALL_BITS,
    IN_WORD,
    ONE,
    TO_WORD,
    WIDTH,
    ZERO,
    bit_rows,
    chunk_bit,
    random_below,
    shuffle_chunks,
)
from sccl.synth.tacos.expanded_network import (
    IDLE,
    NetworkState,
    PartialSchedule,
    advance_time,
    arrived_sends,
    has_budget,
    initial_state,
    occupy_link,
    pop_ready_link,
    resume_from,
    start_sends,
    wake_links,
)


class HeterogeneousState(NamedTuple):
    """The state of a matching. A chunk's number is its position in a random permutation of chunks.

    Attributes:
        held: Chunks that each node holds, as a row of bits.
        held_or_pending: Chunks that each node holds, receives, or does not want, as a row of bits.
        group_held: Chunks that a node of each group of ``NetworkArrays.near`` holds or receives, as
            a row of bits.
        missing: Number of chunks that each node wants, and neither holds nor receives.
        holders: Number of nodes that hold or receive each chunk.
        sample: Number of chunks among which a link chooses.
        last_level_factor: See :class:`ChoiceStyle`.
        middle_level_factor: See the same class.
    """

    held: UInt64Array
    held_or_pending: UInt64Array
    group_held: UInt64Array
    missing: UInt64Array
    holders: NDArray[np.uint32]
    sample: int
    last_level_factor: np.uint64
    middle_level_factor: np.uint64


@compiled
def _choose_links(  # noqa: PLR0912, PLR0915
    state: HeterogeneousState, traffic: NetworkState, net: NetworkArrays, chosen: UInt64Array
) -> None:
    """Match all ready links with chunks (Algorithm 1, with the links of section IV-F in order).

    Cheaper links choose first. Links of one cost choose turn by turn from a random turn on, and at
    random within a turn.

    Args:
        state: The chunks of all nodes.
        traffic: The links.
        net: The machine.
        chosen: Output: pairs of a link and its chunk. A link number that does not exist ends the
            list.
    """
    held, held_or_pending, group_held = state.held, state.held_or_pending, state.group_held
    missing, holders = state.missing, state.holders
    random, ready_count = traffic.random, traffic.ready_count
    sources, destinations, soon, near = net.src, net.dst, net.soon, net.near
    chunks, nodes = np.uint64(len(holders)), np.uint64(len(missing))
    words, index = (chunks + IN_WORD) >> TO_WORD, 0
    sample = state.sample
    last_factor, middle_factor = state.last_level_factor, state.middle_level_factor
    now, limit = traffic.now[0], traffic.limit[0]
    turns = np.uint64(net.turns)
    for number in range(np.uint64(len(ready_count))):  # section IV-F: cheaper links first
        if number % turns == ZERO:
            shift = random_below(random, turns) if turns > ONE else ZERO
            top_level = net.level[number // turns]
            is_late = now + net.busy[number // turns] + net.lag[number // turns] > limit
        queue = number - number % turns + (number + shift) % turns
        while ready_count[queue]:
            link = pop_ready_link(traffic, queue)
            node = destinations[link]
            is_useless = not missing[node] or (is_late and soon[link])
            if is_useless or not has_budget(traffic, net, link):
                continue
            source_row, node_row = sources[link] * words, node * words
            choice, level = ZERO, top_level  # the choice is 1 + the chunk
            while not choice:
                start, group = random_below(random, chunks), near[level * nodes + node]
                word, mask, seen = start >> TO_WORD, ALL_BITS << (start & IN_WORD), 0
                for _ in range(words + ONE):
                    candidates = held[source_row + word] & ~held_or_pending[node_row + word] & mask
                    if candidates and level:
                        candidates &= ~group_held[group * words + word]
                    while candidates and seen < sample:
                        chunk = word * WIDTH + lowest(candidates)
                        if not choice or holders[chunk] < holders[choice - ONE]:
                            choice = chunk + ONE
                        candidates &= candidates - ONE
                        seen += 1
                    if seen == sample:
                        break
                    mask = ALL_BITS
                    word = word + ONE if word + ONE < words else ZERO
                factor = last_factor if level == ONE else middle_factor
                if not level or factor * soon[link] >= missing[node]:
                    break
                level -= ONE
            if not choice:
                continue
            chunk = choice - ONE
            held_or_pending[node_row + (chunk >> TO_WORD)] |= chunk_bit(chunk)
            for row in range(nodes + node, np.uint64(len(near)), nodes):
                group_held[near[row] * words + (chunk >> TO_WORD)] |= chunk_bit(chunk)
            missing[node] -= ONE
            holders[chunk] += np.uint32(1)
            occupy_link(traffic, net, link)
            chosen[index], chosen[index + 1] = link, chunk
            index += 2
    chosen[index] = np.uint64(len(destinations))


@compiled
def _deliver(
    state: HeterogeneousState, traffic: NetworkState, net: NetworkArrays, arrived: UInt64Array
) -> None:
    """Add arrived chunks to their nodes, and make idle links that leave these nodes ready."""
    held, remaining, destinations, kinds = state.held, traffic.remaining, net.dst, net.kind
    words = (np.uint64(len(state.holders)) + IN_WORD) >> TO_WORD
    index = 0
    while arrived[index] < len(kinds):
        node, chunk = destinations[arrived[index]], arrived[index + 1]
        held[node * words + (chunk >> TO_WORD)] |= chunk_bit(chunk)
        remaining[0] -= ONE
        wake_links(
            net.out, IDLE, traffic, net.queue, (net.out_first[node], net.out_first[node + ONE])
        )
        index += 2


@compiled
def run_events(
    state: HeterogeneousState, traffic: NetworkState, net: NetworkArrays, max_sends: Any
) -> bool:
    """Simulate until all chunks have arrived, or at least ``max_sends`` transfers have begun.

    Args:
        state: The chunks of all nodes.
        traffic: The links.
        net: The machine.
        max_sends: Number of new transfers after which it stops.

    Returns:
        Whether all chunks have arrived. It is also false if no event is left.
    """
    pairs = np.empty(2 * len(net.src) + 1, dtype=np.uint64)
    remaining = traffic.remaining
    end = remaining[1] + max_sends
    while remaining[0] and remaining[1] < end:  # Algorithm 2: expand the TEN to the next event
        _choose_links(state, traffic, net, pairs)
        start_sends(traffic, net, pairs)
        if not advance_time(traffic, net, pairs):
            return False
        _deliver(state, traffic, net, pairs)
    return bool(remaining[0] == ZERO)


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
        arrived, num_sends = arrived_sends(self.net, prior), len(prior.sends.start)
        state = self._initial_state(prior, arrived, style)
        new_arrivals = int(state.missing.sum())
        missing_arrivals = new_arrivals + num_sends - len(arrived)
        traffic = initial_state(self.net, seed, missing_arrivals, new_arrivals + num_sends)
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

    def _initial_state(
        self, prior: PartialSchedule, arrived: IntArray, style: ChoiceStyle
    ) -> HeterogeneousState:
        net, demand, (nodes, chunks) = self.net, self.demand, self.shape
        destinations = net.dst[prior.sends.link].astype(np.int64)
        positions = self.chunk_position[prior.sends.chunk]
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
