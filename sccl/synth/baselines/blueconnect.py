"""BlueConnect: reducescatters of one dimension after the other, and allgathers back."""

from __future__ import annotations

from sccl.synth.baselines.pattern import Maker, Pattern, backwards, beside, cut, there_and_back
from sccl.synth.baselines.pattern.dimensions import by_dimensions
from sccl.synth.baselines.pattern.grid import fully_joined, required_grid
from sccl.synth.contract import Request

NAME = "blueconnect"
SOURCE = "Cho, Finkler, Serrano, Kung, Hunter, IBM JRD 63(6), 2019; half of the data each way"


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return the second half: the last dimension, whose ranks are nearest, is gathered last."""
    grid = required_grid("BlueConnect", request.topology)
    order = range(len(grid.sides))
    joined = [fully_joined(request.topology, grid, d) for d in order]
    collective = request.spec.at(1)
    ways = [by_dimensions(collective, grid, order, joined, way) for way in (1, -1)]
    return cut(beside(ways), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
