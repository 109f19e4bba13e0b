"""Lower bounds on time by size, from cuts and from prices of links in slots.

A few programs are solved for prices. Between their sizes only proved bounds are used. Let M(T) be
the maximum number of bytes of a rank's buffer that any chunking can move by T, and T*(L) the
minimum time of L bytes (``docs/mathematics/time.md``):

- *One program, many sizes.* In an interval of times the borders of slots keep their order, and so
  slots keep their possible successors. For all T in it, the same prices give a minimum tree cost
  of D per byte and a total price of w0 + w1 T for all slots. So M(T) <= (w0 + w1 T) / D, and T*(L)
  >= (D L - w0) / w1 as long as this lies in the interval. The last interval has no end.
- *More bytes take no less time.* M grows with T, so a bound for L holds for all larger sizes.
- *Fewer bytes take at least their fraction of the time.* A plan for L' in T can be slowed down to
  T L / L' for L > L': every send is later and slower by this factor, and early bytes wait. So
  T*(L) / L decreases with L, and T*(L') >= T*(L) L' / L.

Prices assume alphas that travel. If
:func:`sccl.prove.check.time_bounds.is_valid_for_both_alphas` holds for the machine, they also bound
plans in which alphas occupy links. Otherwise only cuts are used for such plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sccl.collectives import Spec, dual_of
from sccl.core.clock import AlphaModel
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.prove.bounds.time_cuts import CompletionTimeBound, PriceLine
from sccl.prove.check.time_bounds import is_valid_for_both_alphas
from sccl.synth.limits import EFFORT_PARTS, MAX_SMALL_RANKS, MIN_GAIN, QUICK_EFFORT
from sccl.synth.packing.by_time.lower_bounds import (
    LowerBoundSearch,
    SlotPriceProof,
    TreesByBorders,
    select_engine,
)
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem

FLOAT_MARGIN = 1 - Fraction(1, 10**9)
"""Safety factor for rounding errors of sums of floats."""


def compute_bound_curve(
    topology: Topology,
    spec: Spec,
    cuts: CompletionTimeBound,
    sizes: Sequence[int],
    effort: float = QUICK_EFFORT,
) -> CompletionTimeBound:
    """Return lower bounds on time by size, from cuts, and from prices where they are stronger.

    Args:
        cuts: Bounds from cuts of the machine.
        sizes: Bytes of a rank's buffer, ascending. Prices are computed at some of them.
        effort: Limit for all sizes, in units of some seconds.

    Raises:
        UnreachableError: A chunk cannot reach a rank that wants it.
        KeyboardInterrupt: The user interrupted.
    """
    if cuts.model is AlphaModel.OCCUPIES and not is_valid_for_both_alphas(topology):
        return cuts
    search = _CurveSearch(topology, spec, cuts, effort, effort / EFFORT_PARTS)
    if sizes and search.is_applicable():
        search.fill(sizes)
    return search.curve


@dataclass(slots=True)
class _CurveSearch:
    topology: Topology
    spec: Spec
    curve: CompletionTimeBound
    effort: float
    max_program_effort: float
    trees: TreesByBorders = field(default_factory=dict)

    def is_applicable(self) -> bool:
        """Return whether prices apply: they do not bound phases that overlap."""
        return self.topology.ranks <= MAX_SMALL_RANKS and dual_of(self.spec).phases == 1

    def fill(self, sizes: Sequence[int]) -> None:
        """Search at both ends, and between two sizes unless their bounds have the same origin.

        With one order of borders and one price line or cut for both sizes, a search in between is
        useless: the time by a program is convex in the bytes, so it lies below its chord, and the
        time by a cut lies above its chord.
        """
        samples = {0: self._search_at(sizes[0])}
        if samples[0] is None:
            return
        if len(sizes) > 1:
            samples[len(sizes) - 1] = self._search_at(sizes[-1])
        waiting = [(0, len(sizes) - 1)]
        for low, high in waiting:  # grows in the loop: widest intervals first
            if high - low < 2 or samples[low] == samples[high] or self.effort <= 0:
                continue
            middle = (low + high) // 2
            samples[middle] = self._search_at(sizes[middle])
            waiting += [(low, middle), (middle, high)]

    def _search_at(self, size: int) -> tuple[Fraction, int] | None:
        """Search prices at a size. Return the order of borders there and the origin of the bound.

        None: prices cannot be computed.
        """
        dual = dual_of(self.spec)
        machine = self.topology.reversed() if dual.on_reversed else self.topology
        try:
            problem = build_flow_problem(machine, dual, size)
            if not problem.commodities:
                return None
            engine = select_engine(problem)
        except TooLargeError:  # only cuts are known
            return None
        floor, max_effort = self.curve.us(size), min(self.max_program_effort, self.effort)
        search = LowerBoundSearch(problem, engine, floor, effort=max_effort, trees=self.trees)
        begin = search.raise_bound(MIN_GAIN)
        self.effort -= search.spent
        if search.proof is not None:
            line = build_price_line(problem, search.proof, size)
            self.curve = replace(self.curve, prices=(*self.curve.prices, line))
        return None if begin is None else (begin, self._binding_source(size))

    def _binding_source(self, size: int) -> int:
        """Return the number of the cut or price line that gives the bound at a size."""
        times_us = [self.curve.us_by_cuts(size), *(cut.us(size) for cut in self.curve.cuts)]
        times_us += [line.us(size) for line in self.curve.prices]
        return max(range(len(times_us)), key=lambda i: (times_us[i], i))


def build_price_line(problem: FlowProblem, proof: SlotPriceProof, size_bytes: int) -> PriceLine:
    """Return the bound for all sizes from the prices of a proof for one size."""
    packing = proof.packing
    bought = np.array([resource.count for resource in problem.resources]) @ packing.prices
    each = float(bought @ packing.slots.grows[:, 0])
    before = Fraction(float(bought @ packing.slots.fixed) / each)
    us_per_byte = (Fraction(packing.lower_bound_us) + before) / size_bytes * FLOAT_MARGIN
    return PriceLine(proof.begin, proof.end, us_per_byte, before)
