"""Matching on equal links in step: in every round each link takes one chunk, or none.

Source: TACOS (MICRO 2024) sections IV-C to IV-E. Destinations choose: each considers the chunks
that its in-neighbours held as the round began, so that no link takes a chunk that its source is
still being sent, and blocks of nodes may be processed by a thread each. Among two candidates the
one with fewer holders is taken: on tori a single candidate loses 2 to 7 %.

Words of the bitsets are in groups, up to 64 of them, and a group of one node lies beside the same
group of the next. All nodes begin a round at the same group, so that reads are local. Each link
knows the groups in which its source may have a useful chunk: those with an arrival there since the
link found nothing. (Measured on a mesh of 100x100, compared with rows of whole nodes and random
starts: 47 ns a transfer instead of 60 to 90, most of it for words without a useful chunk.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest, meet
from sccl.core.arrays import UInt64Array
from sccl.synth.tacos.bitsets import IN_WORD, ONE, TO_WORD, WIDTH, ZERO, chunk_bit, mix_bits

_HALF_BITS = np.uint64(32)
_NODE_SALT, _ROUND_SALT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


class LinkSlots(NamedTuple):
    """Links by where they lead to: a slot is a place in that order.

    Attributes:
        first_slot: of each node, and one more: its first slot.
        src: of each slot.
        max_degree: slots of a node at most.
    """

    first_slot: NDArray[np.uint32]
    src: NDArray[np.uint32]
    max_degree: np.uint64


class UniformState(NamedTuple):
    """A matching in progress. Chunks are indexed by places, which are independent of their numbers.

    Attributes:
        groups: number of groups of words, at most 64.
        bits: a group has 2 ** bits words.
        held: by group, node and word of the group: the chunks that the node holds, as bits.
        missing: by node: number of chunks it still wants.
        holders: by place: number of nodes that hold the chunk, or are being sent it. A row for each
            block of nodes, which sees the choices of others when the round has ended.
        may_offer: by slot a bit per group: whether its source may have a useful chunk there.
        has_news: by node a bit per group: whether a chunk arrived there in the last round.
        chosen: by slot: 1 plus the place of its chunk in this round. 0: none.
        place: by chunk.
        chunk: by place.
        left: number of chunks that all nodes together still want, number of rounds, number of
            chunks in ``log``, and the seed.
        counts: by block of nodes: number of chunks it took in this round.
        barrier_count: number of times that threads came to their barrier, in total.
        fired: by round a bit per slot: whether it took a chunk.
        log: the chunks taken, by round and slot.
    """

    groups: np.uint64
    bits: np.uint64
    held: UInt64Array
    missing: NDArray[np.uint32]
    holders: NDArray[np.uint32]
    may_offer: UInt64Array
    has_news: UInt64Array
    chosen: NDArray[np.uint32]
    place: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    left: UInt64Array
    counts: UInt64Array
    barrier_count: UInt64Array
    fired: UInt64Array
    log: NDArray[np.unsignedinteger[Any]]


@compiled
def choose_chunks(  # noqa: PLR0913, PLR0917 - a state, and a part of it
    state: UniformState, slots: LinkSlots, block: Any, node: Any, end: Any, claimed: UInt64Array
) -> Any:
    """Choose the chunks for links into a block of nodes in this round. Return their number.

    It takes the rarer of two chunks of one word. (It is one long function: passing the state at
    every link would count references to all its arrays, which takes four times as long as the work
    here.)

    Args:
        claimed: a word for each of a node, all 0: the choices of its links in this round.
    """
    have, missing, holders, maybe = state.held, state.missing, state.holders[block], state.may_offer
    news, taken, first, srcs = state.has_news, state.chosen, slots.first_slot, slots.src
    width, groups = ONE << state.bits, state.groups
    inside, stride = width - ONE, np.uint64(len(missing)) * width
    salt, turn = mix_bits(state.left[3] + state.left[1] * _ROUND_SALT), state.left[1] % groups
    back = (WIDTH - turn) & IN_WORD
    total = ZERO
    while node < end:
        begin, degree = np.uint64(first[node]), np.uint64(first[node + ONE] - first[node])
        if not missing[node]:
            for slot in range(begin, begin + degree):
                taken[slot] = 0
            node += ONE
            continue
        luck = mix_bits(salt + node * _NODE_SALT)
        lead, from_bit = ((luck >> _HALF_BITS) * degree) >> _HALF_BITS, luck & IN_WORD
        to_bit, at_word = (WIDTH - from_bit) & IN_WORD, luck >> TO_WORD
        for i in range(degree):
            slot = begin + (lead + i if lead + i < degree else lead + i - degree)
            src = np.uint64(srcs[slot])
            open_ = maybe[slot] | news[src]
            best, todo = ZERO, (open_ >> turn) | (open_ << back)
            while todo:
                group = (lowest(todo) + turn) & IN_WORD
                theirs, mine = group * stride + src * width, group * stride + node * width
                row, offered, word = group << state.bits, ZERO, ZERO
                for j in range(width):
                    word = (at_word + j) & inside
                    offered = have[theirs + word] & ~(have[mine + word] | claimed[row + word])
                    if offered:
                        break
                if offered:
                    row += word
                    offered = (offered >> from_bit) | (offered << to_bit)
                    best = row * WIDTH + ((lowest(offered) + from_bit) & IN_WORD)
                    offered &= offered - ONE
                    if offered:
                        rival = row * WIDTH + ((lowest(offered) + from_bit) & IN_WORD)
                        best = rival if holders[rival] < holders[best] else best
                    holders[best] += np.uint32(1)
                    claimed[row] |= chunk_bit(best)
                    best += ONE
                    total += ONE
                    break
                todo &= todo - ONE
                open_ &= ~(ONE << group)
            maybe[slot], taken[slot] = open_, best
        for slot in range(begin, begin + degree):
            if taken[slot]:
                claimed[np.uint64(taken[slot] - np.uint32(1)) >> TO_WORD] = ZERO
        node += ONE
    return total


@compiled
def deliver(state: UniformState, slots: LinkSlots, node: Any, end: Any, at: Any) -> None:
    """Deliver the chunks sent to some nodes in this round.

    Args:
        at: where their chunks begin in the log.
    """
    have, missing, news, taken = state.held, state.missing, state.has_news, state.chosen
    fired, log, first, chunks = state.fired, state.log, slots.first_slot, state.chunk
    number, bits = state.left[1], state.bits
    inside, nodes = (ONE << bits) - ONE, np.uint64(len(missing))
    while node < end:
        came, amount = ZERO, ZERO
        if missing[node]:
            for slot in range(np.uint64(first[node]), np.uint64(first[node + ONE])):
                if taken[slot]:
                    place = np.uint64(taken[slot]) - ONE
                    word = place >> TO_WORD
                    group = word >> bits
                    have[(group * nodes + node << bits) + (word & inside)] |= chunk_bit(place)
                    came |= ONE << group
                    fired[number, slot >> TO_WORD] |= chunk_bit(slot)
                    log[at + amount] = chunks[place]
                    amount += ONE
            missing[node] -= amount
            at += amount
        news[node] = came
        node += ONE


@compiled
def merge_counts(state: UniformState, block: Any, slot: Any, end: Any) -> None:
    """Update a block with the choices of another block's links in this round."""
    holders, taken = state.holders[block], state.chosen
    while slot < end:
        if taken[slot]:
            holders[taken[slot] - np.uint32(1)] += np.uint32(1)
        slot += ONE


@compiled
def run_rounds(
    state: UniformState, slots: LinkSlots, blocks: UInt64Array, me: Any, max_links: Any
) -> Any:
    """Make rounds until all is done, nothing moves, or ``max_links`` links were looked at.

    No more than ``fired`` has rows for. Return how many chunks were taken in the last one. Each
    thread calls it for its block, with a copy of ``left`` that it changes.

    Args:
        blocks: where each block of nodes begins, and where the last one ends.
        me: which block is meant.
    """
    left, counts, threads = state.left, state.counts, np.uint64(len(blocks)) - ONE
    first, looked, taken, met = slots.first_slot, ZERO, ONE, ZERO
    claimed = np.zeros(state.groups << state.bits, dtype=np.uint64)
    while left[0] and taken and looked < max_links and left[1] < len(state.fired):
        counts[me] = choose_chunks(state, slots, me, blocks[me], blocks[me + ONE], claimed)
        met += threads
        meet(state.barrier_count, met)
        at, taken = left[2], ZERO
        for thread in range(threads):
            at += counts[thread] if thread < me else ZERO
            taken += counts[thread]
        deliver(state, slots, blocks[me], blocks[me + ONE], at)
        for thread in range(threads):
            if thread != me:
                begin, end = first[blocks[thread]], first[blocks[thread + ONE]]
                merge_counts(state, me, np.uint64(begin), np.uint64(end))
        met += threads
        meet(state.barrier_count, met)
        left[0] -= taken
        left[1] += ONE
        left[2] += taken
        looked += np.uint64(len(slots.src))
    return taken
