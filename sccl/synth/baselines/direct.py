"""Everything straight to where it is wanted, in one step of each phase."""

from __future__ import annotations

import numpy as np

from sccl.core.collective import Relation, RelationKind
from sccl.synth.baselines.pattern import (
    Maker,
    Pattern,
    backwards,
    cut,
    pattern_of,
    there_and_back,
)
from sccl.synth.baselines.pattern.noun import Numbers
from sccl.synth.contract import Request

NAME = "direct"
SOURCE = "TACOS (MICRO 2024), section V-A and Figure 5"


def _copied(request: Request, pieces: int) -> Pattern:
    """Return a pattern that sends each chunk from its only holder to each rank that wants it."""
    collective = request.spec.at(request.spec.unit)
    chunk = np.arange(collective.num_chunks)[:, None]
    ends = (_ranks(r, chunk, collective.ranks) for r in (collective.pre, collective.post))
    chunk, src, dst = (column.ravel() for column in np.broadcast_arrays(chunk, *ends))
    moves = src != dst
    pattern = pattern_of(collective, step=0, chunk=chunk[moves], src=src[moves], dst=dst[moves])
    return cut(pattern, pieces)


def _ranks(relation: Relation, chunk: Numbers, ranks: int) -> Numbers:
    """Return the ranks of each chunk in a relation, a row for each chunk, or one for all."""
    match relation.kind:
        case RelationKind.ALL:
            return np.arange(ranks)[None, :]
        case RelationKind.TRANSPOSE:
            return chunk // ranks % ranks
        case RelationKind.ROOT:
            return np.full((1, 1), relation.root)
        case _:
            return chunk % ranks


COLLECTIVES: dict[str, Maker] = {
    "allgather": _copied,
    "reducescatter": backwards(_copied),
    "allreduce": there_and_back(_copied),
    "alltoall": _copied,
    "broadcast": _copied,
    "reduce": backwards(_copied),
    "gather": _copied,
    "scatter": _copied,
}
