"""Swing: ranks exchange with ones at distances 1, -1, 3, -5, 11, ..., so that hops stay short."""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import AnyIntArray
from sccl.errors import ParameterError
from sccl.synth.baselines.pattern import Pattern, run_in_parallel, split_chunks, with_inverses
from sccl.synth.baselines.pattern.grid import Grid, find_grid
from sccl.synth.baselines.pattern.pairwise_exchanges import butterfly_allgather
from sccl.synth.common.contract import Request

NAME = "swing"
SOURCE = "De Sensi, Bonato, Saam, Hoefler, NSDI 2024 (arXiv 2401.09356)"


def distance(step: int) -> int:
    """Return the distance of an even rank's peer in a step: the sum of (-2)^i up to the step."""
    return int((1 - (-2) ** (step + 1)) // 3)


def peers(grid: Grid, first: int, direction: int) -> AnyIntArray:
    """Return the peer of each rank in each step of a reducescatter, shape (steps, ranks).

    Dimensions take turns. A dimension is skipped after its last step.

    Args:
        grid: The grid of ranks.
        first: First dimension.
        direction: 1, or -1 for the mirrored collective.
    """
    left = [(side - 1).bit_length() for side in grid.sides]
    rows = []
    for turn in range(max(left) * len(left)):
        dimension = (first + turn) % len(left)
        step = turn // len(left)
        if step < left[dimension]:
            forth, back = (
                grid.shift(dimension, sign * distance(step)) for sign in (direction, -direction)
            )
            rows.append(np.where(grid.coordinates(dimension) % 2 == 0, forth, back))
    return np.stack(rows)


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return an allgather for each dimension and direction, with the steps in reversed order."""
    grid = find_grid(request.topology) or Grid((request.spec.ranks,))
    if odd := [side for side in grid.sides if side % 2]:
        raise ParameterError(
            f"Swing needs an even number of ranks in each dimension, and one has {odd[0]}: give "
            "another topology"
        )
    collective = request.spec.at(1)
    directions = [(d, direction) for d in range(len(grid.sides)) for direction in (1, -1)]
    parts = [
        butterfly_allgather(collective, peers(grid, *direction)[::-1], NAME)
        for direction in directions
    ]
    return split_chunks(run_in_parallel(parts), pieces)


COLLECTIVES = with_inverses(allgather=_allgather)
