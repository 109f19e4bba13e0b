"""Dimensions of machines, with ranks as positions in a grid."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np

from sccl.core.arrays import AnyIntArray
from sccl.core.topology import Topology
from sccl.errors import TopologyError
from sccl.synth.baselines.pattern.pattern_conversion import link_indices

_INNERMOST_FIRST = {"dragonfly", "switch2d", "rfs", "rail"}
_GRID_NAME = re.compile(r"([a-z][a-z0-9-]*):([0-9]+(?:x[0-9]+)*)(?:[:@].*)?")


@dataclass(frozen=True, slots=True)
class Grid:
    """Positions in a grid, numbered as ranks so that the last dimension varies fastest.

    Attributes:
        sides: Number of ranks in each dimension, at least 2.
    """

    sides: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """Return the number of positions."""
        return prod(self.sides)

    def stride(self, dimension: int) -> int:
        """Return the difference between the numbers of neighbors in a dimension."""
        return prod(self.sides[dimension + 1 :])

    def coordinates(self, dimension: int) -> AnyIntArray:
        """Return the coordinate of each rank in a dimension."""
        return np.arange(self.ranks) // self.stride(dimension) % self.sides[dimension]

    def shift(self, dimension: int, by: int) -> AnyIntArray:
        """Return, for each rank, the rank ``by`` positions further in a dimension, cyclically."""
        at, side = self.coordinates(dimension), self.sides[dimension]
        return np.arange(self.ranks) + ((at + by) % side - at) * self.stride(dimension)


def find_grid(topology: Topology) -> Grid | None:
    """Return the dimensions of a machine from its name or its chassis. None: it has none.

    On generated machines they are the sides, the outermost first. On other machines whose chassis
    have one size and consecutive ranks, they are the chassis and the ranks of each chassis.
    """
    sides = _named_sides(topology.name)
    if prod(sides) != topology.ranks:
        sides = _chassis_sides(topology)
    sides = tuple(side for side in sides if side > 1)
    return Grid(sides) if sides else None


def require_grid(algorithm: str, topology: Topology) -> Grid:
    """Return the dimensions of a machine.

    Raises:
        TopologyError: The machine has no dimensions.
    """
    grid = find_grid(topology)
    if grid is None:
        raise TopologyError(
            f"{algorithm} proceeds dimension by dimension, and topology {topology.name!r} has no "
            "dimensions: give a generated topology, such as a torus, or a machine with chassis "
            "of one size"
        )
    return grid


def _named_sides(name: str) -> tuple[int, ...]:
    match = _GRID_NAME.fullmatch(re.sub(r"^routed:(?:xy:|shortest:)?", "", name))
    if not match:
        return (0,)
    numbers = tuple(int(number) for number in match[2].split("x"))
    if match[1] == "hypercube":
        return (2,) * min(numbers[0], 32)
    if match[1] == "switch":
        return numbers[:1]  # ranks, then lanes
    return numbers[::-1] if match[1] in _INNERMOST_FIRST else numbers


def _chassis_sides(topology: Topology) -> tuple[int, ...]:
    sizes = {len(ranks) for ranks in topology.chassis}
    in_order = [rank for ranks in topology.chassis for rank in ranks]
    if len(sizes) != 1 or in_order != list(range(topology.ranks)):
        return ()
    return (len(topology.chassis), sizes.pop())


def is_fully_connected(topology: Topology, grid: Grid, dimension: int) -> bool:
    """Return whether each rank has links to all others of its line in a dimension."""
    ranks = np.arange(grid.ranks)
    others = [grid.shift(dimension, by) for by in range(1, grid.sides[dimension])]
    return all((link_indices(ranks, neighbors, topology) >= 0).all() for neighbors in others)
