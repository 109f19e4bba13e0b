"""The ring, one way around: n - 1 steps of each phase, and as little data as can be."""

from __future__ import annotations

import numpy as np

from sccl.collectives import Spec
from sccl.synth.baselines.pattern import (
    Pattern,
    build_pattern,
    pipeline_chunks,
    split_chunks,
    with_inverses,
)
from sccl.synth.baselines.pattern.rings import RingOrder, find_ring
from sccl.synth.common.contract import Request

NAME = "ring"
SOURCE = "Patarasuk and Yuan, JPDC 69(2), 2009; broadcast: SCCL (PPoPP 2021), Table 3"


def ring_allgather(spec: Spec, order: RingOrder) -> Pattern:
    """Return an allgather: in each step every rank passes on the chunk of the step before."""
    ranks = np.array(order)
    step, place = np.ogrid[: spec.ranks - 1, : spec.ranks]
    return build_pattern(
        spec.at(1),
        step=step,
        chunk=ranks[(place - step) % spec.ranks],
        src=ranks[place],
        dst=ranks[(place + 1) % spec.ranks],
    )


def ring_broadcast(spec: Spec, order: RingOrder) -> Pattern:
    """Return a broadcast: one chunk from the root around the ring."""
    start = order.index(spec.root or 0)
    ranks = np.array(order[start:] + order[:start])
    return build_pattern(
        spec.at(1), step=np.arange(spec.ranks - 1), chunk=0, src=ranks[:-1], dst=ranks[1:]
    )


def _allgather(request: Request, pieces: int) -> Pattern:
    return split_chunks(ring_allgather(request.spec, find_ring(request.topology)), pieces)


def _broadcast(request: Request, pieces: int) -> Pattern:
    return pipeline_chunks(ring_broadcast(request.spec, find_ring(request.topology)), pieces)


COLLECTIVES = with_inverses(allgather=_allgather, broadcast=_broadcast)
