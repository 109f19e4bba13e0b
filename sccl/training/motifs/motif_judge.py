"""Verify that motifs implement their collective in every permitted order of execution.

Motifs are executed symbolically: the state of an element on a rank is the set of ranks whose
contributions it contains. Motifs that access the same data must be ordered by dependencies, so one
order of execution represents all permitted orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray, UInt64Array
from sccl.errors import ParameterError
from sccl.training.motifs.collective_motif import total_elements
from sccl.training.motifs.extents import list_exchanges
from sccl.training.types.motif import Motif

MAX_STATES = 2**23
"""Largest number of reads and writes of pieces by all ranks."""


class _Moves(NamedTuple):
    """Moves before elements are divided into pieces.

    Attributes:
        start: First element of each move.
        stop: End of each move (exclusive).
        from_first: Offset in ``source`` for each move, and the total at the end.
        source: Source ranks of all moves.
        to_first: Offset in ``target`` for each move, and the total at the end.
        target: Target ranks of all moves.
    """

    start: IntArray
    stop: IntArray
    from_first: IntArray
    source: IntArray
    to_first: IntArray
    target: IntArray


def _list_moves(motif: Motif) -> _Moves:
    """Return the moves of a motif. Those of an alltoall, up to millions, are built by columns."""
    if motif.collective == "alltoall":
        start, stop, source, target = list_exchanges(motif)
        each = np.arange(len(start) + 1)
        return _Moves(start, stop, each, source, each, target)
    moves = list(motif.moves())
    spans = np.array([move.span for move in moves], dtype=np.int64).reshape(-1, 2)
    ends = []
    for side in ([move.sources for move in moves], [move.targets for move in moves]):
        first = np.concatenate([[0], np.cumsum([len(ranks) for ranks in side], dtype=np.int64)])
        ends += [first, np.array([rank for ranks in side for rank in ranks], dtype=np.int64)]
    return _Moves(spans[:, 0], spans[:, 1], *ends)


class _Pieces(NamedTuple):
    """Reads and writes of a motif, with a row for each piece of each move.

    Attributes:
        first: Offset in ``read`` for each row.
        read: Places that all rows read.
        write: Places that all rows write.
        row: Row that writes each place of ``write``.
    """

    first: IntArray
    read: IntArray
    write: IntArray
    row: IntArray


@dataclass(frozen=True, slots=True)
class _PlaceTable:
    """Places, which are pairs of a piece and a rank, with consecutive numbers.

    Attributes:
        cuts: First element of each piece.
        ranks: Largest rank plus 1.
        place: Existing pairs as ``piece * ranks + rank``, ascending.
    """

    cuts: IntArray
    ranks: int
    place: IntArray

    def element(self, place: int) -> int:
        return int(self.cuts[int(self.place[place]) // self.ranks])

    def rank(self, place: int) -> int:
        return int(self.place[place]) % self.ranks


def _cut_into_pieces(rows: _Moves, cuts: IntArray, ranks: int) -> _Pieces:
    """Divide moves into pieces. Places have numbers ``piece * ranks + rank``."""
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


def _sorted_unique(values: IntArray) -> IntArray:
    """Return the distinct values, ascending. Sorting is faster than NumPy's hash table."""
    ordered = np.sort(values)
    first: IntArray = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]]
    return first


def check_work(size: int) -> None:
    """Check that verification of motifs is not too expensive.

    Args:
        size: Number of reads and writes of pieces by all ranks.

    Raises:
        ParameterError: The size exceeds :data:`MAX_STATES`.
    """
    if size > MAX_STATES:
        raise ParameterError(
            f"its verification takes {size} moves of pieces, expected at most {MAX_STATES}: give "
            "fewer ranks or segments"
        )


def find_motif_fault(demand: Motif | Sequence[Motif], motifs: Sequence[Motif]) -> str:
    """Return a violation of motifs that implement a collective. Empty: none.

    Args:
        demand: Collective, or several collectives with concatenated elements.
        motifs: Motifs in topological order.

    Raises:
        ParameterError: Verification is too expensive.
    """
    wholes = [demand] if isinstance(demand, Motif) else demand
    rows = [_goal_moves(wholes), *map(_list_moves, motifs)]
    cuts = _sorted_unique(np.concatenate([end for part in rows for end in (part.start, part.stop)]))
    ranks = 1 + max(int(part.source.max(initial=0)) for part in rows)
    ranks = max(ranks, 1 + max(int(part.target.max(initial=0)) for part in rows))
    _check_size(rows, cuts)
    pieces = [_cut_into_pieces(part, cuts, ranks) for part in rows]
    place = _sorted_unique(
        np.concatenate([end for part in pieces for end in (part.read, part.write)])
    )
    table = _PlaceTable(cuts, ranks, place)
    numbered = [
        part._replace(
            read=np.searchsorted(place, part.read), write=np.searchsorted(place, part.write)
        )
        for part in pieces
    ]
    goal, state = numbered[0], _State(table, len(motifs), combines=wholes[0].is_combining)
    state.add_contributions(goal.read)
    for number, (motif, part) in enumerate(zip(motifs, numbered[1:], strict=True)):
        if wrong := state.execute(number, motif, part):
            return f"motif {number} ({motif.collective}): {wrong}"
    return state.find_missing(goal, wholes[0].collective)


def _goal_moves(wholes: Sequence[Motif]) -> _Moves:
    """Return the moves of collectives with concatenated elements."""
    if len(wholes) == 1:
        return _list_moves(wholes[0])
    parts, first = [], 0
    for motif in wholes:
        part = _list_moves(motif)
        parts.append(part._replace(start=part.start + first, stop=part.stop + first))
        first += total_elements(motif)
    ends = []
    for begins in ([part.from_first for part in parts], [part.to_first for part in parts]):
        counts = np.concatenate([np.diff(part) for part in begins])
        ends.append(np.concatenate([[0], np.cumsum(counts)]))
    columns = zip(*parts, strict=True)
    start, stop, _, source, _, target = (np.concatenate(part) for part in columns)
    return _Moves(start, stop, ends[0], source, ends[1], target)


def _check_size(rows: Sequence[_Moves], cuts: IntArray) -> None:
    size = 0
    for part in rows:
        count = np.searchsorted(cuts, part.stop) - np.searchsorted(cuts, part.start)
        size += int((count * (np.diff(part.from_first) + np.diff(part.to_first))).sum())
    check_work(size)


class _State:
    """The values of all places, and the motifs that read and wrote them.

    Sets of ranks and of motifs are bit sets in 64-bit words. Without reductions a place contains
    the value of one rank, and its word is this rank plus 1.
    """

    def __init__(self, table: _PlaceTable, motifs: int, *, combines: bool) -> None:
        places, self.table, self.combines = len(table.place), table, combines
        words = -(-table.ranks // 64) if combines else 1
        self.has: UInt64Array = np.zeros((places, words), dtype=np.uint64)
        self.wrote = np.full(places, -1, dtype=np.int64)
        self.read: UInt64Array = np.zeros((places, max(1, -(-motifs // 64))), dtype=np.uint64)
        self.before = np.zeros((motifs, self.read.shape[1]), dtype=np.uint64)

    def add_contributions(self, places: IntArray) -> None:
        """Set places to the contributions of their own ranks."""
        self.has[places] = self._contribution_bits(places)

    def _contribution_bits(self, places: IntArray) -> UInt64Array:
        rank = self.table.place[places] % self.table.ranks
        if not self.combines:
            return (rank + 1).astype(np.uint64)[:, None]
        words = np.zeros((len(places), self.has.shape[1]), dtype=np.uint64)
        words[np.arange(len(places)), rank // 64] = _unit_words(rank)
        return words

    def execute(self, number: int, motif: Motif, pieces: _Pieces) -> str:
        """Execute a motif, and return a violation. Empty: none."""
        if wrong := [k for k in motif.after if not 0 <= k < number]:
            return f"it waits for motif {wrong[0]}, which is not before it"
        for k in motif.after:
            self.before[number] |= self.before[k]
            self.before[number, k // 64] |= _unit_words(np.array(k))
        if not len(pieces.read):
            return ""
        values = self.has[pieces.read]
        nothing = np.flatnonzero(~values.any(axis=1))
        if len(nothing):
            place = int(pieces.read[nothing[0]])
            rank, element = self.table.rank(place), self.table.element(place)
            return f"rank {rank} has nothing of element {element}"
        if (writer := self._unordered_writer(number, pieces.read)) >= 0:
            return f"it reads data that motif {writer} writes, and does not wait for it"
        total = np.bitwise_or.reduceat(values, pieces.first, axis=0)
        if motif.is_combining and (twice := self._find_double_count(values, total, pieces)):
            return twice
        self.read[pieces.read, number // 64] |= _unit_words(np.array(number))
        return self._write_targets(number, pieces, total)

    def _unordered_writer(self, number: int, places: IntArray) -> int:
        """Return a motif that wrote some of the places and does not precede a motif. -1: none."""
        for writer in _sorted_unique(self.wrote[places]).tolist():
            if writer >= 0 and not self.before[number, writer // 64] & _unit_words(
                np.array(writer)
            ):
                return int(writer)
        return -1

    def _find_double_count(self, values: UInt64Array, total: UInt64Array, pieces: _Pieces) -> str:
        """Return a violation if a contribution is counted twice. Empty: none."""
        rows = np.flatnonzero(
            np.add.reduceat(_count_bits(values), pieces.first) > _count_bits(total)
        )
        if not len(rows):
            return ""
        place = int(pieces.read[pieces.first[rows[0]]])
        return f"element {self.table.element(place)} receives a contribution twice"

    def _write_targets(self, number: int, pieces: _Pieces, total: UInt64Array) -> str:
        """Write the targets of a motif, and return a violation. Empty: none."""
        if (blocker := self._unordered_writer(number, pieces.write)) >= 0:
            return f"it writes data that motif {blocker} uses, and does not wait for it"
        allowed = self.before[number].copy()
        allowed[number // 64] |= _unit_words(np.array(number))
        readers = np.bitwise_or.reduce(self.read[pieces.write], axis=0) & ~allowed
        if readers.any():
            blocker = int(np.unpackbits(readers.view(np.uint8), bitorder="little").argmax())
            return f"it writes data that motif {blocker} uses, and does not wait for it"
        self.has[pieces.write] = total[pieces.row]
        differs = np.flatnonzero((self.has[pieces.write] != total[pieces.row]).any(axis=1))
        if len(differs):
            place = int(pieces.write[differs[0]])
            rank, element = self.table.rank(place), self.table.element(place)
            return f"rank {rank} receives element {element} twice"
        self.wrote[pieces.write] = number
        self.read[pieces.write] = 0
        return ""

    def find_missing(self, goal: _Pieces, collective: str) -> str:
        """Return a violation of the final state. Empty: none."""
        wanted = np.bitwise_or.reduceat(self._contribution_bits(goal.read), goal.first, axis=0)[
            goal.row
        ]
        lacks = np.flatnonzero((self.has[goal.write] != wanted).any(axis=1))
        if not len(lacks):
            return ""
        place = int(goal.write[lacks[0]])
        return (
            f"after all motifs rank {self.table.rank(place)} does not have element "
            f"{self.table.element(place)} as the {collective} leaves it"
        )


def _count_bits(words: UInt64Array) -> IntArray:
    """Return the number of set bits in each row of words."""
    counts: IntArray = np.unpackbits(words.view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
    return counts


def _unit_words(number: NDArray[np.integer]) -> UInt64Array:
    """Return one word for each number, with the bit ``number % 64`` set."""
    return np.left_shift(np.uint64(1), (number % 64).astype(np.uint64))
