"""Motif: a part of a collective that is issued and scheduled as one.

Source: SYNDICATE (NSDI 2023) section 4.2: a part of a collective's payload, times a part of its
pattern. The data of all ranks in a collective are laid out in one row of elements, rank after rank
where each rank has different data; cells of the row move as wholes, or the same part of each. An
element to which several ranks contribute has one place in the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

Span = tuple[int, int]
"""Elements of the row, from one up to another."""

FULL_CELL = (Fraction(0), Fraction(1))
"""All of each cell."""

COMBINING = frozenset({"allreduce", "reduce", "reducescatter"})
"""Collectives that reduce data of several ranks."""


@dataclass(frozen=True, slots=True)
class MotifMove:
    """Elements that some ranks hold, and others receive.

    Attributes:
        span: the elements.
        sources: the rank that holds them. In combining motifs, the ranks that contribute.
        targets: the ranks that hold them afterwards.
    """

    span: Span
    sources: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MotifShare:
    """The share of one group of ranks in a motif.

    Attributes:
        group: the ranks, in their order: a place is a rank's number in it.
        cells: where each cell begins, and the end of the last. In alltoall, cells from the first
            rank of all to each, then those from the second.
        owns: by place, the cells that it gives (allgather, gather), or receives (reducescatter,
            scatter). In alltoall the ranks whose data it gives. Empty: all move all cells.
        wants: by place, in alltoall: the ranks whose data it receives. Otherwise empty.
        root: the place that has all, or receives all. None: the collective has no root.
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
        collective: its name, one of the eight.
        shares: the shares of groups at once. Groups with common ranks move other elements.
        part: part of each cell, from and to; elements are rounded down.
        offsets: in alltoall, the distances in places to send over. Empty: to all.
        after: motifs of the same collective that end before it begins, by number.
        channel: the channel that it has to take. Empty: any.
    """

    collective: str
    shares: tuple[MotifShare, ...]
    part: tuple[Fraction, Fraction] = FULL_CELL
    offsets: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    channel: str = ""

    @property
    def is_combining(self) -> bool:
        """Return whether it reduces."""
        return self.collective in COMBINING

    @property
    def max_group_size(self) -> int:
        """Return how many ranks the largest of its groups has."""
        return max(len(share.group) for share in self.shares)

    def moves(self) -> Iterator[MotifMove]:
        """Yield the elements that move, without those that stay in place."""
        for share in self.shares:
            if self.collective == "alltoall":
                yield from self._alltoall_moves(share)
            else:
                yield from self._collective_moves(share)

    def span(self, share: MotifShare, cell: int) -> Span:
        """Return the elements of a cell that move; none: both ends are the same."""
        start, size = share.cells[cell], share.cells[cell + 1] - share.cells[cell]
        low, high = self.part  # whole numbers: fractions would take most of the time
        return (
            start + size * low.numerator // low.denominator,
            start + size * high.numerator // high.denominator,
        )

    def _collective_moves(self, share: MotifShare) -> Iterator[MotifMove]:
        group, name = share.group, self.collective
        top = () if share.root is None else (group[share.root],)
        owns = share.owns or ((*range(len(share.cells) - 1),),)
        for place, cells in enumerate(owns):
            owner = (group[place],)
            ends = {
                "allgather": (owner, group),
                "allreduce": (group, group),
                "broadcast": (top, group),
                "gather": (owner, top),
                "reduce": (group, top),
                "reducescatter": (group, owner),
                "scatter": (top, owner),
            }
            sources, targets = ends[name]
            if not self.is_combining:
                targets = tuple(rank for rank in targets if rank not in sources)
            for cell in cells if targets else ():
                span = self.span(share, cell)
                if span[0] < span[1]:
                    yield MotifMove(span, sources, targets)

    def _alltoall_moves(self, share: MotifShare) -> Iterator[MotifMove]:
        group, width = share.group, len(share.group)
        everyone = isqrt(len(share.cells) - 1)
        for giver, place in ((a, b) for a in range(width) for b in range(width) if a != b):
            if self.offsets and (place - giver) % width not in self.offsets:
                continue
            for source in share.owns[giver]:
                for target in share.wants[place]:
                    span = self.span(share, source * everyone + target)
                    if span[0] < span[1]:
                        yield MotifMove(span, (group[giver],), (group[place],))
