"""The ring, one way around: n - 1 steps of each phase, and as little data as can be."""

from __future__ import annotations

import numpy as np

from sccl.collectives import Spec
from sccl.synth.baselines.pattern import (
    Maker,
    Pattern,
    backwards,
    cut,
    pattern_of,
    pipelined,
    there_and_back,
)
from sccl.synth.baselines.pattern.rings import Order, ring_of
from sccl.synth.contract import Request

NAME = "ring"
SOURCE = "Patarasuk and Yuan, JPDC 69(2), 2009; broadcast: SCCL (PPoPP 2021), Table 3"


def gathered(spec: Spec, order: Order) -> Pattern:
    """Return an allgather: in each step every rank passes on the chunk of the step before."""
    ranks = np.array(order)
    step, place = np.ogrid[: spec.ranks - 1, : spec.ranks]
    return pattern_of(
        spec.at(1),
        step=step,
        chunk=ranks[(place - step) % spec.ranks],
        src=ranks[place],
        dst=ranks[(place + 1) % spec.ranks],
    )


def passed_on(spec: Spec, order: Order) -> Pattern:
    """Return a broadcast: one chunk from the root around the ring."""
    start = order.index(spec.root or 0)
    ranks = np.array(order[start:] + order[:start])
    return pattern_of(
        spec.at(1), step=np.arange(spec.ranks - 1), chunk=0, src=ranks[:-1], dst=ranks[1:]
    )


def _allgather(request: Request, pieces: int) -> Pattern:
    return cut(gathered(request.spec, ring_of(request.topology)), pieces)


def _broadcast(request: Request, pieces: int) -> Pattern:
    return pipelined(passed_on(request.spec, ring_of(request.topology)), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
    "broadcast": _broadcast,
    "reduce": backwards(_broadcast),
}
