"""Motif: a part of a collective that is issued as one, and is scheduled as one.

Source: SYNDICATE (NSDI 2023) section 4.2: a part of a collective's payload, times a part of its
pattern. What all ranks hold of a collective is laid out in one row of elements, that of a rank
after that of the one before where each holds its own; cells of the row move as wholes, or the same
part of each. So is an element of which several ranks have a contribution one place in the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

Span = tuple[int, int]
"""Elements of the row, from one up to another."""

WHOLE = (Fraction(0), Fraction(1))
"""All of each cell."""

COMBINING = frozenset({"allreduce", "reduce", "reducescatter"})
"""Collectives that reduce what several ranks have."""


@dataclass(frozen=True, slots=True)
class MotifMove:
    """Elements that some ranks have, and others get.

    Attributes:
        span: which elements.
        sources: the rank that has them. In what combines, the ranks that contribute.
        targets: who has them afterwards.
    """

    span: Span
    sources: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MotifShare:
    """What one group of ranks does of a motif.

    Attributes:
        group: the ranks, in their order: a place is a rank's number in it.
        cells: where each cell begins, and the end of the last; of alltoall those from the first
            rank of all to each, then those from the second.
        owns: by place, the cells that it gives (allgather, gather), or gets (reducescatter,
            scatter); of alltoall the ranks of all whose data it gives. Empty: all move all cells.
        wants: by place, of alltoall: the ranks of all whose data it gets. Otherwise empty.
        root: the place that has all, or gets all. None: the collective has no root.
    """

    group: tuple[int, ...]
    cells: tuple[int, ...]
    owns: tuple[tuple[int, ...], ...] = ()
    wants: tuple[tuple[int, ...], ...] = ()
    root: int | None = None


@dataclass(frozen=True, slots=True)
class Motif:
    """A part of a collective.

    Attributes:
        collective: its name: of the eight.
        shares: what groups do of it at once. Those that have ranks in common move other elements.
        part: of each cell, from where to where; elements are cut off downwards.
        offsets: of alltoall, how many places on it sends. Empty: to all.
        after: motifs of the same collective that end before it begins, by their numbers.
        channel: which it has to take. Empty: any.
    """

    collective: str
    shares: tuple[MotifShare, ...]
    part: tuple[Fraction, Fraction] = WHOLE
    offsets: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    channel: str = ""

    @property
    def combines(self) -> bool:
        """Return whether it reduces."""
        return self.collective in COMBINING

    @property
    def places(self) -> int:
        """Return how many ranks the largest of its groups has."""
        return max(len(share.group) for share in self.shares)

    def moves(self) -> Iterator[MotifMove]:
        """Yield what moves, without what stays where it is."""
        for share in self.shares:
            if self.collective == "alltoall":
                yield from self._exchanged(share)
            else:
                yield from self._moved(share)

    def span(self, share: MotifShare, cell: int) -> Span:
        """Return the elements of a cell that move; none: both ends are the same."""
        start, size = share.cells[cell], share.cells[cell + 1] - share.cells[cell]
        low, high = self.part  # whole numbers: fractions would take most of the time
        return (
            start + size * low.numerator // low.denominator,
            start + size * high.numerator // high.denominator,
        )

    def _moved(self, share: MotifShare) -> Iterator[MotifMove]:
        group, name = share.group, self.collective
        top = () if share.root is None else (group[share.root],)
        owns = share.owns or ((*range(len(share.cells) - 1),),)
        for place, cells in enumerate(owns):
            one = (group[place],)
            ends = {
                "allgather": (one, group),
                "allreduce": (group, group),
                "broadcast": (top, group),
                "gather": (one, top),
                "reduce": (group, top),
                "reducescatter": (group, one),
                "scatter": (top, one),
            }
            sources, targets = ends[name]
            if not self.combines:
                targets = tuple(rank for rank in targets if rank not in sources)
            for cell in cells if targets else ():
                span = self.span(share, cell)
                if span[0] < span[1]:
                    yield MotifMove(span, sources, targets)

    def _exchanged(self, share: MotifShare) -> Iterator[MotifMove]:
        group, width = share.group, len(share.group)
        everyone = isqrt(len(share.cells) - 1)
        for here, place in ((a, b) for a in range(width) for b in range(width) if a != b):
            if self.offsets and (place - here) % width not in self.offsets:
                continue
            for source in share.owns[here]:
                for target in share.wants[place]:
                    span = self.span(share, source * everyone + target)
                    if span[0] < span[1]:
                        yield MotifMove(span, (group[here],), (group[place],))
