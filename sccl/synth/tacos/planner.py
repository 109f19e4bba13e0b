"""Plan a request: attempts with several seeds, the fastest schedule, and a lower bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from contextlib import closing
from fractions import Fraction

from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US, AlphaModel, Clock
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.packed_schedule import AnySchedule
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common.contract import MatchingProgress, Notify, Request
from sccl.synth.network.tick_bounds import allreduce_bound_ticks
from sccl.synth.tacos.matching_problem import MatchingTask, build_tasks
from sccl.synth.tacos.options import Options
from sccl.synth.tacos.restarts import AttemptMeter, AttemptResult, is_close, run_attempt

_NOT_NEEDED = StopReason(StopKind.OTHER, "not needed any more")


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the fastest schedule of several seeds, with a lower bound.

    Raises:
        InputError: The options do not fit the request, or the result would be too large.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    attempts = _AttemptQueue(build_tasks(request, options), options, effort, notify)
    best = _BestAttempt()
    with closing(attempts):
        try:
            for attempt in attempts.results():
                best.record(attempt)
                if attempt.stop_reason:
                    return Inconclusive(attempt.stop_reason, best.result)
                if best.is_near_optimal:
                    break
        except KeyboardInterrupt:
            for attempt in attempts.interrupt():
                best.record(attempt)
            if best.result is None:
                raise
            return Inconclusive(INTERRUPTED, best.result)
    assert best.result is not None
    return best.result


class _BestAttempt:
    def __init__(self) -> None:
        self.lower_bound, self.finish = 0, 0
        self.result: Solution | None = None

    def record(self, attempt: AttemptResult) -> None:
        if not attempt.schedules:
            return
        reduction, problems = attempt.task
        pairs = list(zip(problems, attempt.schedules, strict=True))
        finish = sum(problem.uses * ticks for problem, (ticks, _) in pairs)
        if not self.lower_bound:
            self.lower_bound = self._lower_bound(attempt, finish)
        if self.result is None or finish < self.finish:
            schedules = [problem.build_schedule(sends) for problem, (_, sends) in pairs]
            plan = reduction.invert(schedules)
            self.finish, self.result = finish, self._build_result(plan, finish)

    def _lower_bound(self, attempt: AttemptResult, finish: int) -> int:
        """Return a lower bound on the completion time of the request, in ticks."""
        reduction, problem = attempt.task.reduction, attempt.task.problems[-1]
        if reduction.dual.phases == 1:
            return (attempt.lower_bounds or [problem.lower_bound(finish)])[0]
        topology, its = reduction.request.topology, problem.clock
        clock = Clock.from_topology(topology, its.chunk_bytes, its.model, its.tick_ps)
        collective = reduction.collective(problem.collective)
        return allreduce_bound_ticks(topology, clock, problem.net, collective)

    def _build_result(self, plan: AnySchedule, finish: int) -> Solution:
        """Return a solution: the plan with its bound."""
        us, (size,) = Fraction(plan.tick_ps, PS_PER_US), plan.clock.sizes
        scope = f"{plan.collective.num_chunks} chunks of {size} bytes"
        if plan.model is AlphaModel.OCCUPIES:  # chunks sent together would share one alpha
            scope += ", each sent separately"
        return Solution(plan, finish * us, Bound(Measure.TIME_US, self.lower_bound * us, (), scope))

    @property
    def is_near_optimal(self) -> bool:
        return self.result is not None and is_close(self.finish, self.lower_bound)


class _AttemptQueue:
    """Attempts at a task, one per seed. Several jobs run some at a time, with the same results.

    Jobs are threads: most of the time is spent in compiled loops, which release the GIL.
    """

    def __init__(
        self,
        tasks: tuple[MatchingTask, ...],
        options: Options,
        effort: Effort,
        notify: Notify,
    ) -> None:
        self.tasks, self.options, self.effort, self.notify = tasks, options, effort, notify
        self._spending, self._spent_units = EffortMeter(effort), 0.0
        self._stop_request = NOT_STOPPED
        self._reported_sends = 0
        self._jobs = min(options.jobs, options.restarts)
        self._pool = ThreadPoolExecutor(self._jobs) if self._jobs > 1 else None
        self._futures: deque[Future[AttemptResult]] = deque()

    def close(self) -> None:
        self._stop_request = self._stop_request or _NOT_NEEDED
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def interrupt(self) -> list[AttemptResult]:
        """End all attempts in progress after an interrupt. Return their results."""
        self._stop_request = INTERRUPTED
        self.close()
        return [f.result() for f in self._futures if not f.cancelled() and not f.exception()]

    def results(self) -> Iterator[AttemptResult]:
        for number in range(self.options.restarts):
            attempt = self._wait_for(number) if self._pool else None
            if attempt is None or self._exceeds_budget(attempt):
                attempt = self._run(number, self._spent_units)
            self._spent_units += attempt.spent_units
            yield attempt

    def _exceeds_budget(self, attempt: AttemptResult) -> bool:
        """Return whether an attempt exceeded the effort that earlier ones left."""
        units = self.effort.units
        return units is not None and self._spent_units + attempt.spent_units >= units

    def _wait_for(self, number: int) -> AttemptResult:
        """Return the result of an attempt. Submit the next ones, twice as many as jobs."""
        assert self._pool is not None
        ahead = min(number + 2 * self._jobs, self.options.restarts)
        for later in range(number + len(self._futures), ahead):
            self._futures.append(self._pool.submit(self._run, later, 0.0))
        future = self._futures[0]
        while True:  # a wait without timeout cannot be interrupted on every platform
            try:
                attempt = future.result(timeout=0.1)  # then Ctrl-C is noticed
                break
            except NotYetError:
                if future.done():
                    raise
        self._futures.popleft()
        return attempt

    def _run(self, number: int, spent: float) -> AttemptResult:
        """Run an attempt. ``spent`` is the effort of earlier attempts, in units."""
        seed = (self.effort.seed * 1_000_003 + number) % 2**63
        meter = AttemptMeter(lambda units: self._stop_reason(spent + units), self._report_sends)
        task = self.tasks[number % len(self.tasks)]
        return run_attempt(task, seed, self.options.improve, meter)

    def _stop_reason(self, units: float) -> StopReason:
        """Return why an attempt must end after spending ``units``. Empty: it need not."""
        if self._stop_request:
            return self._stop_request
        if self._spending.deadline_passed():
            return self.effort.timeout_reason
        if self.effort.units is not None and units >= self.effort.units:
            return self.effort.exhausted_reason
        return NOT_STOPPED

    def _report_sends(self, sends: int) -> None:
        total_sends = (
            sum(problem.min_sends for problem in self.tasks[0].problems) * self.options.restarts
        )
        self._reported_sends = min(self._reported_sends + sends, total_sends)
        self.notify(MatchingProgress(self._reported_sends, total_sends))
