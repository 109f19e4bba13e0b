"""Run one attempt at a task: a matching of each phase with one seed, and trials to improve it.

A trial repeats a matching from a random tick, until it attains the lower bound. Trials are not in
TACOS (MICRO 2024). A slow link brings few chunks, and the last one may arrive long after all
others. The best time to leave the link idle depends on the machine, and so do the best parameters
of a link's choice. So each trial draws a tick after which no chunk may arrive over a slow link, and
the parameters. Among machines with different links, each set of parameters is the best for some.
Half of the trials keep all transfers that start before a random tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopReason
from sccl.synth.limits import INFINITE, MAX_PAIRED_RANKS, TOLERANCE
from sccl.synth.network.transfers import Pause, TimedSends
from sccl.synth.tacos.expanded_network import PartialSchedule, empty_schedule, schedule_before
from sccl.synth.tacos.matching_heterogeneous import (
    DEFAULT_STYLE,
    ChoiceStyle,
    HeterogeneousMatching,
)
from sccl.synth.tacos.matching_problem import MatchingProblem, MatchingTask, first_matching
from sccl.synth.tacos.matching_unicast import UnicastMatching
from sccl.synth.tacos.matching_uniform import RoundLog

SENDS_PER_UNIT = 10_000_000
"""Transfers of a unit of budget: a transfer takes about 0.2 us."""

SETUP_SENDS = 4000
"""Budget for the setup of a trial, in transfers."""


def is_close(finish: Fraction | int, lower_bound: Fraction | int) -> bool:
    """Return whether a completion time attains a lower bound, up to rounding."""
    return finish - lower_bound <= TOLERANCE * lower_bound


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


class ScheduleImprover:
    """Trials to improve the matching of one phase."""

    def __init__(self, half: MatchingProblem, seed: int) -> None:
        self.phase, self._seed = half, seed
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.is_unicast = half.demand.is_unicast() and half.net.nodes <= MAX_PAIRED_RANKS
        self._heterogeneous: HeterogeneousMatching | None = None
        self._unicast: UnicastMatching | None = None

    def improve(
        self, part: TimedSends, lower_bound: int, units: float, pause: Pause
    ) -> Iterator[TimedSends]:
        """Yield the best matching after each trial, until it attains the lower bound.

        Args:
            part: The matching to improve.
            lower_bound: Lower bound on the completion time, ticks.
            units: Limit on the total effort of the trials.
            pause: Called after each piece of work.
        """
        remaining_sends = units * SENDS_PER_UNIT
        while not is_close(part[0], lower_bound):
            prior = self._partial_schedule(part, lower_bound, remaining_sends)
            remaining_sends -= len(part[1].start) - len(prior.sends.start) + SETUP_SENDS
            if remaining_sends < 0:
                break
            trial = self._run_trial(prior, pause)
            part = trial if trial[0] <= part[0] else part
            yield part

    def _partial_schedule(
        self, part: TimedSends, lower_bound: int, max_sends: float
    ) -> PartialSchedule:
        """Return the starting point of the next trial: empty, or the transfers before some tick."""
        finish, sends = part
        limit = INFINITE
        if self.rng.random() < 0.5:
            limit = lower_bound + int((finish - lower_bound) * self.rng.random())
        count = len(sends.start)
        if self.is_unicast or (count <= max_sends and self.rng.random() < 0.5):
            return empty_schedule(limit)
        repeated = int(min(count, max_sends) * self.rng.random())
        return schedule_before(sends, int(sends.start[count - 1 - repeated]), limit)

    def _run_trial(self, prior: PartialSchedule, pause: Pause) -> TimedSends:
        seed = int(self.rng.integers(2**62))
        if self.is_unicast:
            if self._unicast is None:
                self._unicast = UnicastMatching(self.phase.net, self.phase.demand)
            return self._unicast.match(seed, pause)
        if self._heterogeneous is None:
            self._heterogeneous = HeterogeneousMatching(
                self.phase.net, self.phase.demand, self._seed
            )
        return self._heterogeneous.match(seed, pause, prior, self._random_style())

    def _random_style(self) -> ChoiceStyle:
        """Return the default parameters, or random ones."""
        if self.rng.random() < 0.25:
            return DEFAULT_STYLE
        samples, last_factors, middle_factors = ((4, 16, 64), (0, 1, 2, 4), (0, 0, 1, 2))
        draw = self.rng.integers
        return ChoiceStyle(samples[draw(3)], last_factors[draw(4)], middle_factors[draw(4)])
