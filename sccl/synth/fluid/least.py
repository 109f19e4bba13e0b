"""The least time over all chunkings, from above by packings and from below by prices."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf

import numpy as np

from sccl.synth.flows.arcs import FlowProgram
from sccl.synth.flows.problem import Tree
from sccl.synth.flows.shares import TimedPacking
from sccl.synth.flows.slots import (
    bordered,
    lengths_near,
    rounded,
    steady,
    uniform,
    variable,
    waits_of,
)
from sccl.synth.fluid.few import JoinedTrees, few_goals, narrowed
from sccl.synth.fluid.floors import FIRST, MOST_BORDERS, FloorSearch
from sccl.synth.fluid.folded import folded
from sccl.synth.fluid.pricing import TreePricing

MORE_SLOTS = 12
"""Than a chunk has to go through at least."""

_MOST_SLOTS = 40
_BOTH, _IDLE = 2, 3
"""More slots than the fewest with which all units are tried, and times that nothing is gained."""

_FEW, _SEVERAL = 3, 6
"""Times the farthest way, up to which borders come first, and up to which they are tried."""

_MANY = 12
"""Limit up to which slots of about alphas are tried for data of, or for, one rank."""

_BESIDE, _DEAR = 1.0, 0.01
"""Of effort for packings where there are schedules of chunks of one size, if it takes more than so
much to price trees once."""

_THROUGHOUT = 1.0
"""Effort for each number of slots of the least alpha. Later gains are small."""

_EPOCHS = 12
"""In which the floor is cut."""

_COUNTS, _OPTIMISTIC = (16, 32), Fraction(3, 4)
"""Slots of which alphas are the nearest numbers, and the part of the floor from which on they are
tried."""

_STEPS = 24
"""Intervals of time that are looked at, each with an order of borders of its own."""


@dataclass
class Least(FloorSearch):
    """A search for the least time of a problem, and for schedules near it."""

    @property
    def us(self) -> float:
        """Return the time of the best packing."""
        return self.best.us if self.best is not None else inf

    @property
    def _dear(self) -> bool:
        """Return whether it takes long to price trees once."""
        return isinstance(self.engine, TreePricing) and self.engine.effort(FIRST) > _DEAR

    @property
    def _looks_at_all(self) -> bool:
        """Return whether no tree is cheaper than those that are priced."""
        return not isinstance(self.engine, TreePricing) or self.engine.exact

    @property
    def _crosses(self) -> bool:
        """Return whether something goes from one chassis to another."""
        holders = self.problem.commodities[0].holders
        return any(holders.isdisjoint(map(int, one)) for one in self.problem.topology.chassis)

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
        if self._few_ranks():
            return
        for step in self._turns():
            if not self.is_done():
                step()
        self._best()

    def _best(self) -> None:
        """Make schedules of the best packing, until one is near enough."""
        if self.best is not None and self.placed_us > self.enough:
            thorough = True
            self.placed_us = self.place(self.best, self.enough, thorough)

    def _turns(self) -> tuple[Callable[[], object], ...]:
        if self.placed_us < inf and self._dear:  # matched: packings are hardly ever better
            self.effort = min(self.effort, self.spent + _BESIDE)
        if isinstance(self.engine, FlowProgram) and self.floor > 0:
            return (self._epochs, self._any_lengths, self._few_alphas, self._raise)
        first_of_dear = (self._whole_alphas,) if self._dear and self.placed_us == inf else ()
        if self.floor <= _FEW * self._farthest(hops=False):
            few = len(self._sums(self.floor * Fraction(5, 4), MOST_BORDERS // 2 + 1))
            if few <= MOST_BORDERS // 2 and self.problem.rigid:
                first = (self._few_alphas, self._raise, self._priced_anew, self._best)
                begin = () if self._looks_at_all else (self._throughout,)
                return (*begin, *first, self._rounded, self._any_lengths, self._steady)
            then = (self._few_alphas, self._any_lengths, self._steady, self._raise)
            return (*first_of_dear, self._rounded, *then)
        if any(self.problem.potentials()):
            if self.floor > _MANY * self._farthest(hops=False):
                return (self._steady, self._any_lengths, self._few_alphas, self._raise)
            first = (self._throughout, self._raise, self._rounded, self._any_lengths)
            return (*first, self._few_alphas)
        return (*first_of_dear, self._any_lengths, self._steady, self._few_alphas, self._raise)

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

    # Trees to few ranks, which everyone else joins: all slots can be looked at, on any machine.

    def _few_ranks(self) -> bool:
        """Pack trees to few ranks, and join all others. Return whether no alternative is better.

        It is done in addition to the limit on effort: if others are as hard to reach, it gives
        little.
        """
        goals = frozenset[int]() if self._looks_at_all else few_goals(self.problem)
        if not goals:
            return False
        self.raise_by_few()
        if not self._crosses:
            return False
        few, joining, packed = narrowed(self.problem, goals), JoinedTrees(self.problem, goals), inf

        def place(packing: TimedPacking, enough: float, thorough: bool) -> float:
            """Make schedules after all ranks have joined."""
            nonlocal packed
            if whole := joining.whole(packing, packing.us * (1 + self.gap / 8)):
                packed = min(packed, whole.us)
                self.placed_us = self.place(whole, enough, thorough)
            return self.placed_us

        told = (self.deadline, self.notify, place)
        search = Least(few, TreePricing(few), self.floor, self.gap, self.effort / 2, *told)
        for step in (search._halves, search._any_lengths, search._steady, search._best):
            if not search.is_done():
                step()
        return packed <= self.enough

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
        known: dict[Fraction, tuple[tuple[int, Tree], ...]] = {}
        for count in range(first, min(first + MORE_SLOTS, _MOST_SLOTS)):
            before, took = mine, {}
            for unit in units:
                found = self._search(
                    variable(self.problem, potentials, unit, count),
                    enough=float(self.floor) * (1 + self.gap / 2),
                    hopeless=self.us * (1 - self.gap / 8),
                    start=known.get(unit, ()),
                )
                if self._dear and found is not None and found.whole:
                    known[unit] = later(found)
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

    # Slots of half the least alpha: others are nearly whole numbers of it.

    def _halves(self) -> None:
        """Pack into as many slots of any lengths as there is time for, and a few less or more."""
        none = (Fraction(0),) * self.problem.topology.ranks
        unit = min((alpha for alpha in self.problem.alpha if alpha), default=self.floor) / 2
        most, near = int(self.floor / (unit or 1)), float(self.floor) * (1 + self.gap / 4)
        for count in (most - 1, most, most - 2) if 2 < most <= _MOST_SLOTS else ():
            slots = variable(self.problem, none, unit, count)
            hopeless = self.us * (1 - self.gap / 8)
            self._take(self._search(slots, enough=near, hopeless=hopeless))
            if self.is_done() or self.us <= near:
                return

    # Slots of the least alpha, as many as there is time for: in the midst all of them are alike, so
    # that trees through which bytes flow are good there, at any slot; prices say the rest.

    def _throughout(self) -> None:
        """Pack trees without a stop, and from these on others. Links that are alike are one."""
        fold = folded(self.problem)
        if fold is None:
            self._from_steady()
            return

        def place(packing: TimedPacking, enough: float, thorough: bool) -> float:
            self.placed_us = self.place(fold.unfolded(packing), enough, thorough)
            return self.placed_us

        engine, told = TreePricing(fold.problem), (self.deadline, self.notify, place)
        search = Least(fold.problem, engine, self.floor, self.gap, self.effort, *told)
        search.placed_us, search.spent = self.placed_us, self.spent
        search._from_steady()
        self.spent = search.spent
        if search.best is not None and search.us < self.us:
            self.best = fold.unfolded(search.best)

    def _from_steady(self) -> None:
        if not self._dear:  # else it takes all the time there is
            self._steady(1)
        self._whole_alphas()

    def _whole_alphas(self) -> None:
        unit = min((alpha for alpha in self.problem.alpha if alpha), default=None)
        if unit is None:
            return
        start = everywhere(self.best) if self.best is not None and self.best.slots.later else ()
        none = (Fraction(0),) * self.problem.topology.ranks
        near, us = float(self.floor) * (1 + self.gap / 2), inf
        first = int(self.floor * (1 + Fraction(self.gap)) / unit) - 1
        for count in range(max(first, 1), _MOST_SLOTS):
            slots = variable(self.problem, none, unit, count)
            found = self._search(slots, enough=near, start=start, most=_THROUGHOUT)
            self._take(found)
            before, us = us, min(us, found.us if found is not None else inf)
            if self.is_done() or (before < inf and us == before) or us <= (count + 2) * unit:
                return

    # Slots at about the same time: bytes that flow through their trees.

    def _steady(self, most_idle: int = _IDLE) -> None:
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
            if self.is_done() or (self.best is not None and idle == most_idle):
                return

    # Slots of which alphas are about a number: what is planned too tightly takes turns as well.

    def _rounded(self) -> None:
        if self.us <= float(self.floor) * (1 + self.gap / 2):
            return
        thorough = True
        for many in _COUNTS:
            length = lengths_near(self.problem.alpha, self.floor, many)
            first, idle = ceil(self.floor * _OPTIMISTIC / length), 0
            for count in range(first, first + many):
                found = self._search(rounded(self.problem.alpha, length, count))
                if found is None:
                    continue
                before = self.placed_us
                if found.whole:
                    self.placed_us = self.place(found, self.enough, thorough)
                idle = idle + 1 if self.placed_us >= before * (1 - self.gap / 8) else 0
                if self.is_done():
                    return
                if count * length > self.placed_us or idle == _IDLE:
                    break

    # Slots between borders: where all takes a few alphas.

    def _few_alphas(self) -> None:
        if self.best is not None and self.floor > _SEVERAL * self._farthest(hops=False):
            return
        most = self.floor * Fraction(5, 4)
        few = self._sums(most, MOST_BORDERS // 2 + 1)
        if len(few) > MOST_BORDERS // 2:
            return
        self._take(self._first_feasible(self._sums(most * 2, 2 * MOST_BORDERS)))

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

    def _raise(self) -> None:
        """Raise the floor, with all of the remaining effort."""
        if self._looks_at_all:
            self.raise_floor()
        else:
            self.raise_searching()

    def _priced_anew(self) -> None:
        """Pack the trees of the prices that raised the floor, where these say no less of packings.

        So it is where all borders are there that matter.
        """
        if self.proof is None:
            return
        proof, alpha = self.proof, self.problem.alpha
        middle = (proof.begin + proof.end) / 2
        below, above = (
            bordered(alpha, proof.borders, proof.borders, middle, rule)
            for rule in ("below", "above")
        )
        if above.like(below):
            start = self.trees.get((proof.borders, proof.begin), ())
            self._take(self._search(above, hopeless=float(proof.end), start=start))


def later(packing: TimedPacking) -> tuple[tuple[int, Tree], ...]:
    """Return the trees of a packing for a slot more: as they are, and a slot later."""
    return tuple(
        (share.commodity, frozenset((link, slot + by) for link, slot in share.tree))
        for share in packing.shares
        for by in (0, 1)
    )


def everywhere(packing: TimedPacking) -> tuple[tuple[int, Tree], ...]:
    """Return the trees of a packing, each from every slot on."""
    return tuple(
        (share.commodity, frozenset((link, slot + by) for link, slot in share.tree))
        for share in packing.shares
        for by in range(_MOST_SLOTS)
    )


def _stretched(packing: TimedPacking, us: Fraction) -> TimedPacking:
    """Return a packing whose slots are those of a longer time."""
    lengths = packing.slots.lengths(np.array([float(us)]))
    return replace(packing, us=float(us), lengths=lengths)
