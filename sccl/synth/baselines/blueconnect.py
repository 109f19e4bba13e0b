"""BlueConnect: reducescatters of one dimension after the other, and allgathers back."""

from __future__ import annotations

from sccl.synth.baselines.pattern import Pattern, run_in_parallel, split_chunks, with_inverses
from sccl.synth.baselines.pattern.dimension_order import gather_by_dimensions
from sccl.synth.baselines.pattern.grid import is_fully_connected, require_grid
from sccl.synth.common.contract import Request

NAME = "blueconnect"
SOURCE = (
    "Cho, Finkler, Serrano, Kung, Hunter, IBM JRD 63(6), 2019; half of the data in each direction"
)


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return the second half. The last dimension, whose ranks are closest, is gathered last."""
    grid = require_grid("BlueConnect", request.topology)
    order = range(len(grid.sides))
    joined = [is_fully_connected(request.topology, grid, d) for d in order]
    collective = request.spec.at(1)
    patterns = [
        gather_by_dimensions(collective, grid, order, joined, direction) for direction in (1, -1)
    ]
    return split_chunks(run_in_parallel(patterns), pieces)


COLLECTIVES = with_inverses(allgather=_allgather)
