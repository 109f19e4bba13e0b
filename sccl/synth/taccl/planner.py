"""Plan a request within a sketch: a schedule and a lower bound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import msgspec

from sccl.collectives import dual_of
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.errors import ParameterError, TooLargeError
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common.contract import Notify, Request, SearchProgress
from sccl.synth.common.reduction import reduce_request
from sccl.synth.limits import EFFORT_PARTS
from sccl.synth.sketches.sketch import Sketch
from sccl.synth.sketches.sketch_files import sketch_from_wire, sketch_to_wire
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.output import SketchReport, TacclPhasePart
from sccl.synth.taccl.phase_assembly import (
    any_chunks_bound,
    assemble_schedule,
    build_phase,
)
from sccl.synth.taccl.phase_steps import NEAR_GAP, SketchedPhase
from sccl.synth.taccl.suggest import suggest_sketches

DEFAULT_UNITS = 4.0
"""Default effort, in units."""

_NO_ROUTES = StopReason(StopKind.BUDGET, "no routes within that budget")


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule of the search within a sketch, with a lower bound.

    Raises:
        InputError: The sketch or the options do not fit the request.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    units = DEFAULT_UNITS if effort.units is None else effort.units
    effort = Effort(effort.timeout_s, effort.seed, units)
    if options.sketch is not None:
        planner = SketchPlan(request, sketch_from_wire(options.sketch), options, notify)
        return planner.outcome(EffortMeter(Effort(effort.timeout_s, effort.seed)), units)
    return _plan_suggested(request, options, effort, notify)


_MAX_IMPROVED = 2
"""Sketches that are improved. Each has half of the budget."""


def _plan_suggested(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule within the suggested sketches of the machine."""
    search = _SketchSearch(request, options, effort, notify)
    ended = NOT_STOPPED
    try:
        search.try_suggestions()
        search.improve_best()
    except KeyboardInterrupt:
        if search.best is None:
            raise
        ended = INTERRUPTED
    best = search.best
    if best is None:
        return Inconclusive(search.failure_reason)
    best.report()
    if not ended and search.spending.deadline_passed() and not best.is_done:
        ended = effort.timeout_reason
    result = best.assemble()
    return Inconclusive(ended, result) if ended else result


class _SketchSearch:
    def __init__(self, request: Request, options: Options, effort: Effort, notify: Notify) -> None:
        self.request, self.options, self.notify = request, options, notify
        self.spending = EffortMeter(
            Effort(effort.timeout_s, effort.seed)
        )  # the units are limited for each part
        self.units = effort.units or DEFAULT_UNITS
        self.candidates: list[SketchPlan] = []
        self.tried_sketches: set[Sketch] = set()
        self.best: SketchPlan | None = None

    @property
    def is_finished(self) -> bool:
        """Return whether the best result is good enough, or the deadline has passed."""
        return self.spending.deadline_passed() or (self.best is not None and self.best.is_done)

    @property
    def failure_reason(self) -> StopReason:
        """Return why there is no schedule."""
        is_late = self.spending.deadline_passed()
        return self.spending.effort.timeout_reason if is_late else _NO_ROUTES

    def try_suggestions(self) -> None:
        """Evaluate the machine's suggestions quickly, one choice after the other."""
        choices = suggest_sketches(self.request, symmetric=_is_rank_symmetric(self.request))
        try:
            sketches = next(choices)
            while not self.is_finished:
                for sketch in sketches:
                    self._try_sketch(sketch)
                if self.best is None:
                    return
                sketches = choices.send(self.best.sketch)
        except StopIteration:
            return

    def _try_sketch(self, sketch: Sketch) -> None:
        sketch = replace(sketch, chunks=self.options.chunks or sketch.chunks)
        asked = replace(sketch, name="")
        if self.is_finished or asked in self.tried_sketches:
            return
        self.tried_sketches.add(asked)
        try:
            planner = SketchPlan(self.request, sketch, self.options, self.notify)
            if self.best is None:
                planner.start()
                self.best = planner
            planner.compute_bounds()
            if self.best is not planner and planner.lower_bound >= self.best.finish:
                return  # no schedule of these chunks is better
            self._try_quickly(planner)
        except TooLargeError:
            if self.best is None and not self.candidates:
                raise

    def _try_quickly(self, planner: SketchPlan) -> None:
        """Evaluate a sketch, and keep its result, even after an interrupt."""
        try:
            planner.improve(self.spending, self.units / EFFORT_PARTS, quick=True)
        finally:
            if planner.has_schedule:
                self.candidates.append(planner)
                self._update_best(planner)

    def _update_best(self, planner: SketchPlan) -> None:
        if self.best is None or planner.finish < self.best.finish:
            self.best = planner

    def improve_best(self) -> None:
        """Plan the best sketches so far with full effort."""
        for planner in sorted(self.candidates, key=lambda planner: planner.finish)[:_MAX_IMPROVED]:
            assert self.best is not None
            if self.is_finished or planner.lower_bound >= self.best.finish:
                continue
            try:
                planner.improve(self.spending, self.units / _MAX_IMPROVED)
            finally:
                self._update_best(planner)


def _is_rank_symmetric(request: Request) -> bool:
    """Return whether a collective is invariant under permutations of ranks."""
    spec = dual_of(request.spec).spec
    return spec.name in {"allgather", "alltoall"}


class SketchPlan:
    """A request within a sketch: its phases, and their results."""

    def __init__(self, request: Request, sketch: Sketch, options: Options, notify: Notify) -> None:
        """Build the phases, without schedules.

        Raises:
            InputError: The sketch does not fit the machine or the collective.
        """
        self.request, self.sketch, self.notify = request, sketch, notify
        relays, order = sketch.relays, options.order
        if relays is not None and relays.local_first and order.endswith("-end"):
            raise ParameterError(
                f"order is {order}, and sketch {sketch.name!r} has a sender's own chunks leave "
                "before others (enforce_ordering), to which orders from the start keep alone: give "
                "one of these, or best"
            )
        self.reduction = reduce_request(request)
        self.has_fixed_chunks = bool(options.chunks)
        self.chunks = options.chunks or sketch.chunks
        self.options = msgspec.structs.replace(options, chunks=self.chunks)
        self.phases: list[SketchedPhase] = []
        self._has_bounds = False
        # A sketch from the user may not preserve schedules that are reversed in time.
        is_suggested = self.options.sketch is None
        solved = self.reduction.solved_phases if is_suggested else self.reduction.phases
        self.uses = len(self.reduction.phases) // len(solved)  # of each phase's schedule
        for phase in solved:
            before = self.phases[0] if self.phases else None
            asked = phase, sketch, self.options, self._report_improvement
            self.phases.append(build_phase(*asked, before))

    @property
    def has_schedule(self) -> bool:
        """Return whether all phases have a schedule."""
        return all(phase.batches for phase in self.phases)

    @property
    def finish(self) -> int:
        """Return the completion time, in ticks."""
        return self.uses * sum(phase.finish * phase.problem.unit for phase in self.phases)

    @property
    def lower_bound(self) -> int:
        """Return the sum of the lower bounds of its phases, in ticks."""
        return self.uses * sum(phase.lower_bound * phase.problem.unit for phase in self.phases)

    @property
    def is_done(self) -> bool:
        """Return whether the result is optimal within the requested gap.

        The bound is for the requested chunks, or for any chunks if their number is not fixed.
        """
        if not self.has_schedule:
            return False
        lower_bound = (
            self.lower_bound
            if self.has_fixed_chunks
            else self.uses * sum(p.any_chunks_bound for p in self.phases)
        )
        gap = Fraction(self.options.gap)
        if all(phase.is_too_large for phase in self.phases):  # another sketch takes minutes
            gap = max(gap, NEAR_GAP)
        return self.finish <= lower_bound * (1 + gap)

    def start(self) -> None:
        """Compute a first schedule quickly, as a fallback."""
        for phase in self.phases:
            phase.start()

    def compute_bounds(self) -> None:
        """Compute the lower bound for schedules of any chunks."""
        for phase in self.phases:
            phase.raise_bound(any_chunks_bound(phase))
        self._has_bounds = True

    def improve(self, spending: EffortMeter, units: float, *, quick: bool = False) -> None:
        """Run the steps of all phases.

        Args:
            spending: The effort spent.
            units: Limit on the effort.
            quick: Whether to compute only routes and orders.

        Raises:
            KeyboardInterrupt: The user interrupted. Results so far are kept.
        """
        for phase in self.phases:
            left = spending.remaining(units / len(self.reduction.phases))
            if left is not None:
                phase.run(left, quick=quick)

    def outcome(self, spending: EffortMeter, units: float) -> Outcome:
        """Return the best schedule within the sketch.

        Raises:
            KeyboardInterrupt: The user interrupted before there was a schedule.
        """
        ended = NOT_STOPPED
        try:
            if not spending.deadline_passed():
                self.start()
            self.compute_bounds()
            self.improve(spending, units)
        except KeyboardInterrupt:
            ended = INTERRUPTED
            if not self.has_schedule:
                raise
        if not self.has_schedule:
            is_late = spending.deadline_passed()
            return Inconclusive(spending.effort.timeout_reason if is_late else _NO_ROUTES)
        self.report()
        if (
            not ended
            and spending.deadline_passed()
            and not all(phase.is_done for phase in self.phases)
        ):
            ended = spending.effort.timeout_reason
        result = self.assemble()
        return Inconclusive(ended, result) if ended else result

    def report(self) -> None:
        """Report the sketch, and the results of its phases."""
        parts = []
        for phase in self.phases:
            routes = phase.routes or phase.initial_routes
            assert routes is not None
            tried = {by: phase.problem.to_us(units) for by, units in phase.finish_by_method.items()}
            relaxed_us = phase.problem.to_us(routes.relaxed_time)
            parts.append(TacclPhasePart(relaxed_us=relaxed_us, by=phase.method, tried=tried))
        sketch = replace(self.sketch, chunks=self.chunks, size_bytes=self.request.size_bytes)
        if not all(phase.is_symmetric for phase in self.phases):
            sketch = replace(sketch, rotations=())
        self.notify(SketchReport(sketch_to_wire(sketch), tuple(self.uses * parts)))

    def _report_improvement(self, us: float, least_us: float) -> None:
        self.notify(SearchProgress(us, least_us, self.sketch.name))

    def assemble(self) -> Solution:
        """Return the results of the phases as one schedule."""
        return assemble_schedule(self.reduction, self.phases, at_once=not self._has_bounds)
