"""Matching on links of different costs, or with budgets: free links choose at each arrival.

Source: TACOS (MICRO 2024) section IV-F: cheaper links choose first.

A link takes, among four chunks, the one that fewest ranks hold. It looks first for one that no node
near its destination has, i.e. no node with cheaper links there. Then for any other, unless cheaper
links may well bring all missing chunks sooner. (Over 18 tori and dragonflies of two and three
speeds, both models of alpha, and 1 and 4 chunks per rank, times are 6 % above the bound. Without
any of the three rules 10 or 11 %. An additional search between the two for a chunk that no cheaper
in-neighbour has gained 0.3 %.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest
from sccl.core.arrays import UInt64Array
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


class HeterogeneousState(NamedTuple):
    """A matching in progress. Chunks are indexed by places, which are independent of their numbers.

    Attributes:
        held: a row of bits per node: the chunks that it holds.
        held_or_pending: a row of bits per node: the chunks that it holds, is being sent, or does
            not want.
        group_held: a row of bits per group of ``Net.near``: those that one of its nodes has got.
        missing: by node: number of chunks that it wants and has not got.
        holders: by chunk: number of nodes that have got it.
        sample: number of chunks that a link chooses among.
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
    """Let every link that is ready choose, the cheaper before the dearer, in turn, else at random.

    (One long function: handing the state on for every link takes several times as long as this.)

    Args:
        chosen: becomes the links that begin, each with its chunk.
    """
    have, got, crossed, holders = state.held, state.held_or_pending, state.group_held, state.holders
    missing, idle, room, random = (
        state.missing,
        traffic.link_status,
        traffic.budget_room,
        traffic.random,
    )
    ready, ready_first, ready_count = traffic.ready, traffic.ready_first, traffic.ready_count
    srcs, dsts, soon, near = net.src, net.dst, net.soon, net.near
    pipes_first, pipes, weight = net.pipes_first, net.pipes, net.weight
    chunks, nodes = np.uint64(len(holders)), np.uint64(len(missing))
    words, amount = (chunks + IN_WORD) >> TO_WORD, 0
    sample, last, between = state.sample, state.last_level_factor, state.middle_level_factor
    now, limit = traffic.now[0], traffic.limit[0]
    turns = np.uint64(net.turns)
    for number in range(np.uint64(len(ready_first))):
        if number % turns == ZERO:
            shift = random_below(random, turns) if turns > ONE else ZERO
            level = net.level[number // turns]
            is_late = now + net.busy[number // turns] + net.lag[number // turns] > limit
        queue = number - number % turns + (number + shift) % turns
        while ready_count[queue]:
            place = ready_first[queue] + random_below(random, ready_count[queue])
            link = ready[place]
            ready_count[queue] -= ONE
            ready[place] = ready[ready_first[queue] + ready_count[queue]]
            idle[link] = IDLE
            node = dsts[link]
            if not missing[node] or (is_late and soon[link]):
                continue
            for at in range(pipes_first[link], pipes_first[link + ONE]):
                if room[pipes[at]] < weight[at]:
                    idle[link] = BLOCKED
            if idle[link] == BLOCKED:
                continue
            theirs, mine, best, wide = srcs[link] * words, node * words, ZERO, level
            while not best:
                start, group = random_below(random, chunks), near[wide * nodes + node]
                word, mask, seen = start >> TO_WORD, ALL_BITS << (start & IN_WORD), 0
                for _ in range(words + ONE):
                    offered = have[theirs + word] & ~got[mine + word] & mask
                    if offered and wide:
                        offered &= ~crossed[group * words + word]
                    while offered and seen < sample:
                        chunk = word * WIDTH + lowest(offered)
                        if not best or holders[chunk] < holders[best - ONE]:
                            best = chunk + ONE
                        offered &= offered - ONE
                        seen += 1
                    if seen == sample:
                        break
                    mask = ALL_BITS
                    word = word + ONE if word + ONE < words else ZERO
                if not wide or (last if wide == ONE else between) * soon[link] >= missing[node]:
                    break
                wide -= ONE
            if not best:
                continue
            chunk = best - ONE
            got[mine + (chunk >> TO_WORD)] |= chunk_bit(chunk)
            for row in range(nodes + node, np.uint64(len(near)), nodes):
                crossed[near[row] * words + (chunk >> TO_WORD)] |= chunk_bit(chunk)
            missing[node] -= ONE
            holders[chunk] += np.uint32(1)
            idle[link] = BUSY
            for at in range(pipes_first[link], pipes_first[link + ONE]):
                room[pipes[at]] -= weight[at]
            chosen[amount], chosen[amount + 1] = link, chunk
            amount += 2
    chosen[amount] = np.uint64(len(dsts))


@compiled
def _deliver(
    state: HeterogeneousState, traffic: NetworkState, net: NetworkArrays, arrived: UInt64Array
) -> None:
    """Let chunks be where they arrive, and wake links that may now have more to offer."""
    have, left, dsts, kinds = state.held, traffic.remaining, net.dst, net.kind
    words = (np.uint64(len(state.holders)) + IN_WORD) >> TO_WORD
    amount = 0
    while arrived[amount] < len(kinds):
        node, chunk = dsts[arrived[amount]], arrived[amount + 1]
        have[node * words + (chunk >> TO_WORD)] |= chunk_bit(chunk)
        left[0] -= ONE
        wake_links(
            net.out, IDLE, traffic, net.queue, (net.out_first[node], net.out_first[node + ONE])
        )
        amount += 2


@compiled
def run_events(
    state: HeterogeneousState, traffic: NetworkState, net: NetworkArrays, cap: Any
) -> bool:
    """Let things happen until all is done, or ``cap`` transfers began; return whether all is done.

    It is not, either, where nothing more can happen.
    """
    pairs = np.empty(2 * len(net.src) + 1, dtype=np.uint64)
    left = traffic.remaining
    end = left[1] + cap
    while left[0] and left[1] < end:
        _choose_links(state, traffic, net, pairs)
        start_sends(traffic, net, pairs)
        if not advance_time(traffic, net, pairs):
            return False
        _deliver(state, traffic, net, pairs)
    return bool(left[0] == ZERO)
