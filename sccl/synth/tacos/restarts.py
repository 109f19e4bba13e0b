"""One attempt at a task: a matching of each half by one seed, and trials to better it."""

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
        """Keep the reason."""
        super().__init__(str(reason))
        self.reason = reason


class AttemptMeter:
    """The effort spent by an attempt, and its limit. A :data:`~sccl.synth.network.transfers.Pause`.

    Attributes:
        spent_units: units of effort.
    """

    def __init__(self, why_end: Callable[[float], StopReason], tell: Callable[[int], None]) -> None:
        """Make one with no effort spent.

        Args:
            why_end: returns, for the effort spent, why the attempt has to end, if it has to.
            tell: called with the number of transfers found.
        """
        self._stop_reason, self._on_progress = why_end, tell
        self.spent_units = 0.0

    def __call__(self, sends: int, done: bool) -> None:
        """Count and report progress.

        Raises:
            Stopped: the attempt has to end, and is not complete.
        """
        self.spent_units += sends / SENDS_PER_UNIT
        self._on_progress(sends)
        if not done:
            self.check()

    def check(self) -> None:
        """Check that the attempt may go on.

        Raises:
            Stopped: it may not.
        """
        if why := self._stop_reason(self.spent_units):
            raise AttemptStopped(why)


@dataclass(slots=True)
class AttemptResult:
    """The result of one seed.

    Attributes:
        schedules: for each half the earliest result. Empty: there is none.
        log: the finish and the log of rounds, instead of parts. None: there is none.
        lower_bounds: for each half a lower bound on the finish of matchings.
        stop_reason: why it ended before all was tried.
        spent_units: units of effort.
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
        units: effort for improvements.

    Raises:
        UnreachableError: a rank has no path from any source of a chunk it wants.
        KeyboardInterrupt: the user interrupted before anything was found.
    """
    attempt = AttemptResult(task.phases(reverse_unicast=task.is_matched_backwards(number)))
    try:
        meter.check()
        if task.passes:
            attempt.log = task.match_log(seed, meter)
            attempt.spent_units = meter.spent_units
            return attempt
        attempt.schedules = [first_matching(half, seed, meter) for half in attempt.phases]
        for place, half in enumerate(attempt.phases):
            _improve_phase(task, attempt, place, ScheduleImprover(half, seed), units, meter)
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
    place: int,
    improver: ScheduleImprover,
    units: float,
    meter: AttemptMeter,
) -> None:
    """Replace a part of an attempt by the result of trials."""
    half, part = attempt.phases[place], attempt.schedules[place]
    attempt.lower_bounds.append(task.phase_lower_bound(half, part[0]))
    share = 0.0 if half.unwound else units / len(attempt.phases)
    for better in improver.improve(part, attempt.lower_bounds[place], share, meter):
        attempt.schedules[place] = better
        meter.check()
