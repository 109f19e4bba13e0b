"""One phase of a collective within a sketch: routes, orders, exact times.

Each step is a function of the result of the one before, which is kept: it can be inspected and
replaced. Beyond the paper, orders are left free once routes are known, both are improved together
if the model is small, and the bounds of the machine are passed in, so that a schedule that attains
them is known to be optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from sccl.collectives import Spec
from sccl.core.clock import AlphaModel
from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Request
from sccl.synth.intervals.begun import NoScheduleError, matched, sends_of_schedule
from sccl.synth.intervals.bounds import farthest_of, least_of
from sccl.synth.intervals.model import Action, IntervalModel
from sccl.synth.intervals.neighbours import Neighbours
from sccl.synth.intervals.placing import placed
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.taccl.batches import Batch, BatchCosts, alone
from sccl.synth.taccl.contiguity import contiguous
from sccl.synth.taccl.filling import filled
from sccl.synth.taccl.growing import grown, relaxed
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.ordering import ORDERS, ordered
from sccl.synth.taccl.routing import Routed, open_ways, routed, shortest_ways
from sccl.synth.taccl.trees import Direction, LinkOrder

MOST_EXACT = 6_000
"""Intervals of a model of all that is sent, its routes being known."""

MOST_JOINED = 480_000
"""Chunks times ways, up to which some chunks at a time are planned again."""

NEAR = Fraction(1, 1000)
"""Above the bound by such a part: near enough for a quick look, and where models are too large."""

_MADE = 0.1
"""Minimum effort for a neighbourhood: building the model takes longer than solving it."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_ROUTING, _EXACT = 0.4, 0.3
"""Fractions of the effort for routes, and for exact times. The rest improves both together."""

_TOGETHER = (2, 4, 8, 16, 32, 64, 256)
"""Chunks that are sent together at the most, as tried."""

_MATCHING, _TREES = "matching", "trees"

Told = Callable[[float, float], None]
"""Called with the best finish and the bound, microseconds."""


@dataclass
class SketchedPhase:
    """A phase.

    Attributes:
        spec: its collective, which does not combine.
        size_bytes: size of C chunks.
        whole: the same on all ways of the machine, for bounds.
        strict: whether symmetries of the sketch are required, and not only a help.
        twin: a phase of the same on an equal machine, with the same bounds.
        any_chunks: lower bound in ticks for schedules of any chunks, on any ways of the machine, if
            known.
        begun: routes of the first schedule, which step 1 begins from.
        routes: result of step 1.
        batches: the best so far.
        by: the order or model that found it.
        least_ticks: lower bound in ticks for schedules of such chunks, on any ways of the machine.
    """

    posed: Posed
    sketched: Sketched
    options: Options
    spec: Spec
    size_bytes: int
    told: Told
    strict: bool
    whole: Posed
    twin: SketchedPhase | None = None
    any_chunks: Fraction = Fraction(0)
    begun: Routed | None = None
    routes: Routed | None = None
    batches: tuple[Batch, ...] = ()
    by: str = ""
    tried: dict[str, int] = field(default_factory=dict)
    least_ticks: int = field(init=False)
    _bounded: bool = field(default=False, init=False)
    _first: tuple[LinkOrder, list[tuple[int, int]], tuple[Batch, ...]] | None = field(
        default=None, init=False
    )

    def __post_init__(self) -> None:
        self.costs = BatchCosts(self.posed)
        self.action = Action.of(self.posed, self.sketched.group)
        self.least_ticks = farthest_of(self.whole)
        self.no_less_than(self.any_chunks)

    @property
    def finish(self) -> int:
        """Return the units after which all has arrived."""
        return self.costs.finish(self.batches)

    @property
    def least(self) -> int:
        """Return the units that no schedule within the sketch takes less than.

        These are whole there; elsewhere a schedule may finish between two of them.
        """
        return -(-self.least_ticks // self.posed.unit)

    @property
    def enough(self) -> int:
        """Return the units after which a finish is near enough to the bound."""
        return max(self.least, int(self.least * (1 + Fraction(self.options.gap))))

    @property
    def done(self) -> bool:
        """Return whether the result is good enough."""
        return bool(self.batches) and self.finish <= self.enough

    @property
    def huge(self) -> bool:
        """Return whether routes and orders alone are planned, as there are too many."""
        return len(self.posed.src) * self.posed.chunks > MOST_JOINED

    @property
    def _near(self) -> bool:
        """Return whether the result is near enough to the bound to stop."""
        return bool(self.batches) and self.finish <= self.least * (1 + NEAR)

    @property
    def symmetric(self) -> bool:
        """Return whether the routes of the best keep the symmetries."""
        sent = np.zeros((self.posed.chunks, len(self.posed.src)), dtype=np.bool_)
        for batch in self.batches:
            sent[list(batch.chunks), batch.way] = True
        chunks, ways = np.nonzero(sent)
        return all(
            sent[np.array(to_chunk)[chunks], np.array(to_way)[ways]].all()
            for to_chunk, to_way in zip(self.action.chunks, self.action.ways, strict=True)
        )

    def us(self, units: int) -> float:
        """Return units in microseconds."""
        return units * self.posed.unit * self.posed.clock.tick_ps / 10**6

    @property
    def joins(self) -> bool:
        """Return whether chunks may be sent together, and would gain by it."""
        return self.options.together and self.posed.clock.model is AlphaModel.OCCUPIES

    def no_less_than(self, any_chunks: Fraction) -> None:
        """Take note of the ticks that no schedule of any chunks takes less than."""
        self.any_chunks = any_chunks
        self.least_ticks = max(self.least_ticks, ceil(any_chunks))

    def begin(self) -> None:
        """Take a first schedule, by trees and one order, before anything else is worked out.

        So there is something to keep from the first moment on.
        """
        if self.batches:
            return
        trees = grown(self.posed, self.action, self._chosen)
        self.begun = Routed(trees, relaxed(self.posed, self.action, trees), 0, 0.0)
        order = self._orders()[0]
        pairs = self.begun.all_of(self.action)
        self.batches, self.by = alone(ordered(self.posed, pairs, order)), _TREES
        self._first = order, pairs, self.batches
        self.tried[_TREES] = self.finish

    def bound(self) -> None:
        """Compute the lower bound for schedules of such chunks, once there is a schedule."""
        self._bounded = True
        if self.twin is not None and self.twin._bounded:  # noqa: SLF001 - of its own kind
            self.least_ticks = max(self.least_ticks, self.twin.least_ticks)
            return
        ticks = self.finish * self.posed.unit
        whole = self.whole
        least = least_of(
            whole.topology,
            self.spec,
            whole,
            self.size_bytes,
            ticks,
            together=self.joins,
        )
        self.least_ticks = max(self.least_ticks, least)

    def take(self, batches: tuple[Batch, ...], by: str) -> None:
        """Take a schedule, if it is better."""
        finish = self.costs.finish(batches)
        self.tried[by] = min(finish, self.tried.get(by, finish))
        if self._bounded and self.batches and finish >= self.finish:
            return
        if not self.batches or finish <= self.finish:  # as good as the trees: by what is found so
            self.batches, self.by = batches, by
        if not self._bounded:
            self.bound()
        tick_us = self.posed.clock.tick_ps / 10**6
        self.told(self.us(self.finish), self.least_ticks * tick_us)

    def run(self, effort: Effort, *, quick: bool = False) -> None:
        """Run the steps, until the bound is attained or the effort is spent.

        Args:
            quick: routes and orders alone.

        Raises:
            KeyboardInterrupt: the user interrupted. Results so far are kept.
        """
        spending, units = Spending(effort), effort.units or 1.0
        if self.routes is None:
            self.routes = self._routed(spending.left(units if quick else units * _ROUTING))
            if self.routes is None:
                return
            spending.units += self.routes.spent
        pairs = self.routes.all_of(self.action)
        for order in self._orders():
            if str(order) in self.tried:
                continue
            self._order(pairs, order)
            if self.done or spending.late() or (self._near and (quick or self.huge)):
                return
        self._begin(spending, improve=0.0 if quick else 1.0)
        if not quick:
            self._exact(pairs, spending, units)
            self._joined(spending, pairs)

    @cached_property
    def _chosen(self) -> dict[int, frozenset[int]]:
        """Return of each first chunk the ways that it may go."""
        posed, firsts = self.posed, self.action.firsts
        found = self.options.paths
        if found == "auto":
            copied = any(len(posed.wanted[chunk]) > 1 for chunk in firsts)
            found = "any" if copied else "shortest"
        ways = shortest_ways if found == "shortest" else open_ways
        return {chunk: ways(posed, chunk) for chunk in firsts}

    def _routed(self, effort: Effort | None) -> Routed | None:
        """Return routes: step 1. None: none were found with that effort."""
        if effort is None:
            return None
        edges = list(self.sketched.connections(self.posed.src, self.posed.dst))
        begun = None if self.begun is None else self.begun.ways
        return routed(self.posed, self.action, self._chosen, edges, effort, self.least, begun)

    @property
    def own_first(self) -> bool:
        """Return whether the order of links is asked for, which models then do not change."""
        relays = self.sketched.sketch.relays
        return relays is not None and relays.own_first

    def _orders(self) -> list[LinkOrder]:
        asked = self.options.order
        return [
            LinkOrder(order.direction, order.priority, self.own_first)
            for order in ORDERS
            if asked in {"best", str(order)}
            # from the end, what a sender has itself cannot be told to leave first
            and (order.direction is Direction.START or not self.own_first)
        ]

    def _order(self, pairs: list[tuple[int, int]], order: LinkOrder) -> None:
        """Put chunks on links by a heuristic: step 2, and several together, where that pays."""
        first = self._first
        if first is not None and first[:2] == (order, pairs):
            self.take(first[2], str(order))
        else:
            self.take(alone(ordered(self.posed, pairs, order)), str(order))
        if self.joins:
            worse = 0
            for most in _TOGETHER:
                found = filled(self.posed, pairs, order, most)
                worse = worse + 1 if self.costs.finish(found) >= self.finish else 0
                self.take(found, f"{order}, together")
                if worse > 1:
                    break

    def _begin(self, spending: Spending, improve: float) -> None:
        """Take a schedule that list scheduling finds without a sketch, if it keeps to this one."""
        relays = self.sketched.sketch.relays
        bound = self.sketched.sketch.within is not None or relays is not None
        if self.done or self.strict or bound or self.options.steps == "three":
            return
        request = Request(self.posed.topology, self.spec, self.size_bytes)
        left = spending.left()
        if left is None:
            return
        try:
            first, _ = matched(request, self.options.chunks, self.options.alpha, left, improve)
        except NoScheduleError:
            return
        sends = placed(self.posed, sends_of_schedule(self.posed, first), 0)
        self.take(alone(sends), _MATCHING)

    def _exact(self, pairs: list[tuple[int, int]], spending: Spending, units: float) -> None:
        """Give exact times, orders left free, and then chunks together: step 3."""
        left = spending.left(units * _EXACT)
        if self.done or left is None or spending.used_up():
            return
        if len(pairs) <= MOST_EXACT and not self.own_first:
            best = self.finish
            model = IntervalModel(
                self.posed,
                Action.alone(self.posed),
                best - 1,
                routes=frozenset(pairs),
            )
            model.soonest_finish(self.least)
            found = model.solved(left, STRATEGY)
            spending.units += found.units
            if found.sends is not None:
                self.take(alone(found.sends), "exact times")
        if self.joins or self.own_first:
            left = spending.left(units * _EXACT)
            if left and not self.done and not spending.used_up():
                batches, spent = contiguous(self.posed, self.batches, self.least, left)
                spending.units += spent
                self.take(batches, "chunks together")

    def _joined(self, spending: Spending, pairs: list[tuple[int, int]]) -> None:
        """Improve orders and times, and routes too, some chunks at a time with all others fixed.

        If the routes must keep the symmetries of the sketch, they stay unchanged.
        """
        if self.done or self.options.steps == "three" or spending.used_up() or spending.late():
            return
        if self.own_first:
            return
        sends = self._unbatched()
        if sends is None or (self.options.steps == "auto" and self.huge):
            return
        kept = self.strict and len(self.action.chunks) > 1
        search = Neighbours(
            self.posed,
            Action.alone(self.posed),
            sends,
            self.enough,
            (self.least,),
            STRATEGY,
            lambda better: self.take(alone(better), "neighbourhoods"),
            made=_MADE,
            routes=frozenset(pairs) if kept else None,
        )
        search.run(spending)

    def _unbatched(self) -> tuple[ChunkSend, ...] | None:
        """Return the best as sends. None: chunks go together in it."""
        if any(len(batch.chunks) > 1 for batch in self.batches):
            return None
        return tuple(ChunkSend(b.start, b.chunks[0], b.way) for b in self.batches)
