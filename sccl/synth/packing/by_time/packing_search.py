"""Search for the minimum time over all chunkings: packings from above, prices from below."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf

import numpy as np

from sccl.synth.limits import BOUND_SLOTS, MAX_IDLE, MAX_SMALL_RANKS, STEP_EFFORT
from sccl.synth.packing.by_time.lower_bounds import (
    FIRST_BORDERS,
    MAX_SLOTS,
    ExtendedTrees,
    LowerBoundSearch,
    find_critical_targets,
    restrict_targets,
)
from sccl.synth.packing.by_time.orbit_reduction import reduce_by_orbits
from sccl.synth.packing.flow_lp import FlowProgram
from sccl.synth.packing.flow_problem import SlotTree
from sccl.synth.packing.price_trees import TreePricing
from sccl.synth.packing.slots import (
    TimedPacking,
    bordered_slots,
    link_waits,
    nearest_length,
    rounded_slots,
    steady_slots,
    uniform_slots,
    variable_slots,
)

FEW_DISTANCES, _MAX_DISTANCES = 3, 6
"""Times the farthest way, up to which borders come first, and up to which they are tried."""

_EXPENSIVE_EFFORT = 0.01
"""Budget for pricing all trees once, beyond which schedules of equal chunks come first."""

_ROUNDED_COUNTS, _OPTIMISTIC_RATIO = (16, 32), Fraction(3, 4)
"""Slots of which alphas are the nearest numbers, and the part of the floor from which on they are
tried."""


@dataclass
class PackingSearch(LowerBoundSearch):
    """A search for the least time of a problem, and for schedules near it."""

    @property
    def us(self) -> float:
        """Return the time of the best packing."""
        return self.best.us if self.best is not None else inf

    @property
    def _is_expensive(self) -> bool:
        """Return whether one pricing of trees takes much effort."""
        return (
            isinstance(self.engine, TreePricing)
            and self.engine.effort(FIRST_BORDERS) > _EXPENSIVE_EFFORT
        )

    @property
    def _is_searched(self) -> bool:
        """Return whether tables would be too large, so that cheapest trees are searched."""
        return isinstance(self.engine, TreePricing) and self.engine.is_searched

    @property
    def _has_inter_chassis(self) -> bool:
        holders = self.problem.commodities[0].holders
        return any(
            holders.isdisjoint(map(int, chassis)) for chassis in self.problem.topology.chassis
        )

    def is_done(self) -> bool:
        """Return whether the search ends: target met, deadline passed, or effort spent."""
        if self.schedule_us <= self.target_us or time.perf_counter() > self.deadline:
            return True
        return self.schedule_us < inf and self.spent > self.effort

    def run(self) -> None:
        """Find packings, and raise the bound where they stay above it.

        Raises:
            KeyboardInterrupt: The user interrupted. ``best`` is the best packing so far.
        """
        if self._pack_critical_targets():
            return
        for step in self._strategies():
            if not self.is_done():
                step()
        self._schedule_best()

    def _schedule_best(self) -> None:
        """Build schedules from the best packing until one meets the target."""
        if self.best is not None and self.schedule_us > self.target_us:
            thorough = True
            self.schedule_us = self.build_schedules(self.best, self.target_us, thorough)

    def _strategies(self) -> tuple[Callable[[], object], ...]:
        if self.schedule_us < inf and self._is_expensive:  # packings rarely beat matching
            self.effort = min(self.effort, self.spent + STEP_EFFORT)
        if isinstance(self.engine, FlowProgram) and self.lower_bound > 0:
            return (
                self._pack_epochs,
                self._pack_free_lengths,
                self._pack_bordered,
                self._raise_bound,
            )
        first_of_dear = (
            (self._pack_alpha_slots,) if self._is_expensive and self.schedule_us == inf else ()
        )
        free, steady = self._pack_free_lengths, self._pack_steady
        bordered, bound = self._pack_bordered, self._raise_bound
        rounded = self._pack_rounded
        if self.lower_bound <= FEW_DISTANCES * self._max_distance(hops=False):
            few = len(self._alpha_sums(self.lower_bound * Fraction(5, 4), MAX_SLOTS // 2 + 1))
            if few <= MAX_SLOTS // 2 and self.problem.is_rigid:
                begin = (self._pack_orbit_reduced,) if self._is_searched else ()
                return (*begin, bordered, bound, self._schedule_best, rounded, free, steady)
            return (*first_of_dear, rounded, bordered, free, steady, bound)
        if any(self.problem.potentials()):
            if self.lower_bound > BOUND_SLOTS * self._max_distance(hops=False):
                return (steady, free, bordered, bound)
            return (self._pack_orbit_reduced, bound, rounded, free, bordered)
        return (*first_of_dear, free, steady, bordered, bound)

    def _consider(self, packing: TimedPacking | None) -> None:
        """Build schedules from a packing if it is the best, or may give the best schedule."""
        if packing is None or not packing.is_complete:
            return
        if packing.us < self.us:
            self.best = packing
        elif not packing.us < min(self.schedule_us, self.target_us):
            return
        thorough = packing.us <= float(self.lower_bound) * (1 + self.gap / 2)
        self.schedule_us = self.build_schedules(packing, self.target_us, thorough)

    # Trees to few ranks, extended to all: all slots can be tried, on any machine.

    def _pack_critical_targets(self) -> bool:
        """Pack trees to few ranks and extend them to all. Return whether the target is met.

        The effort limit does not include this. It gains little if other ranks are as hard to reach.
        """
        goals = find_critical_targets(self.problem) if self._is_searched else frozenset[int]()
        if not goals:
            return False
        self.raise_by_critical_targets()
        if not self._has_inter_chassis:
            return False
        few, joining, packed = (
            restrict_targets(self.problem, goals),
            ExtendedTrees(self.problem, goals),
            inf,
        )

        def place(packing: TimedPacking, target_us: float, thorough: bool) -> float:
            """Extend the trees to all ranks and build schedules."""
            nonlocal packed
            if full_packing := joining.extend_packing(packing, packing.us * (1 + self.gap / 8)):
                packed = min(packed, full_packing.us)
                self.schedule_us = self.build_schedules(full_packing, target_us, thorough)
            return self.schedule_us

        callbacks = (self.deadline, self.notify, place)
        search = PackingSearch(
            few, TreePricing(few), self.lower_bound, self.gap, self.effort / 2, *callbacks
        )
        for step in (
            search._pack_half_alphas,
            search._pack_free_lengths,
            search._pack_steady,
            search._schedule_best,
        ):
            if not search.is_done():
                step()
        return packed <= self.target_us

    # Slots of equal length, if links are always busy and only the routes matter.

    def _pack_epochs(self) -> None:
        length = self.lower_bound / BOUND_SLOTS
        for count in range(BOUND_SLOTS, 2 * BOUND_SLOTS):
            packing = self._search_packing(uniform_slots(self.problem.alpha, length, count))
            if packing is not None:
                self._consider(replace(packing, us=float(length * count)))
                return

    # Slots of any lengths, for transfer times much longer than alphas.

    def _pack_free_lengths(self) -> None:
        potentials = self.problem.potentials()
        self._pack_delayed_lengths(potentials)
        if isinstance(self.engine, FlowProgram) and any(potentials) and not self.is_done():
            # if links near the destinations are slow, they must not start later
            self._pack_delayed_lengths((Fraction(0),) * len(potentials))

    def _pack_delayed_lengths(self, potentials: tuple[Fraction, ...]) -> None:
        waits = (wait for wait in link_waits(self.problem, potentials) if wait > 0)
        unit = max(waits, default=Fraction(1))
        first, idle, min_us = self._min_slots(), 0, inf
        start: tuple[tuple[int, SlotTree], ...] = ()
        for count in range(first, min(first + BOUND_SLOTS, MAX_SLOTS)):
            packing = self._search_packing(
                variable_slots(self.problem, potentials, unit, count),
                target_us=float(self.lower_bound) * (1 + self.gap / 2),
                hopeless=self.us * (1 - self.gap / 8),
                start=start,
            )
            self._consider(packing)
            if self.is_done():
                return
            before = min_us
            if packing is not None and packing.is_complete:
                min_us = min(min_us, packing.us)
                start = shift_trees(packing, 2) if self._is_expensive else ()
            idle = idle + 1 if before < inf and before - min_us <= self.gap / 8 * min_us else 0
            if idle == MAX_IDLE:
                return

    def _min_slots(self) -> int:
        """Return the minimum number of slots of a chunk, each as long as the longest alpha."""
        return max(1, int(self._max_distance(hops=True)))

    def _max_distance(self, *, hops: bool) -> Fraction:
        """Return the largest distance from the holders of a chunk to one of its destinations."""
        goals: dict[frozenset[int], set[int]] = {}
        for commodity in self.problem.commodities:
            goals.setdefault(commodity.holders, set()).update(commodity.wanted)
        return max(
            max(far[rank] for rank in ranks)
            for holders, ranks in goals.items()
            for far in [self.problem.distances(holders, hops=hops)]
        )

    # Slots of half the least alpha. Other alphas are nearly multiples of it.

    def _pack_half_alphas(self) -> None:
        """Pack into as many slots of any lengths as fit the lower bound, and into 1 or 2 fewer."""
        zeros = (Fraction(0),) * self.problem.topology.ranks
        unit = min((alpha for alpha in self.problem.alpha if alpha), default=self.lower_bound) / 2
        limit, near = (
            int(self.lower_bound / (unit or 1)),
            float(self.lower_bound) * (1 + self.gap / 4),
        )
        for count in (limit - 1, limit, limit - 2) if 2 < limit <= MAX_SLOTS else ():
            slots = variable_slots(self.problem, zeros, unit, count)
            hopeless = self.us * (1 - self.gap / 8)
            self._consider(self._search_packing(slots, target_us=near, hopeless=hopeless))
            if self.is_done() or self.us <= near:
                return

    # Slots of the least alpha, as many as fit. The middle slots are alike, so trees of a steady
    # flow suit each of them. Prices decide the rest.

    def _pack_orbit_reduced(self) -> None:
        """Pack the problem reduced by orbits: a steady flow, then slots of the least alpha."""
        fold = reduce_by_orbits(self.problem)
        if fold is None:
            self._pack_from_steady()
            return

        def place(packing: TimedPacking, target_us: float, thorough: bool) -> float:
            self.schedule_us = self.build_schedules(
                fold.expand_packing(packing), target_us, thorough
            )
            return self.schedule_us

        engine, callbacks = TreePricing(fold.problem), (self.deadline, self.notify, place)
        search = PackingSearch(
            fold.problem, engine, self.lower_bound, self.gap, self.effort, *callbacks
        )
        search.schedule_us, search.spent = self.schedule_us, self.spent
        search._pack_from_steady()
        self.spent = search.spent
        if search.best is not None and search.us < self.us:
            self.best = fold.expand_packing(search.best)

    def _pack_from_steady(self) -> None:
        if not self._is_expensive:  # otherwise it would use up the effort
            self._pack_steady(1)
        self._pack_alpha_slots()

    def _pack_alpha_slots(self) -> None:
        unit = min((alpha for alpha in self.problem.alpha if alpha), default=None)
        if unit is None:
            return
        start = (
            shift_trees(self.best, MAX_SLOTS)
            if self.best is not None and self.best.slots.offset
            else ()
        )
        zeros = (Fraction(0),) * self.problem.topology.ranks
        near, us = float(self.lower_bound) * (1 + self.gap / 2), inf
        first = int(self.lower_bound * (1 + Fraction(self.gap)) / unit) - 1
        for count in range(max(first, 1), MAX_SLOTS):
            slots = variable_slots(self.problem, zeros, unit, count)
            packing = self._search_packing(
                slots, target_us=near, start=start, max_effort=STEP_EFFORT
            )
            self._consider(packing)
            before, us = us, min(us, packing.us if packing is not None else inf)
            if self.is_done() or (before < inf and us == before) or us <= (count + 2) * unit:
                return

    # Slots at about the same time: bytes flow steadily through their trees.

    def _pack_steady(self, most_idle: int = MAX_IDLE) -> None:
        alphas = {alpha for alpha in self.problem.alpha if alpha}
        unit = min(alphas, default=Fraction(1))
        first = max(1, ceil(self._max_distance(hops=False) / unit))
        idle = 0
        for count in range(first, min(first + BOUND_SLOTS, MAX_SLOTS)):
            before = self.us
            self._consider(
                self._search_packing(
                    steady_slots(self.problem.alpha, unit, count),
                    target_us=float(self.lower_bound) * (1 + self.gap / 2),
                    hopeless=self.us * (1 - self.gap / 8),
                )
            )
            idle = idle + 1 if before - self.us <= self.gap / 8 * self.us else 0
            if self.is_done() or (self.best is not None and idle == most_idle):
                return

    # Alphas rounded to whole numbers of slots: sends of a plan that is too tight are delayed.

    def _pack_rounded(self) -> None:
        if self.us <= float(self.lower_bound) * (1 + self.gap / 2):
            return
        thorough = True
        for many in _ROUNDED_COUNTS:
            length = nearest_length(self.problem.alpha, self.lower_bound, many)
            first, idle = ceil(self.lower_bound * _OPTIMISTIC_RATIO / length), 0
            for count in range(first, first + many):
                packing = self._search_packing(rounded_slots(self.problem.alpha, length, count))
                if packing is None:
                    continue
                before = self.schedule_us
                if packing.is_complete:
                    self.schedule_us = self.build_schedules(packing, self.target_us, thorough)
                idle = idle + 1 if self.schedule_us >= before * (1 - self.gap / 8) else 0
                if self.is_done():
                    return
                if count * length > self.schedule_us or idle == MAX_IDLE:
                    break

    # Slots between borders, if the minimum time is a few alphas.

    def _pack_bordered(self) -> None:
        if self.best is not None and self.lower_bound > _MAX_DISTANCES * self._max_distance(
            hops=False
        ):
            return
        limit = self.lower_bound * Fraction(5, 4)
        few = self._alpha_sums(limit, MAX_SLOTS // 2 + 1)
        if len(few) > MAX_SLOTS // 2:
            return
        self._consider(self._first_feasible(self._alpha_sums(limit * 2, 2 * MAX_SLOTS)))

    def _first_feasible(self, sums: frozenset[Fraction]) -> TimedPacking | None:
        """Return a packing for the first interval of times in which all data fit."""
        points = self._slot_changes(sums)
        low, high = bisect_right(points, self.lower_bound) - 2, len(points) - 1
        at, step, has_upper, before = low + 1, 1, False, self.spent
        best: TimedPacking | None = None
        for _ in range(MAX_SLOTS):
            if time.perf_counter() > self.deadline or self.spent > before + 2 * self.effort:
                break
            begin, end = points[at], points[at + 1]
            packing = self._pack_interval(sums, begin, end)
            if packing is not None and packing.is_complete and begin <= packing.us < end:
                return packing
            if packing is not None and packing.is_complete and packing.us < begin:
                best, high, has_upper = _stretch(packing, begin), at, True
                inside = bisect_right(points, Fraction(packing.us)) - 1
                at = inside if low < inside < high else (low + high) // 2
            else:
                low = at
                at = (low + high) // 2 if has_upper else min(low + step, len(points) - 2)
                step *= 2
            if high - low <= 1 or at in {low, high}:
                break
        return best

    def _pack_interval(
        self, borders: frozenset[Fraction], begin: Fraction, end: Fraction
    ) -> TimedPacking | None:
        slots = bordered_slots(self.problem.alpha, borders, borders, (begin + end) / 2, "above")
        if slots.count > 2 * MAX_SLOTS:
            return None
        return self._search_packing(slots, hopeless=float(end))

    def _raise_bound(self) -> None:
        """Raise the bound with all of the remaining effort."""
        if not self._is_searched or self.problem.topology.ranks <= MAX_SMALL_RANKS:
            self.raise_with_engine()


def shift_trees(packing: TimedPacking, count: int) -> tuple[tuple[int, SlotTree], ...]:
    """Return ``count`` copies of the trees of a packing, each a slot later than the one before."""
    return tuple(
        (share.commodity, frozenset((link, slot + by) for link, slot in share.tree))
        for share in packing.shares
        for by in range(count)
    )


def _stretch(packing: TimedPacking, us: Fraction) -> TimedPacking:
    """Return a packing with the slot lengths of a longer time."""
    lengths = packing.slots.lengths(np.array([float(us)]))
    return replace(packing, us=float(us), lengths=lengths)
