"""Shortest ways to each displacement where links lead from x to x + g: how often they take each g.

Links add up in any order, so a way is no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sccl.topo.symmetry.regular import Cayley

Ints = NDArray[np.int64]

_FULL, _STEEP = 64, 8
"""Number of load levels relative to the fullest link, and the power of its level that a link costs:
full links dominate. Integers, so that rounding does not depend on the processor.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ShortestWays:
    """The shortest ways of a machine.

    Attributes:
        nearer: by link and displacement, whether that link may come last.
        layers: displacements by distance, from 1.
    """

    machine: Cayley
    nearer: NDArray[np.bool_]
    layers: tuple[Ints, ...]

    @classmethod
    def of(cls, machine: Cayley, far: Ints) -> ShortestWays:
        """Return the shortest ways of a machine, whose distances are given."""
        layers = (np.flatnonzero(far == d) for d in range(1, int(far.max()) + 1))
        return cls(machine, machine.nearer(far), tuple(layers))

    def fullest(self, load: Ints) -> Fraction:
        """Return the load of the fullest link, by lane."""
        lanes = self.machine.lanes
        return max(Fraction(int(n), width) for n, width in zip(load, lanes, strict=True))

    def by_one_link(self, *, turned: bool) -> Ints:
        """Return the links of one way to each displacement: by the first link that may be last.

        Args:
            turned: by the last of these links instead.
        """
        links = len(self.machine.steps)
        found = np.zeros((self.machine.group.ranks, links), dtype=np.int64)
        last = np.argmax(self.nearer[::-1] if turned else self.nearer, axis=0)
        last = links - 1 - last if turned else last
        for ranks in self.layers:
            by = last[ranks]
            found[ranks] = found[self.machine.before[by, ranks]]
            found[ranks, by] += 1
        return found

    def next_least(self, d: int, load: Ints) -> Ints:
        """Return the links of a way to d that takes the least loaded one next, again and again."""
        found = np.zeros(len(load), dtype=np.int64)
        lanes, here = self.machine.lanes, d
        while here:
            choices = np.flatnonzero(self.nearer[:, here]).tolist()
            g = min(choices, key=lambda g: (Fraction(int(load[g] + found[g]), lanes[g]), g))
            found[g] += 1
            here = int(self.machine.before[g, here])
        return found

    def cheapest(self, d: int, load: Ints) -> Ints:
        """Return the links of a way to d that costs least, at a steep price of full links."""
        share = (load << 20) // np.array(self.machine.lanes, np.int64)
        price = (share * _FULL // max(int(share.max()), 1)) ** _STEEP
        cost = np.zeros(self.machine.group.ranks, dtype=np.int64)
        by = np.zeros(self.machine.group.ranks, dtype=np.int64)
        for ranks in self.layers:
            each = price[:, None] + cost[self.machine.before[:, ranks]]
            each[~self.nearer[:, ranks]] = np.iinfo(np.int64).max
            by[ranks] = np.argmin(each, axis=0)
            cost[ranks] = each[by[ranks], np.arange(len(ranks))]
        found = np.zeros(len(load), dtype=np.int64)
        here = d
        while here:
            found[by[here]] += 1
            here = int(self.machine.before[by[here], here])
        return found
