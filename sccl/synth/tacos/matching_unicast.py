"""Match links with chunks that have one holder and one destination: links bring chunks closer.

Not in TACOS (MICRO 2024), whose Algorithm 1 sends chunks only to ranks that want them. A free link
compares some chunks that wait at its source:

- It takes a chunk for which it is on a shortest path, in ticks. If there is none, it takes a chunk
  that it brings closer, if the detour takes no longer than the waiting chunks take to leave. Every
  transfer brings its chunk closer, so the process ends.
- Among several it takes the chunk with the longest remaining distance. If several ranks send to
  several, it first compares the numbers of usable links, and takes a chunk with the fewest.

(An alltoall on nine machines takes 1.27 times the lower bound, 1.37 with the distance alone, and
1.52 with random choices. On tori it takes 1.09, 1.28, and 1.40 times the bound. A scatter or gather
needs the farthest chunk first.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.limits import INFINITE, SENDS_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.shortest_paths import ShortestPaths
from sccl.synth.network.transfers import Demand, Pause, Sends, stalled_error
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
)
from sccl.synth.tacos.expanded_network import (
    IDLE,
    NetworkState,
    advance_time,
    has_budget,
    initial_state,
    occupy_link,
    pop_ready_link,
    start_sends,
    wake_links,
)

SAMPLE_SIZE = 16
"""Destinations among which a link chooses. All of them would take time quadratic in ranks."""


class UnicastState(NamedTuple):
    """The state of chunks on their paths.

    Attributes:
        distance: Ticks of the shortest path, by node and destination.
        closer: Destinations for which each link is on a shortest path, as a row of bits. Then the
            destinations to which each link leads closer, as a row of bits.
        cost: Ticks of each link until a chunk arrives.
        drain: Ticks of each node per departing chunk, over all its links.
        waiting: Number of chunks that wait at each node.
        waiting_goals: Destinations of the chunks that wait at each node, as a row of bits.
        first_waiting: First waiting chunk by node and destination, plus 1. 0: none.
        next_waiting: For each chunk, the next chunk that waits at the same node for a transfer to
            the same destination, plus 1. 0: none.
        goal: Destination of each chunk.
        choices: Number of links on shortest paths, by node and destination, if chunks with fewer
            links go first. Otherwise 0.
    """

    distance: IntArray
    closer: UInt64Array
    cost: IntArray
    drain: IntArray
    waiting: IntArray
    waiting_goals: UInt64Array
    first_waiting: NDArray[np.uint32]
    next_waiting: NDArray[np.uint32]
    goal: NDArray[np.uint32]
    choices: IntArray


@compiled
def _choose_links(
    state: UnicastState, traffic: NetworkState, net: NetworkArrays, chosen: UInt64Array
) -> None:
    """Match all ready links with chunks.

    Cheaper links choose first. Links of one cost choose turn by turn from a random turn on, and at
    random within a turn.

    Args:
        state: The chunks of all nodes.
        traffic: The links.
        net: The machine.
        chosen: Output: pairs of a link and its chunk. A link number that does not exist ends the
            list.
    """
    distance, closer, cost, drain, waiting, waiting_goals, first, after = state[:8]
    random, ready_count = traffic.random, traffic.ready_count
    sources, destinations, choices = net.src, net.dst, state.choices
    nodes = np.uint64(len(net.in_first) - 1)
    words, index = (nodes + IN_WORD) >> TO_WORD, 0
    turns = np.uint64(net.turns)
    for number in range(np.uint64(len(ready_count))):
        if number % turns == ZERO:
            shift = random_below(random, turns) if turns > ONE else ZERO
        queue = number - number % turns + (number + shift) % turns
        while ready_count[queue]:
            link = pop_ready_link(traffic, queue)
            if not has_budget(traffic, net, link):
                continue
            node, start = sources[link], random_below(random, nodes)
            choice, max_ticks, fewest, row = nodes, -1, len(sources), link * words
            max_detour = 0  # ticks that a path may be longer than the shortest one
            for _ in range(2):
                word, mask, seen = start >> TO_WORD, ALL_BITS << (start & IN_WORD), 0
                for _ in range(words + ONE):
                    candidates = waiting_goals[node * words + word] & closer[row + word] & mask
                    while candidates and seen < SAMPLE_SIZE:
                        goal = word * WIDTH + lowest(candidates)
                        ticks = distance[node * nodes + goal]
                        over_link = cost[link] + distance[destinations[link] * nodes + goal]
                        links = choices[node * nodes + goal]
                        is_better = links < fewest or (links == fewest and ticks > max_ticks)
                        if is_better and over_link <= ticks + max_detour:
                            choice, max_ticks, fewest = goal, ticks, links
                        candidates &= candidates - ONE
                        seen += 1
                    mask = ALL_BITS
                    word = word + ONE if word + ONE < words else ZERO
                if choice < nodes:
                    break
                row += np.uint64(len(sources)) * words
                max_detour = waiting[node] * drain[node]
            if choice == nodes:
                continue
            chunk = np.uint64(first[node * nodes + choice])
            first[node * nodes + choice] = after[chunk - ONE]
            if not after[chunk - ONE]:
                waiting_goals[node * words + (choice >> TO_WORD)] &= ~chunk_bit(choice)
            waiting[node] -= 1
            occupy_link(traffic, net, link)
            chosen[index], chosen[index + 1] = link, chunk - ONE
            index += 2
    chosen[index] = np.uint64(len(sources))


@compiled
def enqueue_chunk(state: UnicastState, nodes: Any, node: Any, chunk: Any) -> None:
    """Add a chunk to the waiting chunks of a node."""
    words, goal = (nodes + IN_WORD) >> TO_WORD, np.uint64(state.goal[chunk])
    state.waiting[node] += 1
    state.next_waiting[chunk] = state.first_waiting[node * nodes + goal]
    state.first_waiting[node * nodes + goal] = chunk + ONE
    state.waiting_goals[node * words + (goal >> TO_WORD)] |= chunk_bit(goal)


@compiled
def enqueue_chunks(state: UnicastState, nodes: Any, source: Any, chunks: IntArray) -> None:
    """Add chunks to the waiting chunks of their sources, one after the other."""
    for chunk in chunks:
        enqueue_chunk(state, nodes, np.uint64(source[chunk]), np.uint64(chunk))


@compiled
def _deliver(
    state: UnicastState, traffic: NetworkState, net: NetworkArrays, arrived: UInt64Array
) -> None:
    """Add arrived chunks to the waiting chunks of their nodes, and make idle links there ready."""
    goal, remaining, destinations, kinds = state.goal, traffic.remaining, net.dst, net.kind
    nodes = np.uint64(len(net.in_first) - 1)
    index = 0
    while arrived[index] < len(kinds):
        node, chunk = destinations[arrived[index]], arrived[index + 1]
        if goal[chunk] == node:
            remaining[0] -= ONE
        else:
            enqueue_chunk(state, nodes, node, chunk)
            wake_links(
                net.out, IDLE, traffic, net.queue, (net.out_first[node], net.out_first[node + ONE])
            )
        index += 2


@compiled
def run_events(
    state: UnicastState, traffic: NetworkState, net: NetworkArrays, max_sends: Any
) -> bool:
    """Simulate until all chunks have arrived, or at least ``max_sends`` transfers have begun.

    Args:
        state: The chunks of all nodes.
        traffic: The links.
        net: The machine.
        max_sends: Number of new transfers after which it stops.

    Returns:
        Whether all chunks have arrived. It is also false if no event is left, or the log is full.
    """
    pairs = np.empty(2 * len(net.src) + 1, dtype=np.uint64)
    remaining, links, capacity = traffic.remaining, np.uint64(len(net.src)), len(traffic.when)
    end = remaining[1] + max_sends
    while remaining[0] and remaining[1] < end and remaining[1] + links <= np.uint64(capacity):
        _choose_links(state, traffic, net, pairs)
        start_sends(traffic, net, pairs)
        if not advance_time(traffic, net, pairs):
            return False
        _deliver(state, traffic, net, pairs)
    return bool(remaining[0] == ZERO)


class UnicastMatching:
    """Matchings of one demand on one machine. The seed determines the order of waiting chunks.

    Raises:
        UnreachableError: A chunk has no path to its destination.
    """

    def __init__(self, net: NetworkArrays, demand: Demand) -> None:
        assert demand.wanted is not None
        assert demand.wanted_by is not None
        self.net, nodes = net, net.nodes
        source, destination = np.zeros((2, demand.chunks), dtype=np.int64)
        source[demand.held], destination[demand.wanted] = demand.held_by, demand.wanted_by
        paths = ShortestPaths(net)
        # Shape (nodes, destinations).
        distance = np.stack([paths.distances_to([rank]) for rank in range(nodes)], axis=1)
        if (distance[source, destination] >= INFINITE).any():
            raise stalled_error()
        before, after = distance[paths.src], distance[paths.dst]
        on_shortest_path = (after + paths.cost[:, None] == before) & (before < INFINITE)
        choices = np.zeros((nodes, nodes), dtype=np.int64)
        if min(len(np.unique(ranks)) for ranks in (demand.held_by, demand.wanted_by)) > 1:
            np.add.at(choices, paths.src, on_shortest_path.astype(np.int64))
        row, closer_to = np.nonzero(np.concatenate([on_shortest_path, after < before]))
        busy = net.busy[net.kind.astype(np.int64)]
        chunks_per_tick = np.bincount(paths.src, weights=1 / busy, minlength=nodes)
        self._source = source.astype(np.uint32)
        self._pending_chunks = np.flatnonzero(source != destination)
        self._template = UnicastState(
            distance=distance.reshape(-1).copy(),
            closer=bit_rows(row, closer_to, (2 * len(paths.src), nodes)),
            cost=paths.cost,
            drain=(1 / np.maximum(chunks_per_tick, 2.0**-60)).astype(np.int64),
            waiting=np.zeros(nodes, dtype=np.int64),
            waiting_goals=np.zeros(nodes * (-(-nodes // 64)), dtype=np.uint64),
            first_waiting=np.zeros(nodes * nodes, dtype=np.uint32),
            next_waiting=np.zeros(demand.chunks, dtype=np.uint32),
            goal=destination.astype(np.uint32),
            choices=choices.reshape(-1),
        )

    def match(self, seed: int, pause: Pause) -> tuple[int, Sends]:
        """Return the completion time in ticks, and the transfers.

        Args:
            seed: Seed of the order of waiting chunks, and of the links' choices.
            pause: Called after each piece of work.

        Raises:
            UnreachableError: A chunk cannot reach its destination.
        """
        net, state, pending = self.net, self._initial_state(seed), len(self._pending_chunks)
        links = len(net.src)
        traffic = initial_state(net, seed, pending, 2 * pending + links)
        done, num_sends = not pending, 0
        while not done:
            done = run_events(state, traffic, net, SENDS_PER_CALL)
            new_sends = int(traffic.remaining[1]) - num_sends
            if not done and not new_sends:
                raise stalled_error()
            pause(new_sends, done)
            num_sends += new_sends
            if num_sends + links > len(traffic.when):
                traffic = traffic.with_double_log()
        sends = Sends(
            traffic.when[:num_sends],
            traffic.chunk[:num_sends].astype(np.int32),
            traffic.link[:num_sends].astype(np.int32),
            np.zeros(num_sends, dtype=np.bool_),
        )
        return int(traffic.now[0]), sends.sorted_sends()

    def _initial_state(self, seed: int) -> UnicastState:
        template = self._template
        state = template._replace(
            waiting=template.waiting.copy(),
            waiting_goals=template.waiting_goals.copy(),
            first_waiting=template.first_waiting.copy(),
            next_waiting=template.next_waiting.copy(),
        )
        order = np.random.Generator(np.random.PCG64(seed)).permutation(self._pending_chunks)
        enqueue_chunks(state, np.uint64(self.net.nodes), self._source, order)
        return state
