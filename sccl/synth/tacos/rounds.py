"""Links that all cost alike go in step: in every round each takes one chunk, or sleeps.

Source: TACOS (MICRO 2024) sections IV-C to IV-E. Rounds are owned by the destinations: each looks
at what its in-neighbours held as the round began, so that no link takes a chunk that its source is
still being sent. A link that has nothing to offer sleeps until something arrives at its source.
Of two random candidates the one that fewer hold is taken: on tori one alone loses 2 to 7 %.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.synth.tacos.bits import ALL, IN_WORD, ONE, TO_WORD, WIDTH, ZERO, Words, below, bit, lowest
from sccl.synth.tacos.groups import Count


class Slots(NamedTuple):
    """Links by where they lead to: a slot is a place in that order.

    Attributes:
        first: of each node, and one more: its first slot.
        src: of each slot.
        out_first: of each node, and one more: where its part of ``out`` begins.
        out: slots by the node that they come from.
    """

    first: Count
    src: NDArray[np.uint32]
    out_first: Count
    out: NDArray[np.uint32]


class Rounds(NamedTuple):
    """A matching under way. Chunks go by places, which have nothing to do with their numbers.

    Attributes:
        have: a row of bits per node, one after the other: the chunks that it holds.
        missing: of each node: how many chunks it still wants.
        holders: of each chunk: how many hold it, or are being sent it.
        awake: of each slot: whether it may have something to offer.
        taken: of each slot: the chunk that it takes in this round, and one more; 0: none.
        fresh: the chunks that one node is sent in this round, as long as it is looked at.
        random: the state of the generator.
        left: how many chunks all nodes together still want; how many rounds were made; how many
            chunks are in ``log``.
        fired: of each round a bit per slot: whether it took a chunk; no rows: nothing is kept.
        log: the chunks taken, by round and slot.
    """

    have: Words
    missing: Count
    holders: NDArray[np.uint32]
    awake: NDArray[np.uint8]
    taken: NDArray[np.uint32]
    fresh: Count
    random: Words
    left: Count
    fired: NDArray[np.uint8]
    log: NDArray[np.uint32]


@compiled
def _without(found: Any, word: Any, fresh: Count, amount: Any) -> Any:
    """Return candidates of a word without those that are on their way already."""
    for i in range(amount):
        if fresh[i] >> TO_WORD == word:
            found &= ~bit(fresh[i])
    return found


@compiled
def _choose(state: Rounds, slots: Slots) -> None:
    """Choose what every link takes in this round: the rarer of two chunks.

    The two follow one another from a random place on, so that only one walk is paid for. (One long
    function: handing the state on at every link would count references to all its arrays, which
    takes four times as long as what is done here.)
    """
    have, missing, holders, awake = state.have, state.missing, state.holders, state.awake
    taken, fresh, random = state.taken, state.fresh, state.random
    first, srcs = slots.first, slots.src
    chunks, nodes = np.uint64(len(holders)), np.uint64(len(missing))
    words = (chunks + IN_WORD) >> TO_WORD
    for node in range(nodes):
        if not missing[node]:
            continue
        begin, degree, mine = first[node], first[node + ONE] - first[node], node * words
        turn, amount, start = below(random, degree), ZERO, below(random, chunks)
        for i in range(degree):
            slot = begin + (turn + i if turn + i < degree else turn + i - degree)
            if not awake[slot]:
                continue
            theirs = srcs[slot] * words
            word, mask, found = start >> TO_WORD, ALL << (start & IN_WORD), ZERO
            for _ in range(words + ONE):
                found = have[theirs + word] & ~have[mine + word] & mask
                if found:
                    found = _without(found, word, fresh, amount)
                    if found:
                        break
                mask = ALL
                word = word + ONE if word + ONE < words else ZERO
            if not found:
                awake[slot] = 0
                continue
            best = word * WIDTH + lowest(found)
            found &= found - ONE
            if not found:
                word = word + ONE if word + ONE < words else ZERO
                found = have[theirs + word] & ~have[mine + word]
                found = _without(found, word, fresh, amount)
            if found:
                other = word * WIDTH + lowest(found)
                best = other if holders[other] < holders[best] else best
            taken[slot] = best + ONE
            holders[best] += np.uint32(1)
            fresh[amount] = best
            amount += ONE


@compiled
def _deliver(state: Rounds, slots: Slots) -> None:
    """Deliver what is sent in this round, and wake links that may have more to offer."""
    have, missing, awake, taken = state.have, state.missing, state.awake, state.taken
    fired, log, left = state.fired, state.log, state.left
    first, out_first, out = slots.first, slots.out_first, slots.out
    nodes = np.uint64(len(missing))
    words = np.uint64(len(have)) // nodes
    keeps, number, at = len(fired) > 0, left[1], left[2]
    for node in range(nodes):
        if not missing[node]:
            continue
        amount = ZERO
        for slot in range(first[node], first[node + ONE]):
            if not taken[slot]:
                continue
            chunk = np.uint64(taken[slot]) - ONE
            taken[slot] = 0
            have[node * words + (chunk >> TO_WORD)] |= bit(chunk)
            if keeps:
                fired[number, slot >> np.uint64(3)] |= np.uint8(1 << (slot & np.uint64(7)))
                log[at + amount] = chunk
            amount += ONE
        if amount:
            missing[node] -= amount
            at += amount
            for place in range(out_first[node], out_first[node + ONE]):
                awake[out[place]] = 1
    left[0] -= at - left[2]
    left[1] += ONE
    left[2] = at


@compiled
def go_on(state: Rounds, slots: Slots, most: Any) -> bool:
    """Make rounds until all is done or ``most`` links were looked at; return whether all is done.

    Where rounds are kept, no more are made than ``fired`` has rows for.
    """
    left = state.left
    looked = 0
    while left[0] and looked < most and (left[1] < len(state.fired) or not len(state.fired)):
        _choose(state, slots)
        _deliver(state, slots)
        looked += len(slots.src)
    return bool(left[0] == ZERO)
