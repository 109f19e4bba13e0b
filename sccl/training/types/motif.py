"""Motif: a part of a collective that is issued and scheduled as a unit.

Source: SYNDICATE (NSDI 2023) section 4.2: a part of a collective's payload, times a part of its
pattern. The data of all ranks in a collective form one row of elements, rank after rank if the
ranks have different data. The row is divided into cells. A motif moves cells, or the same part of
each cell. An element to which several ranks contribute occurs once in the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

Span = tuple[int, int]
"""Elements of the row, from the first to before the second index."""

FULL_CELL = (Fraction(0), Fraction(1))
"""All of each cell."""

COMBINING = frozenset({"allreduce", "reduce", "reducescatter"})
"""Collectives that reduce data of several ranks."""


@dataclass(frozen=True, slots=True)
class MotifMove:
    """Elements that some ranks hold, and others receive.

    Attributes:
        span: the elements.
        sources: The rank that holds them. In combining motifs, all contributing ranks.
        targets: The ranks that hold them afterwards.
    """

    span: Span
    sources: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MotifShare:
    """The share of one group of ranks in a motif.

    Attributes:
        group: The ranks in order. A *place* is an index into it.
        cells: Begin of each cell, and the end of the last one. In alltoall, the cells from the
            first rank to each rank, then those from the second rank, and so on.
        owns: Cells that each place sends (allgather, gather) or receives (reducescatter, scatter).
            In alltoall, the ranks whose data it sends. Empty: all places move all cells.
        wants: Ranks whose data each place receives, in alltoall. Otherwise empty.
        root: Place of the root. None: the collective has no root.
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
        collective: Name of the collective, one of eight.
        shares: Shares of concurrent groups. Groups with common ranks move different elements.
        part: Begin and end of the moved part of each cell, as fractions. Elements are rounded down.
        offsets: Distances in places to send over, in alltoall. Empty: all.
        after: Numbers of the motifs of the same collective that end before it begins.
        channel: Required channel. Empty: any.
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
        """Return the number of ranks of its largest group."""
        return max(len(share.group) for share in self.shares)

    def moves(self) -> Iterator[MotifMove]:
        """Yield the moves of elements, without elements that stay in place."""
        for share in self.shares:
            if self.collective == "alltoall":
                yield from self._alltoall_moves(share)
            else:
                yield from self._collective_moves(share)

    def span(self, share: MotifShare, cell: int) -> Span:
        """Return the moved elements of a cell. If there are none, both ends are equal."""
        start, size = share.cells[cell], share.cells[cell + 1] - share.cells[cell]
        low, high = self.part  # integer arithmetic, since Fraction is slow
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
