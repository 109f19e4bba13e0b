"""Pack trees into slots by column generation: a linear program to which priced trees are added.

Prices are smoothed towards those of the best bound so far (Wentges 1997).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from sccl.core.arrays import FloatArray
from sccl.synth.limits import MIN_SHARE, OPERATION_EFFORT, TOLERANCE
from sccl.synth.packing.flow_problem import FlowProblem, SlotTree
from sccl.synth.packing.master import SMOOTHING, Master
from sccl.synth.packing.price_sets import NoTreeError
from sccl.synth.packing.price_trees import TreePricing
from sccl.synth.packing.slots import TimedPacking, TimeSlots, TreePart

_MIN_SPREAD_ROUNDS, _MAX_SPREAD_ROUNDS, _SPREAD_EFFORT_SHARE = 24, 400, 0.3
"""Times that trees are priced at first, at least and at most, and the part of the effort after
which that ends."""

_MAX_LOAD_EXPONENT, _MIN_LOAD_STEP = 12.0, 0.1
"""Logarithm of the highest price of a slot in these rounds, and its smallest increase per round."""


class RoutePrices:
    """Price of a byte over each path: the sum of the prices of its links and budgets.

    It is a sum over few resources, because a matrix product would wake threads for each call.

    Attributes:
        meets: Microseconds for which a byte on a path occupies each resource, shape (resources,
            paths).
    """

    def __init__(self, problem: FlowProblem) -> None:
        self.meets = np.zeros((len(problem.resources), len(problem.edges)))
        for i, resource in enumerate(problem.resources):
            for link, times in resource.links:
                self.meets[i, link] = times / float(resource.rate)
        max_count = int(np.count_nonzero(self.meets, axis=0).max(initial=1))
        self._resource = np.argsort(self.meets == 0, axis=0, kind="stable")[:max_count].T
        self._pair_counts = np.take_along_axis(self.meets.T, self._resource, axis=1)

    def route_prices(self, prices: FloatArray) -> FloatArray:
        """Return the price of a byte, shape (paths, slots), by prices of resources in slots."""
        path_prices: FloatArray = (prices[self._resource] * self._pair_counts[:, :, None]).sum(
            axis=1
        )
        return path_prices


class SlotColumnGeneration:
    """Column generation for given slots.

    Args:
        problem: The problem.
        slots: The slots.
        pricing: Pricing of trees.
        unit: Approximate completion time, microseconds.
    """

    def __init__(
        self, problem: FlowProblem, slots: TimeSlots, pricing: TreePricing, unit: float
    ) -> None:
        pricing.check_size(slots.count)
        self.problem, self.slots, self.pricing = problem, slots, pricing
        self.master = Master(problem, slots, unit, has_missing=True, round_effort=OPERATION_EFFORT)
        self.route_prices = RoutePrices(problem)
        self.sizes = np.array([float(c.amount) for c in problem.commodities])
        self.lower_bound, self.safe_bound, self._pricing_spent = 0.0, 0.0, 0.0
        self._searched_before = pricing.search_effort
        self.is_light = pricing.is_searched
        self.best: tuple[FloatArray, FloatArray] | None = None
        self._costs = np.zeros(len(self.sizes))

    @property
    def spent(self) -> float:
        """Return the effort so far, in units of some seconds, independent of any clock."""
        searched = self.pricing.search_effort - self._searched_before
        return self.master.spent + self._pricing_spent + searched

    @property
    def _is_doubtful(self) -> bool:
        """Return whether cheaper trees may exist than pricing returns."""
        return self.is_light or not self.pricing.is_exact

    def run(  # noqa: PLR0913 - a start, three ends, and progress
        self,
        *,
        start: Iterable[tuple[int, SlotTree]] = (),
        target_us: float = 0.0,
        hopeless: float = np.inf,
        effort: float = np.inf,
        deadline: float = np.inf,
        notify: Callable[[float, float], None] = lambda _low, _high: None,
        spread: bool = True,
    ) -> TimedPacking:
        """Return an optimal packing, or the best one when the search ends early.

        Args:
            start: Initial trees, as (commodity, tree).
            target_us: The search ends with a packing of at most this time.
            hopeless: The search ends once the lower bound reaches this time.
            effort: Limit on the effort.
            deadline: Deadline on the clock of ``time.perf_counter()``.
            notify: Called with a lower and an upper bound on the time, microseconds.
            spread: Whether to start also with trees that load all slots evenly.

        Raises:
            NoTreeError: A demand cannot be met within the slots.
            KeyboardInterrupt: The user interrupted.
        """
        master, unit = self.master, self.master.unit
        if spread:
            self._spread_trees(effort)
        for commodity, tree in start:
            if all(k < self.slots.count and self.slots.arrive[e, k] >= 0 for e, k in tree):
                master.add(commodity, tree)
        while True:
            solution = master.solve()
            prices, windows = solution.prices, solution.windows
            self._weaken_bound()
            value = solution.value
            notify(self.lower_bound * unit, value * unit)
            if value * unit <= target_us or self.spent > effort or time.perf_counter() > deadline:
                break
            if value - self.lower_bound <= TOLERANCE * value or self.lower_bound * unit >= hopeless:
                if not self._search_trees():
                    break
                continue
            if not self._improve(prices, windows) and not self._search_trees():
                break
        values = solution.result.variable_values()
        z = np.array([values[x] for x in master.z]) * unit
        parts = ((column, values.get(column.variable, 0.0)) for column in master.columns)
        shares = tuple(TreePart(c.commodity, c.tree, part) for c, part in parts if part > 1e-9)
        is_complete = all(values[x] < 1e-9 for x in master.missing)
        lengths = self.slots.lengths(z)
        proved = prices if self.best is None else self.best[0]
        if self._is_doubtful:  # cheaper trees may exist, so prices prove nothing
            self.safe_bound = 0.0
        return TimedPacking(
            self.slots, value * unit, self.safe_bound * unit, shares, lengths, is_complete, proved
        )

    def _search_trees(self) -> bool:
        """Start to search for trees, if grown trees no longer improve. Return whether it is new."""
        more, self.is_light = self.is_light, False
        if more:  # the proof was for fewer trees
            before = self.best
            self.lower_bound, self.safe_bound, self.best = 0.0, 0.0, None
            if before is not None:
                self._add_cheapest(*before)
        return more

    def _spread_trees(self, effort: float) -> None:
        """Add trees that load all slots evenly: each tree avoids the slots that earlier ones use.

        The price of a slot grows with its load, relative to its length (Garg and Koenemann 1998).
        There are about as many trees as rows. Few commodities are priced more often, because
        solving the program then takes longer than pricing.
        """
        count = self.slots.grows.shape[1]
        lengths = self.slots.fixed + self.slots.grows @ np.full(count, self.master.unit / count)
        lengths = np.maximum(lengths, MIN_SHARE * self.master.unit)
        prices = np.tile(1 / lengths, (len(self.problem.resources), 1))
        often = len(self.master.rooms) // len(self.problem.commodities)
        often = min(max(often, _MIN_SPREAD_ROUNDS), _MAX_SPREAD_ROUNDS)
        steep = max(_MAX_LOAD_EXPONENT / often, _MIN_LOAD_STEP)
        for _ in range(often):
            trees = self._cheapest_trees(prices)
            for c, (_, tree) in enumerate(trees):
                self.master.add(c, tree)
            self._bound_from_trees(trees, prices)
            if self.spent > effort * _SPREAD_EFFORT_SHARE:
                break
            loads = np.zeros_like(prices)
            for c, (_, tree) in enumerate(trees):
                for link, slot in tree:
                    loads[:, self.slots.room[slot]] += (
                        self.sizes[c] * self.route_prices.meets[:, link]
                    )
            full = loads / self.master.counts[:, None] / lengths
            prices *= 1 + steep * full / full.max()
            prices /= prices.max()

    def _bound_from_trees(self, trees: list[tuple[float, SlotTree]], prices: FloatArray) -> None:
        """Update the bound by the cheapest trees at arbitrary prices."""
        each = self.master.counts @ prices
        buys = float((each @ self.slots.grows).max())  # price of one more microsecond, at most
        if buys > 0:
            costs = np.array([price for price, _ in trees])
            self._record_proof(costs / buys, prices / buys, np.zeros(len(self.master.min_windows)))

    def _improve(self, prices: FloatArray, windows: FloatArray) -> bool:
        """Add trees that may improve the solution. Return False if there are none."""
        if self.best is not None:
            smooth = tuple(
                SMOOTHING * kept + (1 - SMOOTHING) * now
                for kept, now in zip(self.best, (prices, windows), strict=True)
            )
            if self._add_cheapest(*smooth):
                return True
        return self._add_cheapest(prices, windows)

    def _add_cheapest(self, prices: FloatArray, windows: FloatArray) -> bool:
        """Add the cheapest trees at prices, and update the bound. Return whether one is new."""
        trees = self._cheapest_trees(prices)
        added = [self.master.add(c, tree) for c, (_, tree) in enumerate(trees)]
        self._record_proof(np.array([cost for cost, _ in trees]), prices, windows)
        return any(added)

    def _record_proof(self, costs: FloatArray, prices: FloatArray, windows: FloatArray) -> None:
        """Record the lower bound that prices prove, if it is the best so far.

        Args:
            costs: Cost of a byte of each commodity, on its cheapest tree.
            prices: Prices of resources in rooms.
            windows: Prices of the rows of the slots.
        """
        lower_bound, buys = self._proof_value(costs, prices, windows)
        if lower_bound > self.lower_bound or self.best is None:
            self.lower_bound, self.best, self._costs = (
                max(lower_bound, self.lower_bound),
                (prices, windows),
                costs,
            )
            hidden = self.sizes.sum() * self.pricing.rounding_error(
                self.route_prices.route_prices(prices)
            )
            sure = self.lower_bound - hidden / (self.master.unit * buys) if buys > 0 else 0.0
            self.safe_bound = max(0.0, sure)

    def _proof_value(
        self, costs: FloatArray, prices: FloatArray, windows: FloatArray
    ) -> tuple[float, float]:
        """Return the lower bound that prices prove, in units, and the price of a unit of time."""
        each, master, buys = self.master.counts @ prices, self.master, 1.0
        cost = float(self.sizes @ costs) / master.unit
        lower_bound = cost + float(windows @ master.min_windows) - float(each @ master.fixed)
        if not len(master.windows) and len(master.z) == 1:
            # a time T buys each @ (fixed + grows T), which is at least the cost of all trees
            buys = float(each @ self.slots.grows[:, 0])
            lower_bound = lower_bound / buys if buys > 0 else 0.0
        return lower_bound, buys

    def _weaken_bound(self) -> None:
        """Lower the bound to the cost of trees found since, if pricing may miss cheaper trees."""
        if self.best is not None and self._is_doubtful:
            self._costs = np.minimum(self._costs, self.master.cheapest(self.best[0]))
            self.lower_bound = max(0.0, self._proof_value(self._costs, *self.best)[0])

    def _cheapest_trees(self, prices: FloatArray) -> list[tuple[float, SlotTree]]:
        self._pricing_spent += self.pricing.effort(self.slots.count)
        bytes_ = self.route_prices.route_prices(prices[:, self.slots.room])
        try:
            return self.pricing.cheapest(bytes_, self.slots.arrive, lightly=self.is_light)
        except NoTreeError:
            if not self._search_trees():
                raise
            return self._cheapest_trees(prices)
