"""The judge of motifs: whatever order they are executed in, they do what their collective does.

They are executed on symbols: what a rank has of an element is the set of ranks whose contributions
it is made of. A motif that reads or writes what another writes has to be ordered with it, so that
one order stands for all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from sccl.core.motif import Motif, MotifMove
from sccl.errors import ParameterError

MOST_STATES = 2**22
"""Of ranks, times pieces of elements, that are moved."""

_Place = tuple[int, int]
"""A rank, and a piece of the row of elements."""


@dataclass(slots=True)
class _State:
    """What ranks have, and which motifs it comes from.

    Attributes:
        cuts: where pieces of elements begin.
        has: of each place, whose contributions it has, a bit for each rank.
        wrote: the motif that wrote it last.
        read: motifs that read it since.
        before: of each motif, whom it waits for, they and theirs.
    """

    cuts: list[int]
    has: dict[_Place, int] = field(default_factory=dict)
    wrote: dict[_Place, int] = field(default_factory=dict)
    read: dict[_Place, set[int]] = field(default_factory=dict)
    before: list[int] = field(default_factory=list)

    def pieces(self, move: MotifMove) -> range:
        """Return the pieces of what moves."""
        start, stop = move.span
        return range(bisect_left(self.cuts, start), bisect_left(self.cuts, stop))

    def total(self, move: MotifMove, piece: int, *, combines: bool) -> int | str:
        """Return what becomes of what sources have; or what is wrong with it."""
        found = 0
        for rank in move.sources:
            own = self.has.get((rank, piece), 0)
            if not own:
                return f"rank {rank} has nothing of element {self.cuts[piece]}"
            if combines and found & own:
                twice = (found & own).bit_length() - 1
                return f"element {self.cuts[piece]} gets what rank {twice} contributes twice"
            found |= own
        return found

    def unordered(self, motif: int, place: _Place, *, writes: bool) -> int | None:
        """Return a motif that reads or writes a place, too, and is not ordered with this one."""
        others = {self.wrote.get(place, motif)} | (self.read.get(place, set()) if writes else set())
        before = self.before[motif]
        return min((k for k in others - {motif} if not before >> k & 1), default=None)


def wrong_in(whole: Motif, motifs: Sequence[Motif]) -> str:
    """Return what is wrong with motifs in place of one; empty: nothing.

    Raises:
        ParameterError: there is too much to execute.
    """
    moves = [list(motif.moves()) for motif in motifs]
    goal = list(whole.moves())
    cuts = sorted({end for own in (goal, *moves) for move in own for end in move.span})
    state = _State(cuts)
    size = sum(len(state.pieces(m)) * len(m.sources + m.targets) for own in moves for m in own)
    if size > MOST_STATES:
        raise ParameterError(
            f"judging it takes {size} moves of pieces, expected {MOST_STATES} at the most: judge "
            "it on fewer ranks or segments"
        )
    for move in goal:
        for piece in state.pieces(move):
            state.has.update({(rank, piece): 1 << rank for rank in move.sources})
    for number, (motif, own) in enumerate(zip(motifs, moves, strict=True)):
        if wrong := _executed(state, number, motif, own):
            return f"motif {number} ({motif.collective}): {wrong}"
    for move in goal:
        wanted = sum(1 << rank for rank in move.sources)
        for piece in state.pieces(move):
            for rank in move.targets:
                if state.has.get((rank, piece), 0) != wanted:
                    return (
                        f"after all motifs rank {rank} does not have element {cuts[piece]} as the "
                        f"{whole.collective} leaves it"
                    )
    return ""


def _executed(state: _State, number: int, motif: Motif, moves: Sequence[MotifMove]) -> str:
    """Execute a motif; return what is wrong with it."""
    if wrong := [k for k in motif.after if not 0 <= k < number]:
        return f"it waits for motif {wrong[0]}, which is not before it"
    waits = 0
    for k in motif.after:
        waits |= state.before[k] | 1 << k
    state.before.append(waits)
    written: dict[_Place, int] = {}
    for move in moves:
        for piece in state.pieces(move):
            total = state.total(move, piece, combines=motif.combines)
            if isinstance(total, str):
                return total
            for rank in move.targets:
                if written.setdefault((rank, piece), total) != total:
                    return f"rank {rank} gets element {state.cuts[piece]} twice"
            for rank in move.sources:
                if (other := state.unordered(number, (rank, piece), writes=False)) is not None:
                    return f"it reads what motif {other} writes, and does not wait for it"
                state.read.setdefault((rank, piece), set()).add(number)
    for place, total in written.items():
        if (other := state.unordered(number, place, writes=True)) is not None:
            return f"it writes what motif {other} has in use, and does not wait for it"
        state.has[place], state.wrote[place] = total, number
        state.read[place] = set()
    return ""
