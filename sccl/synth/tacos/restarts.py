"""Run one attempt at a task: a matching of each phase with one seed, and trials to improve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.synth.network.transfers import TimedSends
from sccl.synth.tacos.local_improvement import SENDS_PER_UNIT, ScheduleImprover
from sccl.synth.tacos.matching_problem import MatchingPhase, MatchingProblem, first_matching
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
        phases: The phases of the task.
        schedules: By phase: the fastest matching. Empty: there is none.
        log: Completion time and log of a packed schedule, instead of ``schedules``. None: there is
            none.
        lower_bounds: By phase: lower bound on the completion time of matchings.
        stop_reason: Why the attempt ended before all trials.
        spent_units: Units of effort.
    """

    phases: tuple[MatchingPhase, ...]
    schedules: list[TimedSends] = field(default_factory=list)
    log: tuple[int, RoundLog] | None = None
    lower_bounds: list[int] = field(default_factory=list)
    stop_reason: StopReason = NOT_STOPPED
    spent_units: float = 0.0


def run_attempt(
    task: MatchingProblem, number: int, seed: int, units: float, meter: AttemptMeter
) -> AttemptResult:
    """Return the result of an attempt.

    Args:
        task: The task.
        number: Number of the attempt.
        seed: Seed of the matchings and trials.
        units: Effort for trials.
        meter: The budget.

    Raises:
        UnreachableError: A rank has no path from any source of a chunk that it wants.
        KeyboardInterrupt: The user interrupted before there was a matching.
    """
    attempt = AttemptResult(task.phases(reverse_unicast=task.is_matched_backwards(number)))
    try:
        meter.check()
        if task.passes:
            attempt.log = task.match_log(seed, meter)
            attempt.spent_units = meter.spent_units
            return attempt
        attempt.schedules = [first_matching(half, seed, meter) for half in attempt.phases]
        for index, phase in enumerate(attempt.phases):
            _improve_phase(task, attempt, index, ScheduleImprover(phase, seed), units, meter)
    except AttemptStopped as stopped:
        attempt.stop_reason = stopped.reason
    except KeyboardInterrupt:
        if not attempt.schedules:
            raise
        attempt.stop_reason = INTERRUPTED
    attempt.spent_units = meter.spent_units
    return attempt


def _improve_phase(  # noqa: PLR0913, PLR0917 - independent inputs
    task: MatchingProblem,
    attempt: AttemptResult,
    index: int,
    improver: ScheduleImprover,
    units: float,
    meter: AttemptMeter,
) -> None:
    """Replace the matching of a phase by the result of trials."""
    phase, part = attempt.phases[index], attempt.schedules[index]
    attempt.lower_bounds.append(task.phase_lower_bound(phase, part[0]))
    share = 0.0 if phase.unwound else units / len(attempt.phases)
    for better in improver.improve(part, attempt.lower_bounds[index], share, meter):
        attempt.schedules[index] = better
        meter.check()
