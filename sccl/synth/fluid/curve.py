"""What no plan takes less than, by size: cuts, and prices of links in slots from few programs.

Between the sizes that programs are solved for nothing is interpolated but what holds there. Let
M(T) be the most bytes of a rank's buffer that any chunking can have moved by T, and T*(L) the least
time of L bytes (``docs/mathematics/time.md``):

- *One program, many sizes.* Between two times the borders of slots keep their order, and so what
  may follow on what. For all T there the same prices say that trees cost D a byte, and that all
  slots cost w0 + w1 T: so M(T) <= (w0 + w1 T) / D, and T*(L) >= (D L - w0) / w1, as long as this
  lies between the two. Beyond the last change that is so for every longer time.
- *More bytes take no less time*: M grows with T, so what holds of L holds of all larger sizes.
- *Fewer take no less than their part of it*: who moves L' in T can take as long as he likes,
  T L / L' for L > L', sending everything that much later and slower, and bytes that come sooner
  wait: so T*(L) / L falls with L, and T*(L') >= T*(L) L' / L.

Prices are about alphas that travel. Where :func:`sccl.prove.check.times.holds_for_both` is true of
the machine, they bound plans in which alphas occupy links, too. Elsewhere only cuts are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Literal

import numpy as np

from sccl.collectives import Spec, dual_of
from sccl.core.clock import AlphaModel
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.prove.bounds import LeastTime
from sccl.prove.check.times import holds_for_both
from sccl.synth.flows.problem import FluidProblem, pose
from sccl.synth.fluid.floors import (
    FloorSearch,
    KnownTrees,
    SlotProof,
    engine_of,
    unheard,
    unplaced,
)

UNITS = 0.4
"""Of effort for all sizes: a second, or so."""

_PROGRAMS = 4
"""Of which each may take such a part of it: trees of one that is left are where the next begins."""

MOST_RANKS = 16
"""Up to which prices are looked for: more ranks are not posed within a second."""

_WORTH = 1e-4
"""By which part prices have to be above what is known, to be looked for any longer."""

_SAFE = 1 - Fraction(1, 10**9)
"""Of what floats say, for what sums of them lose."""

Shown = Literal["cuts", "prices"]
"""By what a bound is known."""


@dataclass(frozen=True, slots=True)
class SlotFloor:
    """What prices of links in slots prove, of all sizes.

    Attributes:
        begin: microseconds, from which to ``end`` the prices say the same.
        us_per_byte: of a rank's buffer, in between.
        before_us: of which so much is paid by what slots hold at any time.
    """

    begin: Fraction
    end: Fraction
    us_per_byte: Fraction
    before_us: Fraction

    def us(self, size_bytes: int | Fraction) -> Fraction:
        """Return the microseconds that a rank's buffer of a size takes at least."""
        line = self.us_per_byte * size_bytes - self.before_us
        if line < self.begin:
            return self.begin * size_bytes * self.us_per_byte / (self.begin + self.before_us)
        return min(line, self.end)


@dataclass(frozen=True, slots=True)
class LeastCurve:
    """What no plan for a collective on a machine takes less than, by size.

    Attributes:
        floors: beside those of cuts.
    """

    cuts: LeastTime
    floors: tuple[SlotFloor, ...] = ()

    def us(self, size_bytes: int | Fraction) -> Fraction:
        """Return it for a rank's buffer of a size, microseconds."""
        return max([self.cuts.us(size_bytes), *(floor.us(size_bytes) for floor in self.floors)])

    def raised(self, size_bytes: int, us: Fraction) -> LeastCurve:
        """Return it with what else is known of a size, in microseconds."""
        if us <= self.us(size_bytes):
            return self
        point = SlotFloor(us, us, us / size_bytes, Fraction(0))
        return LeastCurve(self.cuts, (*self.floors, point))

    def shown_by(self, size_bytes: int | Fraction) -> Shown:
        """Return by what it is known for a size."""
        return "prices" if self.us(size_bytes) > self.cuts.us(size_bytes) else "cuts"


def least_curve(
    topology: Topology,
    spec: Spec,
    cuts: LeastTime,
    sizes: Sequence[int],
    effort: float = UNITS,
) -> LeastCurve:
    """Return what no plan takes less than, by size: of cuts, and of prices where these say more.

    Args:
        cuts: of the machine.
        sizes: bytes of a rank's buffer, ascending, at some of which prices are looked for.
        effort: what may be spent for all of them, in units of some seconds.

    Raises:
        UnreachableError: something cannot be reached.
        KeyboardInterrupt: the user interrupted.
    """
    if cuts.model is AlphaModel.OCCUPIES and not holds_for_both(topology):
        return LeastCurve(cuts)
    search = _Search(topology, spec, LeastCurve(cuts), effort, effort / _PROGRAMS)
    if sizes and search.serves():
        search.fill(sizes)
    return search.curve


@dataclass(slots=True)
class _Search:
    """A search for floors by prices."""

    topology: Topology
    spec: Spec
    curve: LeastCurve
    effort: float
    most: float
    trees: KnownTrees = field(default_factory=dict)

    def serves(self) -> bool:
        """Return whether prices can say anything: of phases that overlap they do not."""
        return self.topology.ranks <= MOST_RANKS and dual_of(self.spec).phases == 1

    def fill(self, sizes: Sequence[int]) -> None:
        """Look at both ends, and in between, where what holds at one does not hold at the other.

        It would be for nothing where the borders are in one order and one price or one cut gives
        the bound of both: the time that a program gives is convex in the bytes, and in between it
        lies below its chord, and a cut's time above its own.
        """
        known = {0: self._at(sizes[0])}
        if known[0] is None:
            return
        if len(sizes) > 1:
            known[len(sizes) - 1] = self._at(sizes[-1])
        waiting = [(0, len(sizes) - 1)]
        for low, high in waiting:  # grows while it is walked: the widest come first
            if high - low < 2 or known[low] == known[high] or self.effort <= 0:
                continue
            middle = (low + high) // 2
            known[middle] = self._at(sizes[middle])
            waiting += [(low, middle), (middle, high)]

    def _at(self, size: int) -> tuple[Fraction, int] | None:
        """Look for prices at a size; return the order of borders there and what gives the bound.

        None: they cannot be looked for.
        """
        dual = dual_of(self.spec)
        machine = self.topology.reversed() if dual.on_reversed else self.topology
        try:
            problem = pose(machine, dual, size)
            if not problem.commodities:
                return None
            engine = engine_of(problem)
        except TooLargeError:  # cuts alone are known
            return None
        floor, most = self.curve.us(size), min(self.most, self.effort)
        search = FloorSearch(
            problem, engine, floor, 0.0, most, inf, unheard, unplaced, trees=self.trees
        )
        begin = search.raise_floor(_WORTH)
        self.effort -= search.spent
        if search.proof is not None:
            floors = (*self.curve.floors, slot_floor(problem, search.proof, size))
            self.curve = LeastCurve(self.curve.cuts, floors)
        return None if begin is None else (begin, self._giver(size))

    def _giver(self, size: int) -> int:
        """Return the number of the cut or the prices that give the bound of a size."""
        cuts, floors = self.curve.cuts, self.curve.floors
        every = [cuts.us(size), *(cut.us(size) for cut in cuts.crossings)]
        every += [floor.us(size) for floor in floors]
        return max(range(len(every)), key=lambda i: (every[i], i))


def slot_floor(problem: FluidProblem, proof: SlotProof, size_bytes: int) -> SlotFloor:
    """Return what the prices of a proof for a size prove of all sizes."""
    packing = proof.packing
    bought = np.array([thing.count for thing in problem.resources]) @ packing.prices
    each = float(bought @ packing.slots.grows[:, 0])
    before = Fraction(float(bought @ packing.slots.fixed) / each)
    us_per_byte = (Fraction(packing.least) + before) / size_bytes * _SAFE
    return SlotFloor(proof.begin, proof.end, us_per_byte, before)
