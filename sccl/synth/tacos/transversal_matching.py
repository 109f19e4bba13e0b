"""Rounds in which each rank's links take as many chunks as possible, the rarest first.

:mod:`~sccl.synth.tacos.matching_uniform_loops` works link by link, which is fast. Here the choice
is made rank by
rank: a link that could take several chunks leaves to another one the chunk that only that could
take. Among all sets of chunks that the links into a rank can bring it in a round together, the one
is taken in which the chunks with the fewest holders come first (the greedy set of a transversal
matroid, Edmonds 1971), each added by an augmenting path (Kuhn 1955).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest
from sccl.core.arrays import UInt64Array
from sccl.synth.tacos.bitsets import ONE, ZERO, random_below

NOT_HELD = 2**16 - 1
"""Value of a round: a rank does not hold a chunk."""

MAX_LINKS = 64
"""Into a rank: they are the bits of a word."""

_NONE = np.int64(-1)


class TransversalState(NamedTuple):
    """A matching in progress. A slot is a place of the links by destination.

    Attributes:
        first_slot: by node, and one more: its first slot.
        src: source of each slot.
        held_since: by node and chunk: the round from which on it may be sent from there.
        missing_start: by node: where its part of ``missing_chunks`` begins.
        missing_chunks: chunks that nodes still want.
        missing_count: by node: their number.
        holders: by chunk: number of nodes that hold it, or are being sent it.
        random: the state of the generator.
        sends: rows (round, slot, chunk) of sends.
        counts: number of chunks that all nodes together still want, and number of rows.
    """

    first_slot: UInt64Array
    src: UInt64Array
    held_since: NDArray[np.uint16]
    missing_start: UInt64Array
    missing_chunks: NDArray[np.uint32]
    missing_count: UInt64Array
    holders: NDArray[np.uint32]
    random: UInt64Array
    sends: NDArray[np.uint32]
    counts: UInt64Array


class _RankChoice(NamedTuple):
    """The choice of one rank in one round. By place in its part of ``lacks``.

    Attributes:
        offers: the links that could bring the chunk, as bits.
        key: chunks with a smaller one are added first.
        matched_link: link that brings the chunk. Negative: none does.
        path_source: by link: the place from which the path came to it.
        matched_chunk: by link: the place of the chunk that it brings. Negative: none.
        queue: places on paths.
    """

    offers: UInt64Array
    key: UInt64Array
    matched_link: NDArray[np.int64]
    path_source: NDArray[np.int64]
    matched_chunk: NDArray[np.int64]
    queue: NDArray[np.int64]


@compiled
def _augment(choice: _RankChoice, root: Any) -> bool:
    """Let a chunk in if links can be found for it and all that have one; return whether it is."""
    offers, link, via, brings, queue = (
        choice.offers, choice.matched_link, choice.path_source, choice.matched_chunk, choice.queue,
    )  # fmt: skip
    seen, head, tail = ZERO, 0, 1
    queue[0] = root
    while head < tail:
        place = queue[head]
        head += 1
        open_ = offers[place] & ~seen
        while open_:
            at = np.int64(lowest(open_))
            open_ &= open_ - ONE
            seen |= ONE << np.uint64(at)
            via[at] = place
            if brings[at] != _NONE:
                queue[tail] = brings[at]
                tail += 1
                continue
            while at != _NONE:
                place = via[at]
                before = link[place]
                brings[at], link[place] = place, at
                at = before
            return True
    return False


@compiled
def _collect_offers(state: TransversalState, choice: _RankChoice, node: Any, number: Any) -> Any:
    """Write the links that offer each missing chunk of a node, and their rarity.

    Return all links.
    """
    chunks, begin, all_links = np.uint64(len(state.holders)), state.first_slot[node], ZERO
    for i in range(state.missing_count[node]):
        chunk, offered = state.missing_chunks[state.missing_start[node] + i], ZERO
        for j in range(state.first_slot[node + ONE] - begin):
            if state.held_since[state.src[begin + j] * chunks + chunk] <= number:
                offered |= ONE << j
        choice.offers[i], choice.matched_link[i] = offered, _NONE
        all_links |= offered
        choice.key[i] = (np.uint64(state.holders[chunk]) << np.uint64(32)) | random_below(
            state.random, np.uint64(2**32 - 1)
        )
    return all_links


@compiled
def _match_node(state: TransversalState, choice: _RankChoice, node: Any, number: Any) -> None:
    """Choose the maximum set of chunks for the links into a node in a round."""
    left = _collect_offers(state, choice, node, number)
    choice.matched_chunk[:] = _NONE
    count, lacks_first = state.missing_count[node], state.missing_start[node]
    for at in np.argsort(choice.key[:count]):
        if not left:
            break
        if choice.offers[at] and _augment(choice, at):
            left &= left - ONE  # so many links at most bring something
    kept, chunks = ZERO, np.uint64(len(state.holders))
    for i in range(count):
        chunk = state.missing_chunks[lacks_first + i]
        if choice.matched_link[i] == _NONE:
            state.missing_chunks[lacks_first + kept] = chunk
            kept += ONE
            continue
        row = state.counts[1]
        state.sends[row, 0], state.sends[row, 2] = number, chunk
        state.sends[row, 1] = state.first_slot[node] + np.uint64(choice.matched_link[i])
        state.counts[1] += ONE
        state.held_since[node * chunks + chunk] = number + ONE
        state.holders[chunk] += np.uint32(1)
    state.counts[0] -= count - kept
    state.missing_count[node] = kept


@compiled
def match_rounds(state: TransversalState, rounds: Any) -> Any:
    """Make so many rounds, or fewer; return how many.

    Fewer if nothing is wanted any more, or a node wants more than its links can bring in the rest.
    """
    max_missing = state.missing_count.max()
    choice = _RankChoice(
        np.empty(max_missing, np.uint64),
        np.empty(max_missing, np.uint64),
        np.empty(max_missing, np.int64),
        np.empty(64, np.int64),
        np.empty(64, np.int64),
        np.empty(65, np.int64),
    )
    number = ZERO
    while number < rounds and state.counts[0]:
        number += ONE
        for node in range(np.uint64(len(state.missing_count))):
            if state.missing_count[node]:
                _match_node(state, choice, node, number - ONE)
                degree = state.first_slot[node + ONE] - state.first_slot[node]
                if state.missing_count[node] > degree * (rounds - number):
                    return number
    return number
