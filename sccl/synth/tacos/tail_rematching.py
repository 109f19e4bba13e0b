"""Match the last rounds again if a matching of equal links misses the lower bound.

Not in TACOS (MICRO 2024). A matching loses a round if the last chunks that some rank lacks are all
at one neighbor. So the last rounds before the bound (2, then 4, and so on) are matched again, until
the bound is attained or the tries are spent. (An allgather on torus:8x8 then takes 16 rounds, and
otherwise 17.)

:mod:`~sccl.synth.tacos.matching_uniform` chooses link by link, which is fast. Here a link that
offers several chunks leaves to another link the chunk that only that link offers. The sets of
chunks that the links into a rank can bring in one round form a transversal matroid. So the greedy
set, with the chunks in the order of their numbers of holders, is optimal (Edmonds 1971). Each chunk
is added by an augmenting path (Kuhn 1955).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, lowest
from sccl.core.arrays import UInt64Array
from sccl.synth.limits import MAX_TABLE_ROWS, REPEATS
from sccl.synth.network.arrays import NetworkArrays
from sccl.synth.network.transfers import Demand, Sends
from sccl.synth.tacos.bitsets import ONE, ZERO, random_below, random_state

NOT_HELD = 2**16 - 1
"""Value of ``held_since`` if a rank does not hold a chunk."""

MAX_LINKS = 64
"""Maximum number of links into a rank, which are the bits of a word."""

_NONE = np.int64(-1)


class TransversalState(NamedTuple):
    """The state of a matching. A slot is a link's index in the order of destinations.

    Attributes:
        first_slot: First slot of each node, and the number of slots at the end.
        src: Source of each slot's link.
        held_since: First round in which a node can send a chunk, by node and chunk.
        missing_start: Index of each node's first entry in ``missing_chunks``.
        missing_chunks: Chunks that each node still lacks.
        missing_count: Number of chunks that each node still lacks.
        holders: Number of nodes that hold or receive each chunk.
        random: State of the random generator.
        sends: Rows (round, slot, chunk).
        counts: Number of unsatisfied (node, chunk) pairs, and number of rows in ``sends``.
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
    """The choice of one rank in one round. A position is an index among its missing chunks.

    Attributes:
        offers: Links that offer the chunk at each position, as bits.
        key: Sort key of each position. Chunks with smaller keys are added first.
        matched_link: Link that brings the chunk at each position. Negative: no link.
        path_source: Position before each link on the augmenting path.
        matched_chunk: Position of the chunk that each link brings. Negative: no chunk.
        queue: Positions to visit.
    """

    offers: UInt64Array
    key: UInt64Array
    matched_link: NDArray[np.int64]
    path_source: NDArray[np.int64]
    matched_chunk: NDArray[np.int64]
    queue: NDArray[np.int64]


@compiled
def _augment(choice: _RankChoice, root: Any) -> bool:
    """Match a chunk by an augmenting path, found by breadth-first search. Return whether it exists.

    Args:
        choice: The matching of one rank.
        root: Position of the chunk.
    """
    offers, queue, path_source = choice.offers, choice.queue, choice.path_source
    matched_link, matched_chunk = choice.matched_link, choice.matched_chunk
    visited, head, tail = ZERO, 0, 1
    queue[0] = root
    while head < tail:
        position = queue[head]
        head += 1
        unvisited = offers[position] & ~visited
        while unvisited:
            link = np.int64(lowest(unvisited))
            unvisited &= unvisited - ONE
            visited |= ONE << np.uint64(link)
            path_source[link] = position
            if matched_chunk[link] != _NONE:
                queue[tail] = matched_chunk[link]
                tail += 1
                continue
            while link != _NONE:  # exchange the matches along the path, back to the root
                position = path_source[link]
                previous_link = matched_link[position]
                matched_chunk[link], matched_link[position] = position, link
                link = previous_link
            return True
    return False


@compiled
def _collect_offers(
    state: TransversalState, choice: _RankChoice, node: Any, round_number: Any
) -> Any:
    """Set the links that offer each missing chunk of a node, and the key: rarity, then random.

    Returns:
        The links that offer any chunk, as bits.
    """
    chunks, node_slot, all_links = np.uint64(len(state.holders)), state.first_slot[node], ZERO
    for i in range(state.missing_count[node]):
        chunk, links = state.missing_chunks[state.missing_start[node] + i], ZERO
        for j in range(state.first_slot[node + ONE] - node_slot):
            if state.held_since[state.src[node_slot + j] * chunks + chunk] <= round_number:
                links |= ONE << j
        choice.offers[i], choice.matched_link[i] = links, _NONE
        all_links |= links
        choice.key[i] = (np.uint64(state.holders[chunk]) << np.uint64(32)) | random_below(
            state.random, np.uint64(2**32 - 1)
        )
    return all_links


@compiled
def _match_node(state: TransversalState, choice: _RankChoice, node: Any, round_number: Any) -> None:
    """Choose the maximum set of chunks for the links into a node in a round, and send them."""
    unmatched_links = _collect_offers(state, choice, node, round_number)
    choice.matched_chunk[:] = _NONE
    count, first_missing = state.missing_count[node], state.missing_start[node]
    for position in np.argsort(choice.key[:count]):
        if not unmatched_links:
            break
        if choice.offers[position] and _augment(choice, position):
            unmatched_links &= unmatched_links - ONE  # only the number of these bits counts
    still_missing, chunks = ZERO, np.uint64(len(state.holders))
    for i in range(count):
        chunk = state.missing_chunks[first_missing + i]
        if choice.matched_link[i] == _NONE:
            state.missing_chunks[first_missing + still_missing] = chunk
            still_missing += ONE
            continue
        row = state.counts[1]
        state.sends[row, 0], state.sends[row, 2] = round_number, chunk
        state.sends[row, 1] = state.first_slot[node] + np.uint64(choice.matched_link[i])
        state.counts[1] += ONE
        state.held_since[node * chunks + chunk] = round_number + ONE
        state.holders[chunk] += np.uint32(1)
    state.counts[0] -= count - still_missing
    state.missing_count[node] = still_missing


@compiled
def match_rounds(state: TransversalState, rounds: Any) -> Any:
    """Run up to a number of rounds. Return the number of completed rounds.

    It ends early if no pair is unsatisfied, or if a node lacks more chunks than its links can bring
    in the remaining rounds.
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
    completed = ZERO
    while completed < rounds and state.counts[0]:
        completed += ONE
        for node in range(np.uint64(len(state.missing_count))):
            if state.missing_count[node]:
                _match_node(state, choice, node, completed - ONE)
                degree = state.first_slot[node + ONE] - state.first_slot[node]
                if state.missing_count[node] > degree * (rounds - completed):
                    return completed
    return completed


_WINDOW_ROUNDS = (2, 4, 8, 16, 32)
"""Numbers of last rounds that are matched again."""


def rematch_tail(
    net: NetworkArrays, demand: Demand, finish: int, sends: Sends, seed: int
) -> tuple[int, Sends]:
    """Return the completion time and the transfers of a matching, improved if possible.

    Args:
        net: The machine, whose links have equal costs.
        demand: A demand of all chunks on all ranks.
        finish: Completion time of ``sends``.
        sends: Transfers in rounds of equal length.
        seed: Seed of the tries.
    """
    busy = int(net.busy[0])
    degree = np.diff(net.in_first.astype(np.int64))
    held = np.bincount(demand.held_by, minlength=net.nodes).astype(np.int64)
    # A rank receives at most one chunk over each link. A rank without links holds all chunks.
    min_rounds = int((-((held - demand.chunks) // np.maximum(degree, 1))).max())
    if net.nodes * demand.chunks > MAX_TABLE_ROWS or degree.max() > MAX_LINKS:
        return finish, sends
    for number, rounds in enumerate(np.repeat(_WINDOW_ROUNDS, REPEATS).tolist()):
        if finish <= min_rounds * busy or rounds >= 2 * min_rounds:
            break  # it is optimal, or all rounds have been matched again
        first_round = max(min_rounds - rounds, 0)
        finish, sends = _rematch_from(net, demand, finish, sends, (first_round, seed + number + 1))
    return finish, sends


def _rematch_from(
    net: NetworkArrays,
    demand: Demand,
    finish: int,
    sends: Sends,
    first_round_and_seed: tuple[int, int],
) -> tuple[int, Sends]:
    """Return the matching with all later rounds matched again, if it ends earlier than before."""
    (first_round, seed), busy = first_round_and_seed, int(net.busy[0])
    keep = int(np.searchsorted(sends.start, first_round * busy))
    state = _initial_state(net, demand, sends, keep, seed)
    rounds = int(match_rounds(state, np.uint64(finish // busy - 1 - first_round)))
    if state.counts[0]:
        return finish, sends
    rows = state.sends[: int(state.counts[1])]
    order = np.lexsort((net.into[rows[:, 1]], rows[:, 2], rows[:, 0]))
    round_number, slot, chunk = rows[order].T
    start = (round_number.astype(np.int64) + first_round) * busy
    return (first_round + rounds) * busy, Sends(
        np.concatenate((sends.start[:keep], start)),
        np.concatenate((sends.chunk[:keep], chunk.astype(np.int32))),
        np.concatenate((sends.link[:keep], net.into[slot].astype(np.int32))),
        np.zeros(keep + len(start), dtype=np.bool_),
    )


def _initial_state(
    net: NetworkArrays, demand: Demand, sends: Sends, keep: int, seed: int
) -> TransversalState:
    """Return the state after the first ``keep`` transfers."""
    nodes, chunks = net.nodes, demand.chunks
    held_since = np.full((nodes, chunks), NOT_HELD, dtype=np.uint16)
    held_since[demand.held_by, demand.held] = 0
    held_since[net.dst[sends.link[:keep]], sends.chunk[:keep]] = 0
    node, missing_chunks = np.nonzero(held_since)
    missing = np.bincount(node, minlength=nodes).astype(np.uint64)
    return TransversalState(
        first_slot=net.in_first,
        src=net.src[net.into],
        held_since=held_since.reshape(-1),
        missing_start=np.cumsum(missing) - missing,
        missing_chunks=missing_chunks.astype(np.uint32),
        missing_count=missing,
        holders=(nodes - np.bincount(missing_chunks, minlength=chunks)).astype(np.uint32),
        random=random_state(seed % 2**63),
        sends=np.empty((len(missing_chunks), 3), dtype=np.uint32),
        counts=np.array([len(missing_chunks), 0], dtype=np.uint64),
    )
