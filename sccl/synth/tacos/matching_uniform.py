"""Match links with chunks round by round, on machines whose links all have the same cost.

Source: TACOS (MICRO 2024), sections IV-D and IV-E. :func:`_choose_chunks` is Algorithm 1.
:func:`run_rounds` is the loop of Algorithm 2. A round is one time span of the time-expanded
network.

The order of choices differs from Algorithm 1. The paper shuffles all unsatisfied pairs (destination
d, chunk c), and each pair selects a source at random. The pairs are not shuffled here. The loop
visits the destinations in order, and the incoming links of each from a random one on. Each link
selects a chunk that its source held when the round began. A link compares two candidates and takes
the one with fewer holders. (With one candidate, allgathers take 1.5 % more rounds on a torus of
16x16, and 1 % more on one of 32x32.)

Chunks are bits of 64-bit words. Consecutive words form up to 64 groups. The array of held chunks is
ordered by group, then by node, then by word, and all nodes start a round at the same group, so that
reads are local. Each link has a mask of the groups in which its source may have a useful chunk.
(An allgather on a mesh of 100x100 then takes 47 ns a transfer. Rows of whole nodes with random
starts took 60 to 90 ns, mainly in words without a useful chunk.)

The loop for links of different costs would find schedules of the same quality on these machines,
but more slowly. (An allgather on torus:32x32 takes 0.8 s with it and 0.05 s with this loop, one on
torus:16x16 30 and 4 ms.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, compiled_in_place, lowest
from sccl.core.arrays import UInt64Array
from sccl.synth.limits import WORK_PER_CALL
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Demand, Pause, Sends, stalled_error
from sccl.synth.tacos.bitsets import (
    IN_WORD,
    ONE,
    TO_WORD,
    WIDTH,
    ZERO,
    chunk_bit,
    mix_bits,
    random_state,
    rotate_right,
    shuffle_chunks,
)

_HALF_BITS = np.uint64(32)
_NODE_SALT, _ROUND_SALT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)

UNSATISFIED, ROUND, LOG_LENGTH = 0, 1, 2
"""Indices of ``UniformState.progress``."""


class UniformState(NamedTuple):
    """The state of a matching.

    A slot is a link's index in the order of destinations. A chunk's position is its index in a
    random permutation of chunks.

    Attributes:
        first_slot: First slot of each node, and the number of slots at the end.
        src: Source of each slot's link.
        groups: Number of groups of words, at most 64.
        group_bits: A group has 2 ** group_bits words.
        seed: Seed of the random choices.
        held: Bits of the chunks that a node holds, by group, node, and word of the group.
        missing: Number of chunks that each node still lacks.
        holders: Number of nodes that hold a chunk or receive it in this round, by position.
        may_offer: Mask of the groups in which each slot's source may have a useful chunk.
        has_news: Mask of the groups in which a chunk arrived at each node in the last round.
        chosen: 1 + position of the chunk on each slot's link in this round. 0: the link is idle.
        chunk: The chunk at each position.
        progress: Number of unsatisfied (destination, chunk) pairs, number of completed rounds, and
            number of chunks in ``log``.
        fired: Bits of the slots whose links carried a chunk, for each round.
        log: The chunks on the links, by round and slot.
    """

    first_slot: NDArray[np.uint32]
    src: NDArray[np.uint32]
    groups: np.uint64
    group_bits: np.uint64
    seed: np.uint64
    held: UInt64Array
    missing: NDArray[np.uint32]
    holders: NDArray[np.uint32]
    may_offer: UInt64Array
    has_news: UInt64Array
    chosen: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    progress: UInt64Array
    fired: UInt64Array
    log: NDArray[np.unsignedinteger[Any]]


@compiled_in_place
def _choose_chunk(
    state: UniformState, claimed: UInt64Array, slot: Any, node: Any, node_random: Any
) -> Any:
    """Match a link with a chunk (the body of Algorithm 1's loop), and return whether there is one.

    The search starts at the group of the round, and within groups and words at the word and the bit
    that are random for each node.
    """
    held, holders, src = state.held, state.holders, np.uint64(state.src[slot])
    group_words = ONE << state.group_bits
    group_stride = np.uint64(len(state.missing)) * group_words
    first_group = state.progress[ROUND] % state.groups
    first_word, first_bit = node_random >> TO_WORD, node_random & IN_WORD
    useful_groups = state.may_offer[slot] | state.has_news[src]
    choice, untried_groups = ZERO, rotate_right(useful_groups, first_group)
    while untried_groups:
        group = (lowest(untried_groups) + first_group) & IN_WORD
        source_row = group * group_stride + src * group_words
        node_row = group * group_stride + node * group_words
        row, candidates, word = group << state.group_bits, ZERO, ZERO
        # The candidates: precond[s][c], !precond[d][c], and on no other link into d.
        for j in range(group_words):
            word = (first_word + j) & (group_words - ONE)
            candidates = held[source_row + word] & ~(held[node_row + word] | claimed[row + word])
            if candidates:
                break
        if candidates:
            row += word
            candidates = rotate_right(candidates, first_bit)
            choice = row * WIDTH + ((lowest(candidates) + first_bit) & IN_WORD)
            candidates &= candidates - ONE
            if candidates:  # the rarer one of two
                rival = row * WIDTH + ((lowest(candidates) + first_bit) & IN_WORD)
                choice = rival if holders[rival] < holders[choice] else choice
            # Algorithm 1: mark the link-chunk match. The chunk arrives in _deliver().
            holders[choice] += np.uint32(1)
            claimed[row] |= chunk_bit(choice)
            choice += ONE  # 0 means an idle link
            break
        untried_groups &= untried_groups - ONE  # clears the lowest bit
        useful_groups &= ~(ONE << group)
    state.may_offer[slot], state.chosen[slot] = useful_groups, choice
    return choice != ZERO


@compiled
def _choose_chunks(state: UniformState, claimed: UInt64Array) -> Any:
    """Match the links with chunks in this round (Algorithm 1).

    Args:
        state: The state to change.
        claimed: Zeros, one word for each word of a node's chunks. During the choices of one node it
            holds the chunks that the node's earlier links chose. It is zero again on return.

    Returns:
        The number of matched links.
    """
    missing, chosen, first_slot = state.missing, state.chosen, state.first_slot
    round_salt = mix_bits(state.seed + state.progress[ROUND] * _ROUND_SALT)
    node, end, matches = ZERO, np.uint64(len(missing)), ZERO
    while node < end:  # Algorithm 1: for (d, c) in unsatisfied_postcond; here d, in order
        node_slot = np.uint64(first_slot[node])
        degree = np.uint64(first_slot[node + ONE]) - node_slot
        if not missing[node]:
            for slot in range(node_slot, node_slot + degree):
                chosen[slot] = 0
            node += ONE
            continue
        node_random = mix_bits(round_salt + node * _NODE_SALT)
        first_link = ((node_random >> _HALF_BITS) * degree) >> _HALF_BITS
        for i in range(degree):  # Algorithm 1: backtrack(TEN[t][*][d]), from a random link on
            link = first_link + i if first_link + i < degree else first_link + i - degree
            if _choose_chunk(state, claimed, node_slot + link, node, node_random):
                matches += ONE
        for slot in range(node_slot, node_slot + degree):
            if chosen[slot]:
                claimed[np.uint64(chosen[slot] - np.uint32(1)) >> TO_WORD] = ZERO
        node += ONE
    return matches


@compiled
def _deliver(state: UniformState) -> None:
    """Deliver the chunks that were sent in this round, and log them."""
    held, missing, has_news, chosen = state.held, state.missing, state.has_news, state.chosen
    fired, log, first_slot, chunks = state.fired, state.log, state.first_slot, state.chunk
    round_number, group_bits = state.progress[ROUND], state.group_bits
    word_mask, nodes = (ONE << group_bits) - ONE, np.uint64(len(missing))
    log_index, node = state.progress[LOG_LENGTH], ZERO
    while node < nodes:
        changed_groups, arrivals = ZERO, ZERO
        if missing[node]:
            for slot in range(np.uint64(first_slot[node]), np.uint64(first_slot[node + ONE])):
                if chosen[slot]:
                    position = np.uint64(chosen[slot]) - ONE
                    word = position >> TO_WORD
                    group = word >> group_bits
                    # Algorithm 1: precond[d][c] <- True, TEN[t][s][d] <- c
                    held[(group * nodes + node << group_bits) + (word & word_mask)] |= chunk_bit(
                        position
                    )
                    changed_groups |= ONE << group
                    fired[round_number, slot >> TO_WORD] |= chunk_bit(slot)
                    log[log_index + arrivals] = chunks[position]
                    arrivals += ONE
            missing[node] -= arrivals
            log_index += arrivals
        has_news[node] = changed_groups
        node += ONE


@compiled
def run_rounds(state: UniformState, max_links: Any) -> Any:
    """Run rounds until all pairs are satisfied or no link carries a chunk (Algorithm 2).

    It also stops after ``max_links`` visits of links, and when ``fired`` has no more rows.

    Args:
        state: The state to change.
        max_links: Limit on the number of visited links.

    Returns:
        The number of matched links of the last round.
    """
    progress, visited_links, matches = state.progress, ZERO, ONE
    claimed = np.zeros(state.groups << state.group_bits, dtype=np.uint64)
    while (  # Algorithm 2: while unsatisfied_postconds remain, expand the TEN by one time span
        progress[UNSATISFIED]
        and matches
        and visited_links < max_links
        and progress[ROUND] < len(state.fired)
    ):
        matches = _choose_chunks(state, claimed)
        _deliver(state)
        progress[UNSATISFIED] -= matches
        progress[ROUND] += ONE
        progress[LOG_LENGTH] += matches
        visited_links += np.uint64(len(state.src))
    return matches


class RoundLog(NamedTuple):
    """The transfers of all rounds, in the form of a packed schedule.

    Attributes:
        fired: Bits of the slots that carry a chunk in each round, in words.
        chunk: The chunks, by round and slot.
    """

    fired: UInt64Array
    chunk: NDArray[np.unsignedinteger[Any]]


def match_uniform(net: NetworkArrays, demand: Demand, seed: int, pause: Pause) -> RoundLog:
    """Return the rounds after which every rank holds every chunk.

    Raises:
        UnreachableError: No path leads from a chunk's source to some rank.
    """
    state = _initial_state(net, demand, seed)
    while state.progress[UNSATISFIED]:
        unsatisfied = int(state.progress[UNSATISFIED])
        if int(state.progress[ROUND]) == len(state.fired):
            state = state._replace(fired=np.r_[state.fired, np.zeros_like(state.fired)])
        if not run_rounds(state, np.uint64(WORK_PER_CALL)):
            raise stalled_error()
        pause(unsatisfied - int(state.progress[UNSATISFIED]), not state.progress[UNSATISFIED])
    return RoundLog(state.fired[: int(state.progress[ROUND])].copy(), state.log)


def _initial_state(net: NetworkArrays, demand: Demand, seed: int) -> UniformState:
    links, nodes, chunks = len(net.src), net.nodes, demand.chunks
    position = shuffle_chunks(chunks, seed)
    missing = chunks - np.bincount(demand.held_by, minlength=nodes)
    holders = np.zeros(chunks, dtype=np.uint32)
    holders[position] = np.bincount(demand.held, minlength=chunks)
    words = -(-chunks // 64)
    # At most 64 groups, the bits of a word, of at least 8 words, a cache line.
    group_bits = max((-(-words // 64) - 1).bit_length(), 3)
    # No more words than chunks need: all links whose search starts at an empty word would go on to
    # the same nonempty word, and choose among the same chunks.
    group_bits = min(group_bits, (words - 1).bit_length())
    groups = -(-words >> group_bits)
    unsatisfied = int(missing.sum())
    min_rounds = -(-unsatisfied // max(links, 1))
    return UniformState(
        first_slot=net.in_first.astype(np.uint32),
        src=net.src[net.into].astype(np.uint32),
        groups=np.uint64(groups),
        group_bits=np.uint64(group_bits),
        seed=random_state(seed)[0],
        held=_held_bits(demand.held_by, position[demand.held], nodes, groups, group_bits),
        missing=missing.astype(np.uint32),
        holders=holders,
        may_offer=np.full(links, (1 << groups) - 1, dtype=np.uint64),
        has_news=np.zeros(nodes, dtype=np.uint64),
        chosen=np.zeros(links, dtype=np.uint32),
        chunk=np.argsort(position).astype(np.uint32),
        progress=np.array([unsatisfied, 0, 0], dtype=np.uint64),
        fired=np.zeros((min_rounds + 1, -(-links // 64)), dtype=np.uint64),
        log=np.zeros(unsatisfied, dtype=np.uint16 if chunks <= 2**16 else np.uint32),
    )


def _held_bits(
    ranks: NDArray[np.int64],
    positions: NDArray[np.int64],
    nodes: int,
    groups: int,
    group_bits: int,
) -> UInt64Array:
    """Return the chunks that nodes hold, as bits, by group, node, and word."""
    held = np.zeros((groups, nodes, 1 << group_bits), dtype=np.uint64)
    word, mask = positions >> 6, ONE << (positions.astype(np.uint64) & IN_WORD)
    np.bitwise_or.at(held, (word >> group_bits, ranks, word & ((1 << group_bits) - 1)), mask)
    return held.reshape(-1)


def log_to_sends(log: RoundLog, net: NetworkArrays, chunks: int) -> Sends:
    """Return the transfers of a log, sorted. Each piece of rounds is sorted separately."""
    total, links, end = len(log.chunk), max(len(net.src), 1), 0
    start, reduce = np.empty(total, dtype=np.int64), np.zeros(total, dtype=np.bool_)
    chunk, link = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    rounds = max(WORK_PER_CALL // links, 1)
    for first in range(0, len(log.fired), rounds):
        fired = log.fired[first : first + rounds].view(np.uint8)
        row, slot = np.nonzero(np.unpackbits(fired, axis=1, bitorder="little"))
        piece = slice(end, end := end + len(row))
        keys = (row * chunks + log.chunk[piece]) * links + net.into[slot].astype(np.int64)
        keys, link[piece] = np.divmod(np.sort(keys), links)
        row, chunk[piece] = np.divmod(keys, chunks)
        start[piece] = (row + first) * int(net.busy[0])
    return Sends(start, chunk, link, reduce)
