"""What one flow carries, from where to where."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.collective import Collective, RelationKind

_ONE_END = {RelationKind.ROOT, RelationKind.PAIRS}  # of others no chunks need be looked at


@dataclass(frozen=True, slots=True)
class Ends:
    """What one flow carries.

    Attributes:
        sources: (ranks that hold it, amount) of each part.
        sinks: (a rank that wants it, amount): one that wants all parts, or several, of one source.
    """

    sources: tuple[tuple[frozenset[int], int], ...]
    sinks: tuple[tuple[int, int], ...]

    @property
    def amount(self) -> int:
        """Return what has to arrive."""
        return sum(amount for _, amount in self.sinks)


def one_flow(collective: Collective) -> Ends | None:
    """Return the flow of all chunks, where each goes to one rank, all from or all to the same.

    Those of scatter and gather: whatever this flow can do, chunks can.
    """
    if {collective.pre.kind, collective.post.kind}.isdisjoint(_ONE_END):
        return None
    classes = [
        (frozenset(map(int, holders)), sorted(map(int, wanted - holders)), len(chunks))
        for (holders, wanted), chunks in collective.classes().items()
        if wanted - holders
    ]
    if not classes or any(len(wanted) > 1 for _, wanted, _ in classes):
        return None
    if len({holders for holders, _, _ in classes}) == 1:
        amount = sum(chunks for _, _, chunks in classes)
        sinks = tuple((rank, chunks) for _, (rank,), chunks in classes)
        return Ends(((classes[0][0], amount),), sinks)
    if len({rank for _, (rank,), _ in classes}) == 1:
        amount = sum(chunks for _, _, chunks in classes)
        sources = tuple((holders, chunks) for holders, _, chunks in classes)
        return Ends(sources, ((classes[0][1][0], amount),))
    return None
