"""Rounds in which each rank's links take as many chunks as possible, the rarest first.

:mod:`~sccl.synth.tacos.rounds` works link by link, which is fast. Here the choice is made rank by
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
from sccl.synth.network.groups import Count
from sccl.synth.tacos.bits import ONE, ZERO, Words, below

NEVER = 2**16 - 1
"""Value of a round: a rank does not hold a chunk."""

MOST_LINKS = 64
"""Into a rank: they are the bits of a word."""

_NONE = np.int64(-1)


class Fitting(NamedTuple):
    """A matching in progress. A slot is a place of the links by destination.

    Attributes:
        first: by node, and one more: its first slot.
        src: source of each slot.
        since: by node and chunk: the round from which on it may be sent from there.
        lacks_first: by node: where its part of ``lacks`` begins.
        lacks: chunks that nodes still want.
        missing: by node: their number.
        holders: by chunk: number of nodes that hold it, or are being sent it.
        random: the state of the generator.
        came: rows (round, slot, chunk) of sends.
        counts: number of chunks that all nodes together still want, and number of rows.
    """

    first: Count
    src: Count
    since: NDArray[np.uint16]
    lacks_first: Count
    lacks: NDArray[np.uint32]
    missing: Count
    holders: NDArray[np.uint32]
    random: Words
    came: NDArray[np.uint32]
    counts: Count


class _Choice(NamedTuple):
    """The choice of one rank in one round. By place in its part of ``lacks``.

    Attributes:
        offers: the links that could bring the chunk, as bits.
        key: chunks with a smaller one are added first.
        order: places, in that order.
        link: link that brings the chunk. Negative: none does.
        via: by link: the place from which the path came to it.
        brings: by link: the place of the chunk that it brings. Negative: none.
        queue: places on paths.
    """

    offers: Words
    key: Count
    link: NDArray[np.int64]
    via: NDArray[np.int64]
    brings: NDArray[np.int64]
    queue: NDArray[np.int64]


@compiled
def _let_in(choice: _Choice, root: Any) -> bool:
    """Let a chunk in if links can be found for it and all that have one; return whether it is."""
    offers, link, via, brings, queue = (
        choice.offers, choice.link, choice.via, choice.brings, choice.queue,
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
def _look(state: Fitting, choice: _Choice, node: Any, number: Any) -> Any:
    """Write the links that offer each missing chunk of a node, and their rarity.

    Return all links.
    """
    chunks, begin, all_links = np.uint64(len(state.holders)), state.first[node], ZERO
    for i in range(state.missing[node]):
        chunk, found = state.lacks[state.lacks_first[node] + i], ZERO
        for j in range(state.first[node + ONE] - begin):
            if state.since[state.src[begin + j] * chunks + chunk] <= number:
                found |= ONE << j
        choice.offers[i], choice.link[i] = found, _NONE
        all_links |= found
        choice.key[i] = (np.uint64(state.holders[chunk]) << np.uint64(32)) | below(
            state.random, np.uint64(2**32 - 1)
        )
    return all_links


@compiled
def _fit(state: Fitting, choice: _Choice, node: Any, number: Any) -> None:
    """Choose the maximum set of chunks for the links into a node in a round."""
    left = _look(state, choice, node, number)
    choice.brings[:] = _NONE
    count, lacks_first = state.missing[node], state.lacks_first[node]
    for at in np.argsort(choice.key[:count]):
        if not left:
            break
        if choice.offers[at] and _let_in(choice, at):
            left &= left - ONE  # so many links at most bring something
    kept, chunks = ZERO, np.uint64(len(state.holders))
    for i in range(count):
        chunk = state.lacks[lacks_first + i]
        if choice.link[i] == _NONE:
            state.lacks[lacks_first + kept] = chunk
            kept += ONE
            continue
        row = state.counts[1]
        state.came[row, 0], state.came[row, 2] = number, chunk
        state.came[row, 1] = state.first[node] + np.uint64(choice.link[i])
        state.counts[1] += ONE
        state.since[node * chunks + chunk] = number + ONE
        state.holders[chunk] += np.uint32(1)
    state.counts[0] -= count - kept
    state.missing[node] = kept


@compiled
def fit(state: Fitting, rounds: Any) -> Any:
    """Make so many rounds, or fewer; return how many.

    Fewer if nothing is wanted any more, or a node wants more than its links can bring in the rest.
    """
    most = state.missing.max()
    choice = _Choice(
        np.empty(most, np.uint64),
        np.empty(most, np.uint64),
        np.empty(most, np.int64),
        np.empty(64, np.int64),
        np.empty(64, np.int64),
        np.empty(65, np.int64),
    )
    number = ZERO
    while number < rounds and state.counts[0]:
        number += ONE
        for node in range(np.uint64(len(state.missing))):
            if state.missing[node]:
                _fit(state, choice, node, number - ONE)
                degree = state.first[node + ONE] - state.first[node]
                if state.missing[node] > degree * (rounds - number):
                    return number
    return number
