"""Several rings at once over separate links, as NCCL's six on a DGX-1, or else a single one."""

from __future__ import annotations

from sccl.synth.baselines.pattern import (
    Pattern,
    pipeline_chunks,
    run_in_parallel,
    split_chunks,
    with_inverses,
)
from sccl.synth.baselines.pattern.rings import find_rings
from sccl.synth.baselines.ring import ring_allgather, ring_broadcast
from sccl.synth.common.contract import Request

NAME = "multi-ring"
SOURCE = "NCCL as described by SCCL (PPoPP 2021), section 5.3 and Table 3"


def _allgather(request: Request, pieces: int) -> Pattern:
    return split_chunks(
        run_in_parallel([ring_allgather(request.spec, o) for o in find_rings(request.topology)]),
        pieces,
    )


def _broadcast(request: Request, pieces: int) -> Pattern:
    rings = [ring_broadcast(request.spec, order) for order in find_rings(request.topology)]
    return pipeline_chunks(run_in_parallel(rings), pieces)


COLLECTIVES = with_inverses(allgather=_allgather, broadcast=_broadcast)
