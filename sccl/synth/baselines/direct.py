"""Everything straight to where it is wanted, in one step of each phase."""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import AnyIntArray
from sccl.core.collective import Relation, RelationKind
from sccl.synth.baselines.pattern import Pattern, build_pattern, split_chunks, with_inverses
from sccl.synth.common.contract import Request

NAME = "direct"
SOURCE = "TACOS (MICRO 2024), section V-A and Figure 5"


def _send_directly(request: Request, pieces: int) -> Pattern:
    """Return a pattern that sends each chunk from its only holder to each destination."""
    collective = request.spec.at(request.spec.unit)
    chunk = np.arange(collective.num_chunks)[:, None]
    ends = (_relation_ranks(r, chunk, collective.ranks) for r in (collective.pre, collective.post))
    chunk, src, dst = (column.ravel() for column in np.broadcast_arrays(chunk, *ends))
    moves = src != dst
    pattern = build_pattern(collective, step=0, chunk=chunk[moves], src=src[moves], dst=dst[moves])
    return split_chunks(pattern, pieces)


def _relation_ranks(relation: Relation, chunk: AnyIntArray, ranks: int) -> AnyIntArray:
    """Return the ranks of each chunk in a relation, one row for each chunk, or one for all."""
    match relation.kind:
        case RelationKind.ALL:
            return np.arange(ranks)[None, :]
        case RelationKind.TRANSPOSE:
            return chunk // ranks % ranks
        case RelationKind.ROOT:
            return np.full((1, 1), relation.root)
        case _:
            return chunk % ranks


COLLECTIVES = with_inverses(
    allgather=_send_directly,
    alltoall=_send_directly,
    broadcast=_send_directly,
    gather=_send_directly,
    scatter=_send_directly,
)
