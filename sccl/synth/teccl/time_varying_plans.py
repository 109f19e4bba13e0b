"""Plan at constant bandwidth, then place the sends at the bandwidth that varies over time.

Models without epochs assume constant bandwidth, and reductions are planned backwards in time from
an end that is not known yet. So the first plan assumes the bandwidth of the machine. The next plans
assume the average bandwidth of each link up to the end of the best schedule so far, as long as that
helps. Each send of a plan is placed in its order, as soon as its chunk has arrived and its route is
free. Without reductions, the models with epochs follow, which support bandwidth that varies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from msgspec import structs

from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US, Clock
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.schedule import Schedule
from sccl.core.stop import INTERRUPTED, NOT_STOPPED
from sccl.core.topology import Topology
from sccl.errors import TooLargeError, UnreachableError
from sccl.solvers.effort import Effort, EffortMeter, budget_reason
from sccl.synth.common.contract import Notify, Request, SearchProgress
from sccl.synth.limits import EFFORT_PARTS, INFINITE, MAX_MODEL, MIN_SHARE, STEP_EFFORT
from sccl.synth.network.bandwidth_files import bandwidth_from_wire
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.problem import SchedulingProblem, build_problem
from sccl.synth.scheduling.serial import serial_schedule
from sccl.synth.scheduling.warm_start import schedule_to_sends
from sccl.synth.teccl.combining import CombiningChoice
from sccl.synth.teccl.epochs import epoch_length
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phase_search import ScheduleOrigin
from sccl.synth.teccl.time_varying_problem import (
    schedule_rows,
    varying_lower_bound,
    with_varying_bandwidth,
)

_MAX_BOUND_MULTIPLE = 100
"""Multiple of the bound until which bandwidth is averaged, if the plan at full bandwidth never
ends."""


PlanFunction = Callable[[Request, Options, Effort, Notify], Outcome]


@dataclass
class VaryingBandwidthSearch:
    """A search for schedules with varying bandwidth.

    Attributes:
        request: Machine, collective, and size.
        options: Options of TE-CCL.
        effort: The budget.
        notify: Receiver of events about the best schedule.
        plan_function: Planner at constant bandwidth, or in epochs.
    """

    request: Request
    options: Options
    effort: Effort
    notify: Notify
    plan_function: PlanFunction

    def __post_init__(self) -> None:
        assert self.options.bandwidth is not None
        self._bandwidth = bandwidth_from_wire(self.options.bandwidth)
        self._result: Solution | None = None
        self._problem: SchedulingProblem | None = None
        self._lower_bound, self._scope = Fraction(0), ""

    def find_best(self) -> Outcome:
        """Return the best schedule of all plans.

        Raises:
            InputError: The options do not fit the request, or a chunk cannot reach a destination.
            KeyboardInterrupt: The user interrupted before there was a schedule.
        """
        self._bandwidth.check_fits(self.request.topology)
        spending, ended = EffortMeter(self.effort), NOT_STOPPED
        units = STEP_EFFORT if self.effort.units is None else self.effort.units
        try:
            for outcome in self._candidate_plans(spending, units):
                if isinstance(outcome, Inconclusive) and (
                    outcome.best or spending.deadline_passed()
                ):
                    ended = outcome.reason
                if ended or self._is_near_optimal():
                    break
        except KeyboardInterrupt:
            if self._result is None:
                raise
            ended = INTERRUPTED
        if not ended and spending.deadline_passed() and not self._is_near_optimal():
            ended = self.effort.timeout_reason
        if self._result is None and not ended and self._lower_bound:
            raise UnreachableError(
                f"{self._bandwidth.name}: every known plan needs a link that has no bandwidth "
                "from then on: set the end of that ('to_us'), or remove the link ('sccl topo "
                "edit')"
            )
        if self._result is None:
            return Inconclusive(ended or budget_reason(units))
        bound = replace(self._result.bound, value=self._lower_bound, scope=self._scope)
        result = replace(self._result, bound=bound)
        return Inconclusive(ended, result) if ended else result

    def _is_near_optimal(self) -> bool:
        gap = 1 + Fraction(self.options.gap)
        return self._result is not None and self._result.objective <= self._lower_bound * gap

    def _candidate_plans(self, spending: EffortMeter, units: float) -> Iterator[Outcome]:
        """Yield the outcome of each plan, one after the other."""
        combines, topology = self.request.spec.combining, self.request.topology
        rounds = EFFORT_PARTS if combines else EFFORT_PARTS // 2
        # An exchanged chunk may arrive later than planned, and be sent back: use only trees.
        combine: Literal["auto", "reversal"] = "reversal" if combines else "auto"
        options = structs.replace(self.options, bandwidth=None, combine=combine)
        if options.model == "auto":  # the epoch length is for the models with epochs, below
            options = structs.replace(options, epoch="auto", multiplier=1)
        for _ in range(rounds):
            left, before = spending.remaining(units / EFFORT_PARTS), self._result
            if left is None:
                return
            events: list[object] = []  # their times are those of the plan: most are dropped
            outcome = self.plan_function(
                replace(self.request, topology=topology),
                options,
                left,
                events.append,
            )
            if self._accept_rescheduled(outcome, at_full=topology is self.request.topology):
                for event in events:
                    if isinstance(event, CombiningChoice | ScheduleOrigin):
                        self.notify(event)
            yield outcome
            if self._result is before and topology is not self.request.topology:
                break
            until = (
                self._result.objective if self._result else _MAX_BOUND_MULTIPLE * self._lower_bound
            )
            if not until:
                break
            topology = self._mean_machine(until)
        if not combines and len(set(self.request.spec.counts)) <= 1:
            yield from self._plan_in_epochs(spending, units / EFFORT_PARTS)

    def _plan_in_epochs(self, spending: EffortMeter, units: float) -> Iterator[Outcome]:
        for model in ("milp", "astar") if self._is_epoch_model_small() else ("astar",):
            left = spending.remaining(2 * units)
            if left is None:
                return
            events: list[object] = []
            options = structs.replace(self.options, model=model)
            try:
                outcome = self.plan_function(self.request, options, left, events.append)
            except TooLargeError:
                continue
            result = outcome.best if isinstance(outcome, Inconclusive) else outcome
            if isinstance(result, Solution):
                self._update_bound(result)
                if self._accept_if_better(result):
                    for event in events:
                        self.notify(event)
            yield outcome
            return

    def _is_epoch_model_small(self) -> bool:
        """Return whether the model of all epochs is small enough to build quickly."""
        if self._problem is None or self._result is None:
            return True
        length = epoch_length(self._problem, self.options.epoch, self.options.multiplier)
        assert isinstance(self._result.plan, Schedule)
        epochs = -(-self._result.plan.finish // length)
        return self._problem.chunks * len(self._problem.src) * epochs <= MAX_MODEL

    def _update_bound(self, result: Solution) -> None:
        """Take the bound of a result if it is better than the present one."""
        if result.bound.value > self._lower_bound or not self._scope:
            self._lower_bound, self._scope = result.bound.value, result.bound.scope

    def _accept_if_better(self, result: Solution) -> bool:
        if self._result is None or result.objective < self._result.objective:
            self._result = result
            self.notify(SearchProgress(float(result.objective), float(self._lower_bound)))
            return True
        return False

    def _accept_rescheduled(self, outcome: Outcome, *, at_full: bool) -> bool:
        """Place a plan at the varying bandwidth. Return whether the result is the best so far.

        The lower bound of a plan at full bandwidth holds for varying bandwidth, too.
        """
        result = outcome.best if isinstance(outcome, Inconclusive) else outcome
        if not isinstance(result, Solution):
            return False
        assert isinstance(result.plan, Schedule)
        clock = result.plan.clock
        clock = Clock.from_topology(
            self.request.topology, clock.chunk_bytes, clock.model, clock.tick_ps
        )
        problem = build_problem(self.request.topology, result.plan.collective, clock)
        problem = with_varying_bandwidth(problem, self._bandwidth)
        us = Fraction(clock.tick_ps, PS_PER_US)
        if at_full:
            self._problem = problem
            self._update_bound(result)
            if not self.request.spec.combining:
                self._lower_bound = max(self._lower_bound, varying_lower_bound(problem) * us)
        anew = _reschedule(problem, result.plan)
        if anew is None:
            return False
        return self._accept_if_better(
            Solution(anew, anew.finish * us, Bound(Measure.TIME_US, self._lower_bound, ()))
        )

    def _mean_machine(self, until_us: Fraction) -> Topology:
        """Return the machine with the average bandwidth of each link until a time."""
        topology = self.request.topology
        links = []
        for link in topology.links:
            mean = max(MIN_SHARE, float(self._bandwidth.mean_fraction(link.edge, until_us)))
            links.append(replace(link, gb_per_s=float(f"{link.gb_per_s * mean:.6g}")))
        pairs = zip(topology.budgets, topology.budget_speeds(), strict=True)
        budgets = tuple(replace(budget, gb_per_s=speed) for budget, speed in pairs)
        return replace(topology, links=tuple(links), budgets=budgets)


def _reschedule(problem: SchedulingProblem, plan: Schedule) -> Schedule | None:
    """Place the sends of a plan in their order at varying bandwidth. None: it never ends."""
    exact = serial_schedule(problem, schedule_to_sends(problem, plan), 0)
    if problem.finish(exact) >= INFINITE:
        return None
    messages = range(len(exact)) if plan.message is None else plan.message.tolist()
    last_reduces = dict(zip(messages, plan.reduce.tolist(), strict=True))  # of the last hop
    table = np.array([(s.start, s.chunk, s.route) for s in exact], dtype=np.int64).reshape(-1, 3)
    hops = schedule_rows(
        problem,
        Sends(
            start=table[:, 0].copy(),
            chunk=table[:, 1].astype(np.int32),
            link=table[:, 2].astype(np.int32),
            reduce=np.array(list(last_reduces.values()), dtype=np.bool_),
        ),
    )
    assert hops is not None
    return replace(plan, topology=problem.topology, **hops._asdict())
