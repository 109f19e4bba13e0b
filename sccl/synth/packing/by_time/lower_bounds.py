"""Lower bounds over all chunkings from prices of links in time slots, stronger than from cuts.

This module also chooses the algorithm for packings in given slots.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.synth.limits import (
    ELEMENT_EFFORT,
    LIMIT_EFFORT,
    MAX_COLUMNS,
    MIN_SHARE,
    STEP_EFFORT,
    TIME_PRICE_SCALE,
    TRIAL_EFFORT,
)
from sccl.synth.packing.column_generation import RoutePrices, SlotColumnGeneration
from sccl.synth.packing.flow_lp import FlowProgram, is_unicast
from sccl.synth.packing.flow_problem import FlowProblem, SlotTree
from sccl.synth.packing.price_branching import insert_targets, tree_network
from sccl.synth.packing.price_sets import NoTreeError
from sccl.synth.packing.price_trees import TreePricing
from sccl.synth.packing.slots import TimedPacking, TimeSlots, border_changes, bordered_slots

MAX_SLOTS = 44
"""Largest number of slots that are tried. A program of 88 slots takes seconds on ``dgx2``."""

_MAX_ALPHAS, FIRST_BORDERS = 6, 8
"""Largest number of different alphas whose sums are borders of slots, and the number of borders
that bounds begin with."""

TreesByBorders = dict[tuple[frozenset[Fraction], Fraction], tuple[tuple[int, SlotTree], ...]]
"""Trees of commodities, by the borders of slots and the time from which these keep their order."""


def select_engine(problem: FlowProblem) -> FlowProgram | TreePricing:
    """Return the algorithm for packings of a problem.

    Raises:
        TooLargeError: there are too many sets of ranks.
    """
    return FlowProgram(problem) if is_unicast(problem) else TreePricing(problem)


@dataclass(frozen=True, slots=True)
class SlotPriceProof:
    """Prices that prove a lower bound on time.

    Attributes:
        borders: Borders of slots, measured from the start and from the end.
        begin: Start of the interval of times in which the borders keep their order.
        end: End of the interval.
        packing: Packing with the prices.
        targets: Ranks that the trees serve. None: all destinations.
    """

    borders: frozenset[Fraction]
    begin: Fraction
    end: Fraction
    packing: TimedPacking
    targets: frozenset[int] | None = None


@dataclass
class LowerBoundSearch:
    """A search for a lower bound on the time of a problem, and for packings that come close.

    Attributes:
        engine: Algorithm for packings: one program of all flows, or column generation of trees.
        lower_bound: Lower bound in microseconds. It begins with that of cuts.
        gap: Allowed relative gap of a packing to the bound.
        deadline: Deadline on the clock of ``time.perf_counter()``.
        notify: Function that receives (bound, best time so far).
        build_schedules: Function that makes schedules from a packing and returns the best time. A
            thorough call tries smaller and smaller chunks until one meets a given time.
        effort: Limit on the effort, in units of some seconds.
        best: Best packing so far.
        schedule_us: Time of the best schedule. Infinite: there is none yet.
        proof: Proof of the bound. None: it is still that of cuts.
        trees: Trees of the programs that raised the bound. They also serve other sizes.
        targets: Ranks to which the problem is restricted. None: all ranks.
    """

    problem: FlowProblem
    engine: FlowProgram | TreePricing
    lower_bound: Fraction
    gap: float = 0.0
    effort: float = inf
    deadline: float = inf
    notify: Callable[[float, float], None] = lambda _low, _high: None
    build_schedules: Callable[[TimedPacking, float, bool], float] = lambda *_: inf
    best: TimedPacking | None = None
    schedule_us: float = inf
    spent: float = 0.0
    proof: SlotPriceProof | None = None
    trees: TreesByBorders = field(default_factory=dict)
    targets: frozenset[int] | None = None

    @property
    def target_us(self) -> float:
        """Return the time at which the search ends."""
        return float(self.lower_bound) * (1 + self.gap)

    def _search_packing(
        self,
        slots: TimeSlots,
        *,
        target_us: float = 0.0,
        hopeless: float = inf,
        start: Iterable[tuple[int, SlotTree]] = (),
        max_effort: float = inf,
    ) -> TimedPacking | None:
        """Return the best packing in given slots. None: the slots are too few, or too many."""
        left = self.effort - self.spent if self.schedule_us < inf else self.effort
        if isinstance(self.engine, FlowProgram):
            first = max(left, LIMIT_EFFORT) if self.schedule_us == inf else left
            return self._solve_flow(self.engine, slots, first)
        effort = min(left, max_effort)
        return self._generate_columns(
            self.engine, slots, effort, start, target_us=target_us, hopeless=hopeless
        )[0]

    def _generate_columns(  # noqa: PLR0913 - an engine, a start, and three ends
        self,
        engine: TreePricing,
        slots: TimeSlots,
        effort: float,
        start: Iterable[tuple[int, SlotTree]],
        *,
        target_us: float,
        hopeless: float = inf,
    ) -> tuple[TimedPacking | None, tuple[tuple[int, SlotTree], ...]]:
        """Return the best packing in given slots, and all trees of its program."""
        search = SlotColumnGeneration(self.problem, slots, engine, float(self.lower_bound) or 1.0)
        packing = None
        try:
            packing = search.run(
                start=start,
                effort=effort,
                deadline=self.deadline,
                notify=lambda *_: self.notify(float(self.lower_bound), self.schedule_us),
                target_us=target_us,
                hopeless=hopeless,
            )
        except NoTreeError:
            pass
        finally:
            self.spent += search.spent
        return packing, search.master.trees

    def _solve_flow(
        self, program: FlowProgram, slots: TimeSlots, left: float
    ) -> TimedPacking | None:
        if program.columns(slots.count) > MAX_COLUMNS:
            return None
        self.notify(float(self.lower_bound), self.schedule_us)
        seconds = self.deadline - time.perf_counter()
        packing, result = program.solve(slots, float(self.lower_bound) or 1.0, left, seconds)
        self.spent += ELEMENT_EFFORT * result.pivots * program.columns(slots.count)
        return packing

    def _alpha_sums(self, limit: Fraction, count: int) -> frozenset[Fraction]:
        """Return the smallest sums of alphas: the least any number of times, others once."""
        alphas = sorted(alpha for alpha in set(self.problem.alpha) if alpha)[:_MAX_ALPHAS]
        queue, sums = [(Fraction(0), 0)], set[Fraction]()
        seen = set(queue)
        while queue and len(sums) < count:
            at, used = heapq.heappop(queue)
            if at > limit:
                break
            sums.add(at)
            for i, alpha in enumerate(alphas):
                then = (at + alpha, used | 1 << i if i else used)
                if not used >> i & 1 and then not in seen:
                    seen.add(then)
                    heapq.heappush(queue, then)
        return frozenset(sums)

    def raise_bound(self, worth: float = 1e-9) -> Fraction | None:
        """Raise the lower bound by prices of links in slots, for all trees or trees to few ranks.

        Args:
            worth: Minimum relative gain for which the search continues.

        Returns:
            Start of the last interval of times that was tried, in which the borders of slots keep
            their order. None: prices give no bound here.
        """
        if isinstance(self.engine, TreePricing) and self.engine.is_searched:
            return self.raise_by_critical_targets(worth)
        return self.raise_with_engine(worth)

    def raise_by_critical_targets(self, worth: float = 1e-9) -> Fraction | None:
        """Raise the lower bound by trees to few ranks. The effort limit does not include this."""
        few = restricted_search(self.problem, self.lower_bound, self.deadline)
        if few is None:
            return None
        looked = few.raise_bound(worth)
        if few.proof is not None:
            self.lower_bound, self.proof = few.lower_bound, few.proof
        return looked

    def raise_with_engine(self, worth: float = 1e-9) -> Fraction | None:
        """Raise the lower bound by prices of all trees. See :meth:`raise_bound`."""
        if not self.problem.is_rigid:
            return None
        borders = self._alpha_sums(self.lower_bound, FIRST_BORDERS)
        points = self._slot_changes(borders)
        looked = None
        for begin, end in pairwise(points[bisect_right(points, self.lower_bound) - 1 :]):
            if time.perf_counter() > self.deadline or self.spent > self.effort:
                break
            looked, target_us = begin, float(self.lower_bound) * (1 + worth)
            # the prices of a packing within the target prove no more than the target
            packing = self._price_interval(borders, begin, end, target_us)
            if packing is None or packing.lower_bound_us <= target_us:
                break
            # in whole femtoseconds: the last bits of an LP differ from processor to processor
            proved = Fraction(int(packing.lower_bound_us * (1 - 1e-9) * 10**9), 10**9)
            self.lower_bound = max(self.lower_bound, min(proved, end))
            self.proof = SlotPriceProof(borders, begin, end, packing, self.targets)
            if proved < end:
                break
        return looked

    def _price_interval(
        self,
        borders: frozenset[Fraction],
        begin: Fraction,
        end: Fraction,
        target_us: float,
    ) -> TimedPacking | None:
        """Return a packing with the strongest prices for an interval of times. None: none found."""
        slots = bordered_slots(self.problem.alpha, borders, borders, (begin + end) / 2, "below")
        if slots.count > 2 * MAX_SLOTS:
            return None
        left = self.effort - self.spent
        if isinstance(self.engine, FlowProgram):
            return self._solve_flow(self.engine, slots, left)
        start = self.trees.get((borders, begin), ())
        packing, self.trees[borders, begin] = self._generate_columns(
            self.engine, slots, left, start, target_us=target_us
        )
        return packing

    def _slot_changes(self, borders: frozenset[Fraction]) -> list[Fraction]:
        """Return the times at which slots between given borders change, and a much later time."""
        points = border_changes(self.problem.alpha, borders, borders)
        return [*points, 1000 * (1 + max(self.lower_bound, points[-1]))]


def restricted_search(
    problem: FlowProblem, floor: Fraction, deadline: float
) -> LowerBoundSearch | None:
    """Return a search for a lower bound from trees to few ranks. None: it is not applicable.

    Args:
        floor: Known lower bound in microseconds.
        deadline: Deadline on the clock of ``time.perf_counter()``.
    """
    goals = find_critical_targets(problem) if problem.is_rigid else frozenset[int]()
    if not goals:
        return None
    few = restrict_targets(problem, goals)
    engine = TreePricing(few)
    search = LowerBoundSearch(
        few, engine, floor, effort=STEP_EFFORT, deadline=deadline, targets=goals
    )
    return None if engine.is_searched else search


MAX_TARGETS = 6
"""Ranks of a restricted problem, whose trees take milliseconds to price on any machine."""

_LOAD_EXPONENT, _MAX_LOAD = 6.0, 3.0
"""Prices of sends in slots of unequal load: the logarithm of a full slot's price relative to an
empty one's, and the load from which prices rise no more."""


def find_critical_targets(problem: FlowProblem) -> frozenset[int]:
    """Return ranks that are hard to serve together. Empty: there are several classes of chunks.

    These are the farthest rank of each chassis, because each chassis has its own late arrivals, and
    for each first hop of a chunk a rank far from it, because late data must leave over several
    links.
    """
    if len(problem.commodities) != 1 or len(problem.commodities[0].members) != 1:
        return frozenset()
    commodity = problem.commodities[0]
    missing = sorted(commodity.wanted - commodity.holders)
    far = problem.distances(commodity.holders)
    goals: list[int] = []
    for chassis in problem.topology.chassis:
        inside = [int(rank) for rank in chassis if rank in commodity.wanted]
        if inside and commodity.holders.isdisjoint(inside):
            goals.append(max(inside, key=lambda rank: (far[rank], -rank)))
    for ranks in _last_reached(problem, missing):
        if not ranks.intersection(goals):
            goals.append(min(ranks))
    return frozenset(goals[:MAX_TARGETS])


def _last_reached(problem: FlowProblem, missing: list[int]) -> Iterator[frozenset[int]]:
    """Yield the ranks that are farthest from each first hop of a chunk, smallest sets first."""
    (commodity,) = problem.commodities
    firsts = sorted(
        {v for u, v in problem.edges if u in commodity.holders and v not in commodity.holders}
    )
    distances = [problem.distances([first]) for first in firsts]
    farthest = [max(far.get(rank, Fraction(0)) for rank in missing) for far in distances]
    each = [
        frozenset(rank for rank in missing if far.get(rank) == last)
        for far, last in zip(distances, farthest, strict=True)
    ]
    for _, ranks in sorted(enumerate(each), key=lambda entry: (len(entry[1]), entry[0])):
        yield ranks


def restrict_targets(problem: FlowProblem, goals: frozenset[int]) -> FlowProblem:
    """Return a problem in which only the given ranks are destinations."""
    few = (replace(commodity, wanted=commodity.wanted & goals) for commodity in problem.commodities)
    return replace(problem, commodities=tuple(few))


class ExtendedTrees:
    """Trees to few ranks, extended to all other ranks at minimum cost."""

    def __init__(self, problem: FlowProblem, goals: frozenset[int]) -> None:
        self.problem = problem
        (self._commodity,) = problem.commodities
        self._targets = np.isin(np.arange(problem.topology.ranks), sorted(goals))
        self._route_prices = RoutePrices(problem)
        self._counts = np.array([resource.count for resource in problem.resources])

    def extend_packing(self, packing: TimedPacking, target_us: float) -> TimedPacking | None:
        """Return a packing in the same slots whose trees serve all ranks. None: there is none.

        Args:
            target_us: Time at which the search ends, in microseconds.
        """
        pricing = TreePricing(self.problem, is_grown=True)
        search = SlotColumnGeneration(self.problem, packing.slots, pricing, packing.us)
        start = self._extend_trees(packing)
        try:
            result = search.run(start=start, target_us=target_us, effort=TRIAL_EFFORT, spread=False)
        except NoTreeError:
            return None
        return result if result.is_complete else None

    def _extend_trees(self, packing: TimedPacking) -> list[tuple[int, SlotTree]]:
        """Return the trees of a packing, each extended to all ranks, the largest share first.

        The cost of a link in a slot grows with its load relative to the slot's length. The load
        includes earlier extensions.
        """
        slots = packing.slots
        load = np.zeros((len(self._counts), slots.count))
        lengths = np.maximum(packing.lengths, MIN_SHARE * packing.us)
        for share in packing.shares:
            self._add_load(load, slots, share.tree, share.part)
        trees = []
        for share in sorted(packing.shares, key=lambda share: (-share.part, sorted(share.tree))):
            full = np.minimum(load[:, slots.room] / lengths, _MAX_LOAD)
            price = np.exp(_LOAD_EXPONENT * full) / lengths
            each = self._route_prices.route_prices(price / self._counts[:, None])
            cost = np.floor(each * (TIME_PRICE_SCALE / each.max())).astype(np.int64) + 2
            for use in share.tree:
                cost[use] = 1
            tree = self._extend_tree(cost, slots.arrive)
            if tree is not None:
                self._add_load(load, slots, tree - share.tree, share.part)
                trees.append((share.commodity, tree))
        return trees

    def _add_load(
        self, load: NDArray[np.float64], slots: TimeSlots, tree: SlotTree, part: float
    ) -> None:
        size = float(self._commodity.size) * part
        for link, slot in tree:
            load[:, slots.room[slot]] += size * self._route_prices.meets[:, link] / self._counts

    def _extend_tree(self, cost: IntArray, arrive: IntArray) -> SlotTree | None:
        tree = np.zeros((len(self._targets), 2), np.int64)
        edges = self.problem.edges
        network = tree_network(edges, len(tree), self._commodity, arrive)
        count = insert_targets(network, cost, self._targets, tree)
        return None if count < 0 else frozenset((int(e), int(k)) for e, k in tree[:count])
