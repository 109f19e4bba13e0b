"""One phase of a collective within a sketch: routes, orders, exact times.

Each step is a function of what the one before it found, which is kept: it can be looked at, and
another put in its place. Beyond the paper, orders are left free once routes are known, both are
bettered together where the model is small, and the bounds of the machine are passed in, so that a
schedule that meets them is known to be the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from sccl.core.clock import AlphaModel
from sccl.errors import TooLargeError
from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, Spending
from sccl.synth.intervals.model import Action, IntervalModel
from sccl.synth.intervals.neighbours import Neighbours
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.taccl.batches import Batch, BatchCosts, alone
from sccl.synth.taccl.contiguity import contiguous
from sccl.synth.taccl.filling import filled
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.ordering import ORDERS, ordered
from sccl.synth.taccl.routing import Routed, open_ways, routed, shortest_ways
from sccl.synth.taccl.trees import Order

MOST_ROUTES = 60_000
"""Of a model of routes: a boolean for each first chunk and way."""

MOST_ANY = 12_000
"""Beyond which chunks go on shortest paths alone, if nothing is said."""

MOST_EXACT = 6_000
"""Intervals of a model of all that is sent, its routes being known."""

MOST_JOINED = 12_000
"""Intervals of a model in which routes are free, too."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_ROUTING, _EXACT = 0.4, 0.3
"""Of the effort: for routes, and for exact times; what is left betters both together."""

_TOGETHER = (2, 4, 8, 16, 32, 64, 256)
"""Chunks that are sent together at the most, as tried."""

Told = Callable[[float, float], None]
"""Called with the best finish and the bound, microseconds."""


class NoRoutesError(Exception):
    """No routes were found: its text says why."""


@dataclass
class SketchedPhase:
    """A phase.

    Attributes:
        least: units that no schedule of such chunks takes less than, on any ways of the machine.
        routes: what step 1 found.
        batches: the best by now.
        by: what found it: an order, or a model.
    """

    posed: Posed
    sketched: Sketched | None
    options: Options
    least: int
    told: Told
    routes: Routed | None = None
    batches: tuple[Batch, ...] = ()
    by: str = ""
    tried: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.costs = BatchCosts(self.posed)
        self.action = self._action()

    def _action(self) -> Action:
        group = () if self.sketched is None else self.sketched.group
        if len(group) < 2:
            return Action.alone(self.posed)
        images = [self.posed.images_of(one) for one in group]
        return Action(*(tuple(tuple(i[k]) for i in images) for k in range(3)))

    @property
    def finish(self) -> int:
        """Return the units after which all has arrived."""
        return self.costs.finish(self.batches)

    @property
    def enough(self) -> int:
        """Return the units after which a finish is near enough to the bound."""
        return max(self.least, int(self.least * (1 + Fraction(self.options.gap))))

    @property
    def done(self) -> bool:
        """Return whether what there is is good enough."""
        return bool(self.batches) and self.finish <= self.enough

    def us(self, units: int) -> float:
        """Return units in microseconds."""
        return units * self.posed.unit * self.posed.clock.tick_ps / 10**6

    def take(self, batches: tuple[Batch, ...], by: str) -> None:
        """Take a schedule, if it is better."""
        finish = self.costs.finish(batches)
        self.tried[by] = min(finish, self.tried.get(by, finish))
        if not self.batches or finish < self.finish:
            self.batches, self.by = batches, by
            self.told(self.us(finish), self.us(self.least))

    def run(self, effort: Effort) -> None:
        """Go through the steps, until the bound is met or the effort is spent.

        Raises:
            NoRoutesError: step 1 found none.
            TooLargeError: the model of routes would be too large.
            KeyboardInterrupt: the user interrupted; what was found by then is kept.
        """
        spending, units = Spending(effort), effort.units or 1.0
        self.routes = self._routed(spending.left(units * _ROUTING))
        spending.units += self.routes.spent
        if spending.late():
            raise NoRoutesError(effort.why_late)
        pairs = self.routes.all_of(self.action)
        for order in self._orders():
            self._order(pairs, order)
            if self.done or spending.late():
                return
        self._exact(pairs, spending, units)
        self._joined(spending)

    def _routed(self, effort: Effort | None) -> Routed:
        """Return routes: step 1."""
        posed, firsts = self.posed, self.action.firsts
        found = self.options.paths
        if found == "auto":
            found = "any" if len(firsts) * len(posed.src) <= MOST_ANY else "shortest"
        ways = shortest_ways if found == "shortest" else open_ways
        chosen = {chunk: ways(posed, chunk) for chunk in firsts}
        if sum(map(len, chosen.values())) > MOST_ROUTES:
            raise TooLargeError(
                f"{posed.collective.name} of {posed.ranks} ranks with C={posed.collective.chunks} "
                f"has {sum(map(len, chosen.values()))} ways of chunks, models are made of up to "
                f"{MOST_ROUTES}: give a sketch with symmetries, or fewer chunks"
            )
        edges = () if self.sketched is None else self.sketched.connections(posed.src, posed.dst)
        routes = None
        if effort is not None:
            routes = routed(posed, self.action, chosen, edges, effort)
        if routes is None and found == "any" and effort is not None:
            chosen = {chunk: shortest_ways(posed, chunk) for chunk in firsts}
            routes = routed(posed, self.action, chosen, edges, effort)
        if routes is None:
            raise NoRoutesError("no routes were found with that effort")
        return routes

    def _orders(self) -> list[Order]:
        relays = self.sketched.sketch.relays if self.sketched else None
        own_first = relays is not None and relays.own_first
        asked = self.options.order
        return [
            Order(order.direction, order.priority, own_first)
            for order in ORDERS
            if asked in {"best", str(order)}
        ]

    def _order(self, pairs: list[tuple[int, int]], order: Order) -> None:
        """Put chunks on links by a heuristic: step 2; and several together, where that pays."""
        self.take(alone(ordered(self.posed, pairs, order)), str(order))
        if self.posed.clock.model is AlphaModel.OCCUPIES and self.options.together:
            for most in _TOGETHER:
                self.take(filled(self.posed, pairs, order, most), f"{order}, together")

    def _exact(self, pairs: list[tuple[int, int]], spending: Spending, units: float) -> None:
        """Give exact times, orders left free, and then chunks together: step 3."""
        left = spending.left(units * _EXACT)
        if self.done or left is None or spending.used_up():
            return
        if len(pairs) <= MOST_EXACT:
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
        if self.posed.clock.model is AlphaModel.OCCUPIES and self.options.together:
            left = spending.left(units * _EXACT)
            if left and not self.done and not spending.used_up():
                batches, spent = contiguous(self.posed, self.batches, self.least, left)
                spending.units += spent
                self.take(batches, "chunks together")

    def _joined(self, spending: Spending) -> None:
        """Better routes, orders and times together, around what there is."""
        if self.done or self.options.steps == "three" or spending.used_up() or spending.late():
            return
        sends = self._unbatched()
        size = len(self.posed.src) * self.posed.chunks
        if sends is None or (self.options.steps == "auto" and size > 40 * MOST_JOINED):
            return
        search = Neighbours(
            self.posed,
            Action.alone(self.posed),
            sends,
            self.enough,
            (self.least,),
            STRATEGY,
            lambda better: self.take(alone(better), "all together"),
        )
        search.run(spending)

    def _unbatched(self) -> tuple[ChunkSend, ...] | None:
        """Return the best as sends; None: chunks go together in it."""
        if any(len(batch.chunks) > 1 for batch in self.batches):
            return None
        return tuple(ChunkSend(b.start, b.chunks[0], b.way) for b in self.batches)
