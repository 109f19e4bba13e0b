"""Lower bounds over all chunkings by prices of links in slots, which improve those of cuts.

The choice of an algorithm for packings in given slots is here as well.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import inf

from sccl.synth.flows.arcs import MOST_COLUMNS, FlowProgram, is_unicast
from sccl.synth.flows.problem import FluidProblem, Tree
from sccl.synth.flows.shares import TimedPacking
from sccl.synth.flows.slots import TimeSlots, bordered, changes
from sccl.synth.fluid.few import few_goals, narrowed
from sccl.synth.fluid.packing import Growth
from sccl.synth.fluid.pricing import TreePricing
from sccl.synth.fluid.sets import NoTreeError

MOST_BORDERS = 44
"""Slots of which the time of a few alphas is made: of more the program becomes slow."""

_ALPHAS, FIRST = 6, 8
"""Of links that differ, of which sums are borders, and how many of these bounds look at."""

_FLOWS = 30.0
"""Effort for the first packing of flows without copies."""

_PIVOT = 1e-9
"""Effort per pivot and column."""

MOST_SEARCHED = 20
"""Ranks of which the cheapest trees are searched, where no tables hold them all."""

NARROWED = 1.5
"""Effort for prices of trees to few ranks: a second or two, if they give a bound."""

KnownTrees = dict[tuple[frozenset[Fraction], Fraction], tuple[tuple[int, Tree], ...]]
"""Trees of commodities, by borders of slots and the time from which on these are in an order."""


def engine_of(problem: FluidProblem) -> FlowProgram | TreePricing:
    """Return the algorithm for packings of a problem.

    Raises:
        TooLargeError: there are too many sets of ranks.
    """
    return FlowProgram(problem) if is_unicast(problem) else TreePricing(problem)


@dataclass(frozen=True, slots=True)
class SlotProof:
    """The prices that prove a lower bound on time.

    Attributes:
        borders: borders of slots, from the start and from the end.
        begin: between it and ``end`` the order of borders is the same.
        packing: the packing with the prices.
        goals: ranks that trees serve, whoever else wants something. None: all.
    """

    borders: frozenset[Fraction]
    begin: Fraction
    end: Fraction
    packing: TimedPacking
    goals: frozenset[int] | None = None


@dataclass
class FloorSearch:
    """A search for a lower bound on the schedules of a problem, and for packings of some slots.

    Attributes:
        engine: algorithm for packings: a program of all flows, or the cheapest trees at prices.
        floor: lower bound, microseconds, initially by cuts of the machine.
        gap: allowed relative gap of a packing to it.
        deadline: time by ``time.perf_counter()``.
        notify: called with (bound, best so far).
        place: makes schedules of a packing, of smaller and smaller chunks until one is within a
            time, or only of the largest chunks, unless it is thorough. Returns the best time.
        effort: limit, in units of some seconds.
        best: the best packing so far.
        placed_us: time of the best schedule. Infinite: there is none yet.
        proof: proof of the floor. None: it is still that of cuts.
        trees: trees of the programs that raise the floor, which are useful for other sizes, too.
        goals: the ranks to which the problem is restricted. None: it is whole.
    """

    problem: FluidProblem
    engine: FlowProgram | TreePricing
    floor: Fraction
    gap: float
    effort: float
    deadline: float
    notify: Callable[[float, float], None]
    place: Callable[[TimedPacking, float, bool], float]
    best: TimedPacking | None = None
    placed_us: float = inf
    spent: float = 0.0
    proof: SlotProof | None = None
    trees: KnownTrees = field(default_factory=dict)
    goals: frozenset[int] | None = None

    @property
    def enough(self) -> float:
        """Return the time at which the search ends."""
        return float(self.floor) * (1 + self.gap)

    def _search(
        self,
        slots: TimeSlots,
        *,
        enough: float = 0.0,
        hopeless: float = inf,
        start: Iterable[tuple[int, Tree]] = (),
        most: float = inf,
    ) -> TimedPacking | None:
        """Return the best packing of some slots, for so much effort. None: they are too few."""
        unit = float(self.floor) or 1.0
        left = self.effort - self.spent if self.placed_us < inf else self.effort
        if isinstance(self.engine, FlowProgram):
            first = max(left, _FLOWS) if self.placed_us == inf else left
            return self._flowing(self.engine, slots, unit, first)
        search = Growth(self.problem, slots, self.engine, unit)
        try:
            return search.run(
                start=start,
                effort=min(left, most),
                deadline=self.deadline,
                notify=lambda *_: self.notify(float(self.floor), self.placed_us),
                enough=enough,
                hopeless=hopeless,
            )
        except NoTreeError:
            return None
        finally:
            self.spent += search.spent

    def _flowing(
        self, program: FlowProgram, slots: TimeSlots, unit: float, left: float
    ) -> TimedPacking | None:
        if program.columns(slots.count) > MOST_COLUMNS:
            return None
        self.notify(float(self.floor), self.placed_us)
        seconds = self.deadline - time.perf_counter()
        found, result = program.solve(slots, unit, left, seconds)
        self.spent += _PIVOT * result.pivots * program.columns(slots.count)
        return found

    def _sums(self, most: Fraction, count: int) -> frozenset[Fraction]:
        """Return the smallest sums of alphas: of the least any number, of the others one each."""
        alphas = sorted(alpha for alpha in set(self.problem.alpha) if alpha)[:_ALPHAS]
        queue, found = [(Fraction(0), 0)], set[Fraction]()
        known = set(queue)
        while queue and len(found) < count:
            at, used = heapq.heappop(queue)
            if at > most:
                break
            found.add(at)
            for i, alpha in enumerate(alphas):
                then = (at + alpha, used | 1 << i if i else used)
                if not used >> i & 1 and then not in known:
                    known.add(then)
                    heapq.heappush(queue, then)
        return frozenset(found)

    def raise_floor(self, worth: float = 1e-9) -> Fraction | None:
        """Raise the floor by prices of links in slots: of all trees, or of those to few ranks.

        Args:
            worth: by which part of it prices have to be above it.

        Returns:
            From which time on the borders of slots are in the order that was looked at last; None:
            prices say nothing here.
        """
        if not self.problem.rigid:
            return None
        if not isinstance(self.engine, TreePricing) or self.engine.exact:
            return self._raise_by(self.engine, worth)
        return self.raise_by_few(worth)

    def raise_by_few(self, worth: float = 1e-9) -> Fraction | None:
        """Raise the floor by trees to few ranks, in addition to the limit on effort."""
        few = narrowed_search(self.problem, self.floor, self.deadline)
        if few is None:
            return None
        looked = few.raise_floor(worth)
        if few.proof is not None:
            self.floor, self.proof = few.floor, few.proof
        return looked

    def raise_searching(self) -> None:
        """Raise the floor by trees that are searched, where no tables hold them all."""
        if self.problem.rigid and self.problem.topology.ranks <= MOST_SEARCHED:
            self._raise_by(TreePricing(self.problem, exactly=True), 1e-9)

    def _raise_by(self, engine: FlowProgram | TreePricing, worth: float) -> Fraction | None:
        borders = self._sums(self.floor, FIRST)
        points = self._points(borders)
        looked = None
        for begin, end in pairwise(points[bisect_right(points, self.floor) - 1 :]):
            if time.perf_counter() > self.deadline or self.spent > self.effort:
                break
            looked, enough = begin, float(self.floor) * (1 + worth)
            # a packing that takes no longer is one whose prices say no more
            found = self._priced(engine, borders, begin, end, enough)
            if found is None or found.least <= enough:
                break
            proved = Fraction(found.least * (1 - 1e-9)).limit_denominator(10**9)
            self.floor = max(self.floor, min(proved, end))
            self.proof = SlotProof(borders, begin, end, found, self.goals)
            if proved < end:
                break
        return looked

    def _priced(
        self,
        engine: FlowProgram | TreePricing,
        borders: frozenset[Fraction],
        begin: Fraction,
        end: Fraction,
        enough: float,
    ) -> TimedPacking | None:
        """Return a packing whose prices say the most of times between two. None: there is none."""
        slots = bordered(self.problem.alpha, borders, borders, (begin + end) / 2, "below")
        if slots.count > 2 * MOST_BORDERS:
            return None
        unit, left = float(self.floor) or 1.0, self.effort - self.spent
        if isinstance(engine, FlowProgram):
            return self._flowing(engine, slots, unit, left)
        search = Growth(self.problem, slots, engine, unit)
        try:
            return search.run(
                start=self.trees.get((borders, begin), ()),
                effort=left,
                deadline=self.deadline,
                notify=lambda *_: self.notify(float(self.floor), self.placed_us),
                enough=enough,
            )
        except NoTreeError:
            return None
        finally:
            self.spent += search.spent
            self.trees[borders, begin] = tuple(search.master.columns)

    def _points(self, borders: frozenset[Fraction]) -> list[Fraction]:
        """Return the times at which slots between such borders change, and one long after."""
        points = changes(self.problem.alpha, borders, borders)
        return [*points, 1000 * (1 + max(self.floor, points[-1]))]


def narrowed_search(problem: FluidProblem, floor: Fraction, deadline: float) -> FloorSearch | None:
    """Return a search for the floor of a problem by trees to few ranks. None: there are none.

    Args:
        floor: that is known, microseconds.
        deadline: of ``time.perf_counter()``.
    """
    goals = few_goals(problem) if problem.rigid else frozenset[int]()
    if not goals:
        return None
    few = narrowed(problem, goals)
    engine = TreePricing(few)
    search = FloorSearch(
        few, engine, floor, 0.0, NARROWED, deadline, unheard, unplaced, goals=goals
    )
    return search if engine.exact else None


def unheard(_low: float, _high: float) -> None:
    """Tell nobody of a progress."""


def unplaced(_packing: TimedPacking, _enough: float, _thorough: bool) -> float:
    """Make no schedule."""
    return inf
