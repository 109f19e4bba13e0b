"""The ring both ways: half of the chunks go around each way."""

from __future__ import annotations

from sccl.synth.baselines.pattern import (
    Pattern,
    pipeline_chunks,
    run_in_parallel,
    split_chunks,
    with_inverses,
)
from sccl.synth.baselines.pattern.rings import RingOrder, find_ring
from sccl.synth.baselines.ring import ring_allgather, ring_broadcast
from sccl.synth.common.contract import Request

NAME = "ring-both"
SOURCE = "Patarasuk and Yuan, JPDC 69(2), 2009, with half of the data in each direction"


def _orders(request: Request) -> tuple[RingOrder, RingOrder]:
    order = find_ring(request.topology)
    return order, (order[0], *order[:0:-1])


def _allgather(request: Request, pieces: int) -> Pattern:
    return split_chunks(
        run_in_parallel([ring_allgather(request.spec, order) for order in _orders(request)]), pieces
    )


def _broadcast(request: Request, pieces: int) -> Pattern:
    patterns = [ring_broadcast(request.spec, order) for order in _orders(request)]
    return pipeline_chunks(run_in_parallel(patterns), pieces)


COLLECTIVES = with_inverses(allgather=_allgather, broadcast=_broadcast)
