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

from sccl.synth.network.sends import Pause, Timed
from sccl.synth.tacos.by_event import USUAL, ByEvent, Style
from sccl.synth.tacos.by_route import MAX_NODES, ByRoute
from sccl.synth.tacos.resumed import Given, before, from_the_start
from sccl.synth.tacos.task import Matching
from sccl.synth.tacos.traffic import NEVER

SENDS_OF_A_UNIT = 10_000_000
"""Transfers that take about as long as a unit of effort."""

OF_A_TRIAL = 4000
"""Transfers that take about as long as it takes to set up a trial."""

CLOSE = 10**6
"""One part of so many above the bound is as good as none: rounding of ticks."""


def is_close(finish: Fraction | int, least: Fraction | int) -> bool:
    """Return whether a finish is as near the bound as makes no difference."""
    return (finish - least) * CLOSE <= least


class Improver:
    """Trials of one half, each of which may be better than the best before."""

    def __init__(self, half: Matching, seed: int) -> None:
        self.half, self._seed = half, seed
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.routed = half.demand.is_routed() and half.net.nodes <= MAX_NODES
        self._by_event: ByEvent | None = None
        self._by_route: ByRoute | None = None

    def improved(self, part: Timed, least: int, units: float, pause: Pause) -> Iterator[Timed]:
        """Yield after each trial the best so far, as long as it is above the bound.

        Args:
            part: the earlier result.
            units: limit on the total effort of the trials.
        """
        left = units * SENDS_OF_A_UNIT
        while not is_close(part[0], least):
            given = self._given(part, least, left)
            left -= len(part[1].start) - len(given.kept.start) + OF_A_TRIAL
            if left < 0:
                break
            trial = self._trial(given, pause)
            part = trial if trial[0] <= part[0] else part
            yield part

    def _given(self, part: Timed, least: int, most: float) -> Given:
        """Return the starting point of the next trial: the begin, or transfers before some tick."""
        finish, sends = part
        limit = NEVER
        if self.random.random() < 0.5:
            limit = least + int((finish - least) * self.random.random())
        count = len(sends.start)
        if self.routed or (count <= most and self.random.random() < 0.5):
            return from_the_start(limit)
        rows = int(min(count, most) * self.random.random())
        return before(sends, int(sends.start[count - 1 - rows]), limit)

    def _trial(self, given: Given, pause: Pause) -> Timed:
        seed = int(self.random.integers(2**62))
        if self.routed:
            if self._by_route is None:
                self._by_route = ByRoute(self.half.net, self.half.demand)
            return self._by_route.matched(seed, pause)
        if self._by_event is None:
            self._by_event = ByEvent(self.half.net, self.half.demand, self._seed)
        return self._by_event.matched(seed, pause, given, self._style())

    def _style(self) -> Style:
        """Return a style: the usual one, or any."""
        if self.random.random() < 0.25:
            return USUAL
        sample, last, between = ((4, 16, 64), (0, 1, 2, 4), (0, 0, 1, 2))
        pick = self.random.integers
        return Style(sample[pick(3)], last[pick(4)], between[pick(4)])
