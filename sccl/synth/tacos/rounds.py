"""Links that all cost alike go in step: in every round each takes one chunk, or sleeps.

Source: TACOS (MICRO 2024) sections IV-C to IV-E. Rounds are owned by the destinations: each looks
at what its in-neighbours held as the round began, so that no link takes a chunk that its source is
still being sent, and blocks of nodes may be looked at by a thread each. Of two candidates the one
that fewer hold is taken: on tori one alone loses 2 to 7 %.

Words of the bitsets go by groups, up to 64 of them, and a group of one node lies beside the same
group of the next. All nodes begin a round at the same group, so that what is read lies in one part
of the memory. Each link knows in which groups its source may have something to offer: those where
something arrived there since the link found nothing. (Measured on a mesh of 100x100, against rows
of whole nodes and random places to begin at: 47 ns a transfer instead of 60 to 90, most of it for
words that were walked in vain.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.synth.tacos.bits import IN_WORD, ONE, TO_WORD, WIDTH, ZERO, Words, bit, lowest, mixed
from sccl.synth.tacos.groups import Count

_HALF = np.uint64(32)
_A_NODE, _A_ROUND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


class Slots(NamedTuple):
    """Links by where they lead to: a slot is a place in that order.

    Attributes:
        first: of each node, and one more: its first slot.
        src: of each slot.
        most: slots of a node at most.
    """

    first: NDArray[np.uint32]
    src: NDArray[np.uint32]
    most: np.uint64


class Rounds(NamedTuple):
    """A matching under way. Chunks go by places, which have nothing to do with their numbers.

    Attributes:
        groups: how many groups of words there are, at most 64.
        bits: a group has 2 ** bits words.
        have: by group, node and word of the group: the chunks that the node holds, as bits.
        missing: of each node: how many chunks it still wants.
        holders: of each place: how many nodes hold the chunk, or are being sent it. A row for each
            block of nodes, which sees what others take in this round when that has ended.
        maybe: of each slot a bit per group: whether its source may have something to offer there.
        news: of each node likewise: whether something arrived there in the last round.
        taken: of each slot: the place of the chunk that it takes in this round, and one more; 0:
            none.
        place: of each chunk.
        chunk: of each place.
        left: how many chunks all nodes together still want; how many rounds were made; how many
            chunks are in ``log``; the seed.
        fired: of each round a bit per slot: whether it took a chunk.
        log: the chunks taken, by round and slot.
    """

    groups: np.uint64
    bits: np.uint64
    have: Words
    missing: NDArray[np.uint32]
    holders: NDArray[np.uint32]
    maybe: Words
    news: Words
    taken: NDArray[np.uint32]
    place: NDArray[np.uint32]
    chunk: NDArray[np.uint32]
    left: Count
    fired: Words
    log: NDArray[np.unsignedinteger[Any]]


@compiled
def choose(state: Rounds, slots: Slots, block: Any, node: Any, end: Any) -> Any:
    """Choose what links into a block of nodes take in this round; return how many take something.

    The rarer of two chunks of one word. (One long function: handing the state on at every link
    would count references to all its arrays, which takes four times as long as what is done here.)
    """
    have, missing, holders, maybe = state.have, state.missing, state.holders[block], state.maybe
    news, taken, first, srcs = state.news, state.taken, slots.first, slots.src
    width, groups = ONE << state.bits, state.groups
    inside, stride = width - ONE, np.uint64(len(missing)) * width
    salt, turn = mixed(state.left[3] + state.left[1] * _A_ROUND), state.left[1] % groups
    back = (WIDTH - turn) & IN_WORD
    fresh, total = np.empty(slots.most, dtype=np.uint64), ZERO
    while node < end:
        if not missing[node]:
            node += ONE
            continue
        luck = mixed(salt + node * _A_NODE)
        begin, degree = np.uint64(first[node]), np.uint64(first[node + ONE] - first[node])
        lead, from_bit = ((luck >> _HALF) * degree) >> _HALF, luck & IN_WORD
        amount = ZERO
        for i in range(degree):
            slot = begin + (lead + i if lead + i < degree else lead + i - degree)
            src = np.uint64(srcs[slot])
            open_ = maybe[slot] | news[src]
            best, todo = ZERO, (open_ >> turn) | (open_ << back)
            while todo:
                group = (lowest(todo) + turn) & IN_WORD
                theirs, mine = group * stride + src * width, group * stride + node * width
                for j in range(width):
                    word = ((luck >> TO_WORD) + j) & inside
                    found = have[theirs + word] & ~have[mine + word]
                    if not found:
                        continue
                    row = (group << state.bits) + word
                    for k in range(amount):
                        if fresh[k] >> TO_WORD == row:
                            found &= ~bit(fresh[k])
                    if not found:
                        continue
                    found = (found >> from_bit) | (found << ((WIDTH - from_bit) & IN_WORD))
                    best = row * WIDTH + ((lowest(found) + from_bit) & IN_WORD)
                    found &= found - ONE
                    if found:
                        other = row * WIDTH + ((lowest(found) + from_bit) & IN_WORD)
                        best = other if holders[other] < holders[best] else best
                    holders[best] += np.uint32(1)
                    fresh[amount] = best
                    amount += ONE
                    best += ONE
                    break
                if best:
                    break
                todo &= todo - ONE
                open_ &= ~(ONE << group)
            maybe[slot], taken[slot] = open_, best
        total += amount
        node += ONE
    return total


@compiled
def deliver(state: Rounds, slots: Slots, node: Any, end: Any, at: Any) -> None:
    """Deliver what is sent to some nodes in this round.

    Args:
        at: where the chunks that they take begin in the log.
    """
    have, missing, news, taken = state.have, state.missing, state.news, state.taken
    fired, log, first, chunks = state.fired, state.log, slots.first, state.chunk
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
                    have[(group * nodes + node << bits) + (word & inside)] |= bit(place)
                    came |= ONE << group
                    fired[number, slot >> TO_WORD] |= bit(slot)
                    log[at + amount] = chunks[place]
                    amount += ONE
            missing[node] -= amount
            at += amount
        news[node] = came
        node += ONE


@compiled
def settle(state: Rounds, ends: Count) -> None:
    """End a round: what the blocks took ends in the log at the given places."""
    left, log, holders, place = state.left, state.log, state.holders, state.place
    at = left[2]
    for block in range(len(ends)):
        while at < ends[block]:
            if len(holders) > 1:
                chunk = place[log[at]]
                for other in range(len(holders)):
                    holders[other, chunk] += np.uint32(other != block)
            at += ONE
    left[0] -= at - left[2]
    left[1] += ONE
    left[2] = at


@compiled
def go_on(state: Rounds, slots: Slots, most: Any) -> Any:
    """Make rounds until all is done, nothing moves, or ``most`` links were looked at.

    No more than ``fired`` has rows for. Return how many chunks were taken in the last one.
    """
    left, looked, taken = state.left, 0, ONE
    nodes, ends = np.uint64(len(state.missing)), np.empty(1, dtype=np.uint64)
    while left[0] and taken and looked < most and left[1] < len(state.fired):
        taken = choose(state, slots, ZERO, ZERO, nodes)
        deliver(state, slots, ZERO, nodes, left[2])
        ends[0] = left[2] + taken
        settle(state, ends)
        looked += len(slots.src)
    return taken
