"""The least time over all chunkings, from above by packings and from below by prices."""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf

import numpy as np

from sccl.synth.flows.arcs import MOST_COLUMNS, FlowProgram, is_unicast
from sccl.synth.flows.problem import FluidProblem, Tree
from sccl.synth.flows.shares import TimedPacking
from sccl.synth.flows.slots import (
    TimeSlots,
    bordered,
    changes,
    steady,
    uniform,
    variable,
    waits_of,
)
from sccl.synth.fluid.packing import Growth
from sccl.synth.fluid.pricing import NoTreeError, TreePricing

MOST_BORDERS = 44
"""Slots of which the time of a few alphas is made: of more the program becomes slow."""

MORE_SLOTS = 12
"""Than a chunk has to go through at least."""

_MOST_SLOTS = 40
_BOTH, _IDLE = 2, 3
"""More slots than the fewest with which all units are tried; and times that nothing is gained."""

_ALPHAS, _FIRST = 6, 8
"""Of links that differ, of which sums are borders; and how many of these bounds look at."""

_FEW, _SEVERAL = 3, 6
"""Times the farthest way, up to which borders come first; and up to which they are tried."""

_FLOWS = 30.0
"""Of effort for the first packing of what is not copied."""

_BESIDE, _DEAR = 1.0, 0.01
"""Of effort for packings where there are schedules of chunks of one size, if it takes more than so
much to price trees once."""

_PIVOT = 1e-9
"""Of effort, of a pivot and a column."""

_EPOCHS = 12
"""In which the floor is cut."""

_STEPS = 24
"""Intervals of time that are looked at, each with an order of borders of its own."""


KnownTrees = dict[tuple[frozenset[Fraction], Fraction], tuple[tuple[int, Tree], ...]]
"""Trees of commodities, by borders of slots and the time from which on these are in an order."""


def engine_of(problem: FluidProblem) -> FlowProgram | TreePricing:
    """Return what finds packings of a problem.

    Raises:
        TooLargeError: there are too many sets of ranks to look at.
    """
    return FlowProgram(problem) if is_unicast(problem) else TreePricing(problem)


@dataclass(frozen=True, slots=True)
class SlotProof:
    """By which prices a time is known to be the least.

    Attributes:
        borders: of slots, from the start and from the end.
        begin: between it and ``end`` the order of borders is the same.
        packing: with the prices.
    """

    borders: frozenset[Fraction]
    begin: Fraction
    end: Fraction
    packing: TimedPacking


@dataclass
class Least:
    """A search for the least time of a problem.

    Attributes:
        engine: what finds packings: a program of all flows, or the cheapest trees at some prices.
        floor: what no schedule takes less than, microseconds: cuts of the machine say so.
        gap: by which part of it a packing may be above it.
        deadline: of ``time.perf_counter()``.
        notify: called with (bound, best so far).
        place: makes schedules of a packing, of ever smaller chunks until one takes no more than a
            time: only of the largest, unless it is told to be thorough; returns what the best of
            all takes.
        effort: what may be spent, in units of some seconds.
        best: the best packing so far.
        placed_us: what the best schedule takes; infinite: there is none yet.
        proof: of the floor; None: it is still that of cuts.
        trees: of the programs that raise the floor, which are good ones for other sizes, too.
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

    @property
    def enough(self) -> float:
        """Return the time at which the search ends."""
        return float(self.floor) * (1 + self.gap)

    @property
    def us(self) -> float:
        """Return the time of the best packing."""
        return self.best.us if self.best is not None else inf

    def is_done(self) -> bool:
        """Return whether nothing more is to be done."""
        if self.placed_us <= self.enough or time.perf_counter() > self.deadline:
            return True
        return self.placed_us < inf and self.spent > self.effort

    def run(self) -> None:
        """Find packings, and raise the floor where they stay above it.

        Raises:
            KeyboardInterrupt: the user interrupted; ``best`` is the best by then.
        """
        for step in self._turns():
            if not self.is_done():
                step()
        if self.best is not None and self.placed_us > self.enough:
            thorough = True
            self.placed_us = self.place(self.best, self.enough, thorough)

    def _turns(self) -> tuple[Callable[[], object], ...]:
        dear = isinstance(self.engine, TreePricing) and self.engine.effort(_FIRST) > _DEAR
        if self.placed_us < inf and dear:  # matched: packings are hardly ever better
            self.effort = min(self.effort, self.spent + _BESIDE)
        if isinstance(self.engine, FlowProgram) and self.floor > 0:
            return (self._epochs, self._any_lengths, self._few_alphas, self.raise_floor)
        if self.floor <= _FEW * self._farthest(hops=False):
            return (self._few_alphas, self._any_lengths, self._steady, self.raise_floor)
        if any(self.problem.potentials()):
            return (self._steady, self._any_lengths, self._few_alphas, self.raise_floor)
        return (self._any_lengths, self._steady, self._few_alphas, self.raise_floor)

    def _search(
        self, slots: TimeSlots, *, enough: float = 0.0, hopeless: float = inf
    ) -> TimedPacking | None:
        """Return the best packing of some slots; None: they are too few."""
        unit = float(self.floor) or 1.0
        left = self.effort - self.spent if self.placed_us < inf else self.effort
        if isinstance(self.engine, FlowProgram):
            first = max(left, _FLOWS) if self.placed_us == inf else left
            return self._flowing(self.engine, slots, unit, first)
        search = Growth(self.problem, slots, self.engine, unit)
        try:
            return search.run(
                effort=left,
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

    def _take(self, packing: TimedPacking | None) -> None:
        """Place a packing that is the best so far, or may become the best schedule."""
        if packing is None or not packing.whole:
            return
        if packing.us < self.us:
            self.best = packing
        elif not packing.us < min(self.placed_us, self.enough):
            return
        thorough = packing.us <= float(self.floor) * (1 + self.gap / 2)
        self.placed_us = self.place(packing, self.enough, thorough)

    # Slots of one length: where links are busy all the time, and what goes which way is enough.

    def _epochs(self) -> None:
        length = self.floor / _EPOCHS
        for count in range(_EPOCHS, 2 * _EPOCHS):
            found = self._search(uniform(self.problem.alpha, length, count))
            if found is not None:
                self._take(replace(found, us=float(length * count)))
                return

    # Slots of any lengths: where bytes take much longer than alphas.

    def _any_lengths(self) -> None:
        potentials = self.problem.potentials()
        self._of_any_lengths(potentials)
        if isinstance(self.engine, FlowProgram) and any(potentials) and not self.is_done():
            # where links near the end are the narrow ones, they are not to begin later
            self._of_any_lengths((Fraction(0),) * len(potentials))

    def _of_any_lengths(self, potentials: tuple[Fraction, ...]) -> None:
        waits = sorted(wait for wait in set(waits_of(self.problem, potentials)) if wait > 0)
        units = sorted({waits[0], waits[-1]}) if waits else [Fraction(1)]
        first, idle, mine = self._fewest_slots(), 0, inf
        for count in range(first, min(first + MORE_SLOTS, _MOST_SLOTS)):
            before, took = mine, {}
            for unit in units:
                found = self._search(
                    variable(self.problem, potentials, unit, count),
                    enough=float(self.floor) * (1 + self.gap / 2),
                    hopeless=self.us * (1 - self.gap / 8),
                )
                self._take(found)
                if self.is_done():
                    return
                took[unit] = found.us if found is not None and found.whole else inf
            if count >= first + _BOTH:  # by then it shows which one is the better
                units = [min(units, key=lambda unit: took[unit])]
            mine = min(mine, *took.values())
            idle = idle + 1 if before < inf and before - mine <= self.gap / 8 * mine else 0
            if idle == _IDLE:
                return

    def _fewest_slots(self) -> int:
        """Return how many slots a chunk has to go through, each as long as the longest alpha."""
        return max(1, int(self._farthest(hops=True)))

    def _farthest(self, *, hops: bool) -> Fraction:
        """Return how far something has to go."""
        goals: dict[frozenset[int], set[int]] = {}
        for commodity in self.problem.commodities:
            goals.setdefault(commodity.holders, set()).update(commodity.wanted)
        return max(
            max(far[rank] for rank in ranks)
            for holders, ranks in goals.items()
            for far in [self.problem.distances(holders, hops=hops)]
        )

    # Slots at about the same time: bytes that flow through their trees.

    def _steady(self) -> None:
        alphas = {alpha for alpha in self.problem.alpha if alpha}
        unit = min(alphas, default=Fraction(1))
        first = max(1, ceil(self._farthest(hops=False) / unit))
        idle = 0
        for count in range(first, min(first + MORE_SLOTS, _MOST_SLOTS)):
            before = self.us
            self._take(
                self._search(
                    steady(self.problem.alpha, unit, count),
                    enough=float(self.floor) * (1 + self.gap / 2),
                    hopeless=self.us * (1 - self.gap / 8),
                )
            )
            idle = idle + 1 if before - self.us <= self.gap / 8 * self.us else 0
            if self.is_done() or (self.best is not None and idle == _IDLE):
                return

    # Slots between borders: where all takes a few alphas.

    def _few_alphas(self) -> None:
        if self.best is not None and self.floor > _SEVERAL * self._farthest(hops=False):
            return
        most = self.floor * Fraction(5, 4)
        few = self._sums(most, MOST_BORDERS // 2 + 1)
        if len(few) > MOST_BORDERS // 2:
            return
        self._take(self._first_feasible(self._sums(most * 2, 2 * MOST_BORDERS)))

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

    def _first_feasible(self, sums: frozenset[Fraction]) -> TimedPacking | None:
        """Return a packing of the first times at which everything fits."""
        points = self._points(sums)
        low, high = bisect_right(points, self.floor) - 2, len(points) - 1
        at, step, known, before = low + 1, 1, False, self.spent
        best: TimedPacking | None = None
        for _ in range(_STEPS):
            if time.perf_counter() > self.deadline or self.spent > before + 2 * self.effort:
                break
            begin, end = points[at], points[at + 1]
            found = self._between(sums, begin, end)
            if found is not None and found.whole and begin <= found.us < end:
                return found
            if found is not None and found.whole and found.us < begin:
                best, high, known = _stretched(found, begin), at, True
                inside = bisect_right(points, Fraction(found.us)) - 1
                at = inside if low < inside < high else (low + high) // 2
            else:
                low = at
                at = (low + high) // 2 if known else min(low + step, len(points) - 2)
                step *= 2
            if high - low <= 1 or at in {low, high}:
                break
        return best

    def _between(
        self, borders: frozenset[Fraction], begin: Fraction, end: Fraction
    ) -> TimedPacking | None:
        slots = bordered(self.problem.alpha, borders, borders, (begin + end) / 2, "above")
        if slots.count > 2 * MOST_BORDERS:
            return None
        return self._search(slots, hopeless=float(end))

    # From below.

    def raise_floor(self, worth: float = 1e-9) -> Fraction | None:
        """Raise the floor by prices of links in slots, where all trees can be looked at.

        Args:
            worth: by which part of it prices have to be above it.

        Returns:
            From which time on the borders of slots are in the order that was looked at last; None:
            prices say nothing here.
        """
        exact = isinstance(self.engine, FlowProgram) or self.engine.exact
        if not (exact and self.problem.rigid):
            return None
        borders = self._sums(self.floor, _FIRST)
        points = self._points(borders)
        looked = None
        for begin, end in pairwise(points[bisect_right(points, self.floor) - 1 :]):
            if time.perf_counter() > self.deadline or self.spent > self.effort:
                break
            looked, enough = begin, float(self.floor) * (1 + worth)
            # a packing that takes no longer is one whose prices say no more
            found = self._priced(borders, begin, end, enough)
            if found is None or found.least <= enough:
                break
            proved = Fraction(found.least * (1 - 1e-9)).limit_denominator(10**9)
            self.floor = max(self.floor, min(proved, end))
            self.proof = SlotProof(borders, begin, end, found)
            if proved < end:
                break
        return looked

    def _priced(
        self, borders: frozenset[Fraction], begin: Fraction, end: Fraction, enough: float
    ) -> TimedPacking | None:
        """Return a packing whose prices say the most of times between two; None: there is none."""
        slots = bordered(self.problem.alpha, borders, borders, (begin + end) / 2, "below")
        if slots.count > 2 * MOST_BORDERS:
            return None
        unit, left = float(self.floor) or 1.0, self.effort - self.spent
        if isinstance(self.engine, FlowProgram):
            return self._flowing(self.engine, slots, unit, left)
        search = Growth(self.problem, slots, self.engine, unit)
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


def unheard(_low: float, _high: float) -> None:
    """Tell nobody of a progress."""


def unplaced(_packing: TimedPacking, _enough: float, _thorough: bool) -> float:
    """Make no schedule."""
    return inf


def _stretched(packing: TimedPacking, us: Fraction) -> TimedPacking:
    """Return a packing whose slots are those of a longer time."""
    lengths = packing.slots.lengths(np.array([float(us)]))
    return replace(packing, us=float(us), lengths=lengths)
