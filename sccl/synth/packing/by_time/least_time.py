"""Plan a schedule near the minimum time over all chunkings, with its lower bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.errors import ParameterError, TooLargeError, TopologyError
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Notify, Request, SearchProgress
from sccl.synth.limits import QUICK_EFFORT, STEP_EFFORT, TRIAL_EFFORT
from sccl.synth.packing.by_time.allreduce_packing import is_tree_allreduce, pack_allreduce
from sccl.synth.packing.by_time.ingress_relay import ingress_relay_us
from sccl.synth.packing.by_time.lower_bounds import FIRST_BORDERS, restricted_search, select_engine
from sccl.synth.packing.by_time.options import Options
from sccl.synth.packing.by_time.packing_search import FEW_DISTANCES, PackingSearch
from sccl.synth.packing.by_time.portfolio import (
    NO_SCHEDULE,
    improve_two_phases,
    plan_by_list_scheduling,
    plan_overlapping,
    refine_chunks,
)
from sccl.synth.packing.flow_lp import is_unicast
from sccl.synth.packing.flow_problem import build_flow_problem, has_ports
from sccl.synth.packing.price_trees import TreePricing
from sccl.synth.packing.schedule_builder import ScheduleBuilder, forward_or_reversed
from sccl.synth.packing.send_plans import plan_sends

MAX_RANKS = 128
"""Largest number of ranks: 16 NDv2 of 8 GPUs."""

MAX_COMMODITIES = 5000
"""Classes of chunks that are not images of one another. An alltoall of 72 ranks without symmetry
has 5,112, and its program is slow."""


_NEAR_RATIO = 1.03
"""Ratio to the bound up to which a schedule is not improved by packings if these are
expensive."""


@dataclass(frozen=True, slots=True)
class SearchInterrupted:
    """The user interrupted. The result is kept once its sends are verified."""

    send_count: int


class _NoPackingError(Exception):
    """Packings cannot be searched, and there is no schedule."""

    def __init__(self, floor: Fraction, why: TooLargeError) -> None:
        """Keep the lower bound in microseconds, and the reason why there is no packing."""
        super().__init__(str(why))
        self.lower_bound, self.error = floor, why


@dataclass
class _PhaseResult:
    """The result of one phase.

    Attributes:
        lower_bound: Lower bound in microseconds.
        stop_reason: Reason why the search ended early.
    """

    builder: ScheduleBuilder
    lower_bound: Fraction
    stop_reason: StopReason = NOT_STOPPED

    def match(self, gap: float, units: float, on_progress: Callable[[float, float], None]) -> None:
        """Build schedules of equal chunks.

        Raises:
            KeyboardInterrupt: The user interrupted.
        """
        floor = float(self.lower_bound)
        on_progress(floor, inf)
        few = self.lower_bound < FEW_DISTANCES * max(self.builder.problem.alpha)
        us = self.builder.schedule_by_matching(floor, gap, floor if few else 0.0, units)
        on_progress(floor, us if self.builder.plan is not None else inf)

    def pack(
        self, gap: float, units: float, deadline: float, on_progress: Callable[[float, float], None]
    ) -> None:
        """Build schedules from packings, unless one is near enough already, and raise the bound.

        Raises:
            _NoPackingError: Packings cannot be searched, and there is no schedule yet.
            KeyboardInterrupt: The user interrupted.
        """
        problem, placing = self.builder.problem, self.builder
        try:
            engine = select_engine(problem)
        except TooLargeError as why:
            if few := restricted_search(problem, self.lower_bound, deadline):
                few.raise_bound()
                self.lower_bound = few.lower_bound
            if placing.plan is None:
                raise _NoPackingError(self.lower_bound, why) from why
            return
        search = PackingSearch(
            problem,
            engine,
            self.lower_bound,
            gap,
            units,
            deadline,
            on_progress,
            placing.schedule_packing,
        )
        if placing.plan is not None:
            search.schedule_us, search.spent = placing.ticks / PS_PER_US, placing.effort
            dear = isinstance(engine, TreePricing) and engine.effort(FIRST_BORDERS) > TRIAL_EFFORT
            if dear and search.schedule_us <= _NEAR_RATIO * float(self.lower_bound):
                return
        try:
            search.run()
        except TooLargeError as why:
            if placing.plan is None:
                raise _NoPackingError(search.lower_bound, why) from why
        except KeyboardInterrupt:
            if search.best is not None:
                placing.schedule_packing(search.best, search.target_us, thorough=True)
            raise
        finally:
            self.lower_bound = search.lower_bound


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return a schedule near the infimum over all chunkings, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    if options.alpha != "travels":
        raise ParameterError(
            f"alpha is {options.alpha}: the lower bound over all chunkings needs an alpha that "
            "travels, because an alpha that occupies its link is paid for every chunk; leave it "
            "out"
        )
    topology, dual = request.topology, _solved_dual(request)
    deadline = time.perf_counter() + effort.seconds
    if dual.phases > 1 and not topology.reversed().same_timing(topology):
        _check_size(request)  # no phase is the reverse of the other: plan both together
        return _plan_overlapping_allreduce(request, options, effort, notify, deadline)
    if request.spec.combining:
        _check_read_backwards(request)
    _check_size(request)
    ended = NOT_STOPPED
    try:
        half = _plan_phase(request, dual, options, effort, notify, deadline)
        floor, ended = half.lower_bound, half.stop_reason
    except _NoPackingError as error:
        if request.spec.counts:  # list scheduling does not support counts
            raise error.error from error
        half, floor = None, error.lower_bound
    if dual.phases > 1:  # the phases of an allreduce can overlap: only cuts bound both
        floor = completion_time_bound(topology, request.spec).us(request.size_bytes)
    if half is None or half.builder.plan is None:
        if ended or request.spec.counts:
            return Inconclusive(ended or NO_SCHEDULE)
        return plan_by_list_scheduling(request, floor, options.gap, effort, deadline)
    if ended.kind is StopKind.INTERRUPTED:
        notify(SearchInterrupted(len(half.builder.sends)))
    schedule = half.builder.schedule(topology, request.spec)
    attained = schedule.finish_us
    result = Solution(schedule, attained, Bound(Measure.TIME_US, floor, ()), half.builder.found_by)
    target_us = floor * (1 + Fraction(options.gap))
    if dual.phases > 1 and not ended and attained > target_us:
        result, ended = _improve_allreduce(request, result, options, effort, notify, deadline)
    elif not ended and _has_single_class(request.spec):
        result = refine_chunks(request, result, target_us, effort, deadline - time.perf_counter())
    return Inconclusive(ended, result) if ended else result


def _improve_allreduce(  # noqa: PLR0913, PLR0917 - a problem, its limits, and callbacks
    request: Request,
    phases: Solution,
    options: Options,
    effort: Effort,
    notify: Notify,
    deadline: float,
) -> tuple[Solution, StopReason]:
    """Return the best of a two-phase allreduce and others, and why the search ended early."""
    floor = phases.bound.value
    result, interrupted = phases, False
    if is_tree_allreduce(request.topology, request.spec):
        on_progress, units = _progress_of(notify), _effort_units(effort)
        trees, interrupted = pack_allreduce(
            request, phases, floor, options.gap, units, deadline, on_progress
        )
        result = trees or phases
    near = result.objective <= floor * (1 + Fraction(options.gap))
    # TE-CCL found nothing better than pairs of trees in any measured row
    if result is phases and not (interrupted or near):
        result = improve_two_phases(request, result, effort, deadline)
    return result, INTERRUPTED if interrupted else NOT_STOPPED


def _plan_overlapping_allreduce(
    request: Request, options: Options, effort: Effort, notify: Notify, deadline: float
) -> Outcome:
    """Return an allreduce whose phases are not the reverse of each other."""
    floor = completion_time_bound(request.topology, request.spec).us(request.size_bytes)
    trees = None
    if is_tree_allreduce(request.topology, request.spec):
        on_progress, units = _progress_of(notify), _effort_units(effort)
        trees, interrupted = pack_allreduce(
            request, None, floor, options.gap, units, deadline, on_progress
        )
        if trees and interrupted:
            return Inconclusive(INTERRUPTED, trees)
        if trees and trees.objective <= floor * (1 + Fraction(options.gap)):
            return trees
    seconds = deadline - time.perf_counter()
    outcome = plan_overlapping(request, effort, min(_effort_units(effort), STEP_EFFORT), seconds)
    best = outcome.best if isinstance(outcome, Inconclusive) else outcome
    if trees is None or (isinstance(best, Solution) and best.objective <= trees.objective):
        return outcome
    return Inconclusive(outcome.reason, trees) if isinstance(outcome, Inconclusive) else trees


def _progress_of(notify: Notify) -> Callable[[float, float], None]:
    return lambda low, high: notify(SearchProgress(high, low))


def _effort_units(effort: Effort) -> float:
    return QUICK_EFFORT if effort.units is None else effort.units


def _has_single_class(spec: Spec) -> bool:
    """Return whether all chunks have the same holders (or contributors) and destinations."""
    return not spec.counts and len(spec.at(spec.unit).chunk_classes()) == 1


def _solved_dual(request: Request) -> Dual:
    """Return the dual problem to solve. A gather is solved as a reversed scatter.

    Flows into one rank need a separate program for each source. Flows out of it need only one.
    Machines with budgets are reversed only if necessary.
    """
    dual, spec = dual_of(request.spec), request.spec
    classes = spec.at(spec.unit).chunk_classes()
    goals = {frozenset(wanted - held) for held, wanted in classes if wanted - held}
    has_single_holders = all(len(held) == 1 or not wanted - held for held, wanted in classes)
    single = len(goals) == 1 and len(*goals) == 1
    if (
        spec.combining
        or not single
        or not has_single_holders
        or len(classes) == 1
        or request.topology.budgets
    ):
        return dual
    scattered = replace(spec, name="scatter", pre=spec.post, post=spec.pre)
    return replace(dual, spec=scattered, on_reversed=True)


def _check_read_backwards(request: Request) -> None:
    """Check that budgets hold for reversed schedules.

    Reversal shifts the times of each link by the link's own alpha. Budgets still hold, unless a
    chunk passes a budget twice on its route through a cut-through switch.

    Raises:
        TopologyError: A budget contains links into and out of such a switch.
    """
    topology = request.topology
    through = {topology.ranks + i for i, entry in enumerate(topology.switches) if entry.cut_through}
    for budget in topology.budgets:
        twice = {src for src, _ in budget.edges} & {dst for _, dst in budget.edges} & through
        if twice:
            switch = topology.switches[min(twice) - topology.ranks].name
            raise TopologyError(
                f"topology {topology.name!r}, budget {budget.name!r} combines links into and out "
                f"of switch {switch!r}, which the lower bound for {request.spec.name} over all "
                "chunkings does not support: give each direction its own budget, or use 'sccl "
                "synth teccl' for a schedule"
            )


def _plan_phase(  # noqa: PLR0913, PLR0917 - a problem, its limits, and callbacks
    request: Request,
    dual: Dual,
    options: Options,
    effort: Effort,
    notify: Notify,
    deadline: float,
) -> _PhaseResult:
    """Return the result of one phase.

    Raises:
        InputError: The machine is too large.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    for switch in request.topology.switches:
        if not switch.cut_through and switch.buffer_chunks is not None:
            raise TopologyError(
                f"topology {request.topology.name!r}, switch {switch.name!r} stores chunks and "
                f"has places for {switch.buffer_chunks}: the lower bound over all chunkings is "
                "computed for switches that cut through, or store any number"
            )
    machine = request.topology.reversed() if dual.on_reversed else request.topology
    problem = build_flow_problem(machine, dual, request.size_bytes)
    time_bound = completion_time_bound(machine, dual.spec, backwards=dual.on_reversed)
    floor = time_bound.us(Fraction(request.size_bytes, dual.chunk_factor))
    if (many := len(problem.commodities)) > MAX_COMMODITIES:
        why = _too_large_error(request, f"{many} kinds of chunks", f"up to {MAX_COMMODITIES}")
        raise _NoPackingError(floor, why)
    floor = max(floor, ingress_relay_us(problem))
    deadline_passed = lambda: time.perf_counter() > deadline  # noqa: E731
    half = _PhaseResult(
        ScheduleBuilder(
            problem, dual, forward_or_reversed(request.topology, dual), deadline_passed
        ),
        floor,
    )
    if not problem.commodities:
        half.builder.plan = plan_sends(problem, None, dual, 1)
        return half
    on_progress, units = _progress_of(notify), _effort_units(effort)
    try:
        if not is_unicast(problem) and has_ports(problem):
            half.match(options.gap, units, on_progress)
        half.pack(options.gap, units, deadline, on_progress)
    except KeyboardInterrupt:
        if half.builder.plan is None:
            raise
        half.stop_reason = INTERRUPTED
    if not half.stop_reason and time.perf_counter() > deadline:
        half.stop_reason = effort.timeout_reason
    return half


def _check_size(request: Request) -> None:
    if request.topology.ranks > MAX_RANKS:
        raise _too_large_error(request, f"{request.topology.ranks} ranks", f"up to {MAX_RANKS}")


def _too_large_error(request: Request, count: str, limit: str) -> TooLargeError:
    return TooLargeError(
        f"topology {request.topology.name!r}: {request.spec.name} has {count}, and the lower bound "
        f"over all chunkings is computed for {limit}: give fewer ranks, or use 'sccl synth tacos'"
    )
