"""Column generation between an LP and exact pricing: one round.

Every round of prices gives a lower bound (the cost of the cheapest trees), every solution of the LP
an upper one (a packing). Both are exact fractions in the end: floats only propose.

Prices are smoothed towards those of the best bound so far (Wentges 1997), which halves the rounds.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.bound import Bound, Measure
from sccl.synth.packing.by_steps.exact_solution import exact_solution, nearby_packing
from sccl.synth.packing.by_steps.master import Master, MasterSolution
from sccl.synth.packing.by_steps.packing_problem import PackingProblem, StepTree
from sccl.synth.packing.by_steps.pricing.pricers import Pricer, make_pricer
from sccl.synth.packing.by_steps.pricing.time_windows import max_price_scale

_SCALE = 1 << 26  # scale of prices as integers, smaller if a tree's cost could exceed 64 bits
_SMOOTHING = 0.6
"""Weight of the best prices so far (Wentges 1997), which keeps prices from oscillating."""


@dataclass(frozen=True, slots=True)
class TreeShare:
    """A timed tree of a commodity, and which part of the commodity's chunks takes it."""

    commodity: int
    tree: StepTree
    fraction: Fraction


@dataclass(frozen=True, slots=True)
class ResourcePrices:
    """The prices of resources in steps that prove a lower bound on R/C.

    Attributes:
        exact: (resource, step, price of each of its constraints) where a price is not 0.
        floats: All of them, shape (resources, steps). None: there are no prices yet.
    """

    exact: tuple[tuple[int, int, Fraction], ...] = ()
    floats: NDArray[np.float64] | None = None


class ColumnGeneration:
    """The LP over the trees so far, the pricers that add to it, and the best bound they proved.

    Args:
        floor: a proved lower bound to begin with.
        deadline: of ``time.perf_counter()``, after which no pricing goes on.
    """

    def __init__(self, problem: PackingProblem, floor: Fraction, deadline: float) -> None:
        self.problem = problem
        self.pricers: list[Pricer] = [
            make_pricer(problem, c, deadline=deadline) for c in problem.commodities
        ]
        self.master = Master(problem)
        self.best: Bound[Fraction, ResourcePrices] = Bound(Measure.COST, floor, ResourcePrices())
        self.scale = min(_SCALE, max_price_scale(problem.topology.ranks))
        shape = (len(problem.resources), len(problem.edges))
        self.resource_uses = np.zeros(shape, dtype=np.int64)
        for i, resource in enumerate(problem.resources):
            for edge, times in resource.edges:
                self.resource_uses[i, edge] = times
        # The load of all constraints of a resource in a round is the weight of its price.
        self.capacity = np.array([len(r.keys) * r.chunks_per_round for r in problem.resources])

    @property
    def spent(self) -> float:
        """Return the effort of all that has been done. No clock has a part in it."""
        return self.master.spent + sum(price.spent for price in self.pricers)

    def start(self) -> None:
        """Put a first tree of each commodity into the LP."""
        even = np.ones((len(self.problem.edges), self.problem.steps), np.int64)
        for i, price in enumerate(self.pricers):
            self.master.add(i, price.quick(even)[1])

    def warm_start(self, packing: tuple[TreeShare, ...]) -> None:
        """Put the trees of a packing with a step less into the LP, with an idle step anywhere.

        Eight times fewer rounds in all, over broadcast on DGX-1 for S = 2 to 8.
        """
        for share in packing:
            for idle in range(self.problem.steps):
                tree = frozenset((edge, step + (step >= idle)) for edge, step in share.tree)
                self.master.add(share.commodity, tree)

    def integer_prices(self, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return prices that buy at most 1 with each spread of rounds, in units of 1/scale."""
        total = self.capacity @ prices
        if self.problem.rounds is not None:
            total = np.full_like(total, total @ np.array(self.problem.rounds))
        scaled = np.divide(prices, total, out=np.zeros_like(prices), where=total > 1e-9)
        integral_prices: NDArray[np.int64] = np.floor(scaled * self.scale).astype(np.int64)
        return integral_prices

    def price(self, integral_prices: NDArray[np.int64], scale: int) -> int:
        """Add cheapest trees at these prices; return how many are new.

        The bound from below is raised, if they can.
        """
        costs: IntArray = self.resource_uses.T @ integral_prices
        added, bound = 0, Fraction(0)
        for i, price in enumerate(self.pricers):
            cost, *trees = price.exact(costs)
            bound += self.problem.commodities[i].chunks * cost / scale
            added += sum(self.master.add(i, tree) for tree in trees)
        if bound > self.best.value:
            named = tuple(
                (int(i), int(s), Fraction(int(integral_prices[i, s]), scale))
                for i, s in zip(*np.nonzero(integral_prices), strict=True)
            )
            prices = ResourcePrices(named, integral_prices / scale)
            self.best = Bound(Measure.COST, bound, prices)
        return added

    def improve(self, solution: MasterSolution) -> bool:
        """Add columns that may improve on a solution; return False if there are none."""
        current = self.integer_prices(solution.prices)
        best_prices = self.best.proof.floats
        if best_prices is not None:
            smooth = self.integer_prices(
                _SMOOTHING * best_prices + (1 - _SMOOTHING) * current / self.scale
            )
            if self.price(smooth, self.scale):
                return True
        return self.price(current, self.scale) > 0

    def extract_packing(
        self, solution: MasterSolution
    ) -> tuple[bool, Fraction, tuple[TreeShare, ...]]:
        """Return whether the limit is known, and the exact packing of a solution."""
        exact = exact_solution(self.master, solution)
        value, parts = (
            (exact.value, exact.parts) if exact else nearby_packing(self.master, solution)
        )
        shares = tuple(
            TreeShare(c.commodity, c.tree, part)
            for c, part in zip(self.master.columns, parts, strict=True)
            if part
        )
        if exact is None or value == self.best.value:
            return value == self.best.value, value, shares
        scale = lcm(*(p.denominator for row in exact.prices for p in row))
        if scale <= max_price_scale(self.problem.topology.ranks):
            integral_prices = np.array(
                [[int(p * scale) for p in row] for row in exact.prices], np.int64
            )
            with suppress(TimeoutError):
                self.price(integral_prices, scale)
        return value == self.best.value, value, shares
