"""Swing: ranks exchange with ones at distances 1, -1, 3, -5, 11, ..., so that hops stay short."""

from __future__ import annotations

import numpy as np

from sccl.errors import ParameterError
from sccl.synth.baselines.pattern import Maker, Pattern, backwards, beside, cut, there_and_back
from sccl.synth.baselines.pattern.exchanges import butterfly
from sccl.synth.baselines.pattern.grid import Grid, grid_of
from sccl.synth.baselines.pattern.noun import Numbers
from sccl.synth.contract import Request

NAME = "swing"
SOURCE = "De Sensi, Bonato, Saam, Hoefler, NSDI 2024 (arXiv 2401.09356)"


def distance(step: int) -> int:
    """Return how far on the peer of an even rank is in a step: the sum of (-2)^i up to it."""
    return int((1 - (-2) ** (step + 1)) // 3)


def peers(grid: Grid, first: int, way: int) -> Numbers:
    """Return whom ranks exchange with in each step of a reducescatter.

    Dimensions take turns, and each is left out once all of its steps are done.

    Args:
        first: the dimension that begins.
        way: 1, or -1 for the mirrored collective.
    """
    left = [(side - 1).bit_length() for side in grid.sides]
    rows = []
    for turn in range(max(left) * len(left)):
        dimension = (first + turn) % len(left)
        step = turn // len(left)
        if step < left[dimension]:
            forth, back = (grid.shifted(dimension, sign * distance(step)) for sign in (way, -way))
            rows.append(np.where(grid.at(dimension) % 2 == 0, forth, back))
    return np.stack(rows)


def _allgather(request: Request, pieces: int) -> Pattern:
    """Return an allgather for each dimension and way, in the reversed order of steps."""
    grid = grid_of(request.topology) or Grid((request.spec.ranks,))
    if odd := [side for side in grid.sides if side % 2]:
        raise ParameterError(
            f"Swing needs an even number of ranks in each dimension, and one has {odd[0]}: give "
            "another topology"
        )
    collective = request.spec.at(1)
    ways = [(d, way) for d in range(len(grid.sides)) for way in (1, -1)]
    parts = [butterfly(collective, peers(grid, *way)[::-1], NAME) for way in ways]
    return cut(beside(parts), pieces)


COLLECTIVES: dict[str, Maker] = {
    "allgather": _allgather,
    "reducescatter": backwards(_allgather),
    "allreduce": there_and_back(_allgather),
}
