"""Motifs as synthesisers are asked them: patterns of chunks."""

from __future__ import annotations

from collections.abc import Iterable

from sccl.collectives import Spec
from sccl.core.collective import Relation, RelationKind
from sccl.core.motif import Motif
from sccl.core.topology import to_ranks
from sccl.errors import ParameterError


def pattern_of(motif: Motif, ranks: int, item_bytes: int) -> tuple[Spec, int]:
    """Return a motif as a collective on all ranks of a machine, and the bytes of a chunk.

    A chunk is the part of a cell that moves. If elements do not divide evenly, all chunks have the
    size of the largest, so that the pattern is uniform. Chunks of different sizes, as in an uneven
    alltoall, have counts of elements.

    Raises:
        ParameterError: It moves nothing.
    """
    moves = list(motif.moves())
    if not moves:
        raise ParameterError(f"a {motif.collective} moves nothing: it has no elements")
    sizes = [stop - start for start, stop in (move.span for move in moves)]
    alike = max(sizes) - min(sizes) <= 1
    spec = Spec(
        f"motif-{motif.collective}",
        ranks,
        unit=1,
        pattern_chunks=len(moves),
        pre=_chunk_relation(move.sources for move in moves),
        post=_chunk_relation(move.targets for move in moves),
        combining=motif.is_combining,
        counts=() if alike else tuple(sizes),
    )
    return spec, item_bytes * (max(sizes) if alike else 1)


def _chunk_relation(ends: Iterable[Iterable[int]]) -> Relation:
    return Relation(RelationKind.PAIRS, pattern=tuple(to_ranks(ranks) for ranks in ends))
