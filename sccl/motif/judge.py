"""Verify motifs: in every permitted order of execution they implement their collective.

Motifs are executed on symbols: the state of an element on a rank is the set of ranks whose
contributions it contains. Motifs that touch the same data must be ordered with each other, so one
order represents all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.motif import Motif
from sccl.errors import ParameterError
from sccl.motif.extents import exchanged
from sccl.motif.merge import length

MOST_STATES = 2**23
"""Largest product of ranks and pieces of elements that motifs read and write."""

_Whole = NDArray[np.int64]
_Words = NDArray[np.uint64]


class _Rows(NamedTuple):
    """Moves before elements are divided into pieces.

    Attributes:
        start: First element of each move.
        stop: End of each move (exclusive).
        from_first: Index of the first source of each move, and the total.
        source: Ranks.
        to_first: Index of the first target of each move, and the total.
        target: Ranks.
    """

    start: _Whole
    stop: _Whole
    from_first: _Whole
    source: _Whole
    to_first: _Whole
    target: _Whole


def _rows(motif: Motif) -> _Rows:
    """Return the moves of a motif. An alltoall, with up to millions, is built by columns."""
    if motif.collective == "alltoall":
        start, stop, source, target = exchanged(motif)
        each = np.arange(len(start) + 1)
        return _Rows(start, stop, each, source, each, target)
    moves = list(motif.moves())
    spans = np.array([move.span for move in moves], dtype=np.int64).reshape(-1, 2)
    ends = []
    for own in ([move.sources for move in moves], [move.targets for move in moves]):
        first = np.concatenate([[0], np.cumsum([len(ranks) for ranks in own], dtype=np.int64)])
        ends += [first, np.array([rank for ranks in own for rank in ranks], dtype=np.int64)]
    return _Rows(spans[:, 0], spans[:, 1], *ends)


class _Pieces(NamedTuple):
    """Reads and writes of a motif, with a row for each piece of each move.

    Attributes:
        first: Index of the first source of each row in ``read``.
        read: Places.
        write: Places.
        row: Row that writes each written place.
    """

    first: _Whole
    read: _Whole
    write: _Whole
    row: _Whole


@dataclass(frozen=True, slots=True)
class _Table:
    """Places, which are pairs of a piece and a rank, by numbers without gaps.

    Attributes:
        cuts: where pieces of elements begin.
        ranks: one more than the highest.
        place: which pairs there are, ascending.
    """

    cuts: _Whole
    ranks: int
    place: _Whole

    def element(self, place: int) -> int:
        """Return the first element of a place."""
        return int(self.cuts[int(self.place[place]) // self.ranks])

    def rank(self, place: int) -> int:
        """Return the rank of a place."""
        return int(self.place[place]) % self.ranks


def _cut(rows: _Rows, cuts: _Whole, ranks: int) -> _Pieces:
    """Return moves cut into pieces; places are pairs as one number each."""
    begin = np.searchsorted(cuts, rows.start)
    count = np.searchsorted(cuts, rows.stop) - begin
    move = np.repeat(np.arange(len(count)), count)
    piece = np.arange(len(move)) - np.repeat(np.cumsum(count) - count, count) + begin[move]
    ends = []
    for first, rank in ((rows.from_first, rows.source), (rows.to_first, rows.target)):
        many = np.diff(first)[move]
        row = np.repeat(np.arange(len(move)), many)
        within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
        ends += [np.cumsum(many) - many, piece[row] * ranks + rank[first[move][row] + within], row]
    return _Pieces(ends[0], ends[1], ends[4], ends[5])


def _distinct(values: _Whole) -> _Whole:
    """Return the values that there are, ascending: sorted, as a table of them takes much longer."""
    ordered = np.sort(values)
    first: _Whole = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]]
    return first


def check_work(size: int) -> None:
    """Check that motifs are not too much to execute.

    Args:
        size: how often a rank reads or writes a piece of elements.

    Raises:
        ParameterError: they are.
    """
    if size > MOST_STATES:
        raise ParameterError(
            f"judging it takes {size} moves of pieces, expected {MOST_STATES} at the most: give "
            "fewer ranks or segments"
        )


def wrong_in(whole: Motif | Sequence[Motif], motifs: Sequence[Motif]) -> str:
    """Return a violation of motifs that implement a collective. Empty: none.

    Args:
        whole: The collective, or several, all of which are implemented. The elements of each follow
            those of the previous one.

    Raises:
        ParameterError: There is too much to execute.
    """
    wholes = [whole] if isinstance(whole, Motif) else whole
    rows = [_goal(wholes), *map(_rows, motifs)]
    cuts = _distinct(np.concatenate([end for own in rows for end in (own.start, own.stop)]))
    ranks = 1 + max(int(own.source.max(initial=0)) for own in rows)
    ranks = max(ranks, 1 + max(int(own.target.max(initial=0)) for own in rows))
    _check_size(rows, cuts)
    pieces = [_cut(own, cuts, ranks) for own in rows]
    place = _distinct(np.concatenate([end for own in pieces for end in (own.read, own.write)]))
    table = _Table(cuts, ranks, place)
    numbered = [
        own._replace(read=np.searchsorted(place, own.read), write=np.searchsorted(place, own.write))
        for own in pieces
    ]
    goal, state = numbered[0], _State(table, len(motifs), combines=wholes[0].combines)
    state.begin(goal.read)
    for number, (motif, own) in enumerate(zip(motifs, numbered[1:], strict=True)):
        if wrong := state.executed(number, motif, own):
            return f"motif {number} ({motif.collective}): {wrong}"
    return state.missing(goal, wholes[0].collective)


def _goal(wholes: Sequence[Motif]) -> _Rows:
    """Return the moves of collectives, the elements of each after those of the previous one."""
    if len(wholes) == 1:
        return _rows(wholes[0])
    parts, first = [], 0
    for one in wholes:
        own = _rows(one)
        parts.append(own._replace(start=own.start + first, stop=own.stop + first))
        first += length(one)
    ends = []
    for begins in ([own.from_first for own in parts], [own.to_first for own in parts]):
        counts = np.concatenate([np.diff(own) for own in begins])
        ends.append(np.concatenate([[0], np.cumsum(counts)]))
    columns = zip(*parts, strict=True)
    start, stop, _, source, _, target = (np.concatenate(own) for own in columns)
    return _Rows(start, stop, ends[0], source, ends[1], target)


def _check_size(rows: Sequence[_Rows], cuts: _Whole) -> None:
    size = 0
    for own in rows:
        count = np.searchsorted(cuts, own.stop) - np.searchsorted(cuts, own.start)
        size += int((count * (np.diff(own.from_first) + np.diff(own.to_first))).sum())
    check_work(size)


class _State:
    """The values of ranks, and the motifs that wrote them.

    Sets are words of bits: ranks whose contributions a place contains, and motifs. Without
    reductions a place contains the value of one rank, and the word is its number.
    """

    def __init__(self, table: _Table, motifs: int, *, combines: bool) -> None:
        places, self.table, self.combines = len(table.place), table, combines
        words = -(-table.ranks // 64) if combines else 1
        self.has: _Words = np.zeros((places, words), dtype=np.uint64)
        self.wrote = np.full(places, -1, dtype=np.int64)
        self.read: _Words = np.zeros((places, max(1, -(-motifs // 64))), dtype=np.uint64)
        self.before = np.zeros((motifs, self.read.shape[1]), dtype=np.uint64)

    def begin(self, places: _Whole) -> None:
        """Give ranks their own contributions."""
        self.has[places] = self._own(places)

    def _own(self, places: _Whole) -> _Words:
        """Return the contribution of the rank of each place."""
        rank = self.table.place[places] % self.table.ranks
        if not self.combines:
            return (rank + 1).astype(np.uint64)[:, None]
        own = np.zeros((len(places), self.has.shape[1]), dtype=np.uint64)
        own[np.arange(len(places)), rank // 64] = _bit(rank)
        return own

    def executed(self, number: int, motif: Motif, own: _Pieces) -> str:
        """Execute a motif, and return a violation. Empty: none."""
        if wrong := [k for k in motif.after if not 0 <= k < number]:
            return f"it waits for motif {wrong[0]}, which is not before it"
        for k in motif.after:
            self.before[number] |= self.before[k]
            self.before[number, k // 64] |= _bit(np.array(k))
        if not len(own.read):
            return ""
        values = self.has[own.read]
        nothing = np.flatnonzero(~values.any(axis=1))
        if len(nothing):
            place = int(own.read[nothing[0]])
            rank, element = self.table.rank(place), self.table.element(place)
            return f"rank {rank} has nothing of element {element}"
        if (other := self._writer(number, own.read)) >= 0:
            return f"it reads data that motif {other} writes, and does not wait for it"
        total = np.bitwise_or.reduceat(values, own.first, axis=0)
        if motif.combines and (twice := self._twice(values, total, own)):
            return twice
        self.read[own.read, number // 64] |= _bit(np.array(number))
        return self._written(number, own, total)

    def _writer(self, number: int, places: _Whole) -> int:
        """Return a motif that wrote some places and is not before one. -1: none."""
        for other in _distinct(self.wrote[places]).tolist():
            if other >= 0 and not self.before[number, other // 64] & _bit(np.array(other)):
                return int(other)
        return -1

    def _twice(self, values: _Words, total: _Words, own: _Pieces) -> str:
        """Return that some rank's contribution comes twice. Empty: none does."""
        rows = np.flatnonzero(np.add.reduceat(_bits(values), own.first) > _bits(total))
        if not len(rows):
            return ""
        place = int(own.read[own.first[rows[0]]])
        return f"element {self.table.element(place)} gets a contribution twice"

    def _written(self, number: int, own: _Pieces, total: _Words) -> str:
        """Write the targets of a motif, and return a violation. Empty: none."""
        if (other := self._writer(number, own.write)) >= 0:
            return f"it writes data that motif {other} uses, and does not wait for it"
        allowed = self.before[number].copy()
        allowed[number // 64] |= _bit(np.array(number))
        readers = np.bitwise_or.reduce(self.read[own.write], axis=0) & ~allowed
        if readers.any():
            other = int(np.unpackbits(readers.view(np.uint8), bitorder="little").argmax())
            return f"it writes data that motif {other} uses, and does not wait for it"
        self.has[own.write] = total[own.row]
        differs = np.flatnonzero((self.has[own.write] != total[own.row]).any(axis=1))
        if len(differs):
            place = int(own.write[differs[0]])
            rank, element = self.table.rank(place), self.table.element(place)
            return f"rank {rank} gets element {element} twice"
        self.wrote[own.write] = number
        self.read[own.write] = 0
        return ""

    def missing(self, goal: _Pieces, collective: str) -> str:
        """Return a violation of the final state. Empty: none."""
        wanted = np.bitwise_or.reduceat(self._own(goal.read), goal.first, axis=0)[goal.row]
        lacks = np.flatnonzero((self.has[goal.write] != wanted).any(axis=1))
        if not len(lacks):
            return ""
        place = int(goal.write[lacks[0]])
        return (
            f"after all motifs rank {self.table.rank(place)} does not have element "
            f"{self.table.element(place)} as the {collective} leaves it"
        )


def _bits(words: _Words) -> _Whole:
    """Return how many bits are set in each row of words."""
    found: _Whole = np.unpackbits(words.view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
    return found


def _bit(number: NDArray[np.integer]) -> _Words:
    """Return words of which the bits of some numbers are set, of each its own."""
    return np.left_shift(np.uint64(1), (number % 64).astype(np.uint64))
