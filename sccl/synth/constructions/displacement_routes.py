"""Shortest paths to each displacement if links lead from x to x + g: uses of each link g.

Links commute, so a path is given by the number of uses of each link.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.topo.symmetry.regular_groups import CayleyMachine

_PRICE_LEVELS, _PRICE_EXPONENT = 64, 8
"""Number of load levels relative to the fullest link, and the power of its level that a link costs:
full links dominate. Integers, so that rounding does not depend on the processor.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ShortestRoutes:
    """The shortest paths of a machine.

    Attributes:
        machine: The machine.
        can_be_last: Whether a link can be the last one on a path, shape (links, displacements).
        layers: Displacements at each distance, from 1.
    """

    machine: CayleyMachine
    can_be_last: NDArray[np.bool_]
    layers: tuple[IntArray, ...]

    @classmethod
    def of(cls, machine: CayleyMachine, far: IntArray) -> ShortestRoutes:
        """Return the shortest paths of a machine with given distances."""
        layers = (np.flatnonzero(far == d) for d in range(1, int(far.max()) + 1))
        return cls(machine, machine.is_nearer(far), tuple(layers))

    def max_load(self, load: IntArray) -> Fraction:
        """Return the load per lane of the fullest link."""
        lanes = self.machine.lanes
        return max(Fraction(int(n), width) for n, width in zip(load, lanes, strict=True))

    def single_route_counts(self, *, turned: bool) -> IntArray:
        """Return the links of one path to each displacement, over the first possible last link.

        Args:
            turned: Whether to choose the last of the possible links instead.
        """
        links = len(self.machine.steps)
        counts = np.zeros((self.machine.group.ranks, links), dtype=np.int64)
        last = np.argmax(self.can_be_last[::-1] if turned else self.can_be_last, axis=0)
        last = links - 1 - last if turned else last
        for ranks in self.layers:
            by = last[ranks]
            counts[ranks] = counts[self.machine.predecessors[by, ranks]]
            counts[ranks, by] += 1
        return counts

    def least_loaded_route(self, d: int, load: IntArray) -> IntArray:
        """Return the links of a path to d that is built backwards over the least loaded links."""
        counts = np.zeros(len(load), dtype=np.int64)
        lanes, displacement = self.machine.lanes, d
        while displacement:
            choices = np.flatnonzero(self.can_be_last[:, displacement]).tolist()
            g = min(choices, key=lambda g: (Fraction(int(load[g] + counts[g]), lanes[g]), g))
            counts[g] += 1
            displacement = int(self.machine.predecessors[g, displacement])
        return counts

    def cheapest_route(self, d: int, load: IntArray) -> IntArray:
        """Return the links of a cheapest path to d, at steep prices of full links."""
        share = (load << 20) // np.array(self.machine.lanes, np.int64)
        price = (share * _PRICE_LEVELS // max(int(share.max()), 1)) ** _PRICE_EXPONENT
        cost = np.zeros(self.machine.group.ranks, dtype=np.int64)
        by = np.zeros(self.machine.group.ranks, dtype=np.int64)
        for ranks in self.layers:
            each = price[:, None] + cost[self.machine.predecessors[:, ranks]]
            each[~self.can_be_last[:, ranks]] = np.iinfo(np.int64).max
            by[ranks] = np.argmin(each, axis=0)
            cost[ranks] = each[by[ranks], np.arange(len(ranks))]
        counts = np.zeros(len(load), dtype=np.int64)
        displacement = d
        while displacement:
            counts[by[displacement]] += 1
            displacement = int(self.machine.predecessors[by[displacement], displacement])
        return counts
