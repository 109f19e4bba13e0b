"""The limit of R/C for a number of steps, by column generation between an LP and exact pricing.

Every round of prices gives a lower bound (the cost of the cheapest trees). Every solution of the LP
gives an upper bound (a packing). Floating-point results are only proposals: when the bounds meet,
when no tree improves them, or when effort ends, the last basis is solved in fractions, and trees
are priced once at its exact prices.

Prices prove a limit, and :mod:`sccl.prove.check.constraint_prices` checks them. In every step, the
sum over constraints of price times capacity per round is at most 1. So the capacity of R rounds
costs at most R, for any distribution of rounds to steps. If every choice of timed trees for all
chunks costs at least D * C, then R/C >= D. For given rounds per step, whose capacity costs at most
1, it follows that D * C <= 1.

Prices are smoothed towards those of the best bound so far (Wentges 1997), which halves the rounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.bound import Bound, Measure
from sccl.core.step_limit import StepPrices
from sccl.core.topology import constraint_name
from sccl.synth.limits import LIMIT_EFFORT, MAX_SUBSET, PRICE_SCALE, TOLERANCE
from sccl.synth.packing.master import (
    SMOOTHING,
    Master,
    MasterSolution,
    exact_solution,
    nearby_packing,
)
from sccl.synth.packing.price_pair_search import ReduceBroadcastSearch
from sccl.synth.packing.price_steps import (
    PairPricer,
    PricedTimeWindow,
    SearchPricer,
    SetPricer,
    max_price_scale,
)
from sccl.synth.packing.problem import Commodity, PackingProblem, StepTree
from sccl.synth.packing.slots import TimeSlots


@dataclass(frozen=True, slots=True)
class Packing:
    """Shares of timed trees, and the bounds on the limit of R/C for S steps.

    Attributes:
        lower: Lower bound on R/C of all algorithms of S steps.
        upper: R/C of the packing. Equal to ``lower`` if the limit is known.
        shares: Shares of trees, with sum 1 for each commodity.
        prices: Proof of ``lower``. Empty: the bandwidth bound proves it.
        rounds: Number of rounds of column generation.
        effort: Effort spent, independent of the clock.
        trees: All trees that were priced, as (commodity, tree).
        is_timed_out: Whether the time limit ended the search, so that the shares depend on the load
            of the machine. The bounds hold, but no algorithm is written from such a packing.
    """

    problem: PackingProblem
    lower: Fraction
    upper: Fraction
    shares: tuple[TreeShare, ...]
    prices: StepPrices
    rounds: int
    seconds: float
    effort: float = 0.0
    trees: tuple[tuple[int, StepTree], ...] = ()
    is_timed_out: bool = False

    @property
    def is_exact(self) -> bool:
        """Return whether the limit is known."""
        return self.lower == self.upper


def solve_packing(  # noqa: PLR0913, PLR0917 - two bounds, three ends, and a start
    problem: PackingProblem,
    floor: Fraction = Fraction(0),
    seconds: float = math.inf,
    target: Fraction | None = None,
    earlier: Packing | None = None,
    most_rounds: int | None = None,
    effort: float = LIMIT_EFFORT,
) -> Packing:
    """Return a packing at the limit of its problem, or near it if effort or time runs out.

    Args:
        floor: Proved lower bound: the bandwidth bound, or the limit of more steps.
        seconds: Time after which no further round starts. By default only effort ends the search.
        earlier: Packing of the same problem with one step less, to start from.
        target: Stop once the lower bound exceeds this value, or cannot exceed it.
        most_rounds: Limit on column generation. Unlike seconds, it is the same on every machine.
        effort: Limit on effort, also the same on every machine.

    Raises:
        KeyboardInterrupt: The user interrupted. The solvers have been stopped.
    """
    begin = time.perf_counter()
    deadline = begin + seconds
    columns = ColumnGeneration(problem, floor, deadline)
    columns.start()
    if earlier is not None and earlier.problem.steps == problem.steps - 1:
        columns.warm_start(earlier.shares)
    rounds = 0
    while True:
        solution, best = columns.master.solve(), columns.best.value
        rounds += 1
        is_spent = time.perf_counter() > deadline or rounds == most_rounds or columns.spent > effort
        if target is not None:
            is_spent |= best > target or solution.value < float(target)
        has_gap = solution.value - float(best) > TOLERANCE
        try:
            if has_gap and not is_spent and columns.improve(solution):
                continue
        except TimeoutError:
            is_spent = True
        known_columns = len(columns.master.columns)
        is_known, upper, shares = columns.extract_packing(solution)
        if is_known or is_spent:
            break
        if len(columns.master.columns) > known_columns:
            continue
        try:  # continue if exact fractions show a gap that floats do not
            if has_gap or not columns.improve(solution):
                break
        except TimeoutError:
            break
    end = time.perf_counter()
    return Packing(
        problem,
        columns.best.value,
        upper,
        shares,
        _constraint_prices(problem, columns.best.proof.exact),
        rounds,
        end - begin,
        columns.spent,
        columns.master.trees,
        is_timed_out=end > deadline,
    )


def step_slots(problem: PackingProblem) -> TimeSlots:
    """Return steps as slots with a delay of 1, each as long as its number of rounds."""
    steps = problem.steps
    grows = np.array(problem.round_spreads, np.float64).T
    arrive = np.tile(np.arange(1, steps + 1), (len(problem.edges), 1))
    empty = np.zeros((0, grows.shape[1]))
    return TimeSlots(np.zeros(steps), grows, empty, np.zeros(0), arrive)


def _constraint_prices(
    problem: PackingProblem, prices: Iterable[tuple[int, int, Fraction]]
) -> StepPrices:
    """Return the prices of resources as prices of their constraints, sorted by name and step."""
    named = [(key, s, price) for i, s, price in prices for key in problem.resources[i].keys]
    return tuple(sorted(named, key=lambda priced: (constraint_name(priced[0]), priced[1])))


@dataclass(frozen=True, slots=True)
class TreeShare:
    """A timed tree of a commodity, and the fraction of the commodity's chunks that use it."""

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


class Pricer(Protocol):
    """Finds cheap timed trees of one commodity.

    Attributes:
        is_searched: Whether cheapest trees are searched, so that quick pricing returns other trees.
    """

    is_searched: bool

    @property
    def spent(self) -> float:
        """Return the effort spent so far, the same on every machine."""
        ...

    def exact(self, prices: IntArray) -> tuple[int, StepTree, *tuple[StepTree, ...]]:
        """Return the cost of a cheapest tree, the tree, and perhaps other cheap trees.

        Raises:
            TimeoutError: The search took too long.
        """
        ...

    def quick(self, prices: IntArray) -> tuple[int, StepTree]:
        """Return a cheap tree and its cost, with little effort. It need not be a cheapest one."""
        ...


def make_pricer(
    problem: PackingProblem,
    commodity: Commodity,
    *,
    deadline: float = math.inf,
) -> Pricer:
    """Return an exact pricer for the trees of a commodity.

    Args:
        deadline: time of ``time.perf_counter()`` after which no search continues.

    Raises:
        TooLargeError: a search would take too long for a single tree.
    """
    window = PricedTimeWindow(problem, commodity)
    if problem.has_tree_pairs and problem.topology.ranks <= MAX_SUBSET:
        return PairPricer(window, problem)
    if problem.has_tree_pairs:
        return ReduceBroadcastSearch(window, problem, deadline)
    free = problem.topology.ranks - len(commodity.holders)
    if free <= MAX_SUBSET or len(commodity.wanted - commodity.holders) == 1:
        return SetPricer(window, problem)
    return SearchPricer(window, deadline)


class ColumnGeneration:
    """The LP over the trees so far, the pricers that add trees, and the best bound they proved.

    Args:
        floor: Proved lower bound to start with.
        deadline: Deadline for pricing on the clock of ``time.perf_counter()``.
    """

    def __init__(self, problem: PackingProblem, floor: Fraction, deadline: float) -> None:
        self.problem = problem
        self.pricers: list[Pricer] = [
            make_pricer(problem, c, deadline=deadline) for c in problem.commodities
        ]
        self.master = Master(problem, step_slots(problem))
        self.best: Bound[Fraction, ResourcePrices] = Bound(Measure.COST, floor, ResourcePrices())
        self.scale = min(PRICE_SCALE, max_price_scale(problem.topology.ranks))
        shape = (len(problem.resources), len(problem.edges))
        self.resource_uses = np.zeros(shape, dtype=np.int64)
        for i, resource in enumerate(problem.resources):
            for edge, times in resource.links:
                self.resource_uses[i, edge] = times
        # The load of all constraints of a resource in a round is the weight of its price.
        self.capacity = np.array([r.count * r.rate for r in problem.resources])

    @property
    def spent(self) -> float:
        """Return the effort spent so far, independent of the clock."""
        return self.master.spent + sum(price.spent for price in self.pricers)

    def start(self) -> None:
        """Put a first tree of each commodity into the LP."""
        even = np.ones((len(self.problem.edges), self.problem.steps), np.int64)
        for i, price in enumerate(self.pricers):
            self.master.add(i, price.quick(even)[1])

    def warm_start(self, packing: tuple[TreeShare, ...]) -> None:
        """Add the trees of a packing with one step less to the LP, with an idle step anywhere.

        This takes eight times fewer rounds in total for broadcast on DGX-1 with S = 2 to 8.
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
        """Add cheapest trees at these prices. Return how many are new.

        The lower bound is raised if the prices prove a larger one.
        """
        costs: IntArray = self.resource_uses.T @ integral_prices
        added, bound = 0, Fraction(0)
        for i, price in enumerate(self.pricers):
            cost, *trees = price.exact(costs)
            bound += self.problem.commodities[i].amount * cost / scale
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
        rates = np.array([[r.rate] for r in self.problem.resources])
        current = self.integer_prices(solution.prices / rates)
        best_prices = self.best.proof.floats
        if best_prices is not None:
            smooth = self.integer_prices(
                SMOOTHING * best_prices + (1 - SMOOTHING) * current / self.scale
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
