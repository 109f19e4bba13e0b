"""The ring both ways: half of the chunks go around each way."""

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
from sccl.synth.baselines.pattern.rings import Order, ring_of
from sccl.synth.baselines.ring import gathered, passed_on
from sccl.synth.contract import Request

NAME = "ring-both"
SOURCE = "Patarasuk and Yuan, JPDC 69(2), 2009, with half of the data each way"


def _orders(request: Request) -> tuple[Order, Order]:
    order = ring_of(request.topology)
    return order, (order[0], *order[:0:-1])


def _allgather(request: Request, pieces: int) -> Pattern:
    return cut(beside([gathered(request.spec, order) for order in _orders(request)]), pieces)


def _broadcast(request: Request, pieces: int) -> Pattern:
    ways = [passed_on(request.spec, order) for order in _orders(request)]
    return pipelined(beside(ways), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
    "broadcast": _broadcast,
    "reduce": backwards(_broadcast),
}
