"""Matching of chunks with one holder and one destination: links bring chunks closer.

The public code of TACOS has only allgather. Here a free link takes, among some chunks that wait at
its source, one for which it is on a shortest path, in ticks. If there is none, it takes one that it
brings closer, if the detour takes no longer than the chunks that wait there take to leave. Every
transfer brings its chunk closer, so the process ends. Among several it takes the one with the
longest remaining distance. If many ranks send to many, among those with the fewest usable links.
(Alltoall on nine machines takes 1.27 times the bound with this rule, 1.37 by the farthest alone,
1.52 at random. On tori 1.09, 1.28 and 1.40. Chunks that one rank sends or gets need the farthest
first.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest
from sccl.core.arrays import IntArray, UInt64Array
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.tacos.bitsets import (
    ALL_BITS,
    IN_WORD,
    ONE,
    TO_WORD,
    WIDTH,
    ZERO,
    chunk_bit,
    random_below,
)
from sccl.synth.tacos.expanded_network import (
    BLOCKED,
    BUSY,
    IDLE,
    NetworkState,
    advance_time,
    start_sends,
    wake_links,
)

SAMPLE_SIZE = 16
"""Destinations that a link chooses among."""


class UnicastState(NamedTuple):
    """The state of chunks on their paths.

    Attributes:
        distance: by node and destination: ticks of the shortest path.
        closer: a row of bits per link: the destinations for which it is on a shortest path. Then
            another per link: those to which it leads closer.
        cost: by link: ticks until a chunk arrives.
        drain: by node: ticks in which a chunk leaves it, all its links together.
        waiting: by node: number of chunks that wait there.
        waiting_goals: a row of bits per node: the destinations that chunks wait for there.
        first_waiting: by node and destination: the first chunk that waits. 0: none. Chunks count
            from 1.
        next_waiting: by chunk: the next that waits there.
        goal: by chunk: its destination.
        choices: by node and destination: number of links on shortest paths, if chunks with fewer go
            first. Otherwise 0.
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
def _choose_links(  # noqa: PLR0912, PLR0915
    state: UnicastState, traffic: NetworkState, net: NetworkArrays, chosen: UInt64Array
) -> None:
    """Let every link that is ready choose, the cheaper before the dearer, in turn, else at random.

    Args:
        chosen: becomes the links that begin, each with its chunk.
    """
    far, closer, cost, drain, waiting, waits, first, after = state[:8]
    idle, ready, ready_first, ready_count, room, random = traffic[:6]
    srcs, dsts, pipes_first, choices = net.src, net.dst, net.pipes_first, state.choices
    pipes, weight = net.pipes, net.weight
    nodes = np.uint64(len(net.in_first) - 1)
    words, amount = (nodes + IN_WORD) >> TO_WORD, 0
    turns = np.uint64(net.turns)
    for number in range(np.uint64(len(ready_first))):
        if number % turns == ZERO:
            shift = random_below(random, turns) if turns > ONE else ZERO
        queue = number - number % turns + (number + shift) % turns
        while ready_count[queue]:
            place = ready_first[queue] + random_below(random, ready_count[queue])
            link = ready[place]
            ready_count[queue] -= ONE
            ready[place] = ready[ready_first[queue] + ready_count[queue]]
            idle[link] = IDLE
            for at in range(pipes_first[link], pipes_first[link + ONE]):
                if room[pipes[at]] < weight[at]:
                    idle[link] = BLOCKED
            if idle[link] == BLOCKED:
                continue
            node, start = srcs[link], random_below(random, nodes)
            best, max_ticks, fewest, row = nodes, -1, len(srcs), link * words
            spare = 0  # ticks that a way may be longer than the shortest
            for _ in range(2):
                word, mask, seen = start >> TO_WORD, ALL_BITS << (start & IN_WORD), 0
                for _ in range(words + ONE):
                    offered = waits[node * words + word] & closer[row + word] & mask
                    while offered and seen < SAMPLE_SIZE:
                        goal = word * WIDTH + lowest(offered)
                        ticks = far[node * nodes + goal]
                        over_link = cost[link] + far[dsts[link] * nodes + goal]
                        links = choices[node * nodes + goal]
                        first_of = links < fewest or (links == fewest and ticks > max_ticks)
                        if first_of and over_link <= ticks + spare:
                            best, max_ticks, fewest = goal, ticks, links
                        offered &= offered - ONE
                        seen += 1
                    mask = ALL_BITS
                    word = word + ONE if word + ONE < words else ZERO
                if best < nodes:
                    break
                row += np.uint64(len(srcs)) * words
                spare = waiting[node] * drain[node]
            if best == nodes:
                continue
            chunk = np.uint64(first[node * nodes + best])
            first[node * nodes + best] = after[chunk - ONE]
            if not after[chunk - ONE]:
                waits[node * words + (best >> TO_WORD)] &= ~chunk_bit(best)
            waiting[node] -= 1
            idle[link] = BUSY
            for at in range(pipes_first[link], pipes_first[link + ONE]):
                room[pipes[at]] -= weight[at]
            chosen[amount], chosen[amount + 1] = link, chunk - ONE
            amount += 2
    chosen[amount] = np.uint64(len(srcs))


@compiled
def enqueue_chunk(state: UnicastState, nodes: Any, node: Any, chunk: Any) -> None:
    """Let a chunk wait at a node."""
    words, goal = (nodes + IN_WORD) >> TO_WORD, np.uint64(state.goal[chunk])
    state.waiting[node] += 1
    state.next_waiting[chunk] = state.first_waiting[node * nodes + goal]
    state.first_waiting[node * nodes + goal] = chunk + ONE
    state.waiting_goals[node * words + (goal >> TO_WORD)] |= chunk_bit(goal)


@compiled
def enqueue_chunks(state: UnicastState, nodes: Any, source: Any, chunks: IntArray) -> None:
    """Let chunks wait where they start, one after the other."""
    for chunk in chunks:
        enqueue_chunk(state, nodes, np.uint64(source[chunk]), np.uint64(chunk))


@compiled
def _deliver(
    state: UnicastState, traffic: NetworkState, net: NetworkArrays, arrived: UInt64Array
) -> None:
    """Let chunks be where they arrive, and wake links that may now have more to offer."""
    goal, left, dsts, kinds = state.goal, traffic.remaining, net.dst, net.kind
    nodes = np.uint64(len(net.in_first) - 1)
    amount = 0
    while arrived[amount] < len(kinds):
        node, chunk = dsts[arrived[amount]], arrived[amount + 1]
        if goal[chunk] == node:
            left[0] -= ONE
        else:
            enqueue_chunk(state, nodes, node, chunk)
            wake_links(
                net.out, IDLE, traffic, net.queue, (net.out_first[node], net.out_first[node + ONE])
            )
        amount += 2


@compiled
def run_events(state: UnicastState, traffic: NetworkState, net: NetworkArrays, cap: Any) -> bool:
    """Simulate until all is done, or ``cap`` transfers began. Return whether all is done.

    It is also not done if nothing more can happen, or the log is full.
    """
    pairs = np.empty(2 * len(net.src) + 1, dtype=np.uint64)
    left, room = traffic.remaining, np.uint64(len(traffic.when))
    end = left[1] + cap
    while left[0] and left[1] < end and left[1] + np.uint64(len(net.src)) <= room:
        _choose_links(state, traffic, net, pairs)
        start_sends(traffic, net, pairs)
        if not advance_time(traffic, net, pairs):
            return False
        _deliver(state, traffic, net, pairs)
    return bool(left[0] == ZERO)
