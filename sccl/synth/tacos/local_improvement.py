"""Improve a matching: it is repeated from some tick on, as long as it is above the bound.

An expensive link brings little, and may end late with a chunk that has long been everywhere else.
The best time to leave it idle depends on the machine, and so does the order of preference of links.
So the times at which the last chunk may arrive over an expensive link, and the styles of choosing,
are tried: among machines of unequal links each style is the best for some. Half of the trials keep
all transfers that begin before a random tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sccl.synth.network.transfers import Pause, TimedSends
from sccl.synth.tacos.expanded_network import NO_LIMIT
from sccl.synth.tacos.matching_heterogeneous import (
    DEFAULT_STYLE,
    ChoiceStyle,
    HeterogeneousMatching,
)
from sccl.synth.tacos.matching_problem import MatchingPhase
from sccl.synth.tacos.matching_unicast import MAX_NODES, UnicastMatching
from sccl.synth.tacos.partial_schedule import PartialSchedule, empty_schedule, schedule_before

SENDS_PER_UNIT = 10_000_000
"""Transfers that take about as long as a unit of effort."""

SETUP_SENDS = 4000
"""Transfers that take about as long as it takes to set up a trial."""

CLOSE_DIVISOR = 10**6
"""One part of so many above the bound is as good as none: rounding of ticks."""


def is_close(finish: Fraction | int, lower_bound: Fraction | int) -> bool:
    """Return whether a finish is as near the bound as makes no difference."""
    return (finish - lower_bound) * CLOSE_DIVISOR <= lower_bound


class ScheduleImprover:
    """Trials of one half, each of which may be better than the best before."""

    def __init__(self, half: MatchingPhase, seed: int) -> None:
        self.phase, self._seed = half, seed
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.is_unicast = half.demand.is_unicast() and half.net.nodes <= MAX_NODES
        self._heterogeneous: HeterogeneousMatching | None = None
        self._unicast: UnicastMatching | None = None

    def improve(
        self, part: TimedSends, lower_bound: int, units: float, pause: Pause
    ) -> Iterator[TimedSends]:
        """Yield after each trial the best so far, as long as it is above the bound.

        Args:
            part: the earlier result.
            units: limit on the total effort of the trials.
        """
        left = units * SENDS_PER_UNIT
        while not is_close(part[0], lower_bound):
            prior = self._partial_schedule(part, lower_bound, left)
            left -= len(part[1].start) - len(prior.sends.start) + SETUP_SENDS
            if left < 0:
                break
            trial = self._run_trial(prior, pause)
            part = trial if trial[0] <= part[0] else part
            yield part

    def _partial_schedule(
        self, part: TimedSends, lower_bound: int, max_sends: float
    ) -> PartialSchedule:
        """Return the starting point of the next trial: the begin, or transfers before some tick."""
        finish, sends = part
        limit = NO_LIMIT
        if self.rng.random() < 0.5:
            limit = lower_bound + int((finish - lower_bound) * self.rng.random())
        count = len(sends.start)
        if self.is_unicast or (count <= max_sends and self.rng.random() < 0.5):
            return empty_schedule(limit)
        rows = int(min(count, max_sends) * self.rng.random())
        return schedule_before(sends, int(sends.start[count - 1 - rows]), limit)

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
        """Return a style: the usual one, or any."""
        if self.rng.random() < 0.25:
            return DEFAULT_STYLE
        sample, last, between = ((4, 16, 64), (0, 1, 2, 4), (0, 0, 1, 2))
        pick = self.rng.integers
        return ChoiceStyle(sample[pick(3)], last[pick(4)], between[pick(4)])
