"""Improve a matching: repeat it from a random tick, until it attains the lower bound.

Not in TACOS (MICRO 2024). A slow link brings few chunks, and the last one may arrive long after all
others. The best time to leave the link idle depends on the machine, and so do the best parameters
of a link's choice. So each trial draws a tick after which no chunk may arrive over a slow link, and
the parameters. Among machines with different links, each set of parameters is the best for some.
Half of the trials keep all transfers that start before a random tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sccl.synth.limits import INFINITE, MAX_PAIRED_RANKS, TOLERANCE
from sccl.synth.network.transfers import Pause, TimedSends
from sccl.synth.tacos.expanded_network import PartialSchedule, empty_schedule, schedule_before
from sccl.synth.tacos.matching_heterogeneous import (
    DEFAULT_STYLE,
    ChoiceStyle,
    HeterogeneousMatching,
)
from sccl.synth.tacos.matching_problem import MatchingProblem
from sccl.synth.tacos.matching_unicast import UnicastMatching

SENDS_PER_UNIT = 10_000_000
"""Transfers of a unit of budget: a transfer takes about 0.2 us."""

SETUP_SENDS = 4000
"""Budget for the setup of a trial, in transfers."""


def is_close(finish: Fraction | int, lower_bound: Fraction | int) -> bool:
    """Return whether a completion time attains a lower bound, up to rounding."""
    return finish - lower_bound <= TOLERANCE * lower_bound


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
