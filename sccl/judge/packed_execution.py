"""Verify packed schedules: re-execute every transfer of the log in compiled loops.

The verifier reads the topology, the collective, and the log, and trusts nothing else. Some
properties follow from the form of the log and need no check: a link has one bit per round, so it
carries one chunk at a time, for exactly the duration that the clock gives. The finish is the end of
the last round.

A pass that stores is executed forwards. In every round, each link sends a chunk that its source
held at the start of the round. A chunk that arrives at the end of a round is available in the next.

A pass that reduces is executed backwards: from the last round to the first, over reversed links,
starting from the holders of the sums. Suppose that in this mirrored run every rank except the
holder h of a chunk receives the chunk exactly once, h never receives it, and each rank sends only
chunks that it holds by then. Then the pass itself reduces the chunk of all ranks on h, with each
contribution counted once.

Proof: In the pass itself, each rank r except h sends the chunk exactly once: to the rank from which
r receives it in the mirrored run, in the round that mirrors this receipt. Rank h never sends it.
All values that r receives arrive earlier: in the mirrored run, r sends to their senders after r has
received, so in the pass they arrive in earlier rounds. So r sends its own contribution and
everything that it received. From any rank, follow the one rank that it sends to. Each next rank
receives earlier in the mirrored run, so the path ends, and it can only end at h. The paths form a
tree with root h, along which each contribution passes once. []

The mirrored run checks these conditions. A reducing schedule that does not meet them fails
verification, even if its only fault is a superfluous transfer.

Chunks are independent. So the transfers of a window of rounds are sorted by groups of 64 chunks,
and each group is executed by itself: its state takes 8 bytes per rank, which fit into the fastest
cache. (One table of all ranks and chunks takes eight times as long for 40,000 ranks.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import IntArray, UInt64Array
from sccl.core.collective import Collective, Relation, RelationKind
from sccl.core.packed_schedule import PackedSchedule, PassKind, release_pages
from sccl.core.topology import link_name
from sccl.judge.execution_arrays import relation_mask
from sccl.judge.violation import Violation, missing_violation, unavailable_text

_WINDOW_CHUNKS = 2**24
"""Transfers that are sorted together: 128 MB. A round with more is sorted as a whole."""

_CHUNKS_PER_CALL = 2**22
"""Transfers per compiled call: a few hundredths of a second, then Python handles signals."""

_ZERO, _ONE, _TO_WORD, _IN_WORD = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)
_SLOT, _CHUNK = np.uint64(32), np.uint64(6)


def violations(
    schedule: PackedSchedule, on_progress: Callable[[int, int], None] = lambda _done, _of: None
) -> list[Violation]:
    """Return the first violation of a packed schedule. An empty list means that it is valid.

    Args:
        schedule: Packed schedule.
        on_progress: Progress callback: number of executed transfers, and total.
    """
    if wrong := _pass_violation(schedule):
        return [wrong]
    collective, done = schedule.collective, 0
    have = _initial_holdings(collective, collective.pre)
    for position, passing in enumerate(schedule.passes):
        if reduces := passing is PassKind.REDUCES:
            have = _initial_holdings(collective, _intermediate_relation(collective))
        run = _PassExecution(schedule, position, have)
        for amount in run.run():
            done += amount
            on_progress(done, schedule.num_sends)
        if run.violation:
            return [run.violation]
        if reduces:
            if lacking := _first_missing(have, collective, Relation(RelationKind.ALL)):
                return [_missing_contribution(*lacking)]
            have = _initial_holdings(collective, _intermediate_relation(collective))
    if lacking := _first_missing(have, collective, collective.post):
        return [missing_violation("transfer", *lacking)]
    return []


def _missing_contribution(chunk: int, rank: int) -> Violation:
    """Return the violation that a reducing pass does not send a rank's contribution to a chunk."""
    text = (
        f"the contribution of rank {rank} to chunk {chunk} does not reach the rank that reduces it"
    )
    return Violation("incomplete", text, chunk=chunk, rank=rank)


def _pass_violation(schedule: PackedSchedule) -> Violation | None:
    """Return the violation if the kinds of passes cannot satisfy the collective, or None."""
    collective, passes = schedule.collective, schedule.passes
    reduces = [passing is PassKind.REDUCES for passing in passes]
    if not collective.combining:
        if not any(reduces):
            return None
        return Violation("conflict", f"a pass reduces, but {collective.name} does not")
    if not reduces[0] or any(reduces[1:]):
        text = f"{collective.name} reduces, so the first pass, and only that one, must reduce"
        return Violation("incomplete", text)
    if collective.pre.kind is not RelationKind.ALL or not _is_single(
        _intermediate_relation(collective)
    ):
        text = (
            f"custom collective {collective.name} is not verified in packed form: expected a sum "
            "of all ranks for each chunk, on one rank or on all"
        )
        return Violation("collective", text)
    return None


def _intermediate_relation(collective: Collective) -> Relation:
    """Return the ranks that must hold the sum of each chunk after the reducing pass."""
    if collective.post.kind is RelationKind.ALL:
        return Relation(RelationKind.SCATTERED)
    return collective.post


def _is_single(relation: Relation) -> bool:
    """Return whether a relation assigns exactly one rank to every chunk."""
    if relation.kind is RelationKind.PAIRS:
        return all(len(ranks) == 1 for ranks in relation.pattern)
    return relation.kind is not RelationKind.ALL


def _relation_bits(relation: Relation, collective: Collective, group: int) -> UInt64Array:
    """Return the chunks of a group of 64 that are related to each rank, as bits."""
    first, end = 64 * group, min(64 * group + 64, collective.num_chunks)
    if relation.kind is RelationKind.ALL:
        return np.full(collective.ranks, 2 ** (end - first) - 1, dtype=np.uint64)
    chunk, rank = np.nonzero(relation_mask(relation, collective, np.arange(first, end)))
    bits = np.zeros(collective.ranks, dtype=np.uint64)
    np.bitwise_or.at(bits, rank, _ONE << chunk.astype(np.uint64))
    return bits


def _initial_holdings(collective: Collective, relation: Relation) -> UInt64Array:
    """Return the chunks that each rank holds, as bits, shape (groups of 64 chunks, ranks)."""
    have = np.empty((-(-collective.num_chunks // 64), collective.ranks), dtype=np.uint64)
    for group in range(len(have)):
        have[group] = _relation_bits(relation, collective, group)
    return have


def _first_missing(
    have: UInt64Array, collective: Collective, relation: Relation
) -> tuple[int, int] | None:
    """Return a chunk and a rank that should hold it by a relation but does not, or None."""
    for group, row in enumerate(have):
        lacking = _relation_bits(relation, collective, group) & ~row
        if len(wrong := np.flatnonzero(lacking)):
            bits = int(lacking[wrong[0]])
            return 64 * group + (bits & -bits).bit_length() - 1, int(wrong[0])
    return None


class _SlotEnds(NamedTuple):
    """Source and destination of each link slot, reversed for a mirrored run."""

    src: NDArray[np.uint32]
    dst: NDArray[np.uint32]


class _PassExecution:
    """The execution of a pass, in the order of the log. A reducing pass is executed mirrored.

    Attributes:
        have: Chunks that ranks hold so far, as bits, shape (groups of 64 chunks, ranks).
        violation: First violation, or None.
    """

    def __init__(self, schedule: PackedSchedule, position: int, have: UInt64Array) -> None:
        self.schedule, self.position, self.have = schedule, position, have
        self.passing = schedule.passes[position]
        self.links = schedule.slot_links(self.passing)
        ends = np.array([link.edge for link in schedule.topology.links], dtype=np.uint32)
        src, dst = (
            ends[self.links].T if self.passing is PassKind.STORES else ends[self.links, ::-1].T
        )
        self.ends = _SlotEnds(src.copy(), dst.copy())
        self.violation: Violation | None = None

    def run(self) -> Iterator[int]:
        """Execute all rounds, and yield the number of transfers executed since the last yield."""
        ends = np.concatenate([[0], self.schedule.round_ends()])
        first = 0
        while first < len(self.schedule.fired) and self.violation is None:
            until = int(np.searchsorted(ends, ends[first] + _WINDOW_CHUNKS, side="right")) - 1
            until = min(max(until, first + 1), first + 2**26)
            yield from self._execute_window(first, ends[first : until + 1])
            first = until

    def _execute_window(self, first: int, ends: IntArray) -> Iterator[int]:
        """Execute a window of rounds.

        Args:
            first: First round.
            ends: Index in the log at which the first round begins, then at which each one ends.
        """
        log, fired = self.schedule.log, self.schedule.fired
        groups = len(self.have)
        counts = np.zeros(groups, dtype=np.int64)
        for begin in range(int(ends[0]), int(ends[-1]), _CHUNKS_PER_CALL):
            _count(counts, log[begin : min(begin + _CHUNKS_PER_CALL, int(ends[-1]))])
        borders = np.concatenate([[0], np.cumsum(counts)])
        entries, place = np.empty(int(borders[-1]), dtype=np.uint64), borders[:-1].astype(np.uint64)
        row = 0
        while row < len(ends) - 1:
            stop = int(np.searchsorted(ends, ends[row] + _CHUNKS_PER_CALL, side="right")) - 1
            stop = max(stop, row + 1)
            part = log[int(ends[row]) : int(ends[stop])]
            _sort(entries, place, fired[first + row : first + stop], part, np.uint64(row))
            row = stop
        release_pages(log)
        release_pages(fired)
        group = 0
        while group < groups:
            stop = (
                int(np.searchsorted(borders, borders[group] + _CHUNKS_PER_CALL, side="right")) - 1
            )
            stop = min(max(stop, group + 1), groups)
            once = self.passing is PassKind.REDUCES
            fault = _execute(self.have, entries, borders, group, stop, self.ends, once)
            if fault:
                at = int(fault) - 1
                chunk = 64 * (int(np.searchsorted(borders, at, side="right")) - 1)
                self.violation = self._describe_violation(first, int(entries[at]), chunk)
                return
            yield int(borders[stop] - borders[group])
            group = stop

    def _describe_violation(self, first: int, entry: int, chunk: int) -> Violation:
        """Return the violation of a transfer that :func:`_execute` rejects.

        Args:
            first: First round of the window.
            entry: Entry of the transfer, in the format of :func:`_sort`.
            chunk: First chunk of the entry's group.
        """
        schedule, rounds = self.schedule, len(self.schedule.fired)
        chunk += entry & 63
        number, slot = first + (entry >> 6 & (1 << 26) - 1), entry >> 32
        edge = schedule.topology.links[int(self.links[slot])].edge
        reduces = self.passing is PassKind.REDUCES
        number = rounds - 1 - number if reduces else number
        tick = (self.position * rounds + number) * schedule.round_ticks
        how = "reduce-send" if reduces else "send"
        text = f"{how} of chunk {chunk} over {link_name(edge)} at tick {tick}"
        if not reduces:
            kind, rank = "availability", edge[0]
            text = unavailable_text(text, rank, chunk)
        elif self.have[chunk >> 6, edge[1]] >> np.uint64(chunk & 63) & _ONE:
            kind, rank = "double-count", edge[0]
            text = f"{text}: rank {rank} sends its sum again later, or is to keep it"
        else:
            kind, rank = "incomplete", edge[1]
            text = f"{text}: rank {rank} has sent its sum by then, or never does"
        return Violation(kind, text, chunk=chunk, rank=rank, link=edge, tick=tick)


@compiled
def _count(counts: IntArray, log: NDArray[np.unsignedinteger[Any]]) -> None:
    for i in range(len(log)):
        counts[np.uint64(log[i]) >> _TO_WORD] += 1


@compiled
def _sort(
    entries: UInt64Array,
    place: UInt64Array,
    fired: UInt64Array,
    log: NDArray[np.unsignedinteger[Any]],
    first: Any,
) -> None:
    """Append the transfers of some rounds to the entries of their groups of chunks.

    Args:
        entries: Output: slot (32 bits), round of the window (26), chunk of the group (6).
        place: Index of each group's next entry, which is updated.
        fired: Slots that send in each round, as bits.
        log: Chunks that these slots send, in the same order.
        first: First of these rounds, counted in the window.
    """
    at = _ZERO
    for i in range(len(fired)):
        number = (first + np.uint64(i)) << _CHUNK
        for w in range(fired.shape[1]):
            word = fired[i, w]
            while word:
                slot = (np.uint64(w) << _TO_WORD) + _lowest_bit(word)
                word &= word - _ONE
                chunk = np.uint64(log[at])
                at += _ONE
                group = chunk >> _TO_WORD
                entries[place[group]] = slot << _SLOT | number | (chunk & _IN_WORD)
                place[group] += _ONE


@compiled
def _execute(  # noqa: PLR0913, PLR0917 - a state
    have: UInt64Array,
    entries: UInt64Array,
    borders: IntArray,
    group: Any,
    until: Any,
    ends: _SlotEnds,
    once: Any,
) -> Any:
    """Execute the transfers of groups of chunks.

    A transfer is invalid if its source does not hold the chunk at the start of the round. With
    ``once``, it is also invalid if its destination already holds the chunk.

    Returns:
        0 if all are valid, else 1 plus the index of the first invalid entry.
    """
    src, dst = ends.src, ends.dst
    for g in range(group, until):
        row, end = borders[g], borders[g + 1]
        while row < end:
            number, stop = entries[row] << _SLOT >> _SLOT >> _CHUNK, row
            while stop < end and entries[stop] << _SLOT >> _SLOT >> _CHUNK == number:
                bit = have[g, src[entries[stop] >> _SLOT]] >> (entries[stop] & _IN_WORD)
                if not bit & _ONE:
                    return stop + 1
                stop += 1
            for i in range(row, stop):
                to, bit = dst[entries[i] >> _SLOT], _ONE << (entries[i] & _IN_WORD)
                if once and have[g, to] & bit:
                    return i + 1
                have[g, to] |= bit
            row = stop
    return 0


_SEQUENCE = np.uint64(0x03F79D71B4CB0A89)  # de Bruijn sequence: all 6-bit windows differ
_PLACES = np.zeros(64, dtype=np.uint64)
for _bit in range(64):
    _PLACES[((1 << _bit) * int(_SEQUENCE) % 2**64) >> 58] = _bit


@compiled
def _lowest_bit(word: Any) -> Any:
    """Return the index of the lowest set bit of a nonzero word."""
    return _PLACES[((word & (~word + _ONE)) * _SEQUENCE) >> np.uint64(58)]
