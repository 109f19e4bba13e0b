"""Solve one phase of a collective within a sketch: routes, orders, exact times.

Each step is a function of the previous step's result, which is stored and can be inspected or
replaced. There are three additions to the paper. A model chooses orders freely for known routes.
Routes and orders are improved together if the model is small. The bounds of the machine are known,
so a schedule that attains them is known to be optimal.
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
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common.contract import Request
from sccl.synth.limits import EFFORT_PARTS, MAX_INTERVALS, TRIAL_EFFORT
from sccl.synth.scheduling.bounds import compute_lower_bound, latency_bound_ticks
from sccl.synth.scheduling.intervals_cpsat import IntervalModel, SymmetryAction
from sccl.synth.scheduling.neighborhoods import NeighborhoodSearch
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.serial import serial_schedule
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.scheduling.warm_start import (
    NoScheduleError,
    schedule_to_sends,
    warm_start_from_tacos,
)
from sccl.synth.taccl.batches import Batch, BatchCosts, single_batches
from sccl.synth.taccl.contiguity import optimize_contiguity
from sccl.synth.taccl.greedy_routes import find_greedy_routes, relaxed_makespan
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.ordering import LINK_ORDERS, order_transfers
from sccl.synth.taccl.parallel_schedule import schedule_in_parallel
from sccl.synth.taccl.route_trees import Direction, LinkOrder
from sccl.synth.taccl.routing import RoutingResult, allowed_routes, shortest_routes, solve_routing

MAX_NEIGHBORHOOD_SIZE = 480_000
"""Chunks times routes up to which neighborhoods are planned again: larger models take longer to
build than to solve."""

NEAR_GAP = Fraction(1, 1000)
"""Relative gap at which a quick evaluation ends, and any search whose models are too large."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_BATCH_SIZES = (2, 4, 8, 16, 32, 64, 256)
"""Chunks that are sent together at the most, as tried."""

_MATCHING, _TREES = "matching", "trees"

GapCallback = Callable[[float, float], None]
"""Called with the best finish and the bound, microseconds."""


@dataclass
class SketchedPhase:
    """One phase of a collective within a sketch, and its best schedule so far.

    Attributes:
        spec: Collective of the phase, without reductions.
        size_bytes: Size of C chunks.
        unrestricted_problem: The problem with all routes of the machine, for bounds.
        is_strict: Whether schedules must keep the symmetries of the sketch.
        mirror_phase: The other phase of an allreduce, if its machine has the same costs and so the
            same bounds.
        any_chunks_bound: Lower bound in ticks for any chunks and all routes. 0: unknown.
        initial_routes: Routes of the first schedule, where step 1 begins.
        routes: Result of step 1.
        batches: Best schedule so far.
        method: Order or model that found it.
        lower_bound_ticks: Lower bound in ticks for these chunks and all routes.
    """

    problem: SchedulingProblem
    machine_sketch: MachineSketch
    options: Options
    spec: Spec
    size_bytes: int
    on_progress: GapCallback
    is_strict: bool
    unrestricted_problem: SchedulingProblem
    mirror_phase: SketchedPhase | None = None
    any_chunks_bound: Fraction = Fraction(0)
    initial_routes: RoutingResult | None = None
    routes: RoutingResult | None = None
    batches: tuple[Batch, ...] = ()
    method: str = ""
    finish_by_method: dict[str, int] = field(default_factory=dict)
    lower_bound_ticks: int = field(init=False)
    _has_bound: bool = field(default=False, init=False)
    _first_schedule: tuple[LinkOrder, list[tuple[int, int]], tuple[Batch, ...]] | None = field(
        default=None, init=False
    )

    def __post_init__(self) -> None:
        self.costs = BatchCosts(self.problem)
        self.action = SymmetryAction.of(self.problem, self.machine_sketch.group)
        self.lower_bound_ticks = latency_bound_ticks(self.unrestricted_problem)
        self.raise_bound(self.any_chunks_bound)

    @property
    def finish(self) -> int:
        """Return the completion time, in units."""
        return self.costs.finish(self.batches)

    @property
    def lower_bound(self) -> int:
        """Return a lower bound for schedules within the sketch, in units.

        These have integral completion times. Other schedules may finish between two units.
        """
        return -(-self.lower_bound_ticks // self.problem.unit)

    @property
    def target(self) -> int:
        """Return the largest completion time within the requested gap, in units."""
        return max(self.lower_bound, int(self.lower_bound * (1 + Fraction(self.options.gap))))

    @property
    def is_done(self) -> bool:
        """Return whether the schedule is within the requested gap."""
        return bool(self.batches) and self.finish <= self.target

    @property
    def is_too_large(self) -> bool:
        """Return whether the phase is too large for models. Then only heuristic steps run."""
        return len(self.problem.src) * self.problem.chunks > MAX_NEIGHBORHOOD_SIZE

    @property
    def _is_near_bound(self) -> bool:
        """Return whether the schedule is within NEAR_GAP of the bound."""
        return bool(self.batches) and self.finish <= self.lower_bound * (1 + NEAR_GAP)

    @property
    def is_symmetric(self) -> bool:
        """Return whether the routes of the best schedule preserve the symmetries."""
        sent = np.zeros((self.problem.chunks, len(self.problem.src)), dtype=np.bool_)
        for batch in self.batches:
            sent[list(batch.chunks), batch.route] = True
        chunks, paths = np.nonzero(sent)
        return all(
            sent[np.array(to_chunk)[chunks], np.array(to_way)[paths]].all()
            for to_chunk, to_way in zip(self.action.chunks, self.action.routes, strict=True)
        )

    @property
    def can_batch(self) -> bool:
        """Return whether chunks may be sent together, and save alphas by it."""
        return self.options.together and self.problem.clock.model is AlphaModel.OCCUPIES

    def raise_bound(self, any_chunks: Fraction) -> None:
        """Record a lower bound for schedules of any chunks, in ticks."""
        self.any_chunks_bound = any_chunks
        self.lower_bound_ticks = max(self.lower_bound_ticks, ceil(any_chunks))

    def start(self) -> None:
        """Compute a first schedule by greedy trees and one order, before anything else.

        So there is a result from the first moment on.
        """
        if self.batches:
            return
        trees = find_greedy_routes(self.problem, self.action, self._allowed_routes)
        self.initial_routes = RoutingResult(
            trees, relaxed_makespan(self.problem, self.action, trees), 0, 0.0
        )
        order = self._link_orders()[0]
        pairs = self.initial_routes.all_routes(self.action)
        self.batches, self.method = (
            single_batches(order_transfers(self.problem, pairs, order)),
            _TREES,
        )
        self._first_schedule = order, pairs, self.batches
        self.finish_by_method[_TREES] = self.finish

    def compute_bound(self) -> None:
        """Compute the lower bound for schedules of these chunks. There must be a schedule."""
        self._has_bound = True
        if self.mirror_phase is not None and self.mirror_phase._has_bound:  # noqa: SLF001 - of its own kind
            self.lower_bound_ticks = max(
                self.lower_bound_ticks, self.mirror_phase.lower_bound_ticks
            )
            return
        ticks = self.finish * self.problem.unit
        full_problem = self.unrestricted_problem
        lower_bound = compute_lower_bound(
            full_problem.topology,
            self.spec,
            full_problem,
            self.size_bytes,
            ticks,
            together=self.can_batch,
        )
        self.lower_bound_ticks = max(self.lower_bound_ticks, lower_bound)

    def accept(self, batches: tuple[Batch, ...], by: str) -> None:
        """Keep a schedule if it is better."""
        finish = self.costs.finish(batches)
        self.finish_by_method[by] = min(finish, self.finish_by_method.get(by, finish))
        if self._has_bound and self.batches and finish >= self.finish:
            return
        if not self.batches or finish <= self.finish:  # on a tie with the trees, name this method
            self.batches, self.method = batches, by
        if not self._has_bound:
            self.compute_bound()
        tick_us = self.problem.clock.tick_ps / 10**6
        self.on_progress(self.problem.to_us(self.finish), self.lower_bound_ticks * tick_us)

    def run(self, effort: Effort, *, quick: bool = False) -> None:
        """Run the steps until the bound is attained or the budget is spent.

        Args:
            effort: The budget.
            quick: Whether to compute only routes and orders.

        Raises:
            KeyboardInterrupt: The user interrupted. Results so far are kept.
        """
        spending, units = EffortMeter(effort), effort.units or 1.0
        if self.routes is None:
            self.routes = self._find_routes(
                spending.remaining(units if quick else units / EFFORT_PARTS)
            )
            if self.routes is None:
                return
            spending.units += self.routes.effort_units
        pairs = self.routes.all_routes(self.action)
        for order in self._link_orders():
            if str(order) in self.finish_by_method:
                continue
            self._apply_order(pairs, order)
            if (
                self.is_done
                or spending.deadline_passed()
                or (self._is_near_bound and (quick or self.is_too_large))
            ):
                return
        self._warm_start(spending, improve=0.0 if quick else min(1.0, units))
        if not quick:
            self._solve_exact_times(pairs, spending, units)
            self._search_neighborhoods(spending, pairs)

    @cached_property
    def _allowed_routes(self) -> dict[int, frozenset[int]]:
        """Return the allowed routes of each representative chunk."""
        problem, firsts = self.problem, self.action.representatives
        policy = self.options.paths
        if policy == "auto":
            copied = any(len(problem.wanted[chunk]) > 1 for chunk in firsts)
            policy = "any" if copied else "shortest"
        paths_of = shortest_routes if policy == "shortest" else allowed_routes
        return {chunk: paths_of(problem, chunk) for chunk in firsts}

    def _find_routes(self, effort: Effort | None) -> RoutingResult | None:
        """Return routes (step 1). None: the budget is spent."""
        if effort is None:
            return None
        edges = list(self.machine_sketch.hyperedge_routes(self.problem.src, self.problem.dst))
        begun = None if self.initial_routes is None else self.initial_routes.routes
        return solve_routing(
            self.problem, self.action, self._allowed_routes, edges, effort, self.lower_bound, begun
        )

    @property
    def has_fixed_order(self) -> bool:
        """Return whether the sketch requires an order on links, which models may not change."""
        relays = self.machine_sketch.sketch.relays
        return relays is not None and relays.local_first

    def _link_orders(self) -> list[LinkOrder]:
        asked = self.options.order
        return [
            LinkOrder(order.direction, order.priority, self.has_fixed_order)
            for order in LINK_ORDERS
            if asked in {"best", str(order)}
            # with time reversed, a sender's own chunk cannot be forced to leave first
            and (order.direction is Direction.START or not self.has_fixed_order)
        ]

    def _apply_order(self, pairs: list[tuple[int, int]], order: LinkOrder) -> None:
        """Order the chunks on links by a heuristic (step 2), and batch them if allowed."""
        first = self._first_schedule
        if first is not None and first[:2] == (order, pairs):
            self.accept(first[2], str(order))
        else:
            self.accept(single_batches(order_transfers(self.problem, pairs, order)), str(order))
        if self.can_batch:
            worse = 0
            for max_chunks in _BATCH_SIZES:
                batches = schedule_in_parallel(self.problem, pairs, order, max_chunks)
                worse = worse + 1 if self.costs.finish(batches) >= self.finish else 0
                self.accept(batches, f"{order}, together")
                if worse > 1:
                    break

    def _warm_start(self, spending: EffortMeter, improve: float) -> None:
        """Accept the list schedule of TACOS, if the sketch does not exclude any of its routes."""
        relays = self.machine_sketch.sketch.relays
        bound = self.machine_sketch.sketch.intranode_links is not None or relays is not None
        if self.is_done or self.is_strict or bound or self.options.steps == "three":
            return
        request = Request(self.problem.topology, self.spec, self.size_bytes)
        left = spending.remaining()
        if left is None:
            return
        try:
            first, _ = warm_start_from_tacos(
                request, self.options.chunks, self.options.alpha, left, improve
            )
        except NoScheduleError:
            return
        sends = serial_schedule(self.problem, schedule_to_sends(self.problem, first), 0)
        self.accept(single_batches(sends), _MATCHING)

    def _solve_exact_times(
        self, pairs: list[tuple[int, int]], spending: EffortMeter, units: float
    ) -> None:
        """Compute exact times with free orders, and then batches of chunks (step 3)."""
        left = spending.remaining(units / EFFORT_PARTS)
        if self.is_done or left is None or spending.is_exhausted():
            return
        if len(pairs) <= MAX_INTERVALS and not self.has_fixed_order:
            best = self.finish
            model = IntervalModel(
                self.problem,
                SymmetryAction.identity(self.problem),
                best - 1,
                routes=frozenset(pairs),
            )
            model.minimize_finish(self.lower_bound)
            result = model.solve(left, STRATEGY)
            spending.units += result.effort_units
            if result.sends is not None:
                self.accept(single_batches(result.sends), "exact times")
        if self.can_batch or self.has_fixed_order:
            left = spending.remaining(units / EFFORT_PARTS)
            if left and not self.is_done and not spending.is_exhausted():
                batches, spent = optimize_contiguity(
                    self.problem, self.batches, self.lower_bound, left
                )
                spending.units += spent
                self.accept(batches, "chunks together")

    def _search_neighborhoods(self, spending: EffortMeter, pairs: list[tuple[int, int]]) -> None:
        """Improve orders, times, and routes of some chunks at a time, with all others fixed.

        If routes must preserve the symmetries of the sketch, they do not change.
        """
        if (
            self.is_done
            or self.options.steps == "three"
            or spending.is_exhausted()
            or spending.deadline_passed()
        ):
            return
        if self.has_fixed_order:
            return
        sends = self._single_sends()
        if sends is None or (self.options.steps == "auto" and self.is_too_large):
            return
        kept = self.is_strict and len(self.action.chunks) > 1
        search = NeighborhoodSearch(
            self.problem,
            SymmetryAction.identity(self.problem),
            sends,
            self.target,
            (self.lower_bound,),
            STRATEGY,
            lambda better: self.accept(single_batches(better), "neighborhoods"),
            min_units=TRIAL_EFFORT,
            allowed_routes=frozenset(pairs) if kept else None,
        )
        search.run(spending)

    def _single_sends(self) -> tuple[ChunkSend, ...] | None:
        """Return the best schedule as sends. None: it has batches of several chunks."""
        if any(len(batch.chunks) > 1 for batch in self.batches):
            return None
        return tuple(ChunkSend(b.start, b.chunks[0], b.route) for b in self.batches)
