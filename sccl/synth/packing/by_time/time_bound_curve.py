"""Lower bounds on time by size: cuts, and prices of links in slots from few programs.

Between the sizes of solved programs only proved bounds are used. Let M(T) be the maximum number of
bytes of a rank's buffer that any chunking can move by T, and T*(L) the minimum time of L bytes
(``docs/mathematics/time.md``):

- *One program, many sizes.* Between two times the borders of slots keep their order, and so the
  possible successors of slots. For all T there the same prices give a cost of D a byte for trees,
  and of w0 + w1 T for all slots: so M(T) <= (w0 + w1 T) / D, and T*(L) >= (D L - w0) / w1, as long
  as this lies between the two. After the last change that holds for every longer time.
- *More bytes take no less time*: M grows with T, so a bound for L holds for all larger sizes.
- *Fewer bytes take at least their fraction of it*: a plan for L' in T can be slowed down to T L /
  L' for L > L', with every send that much later and slower, where early bytes wait. So T*(L) / L
  decreases with L, and T*(L') >= T*(L) L' / L.

Prices are about alphas that travel. If
:func:`sccl.prove.check.time_bounds.is_valid_for_both_alphas` is true of the machine, they bound
plans in which alphas occupy links, too. Otherwise only cuts are used.
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
    """Return lower bounds on time, by size: by cuts, and by prices where these are stronger.

    Args:
        cuts: bounds by cuts of the machine.
        sizes: bytes of a rank's buffer, ascending, at some of which prices are computed.
        effort: limit for all of them, in units of some seconds.

    Raises:
        UnreachableError: a chunk cannot reach a rank that wants it.
        KeyboardInterrupt: the user interrupted.
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
        """Return whether prices can say anything: of phases that overlap they do not."""
        return self.topology.ranks <= MAX_SMALL_RANKS and dual_of(self.spec).phases == 1

    def fill(self, sizes: Sequence[int]) -> None:
        """Search at both ends, and in between if the bound at one end is not valid at the other.

        It would be useless if the borders are in one order and one price or one cut gives both
        bounds: the time by a program is convex in the bytes, so in between it lies below its chord,
        and a cut's time above its chord.
        """
        samples = {0: self._search_at(sizes[0])}
        if samples[0] is None:
            return
        if len(sizes) > 1:
            samples[len(sizes) - 1] = self._search_at(sizes[-1])
        waiting = [(0, len(sizes) - 1)]
        for low, high in waiting:  # grows while it is walked: the widest come first
            if high - low < 2 or samples[low] == samples[high] or self.effort <= 0:
                continue
            middle = (low + high) // 2
            samples[middle] = self._search_at(sizes[middle])
            waiting += [(low, middle), (middle, high)]

    def _search_at(self, size: int) -> tuple[Fraction, int] | None:
        """Search prices at a size. Return the order of borders there and the origin of the bound.

        None: they cannot be computed.
        """
        dual = dual_of(self.spec)
        machine = self.topology.reversed() if dual.on_reversed else self.topology
        try:
            problem = build_flow_problem(machine, dual, size)
            if not problem.commodities:
                return None
            engine = select_engine(problem)
        except TooLargeError:  # cuts alone are known
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
        """Return the number of the cut or the prices that give the bound of a size."""
        times_us = [self.curve.us_by_cuts(size), *(cut.us(size) for cut in self.curve.cuts)]
        times_us += [line.us(size) for line in self.curve.prices]
        return max(range(len(times_us)), key=lambda i: (times_us[i], i))


def build_price_line(problem: FlowProblem, proof: SlotPriceProof, size_bytes: int) -> PriceLine:
    """Return the bound for all sizes by the prices of a proof for one size."""
    packing = proof.packing
    bought = np.array([thing.count for thing in problem.resources]) @ packing.prices
    each = float(bought @ packing.slots.grows[:, 0])
    before = Fraction(float(bought @ packing.slots.fixed) / each)
    us_per_byte = (Fraction(packing.lower_bound_us) + before) / size_bytes * FLOAT_MARGIN
    return PriceLine(proof.begin, proof.end, us_per_byte, before)
