"""The sources and sinks of one flow."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.collective import Collective, RelationKind

_SINGLE_END_KINDS = {RelationKind.ROOT, RelationKind.PAIRS}  # of others no chunks need be looked at


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """The sources and sinks of one flow.

    Attributes:
        sources: (ranks that hold it, amount) of each part.
        sinks: (rank, amount): a rank that wants all parts, or several parts of one source.
    """

    sources: tuple[tuple[frozenset[int], int], ...]
    sinks: tuple[tuple[int, int], ...]

    @property
    def amount(self) -> int:
        """Return the total amount at the sinks."""
        return sum(amount for _, amount in self.sinks)


def single_flow_ends(collective: Collective) -> FlowEnds | None:
    """Return one flow of all chunks, if each goes to one rank, all from or all to the same rank.

    That is so for scatter and gather, and any such flow can be realised by chunks.
    """
    if {collective.pre.kind, collective.post.kind}.isdisjoint(_SINGLE_END_KINDS):
        return None
    classes = [
        (frozenset(map(int, holders)), sorted(map(int, wanted - holders)), len(chunks))
        for (holders, wanted), chunks in collective.chunk_classes().items()
        if wanted - holders
    ]
    if not classes or any(len(wanted) > 1 for _, wanted, _ in classes):
        return None
    if len({holders for holders, _, _ in classes}) == 1:
        amount = sum(chunks for _, _, chunks in classes)
        sinks = tuple((rank, chunks) for _, (rank,), chunks in classes)
        return FlowEnds(((classes[0][0], amount),), sinks)
    if len({rank for _, (rank,), _ in classes}) == 1:
        amount = sum(chunks for _, _, chunks in classes)
        sources = tuple((holders, chunks) for holders, _, chunks in classes)
        return FlowEnds(sources, ((classes[0][1][0], amount),))
    return None
