"""Run one attempt at a task: a matching of each phase with one seed, and trials to improve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.synth.network.transfers import TimedSends
from sccl.synth.tacos.local_improvement import SENDS_PER_UNIT, ScheduleImprover
from sccl.synth.tacos.matching_problem import MatchingTask, first_matching
from sccl.synth.tacos.matching_uniform import RoundLog


class AttemptStopped(Exception):  # noqa: N818 - not an error
    """Time or effort has run out."""

    def __init__(self, reason: StopReason) -> None:
        """Store the reason."""
        super().__init__(str(reason))
        self.reason = reason


class AttemptMeter:
    """The effort spent by an attempt, and its limit. A :data:`~sccl.synth.network.transfers.Pause`.

    Attributes:
        spent_units: Units of effort.
    """

    def __init__(
        self, stop_reason: Callable[[float], StopReason], on_progress: Callable[[int], None]
    ) -> None:
        """Start a meter at zero.

        Args:
            stop_reason: Function that returns, for the effort spent, why the attempt must end.
            on_progress: Called with the number of new transfers.
        """
        self._stop_reason, self._on_progress = stop_reason, on_progress
        self.spent_units = 0.0

    def __call__(self, sends: int, done: bool) -> None:
        """Count and report progress.

        Raises:
            AttemptStopped: The attempt must end, and is not complete.
        """
        self.spent_units += sends / SENDS_PER_UNIT
        self._on_progress(sends)
        if not done:
            self.check()

    def check(self) -> None:
        """Check that the attempt may continue.

        Raises:
            AttemptStopped: It may not.
        """
        if why := self._stop_reason(self.spent_units):
            raise AttemptStopped(why)


@dataclass(slots=True)
class AttemptResult:
    """The result of one seed.

    Attributes:
        task: The task of the attempt.
        schedules: Fastest matching, or log of a packed schedule, of each problem. Empty: there is
            none.
        lower_bounds: Lower bound on the completion time of each problem's matchings.
        stop_reason: Why the attempt ended before all trials.
        spent_units: Units of effort.
    """

    task: MatchingTask
    schedules: list[TimedSends | tuple[int, RoundLog]] = field(default_factory=list)
    lower_bounds: list[int] = field(default_factory=list)
    stop_reason: StopReason = NOT_STOPPED
    spent_units: float = 0.0


def run_attempt(task: MatchingTask, seed: int, units: float, meter: AttemptMeter) -> AttemptResult:
    """Return the result of an attempt.

    Args:
        task: The task.
        seed: Seed of the matchings and trials.
        units: Effort for trials.
        meter: The budget.

    Raises:
        UnreachableError: A rank has no path from any source of a chunk that it wants.
        KeyboardInterrupt: The user interrupted before there was a matching.
    """
    attempt, problems = AttemptResult(task), task.problems
    try:
        meter.check()
        if problems[0].is_packed:
            attempt.schedules = [problem.match_log(seed, meter) for problem in problems]
            attempt.spent_units = meter.spent_units
            return attempt
        matchings = [first_matching(problem, seed, meter) for problem in problems]
        attempt.schedules = list(matchings)
        share = units / sum(problem.uses for problem in problems)
        for index, (problem, matching) in enumerate(zip(problems, matchings, strict=True)):
            lower_bound = problem.lower_bound(matching[0])
            attempt.lower_bounds.append(lower_bound)
            improver = ScheduleImprover(problem, seed)
            max_units = 0.0 if problem.unwound else share
            for better in improver.improve(matching, lower_bound, max_units, meter):
                attempt.schedules[index] = better
                meter.check()
    except AttemptStopped as stopped:
        attempt.stop_reason = stopped.reason
    except KeyboardInterrupt:
        if not attempt.schedules:
            raise
        attempt.stop_reason = INTERRUPTED
    attempt.spent_units = meter.spent_units
    return attempt
