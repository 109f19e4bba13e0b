"""Trees packed into slots: a linear program that grows by columns, until nothing improves it.

Prices are smoothed towards those of the best bound so far (Wentges 1997).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from sccl.solvers import lp
from sccl.synth.flows.problem import FluidProblem, Tree
from sccl.synth.flows.shares import Floats, TimedPacking, TreePart
from sccl.synth.flows.slots import TimeSlots
from sccl.synth.fluid.pricing import TreePricing
from sccl.synth.fluid.sets import NoTreeError

_CLOSE = 1e-6
_SMOOTHING = 0.7
_PIVOT, _ROUND = 3e-9, 5e-6
"""Effort of a pivot, and of a round, for each row and column: so no load changes what is found."""

_EVENLY, _OFTEN, _FIRST = 24, 400, 0.3
"""Times that trees are priced at first, at least and at most, and the part of the effort after
which that ends."""

_STEEP, _GENTLY = 12.0, 0.1
"""By how much the fullest slot becomes dearer in all of those times, and each time, at least."""

_SHORT = 1e-3
"""Of the whole: a slot counts as no shorter, where trees are to load all evenly."""

_DEAR = 1000.0
"""Cost of serving a commodity by no tree, in multiples of the whole: no packing does it."""


class _Master:
    """The program over the trees so far. Times are in units of about the whole."""

    def __init__(self, problem: FluidProblem, slots: TimeSlots, unit: float) -> None:
        self.problem, self.slots, self.unit = problem, slots, unit
        self.counts = np.array([r.count for r in problem.resources], dtype=np.float64)
        self.fixed = slots.fixed / unit
        self.least = slots.least / unit
        self.model = model = lp.Model()
        self.z = [model.add_variable(lb=0.0) for _ in range(slots.grows.shape[1])]
        self.missing = [model.add_variable(lb=0.0) for _ in problem.commodities]
        model.minimize(lp.fast_sum([*self.z, *(_DEAR * x for x in self.missing)]))
        self.windows = []
        for row, least in zip(slots.rows, self.least, strict=True):
            window = model.add_linear_constraint(lb=float(least))
            for j in np.flatnonzero(row):
                window.set_coefficient(self.z[j], float(row[j]))
            self.windows.append(window)
        self.whole = []
        for missing in self.missing:
            served = model.add_linear_constraint(lb=1.0, ub=1.0)
            served.set_coefficient(missing, 1.0)
            self.whole.append(served)
        self.room = {}
        for i in range(len(problem.resources)):
            for k in range(len(self.fixed)):
                row = model.add_linear_constraint(ub=float(self.fixed[k]))
                for j in np.flatnonzero(slots.grows[k]):
                    row.set_coefficient(self.z[j], -float(slots.grows[k, j]))
                self.room[i, k] = row
        self.of_link: list[list[tuple[int, int]]] = [[] for _ in problem.edges]
        for i, resource in enumerate(problem.resources):
            for link, times in resource.links:
                self.of_link[link].append((i, times))
        self.columns: dict[tuple[int, Tree], lp.Variable] = {}
        self._loads: list[tuple[int, list[int], list[float]]] = []
        self.growing = lp.Growing(model)
        self.spent = 0.0

    def add(self, commodity: int, tree: Tree) -> bool:
        """Add a tree; return False if it is there already."""
        if (commodity, tree) in self.columns:
            return False
        x = self.model.add_variable(lb=0.0)
        self.whole[commodity].set_coefficient(x, 1.0)
        loads: dict[tuple[int, int], int] = {}
        rooms = self.slots.room.tolist()
        for link, slot in sorted(tree):
            for i, times in self.of_link[link]:
                loads[i, rooms[slot]] = loads.get((i, rooms[slot]), 0) + times
        one = self.problem.commodities[commodity]
        size = float(one.size * len(one.members)) / self.unit
        rows, holds = [], []
        for (i, room), times in loads.items():
            resource = self.problem.resources[i]
            hold = times / float(resource.rate)
            self.room[i, room].set_coefficient(x, size * hold / resource.count)
            rows.append(i * len(self.fixed) + room)
            holds.append(hold)
        self.columns[commodity, tree] = x
        self._loads.append((commodity, rows, holds))
        return True

    def cheapest(self, prices: Floats) -> Floats:
        """Return, for each commodity, the cost per byte of the cheapest of its trees so far."""
        found = np.full(len(self.problem.commodities), np.inf)
        if self._loads:
            own, rows, holds = zip(*self._loads, strict=True)
            first = np.cumsum([0, *map(len, rows[:-1])])
            each = prices.ravel()[list(chain(*rows))] * list(chain(*holds))
            np.minimum.at(found, list(own), np.add.reduceat(each, first))
        return found

    def solve(self) -> tuple[lp.SolveResult, Floats, Floats]:
        """Return the optimum, and the prices of one of each resource and of windows."""
        result = self.growing.optimum()
        pivots = result.solve_stats.simplex_iterations
        self.spent += (_PIVOT * pivots + _ROUND) * (len(self.room) + len(self.columns))
        duals = result.dual_values()
        prices = np.zeros((len(self.problem.resources), len(self.fixed)))
        for (i, k), row in self.room.items():
            prices[i, k] = max(0.0, -duals[row]) / self.counts[i]
        return result, prices, np.array([max(0.0, duals[w]) for w in self.windows])


class WayPrices:
    """The price of a byte over each way, as a sum of the prices of its links and budgets.

    A library's matrix product would wake threads for each.

    Attributes:
        meets: shape (resources, ways): microseconds of each that a byte takes.
    """

    def __init__(self, problem: FluidProblem) -> None:
        self.meets = np.zeros((len(problem.resources), len(problem.edges)))
        for i, resource in enumerate(problem.resources):
            for link, times in resource.links:
                self.meets[i, link] = times / float(resource.rate)
        most = int(np.count_nonzero(self.meets, axis=0).max(initial=1))
        self._resource = np.argsort(self.meets == 0, axis=0, kind="stable")[:most].T
        self._held = np.take_along_axis(self.meets.T, self._resource, axis=1)

    def of(self, prices: Floats) -> Floats:
        """Return the price of a byte, shape (ways, slots), by prices of resources in slots."""
        found: Floats = (prices[self._resource] * self._held[:, :, None]).sum(axis=1)
        return found


class Growth:
    """Column generation for some slots.

    Args:
        unit: about the whole time, microseconds.
    """

    def __init__(
        self, problem: FluidProblem, slots: TimeSlots, pricing: TreePricing, unit: float
    ) -> None:
        pricing.check(slots.count)
        self.problem, self.slots, self.pricing = problem, slots, pricing
        self.master = _Master(problem, slots, unit)
        self.ways = WayPrices(problem)
        self.sizes = np.array([float(c.size) * len(c.members) for c in problem.commodities])
        self.least, self.sure, self._pricing_spent = 0.0, 0.0, 0.0
        self.lightly = pricing.has_more
        self.best: tuple[Floats, Floats] | None = None
        self._costs = np.zeros(len(self.sizes))

    @property
    def spent(self) -> float:
        """Return the effort so far, in units of some seconds. No clock has a part in it."""
        return self.master.spent + self._pricing_spent

    @property
    def _doubtful(self) -> bool:
        """Return whether there may be cheaper trees than those that pricing tells."""
        return self.lightly or not self.pricing.exact

    def run(  # noqa: PLR0913 - a start, three ends, and progress
        self,
        *,
        start: Iterable[tuple[int, Tree]] = (),
        enough: float = 0.0,
        hopeless: float = np.inf,
        effort: float = np.inf,
        deadline: float = np.inf,
        notify: Callable[[float, float], None] = lambda _low, _high: None,
        spread: bool = True,
    ) -> TimedPacking:
        """Return a best packing.

        Args:
            start: trees to begin with.
            enough: microseconds at which nothing more is done.
            hopeless: likewise, once no packing takes less.
            effort: after which nothing more is done.
            deadline: of ``time.perf_counter()``.
            notify: called with bounds around the time, for progress.
            spread: whether trees that load all slots evenly are begun with, too.

        Raises:
            NoTreeError: something cannot be served within the slots.
            KeyboardInterrupt: the user interrupted.
        """
        master, unit = self.master, self.master.unit
        if spread:
            self._spread(effort)
        for commodity, tree in start:
            if all(k < self.slots.count and self.slots.arrive[e, k] >= 0 for e, k in tree):
                master.add(commodity, tree)
        while True:
            result, prices, windows = master.solve()
            self._doubt()
            value = result.objective_value()
            notify(self.least * unit, value * unit)
            if value * unit <= enough or self.spent > effort or time.perf_counter() > deadline:
                break
            if value - self.least <= _CLOSE * value or self.least * unit >= hopeless:
                if not self._harder():
                    break
                continue
            if not self._improve(prices, windows) and not self._harder():
                break
        values = result.variable_values()
        z = np.array([values[x] for x in master.z]) * unit
        parts = [max(0.0, values.get(x, 0.0)) for x in master.columns.values()]
        shares = tuple(
            TreePart(c, tree, part)
            for (c, tree), part in zip(master.columns, parts, strict=True)
            if part > 1e-9
        )
        whole = all(values[x] < 1e-9 for x in master.missing)
        lengths = self.slots.lengths(z)
        proved = prices if self.best is None else self.best[0]
        if self._doubtful:  # which proves nothing of the trees that were not looked at
            self.sure = 0.0
        return TimedPacking(
            self.slots, value * unit, self.sure * unit, shares, lengths, whole, proved
        )

    def _harder(self) -> bool:
        """Look at all tables from here on, as light ones have said all; return whether they had."""
        more, self.lightly = self.lightly, False
        if more:  # what was proved was of fewer trees
            before = self.best
            self.least, self.sure, self.best = 0.0, 0.0, None
            if before is not None:
                self._bounded(*before)
        return more

    def _spread(self, effort: float) -> None:
        """Begin with trees that load all slots evenly: each is cheap where earlier ones are not.

        The cost of a slot grows with its load, relative to its length (Garg and Koenemann 1998).
        There are about as many trees as rows. Few commodities are priced more often, since a
        solution of the program then takes longer than pricing.
        """
        count = self.slots.grows.shape[1]
        lengths = self.slots.fixed + self.slots.grows @ np.full(count, self.master.unit / count)
        lengths = np.maximum(lengths, _SHORT * self.master.unit)
        prices = np.tile(1 / lengths, (len(self.problem.resources), 1))
        often = len(self.master.room) // len(self.problem.commodities)
        often = min(max(often, _EVENLY), _OFTEN)
        steep = max(_STEEP / often, _GENTLY)
        for _ in range(often):
            trees = self._cheapest(prices)
            for c, (_, tree) in enumerate(trees):
                self.master.add(c, tree)
            self._bound_by(trees, prices)
            if self.spent > effort * _FIRST:
                break
            loads = np.zeros_like(prices)
            for c, (_, tree) in enumerate(trees):
                for link, slot in tree:
                    loads[:, self.slots.room[slot]] += self.sizes[c] * self.ways.meets[:, link]
            full = loads / self.master.counts[:, None] / lengths
            prices *= 1 + steep * full / full.max()
            prices /= prices.max()

    def _bound_by(self, trees: list[tuple[float, Tree]], prices: Floats) -> None:
        """Update the bound by the cheapest trees at arbitrary prices."""
        each = self.master.counts @ prices
        buys = float((each @ self.slots.grows).max())  # a microsecond more, wherever it is
        if buys > 0:
            costs = np.array([price for price, _ in trees])
            self._prove(costs / buys, prices / buys, np.zeros(len(self.master.least)))

    def _improve(self, prices: Floats, windows: Floats) -> bool:
        """Add trees that may improve on a solution; return False if there are none."""
        if self.best is not None:
            smooth = tuple(
                _SMOOTHING * kept + (1 - _SMOOTHING) * now
                for kept, now in zip(self.best, (prices, windows), strict=True)
            )
            if self._bounded(*smooth):
                return True
        return self._bounded(prices, windows)

    def _bounded(self, prices: Floats, windows: Floats) -> bool:
        """Add cheapest trees at some prices, and update the bound."""
        trees = self._cheapest(prices)
        added = [self.master.add(c, tree) for c, (_, tree) in enumerate(trees)]
        self._prove(np.array([cost for cost, _ in trees]), prices, windows)
        return any(added)

    def _prove(self, costs: Floats, prices: Floats, windows: Floats) -> None:
        """Record the bound by prices, if it is the best so far.

        Args:
            costs: cost of a byte of each commodity, by its cheapest tree.
        """
        least, buys = self._proved(costs, prices, windows)
        if least > self.least or self.best is None:
            self.least, self.best, self._costs = max(least, self.least), (prices, windows), costs
            hidden = self.sizes.sum() * self.pricing.rounded(self.ways.of(prices))
            sure = self.least - hidden / (self.master.unit * buys) if buys > 0 else 0.0
            self.sure = max(0.0, sure)

    def _proved(self, costs: Floats, prices: Floats, windows: Floats) -> tuple[float, float]:
        """Return the bound on time by prices, in units, and the value of a unit of time."""
        each, master, buys = self.master.counts @ prices, self.master, 1.0
        cost = float(self.sizes @ costs) / master.unit
        least = cost + float(windows @ master.least) - float(each @ master.fixed)
        if not len(master.windows) and len(master.z) == 1:
            # a time T buys each @ (fixed + grows T), which is at least what all trees cost
            buys = float(each @ self.slots.grows[:, 0])
            least = least / buys if buys > 0 else 0.0
        return least, buys

    def _doubt(self) -> None:
        """Prove no more than trees that have been found since allow, where they may be cheaper."""
        if self.best is not None and self._doubtful:
            self._costs = np.minimum(self._costs, self.master.cheapest(self.best[0]))
            self.least = max(0.0, self._proved(self._costs, *self.best)[0])

    def _cheapest(self, prices: Floats) -> list[tuple[float, Tree]]:
        self._pricing_spent += self.pricing.effort(self.slots.count, lightly=self.lightly)
        bytes_ = self.ways.of(prices[:, self.slots.room])
        try:
            return self.pricing.cheapest(bytes_, self.slots.arrive, lightly=self.lightly)
        except NoTreeError:
            if not self._harder():
                raise
            return self._cheapest(prices)
