"""Several rings at once over separate links, as NCCL's six on a DGX-1, or else a single one."""

from __future__ import annotations

from sccl.synth.baselines.pattern import (
    Maker,
    Pattern,
    backwards,
    beside,
    cut,
    pipelined,
    there_and_back,
)
from sccl.synth.baselines.pattern.rings import rings_of
from sccl.synth.baselines.ring import gathered, passed_on
from sccl.synth.contract import Request

NAME = "multi-ring"
SOURCE = "NCCL as described by SCCL (PPoPP 2021), section 5.3 and Table 3"


def _allgather(request: Request, pieces: int) -> Pattern:
    return cut(beside([gathered(request.spec, o) for o in rings_of(request.topology)]), pieces)


def _broadcast(request: Request, pieces: int) -> Pattern:
    rings = [passed_on(request.spec, order) for order in rings_of(request.topology)]
    return pipelined(beside(rings), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
    "broadcast": _broadcast,
    "reduce": backwards(_broadcast),
}
