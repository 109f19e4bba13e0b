"""Ways whose bandwidth varies over time: how long a chunk takes depends on when it sets out.

The links of a way up to where a chunk can stay, a segment, carry it at one pace: at each moment
that of the slowest, each link by its own time, as it begins so much later than the way. So a chunk
has passed a segment when the integral of that pace is 1, rounded up to whole ticks. All in
fractions. What sets out later never arrives earlier.

All that a chunk holds beside links, of budgets and places of switches, it holds as many ticks
longer as its way takes longer, and as much of it as at its full pace: more than it needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

from sccl.core.bandwidth import Steps, VariableBandwidth
from sccl.core.clock import MAX_TICKS, AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.synth.network.crossings import Crossings
from sccl.synth.network.paths import FAR

_PS_PER_US = 10**6


class Curve:
    """How much has passed by when, at a pace that changes in steps; exact."""

    def __init__(self, steps: Steps) -> None:
        """Make it of (from which tick, pace), the first from tick 0."""
        self._times = [at for at, _ in steps]
        self._paces = [pace for _, pace in steps]
        self._passed = [Fraction(0)]
        for (at, pace), (then, _) in pairwise(steps):
            self._passed.append(self._passed[-1] + pace * (then - at))

    def passed(self, tick: int) -> Fraction:
        """Return what has passed by a tick."""
        k = bisect_right(self._times, tick) - 1
        return self._passed[k] + self._paces[k] * (tick - self._times[k])

    def after(self, tick: int, amount: Fraction) -> int | None:
        """Return in how many ticks from one on so much passes, rounded up. None: it never does."""
        goal = self.passed(tick) + amount
        k = bisect_right(self._passed, goal) - 1
        while k > 0 and self._passed[k] == goal:  # what stands still before has passed by then
            k -= 1
        if not self._paces[k]:
            return None
        return ceil(self._times[k] + (goal - self._passed[k]) / self._paces[k]) - tick

    def idle(self, tick: int) -> int:
        """Return for how many whole ticks from one on nothing passes; 0, too: never again."""
        k = bisect_right(self._times, tick) - 1
        ends = (self._times[i] for i in range(k, len(self._times)) if self._paces[i])
        return 0 if self._paces[k] else floor(next(ends, tick)) - tick


@dataclass(frozen=True, slots=True)
class _Segment:
    """Links that carry a chunk at one pace.

    Attributes:
        links: of the way's, how many.
        offset: ticks from the start of the way to when its first link begins, at full bandwidth.
        ticks: that a chunk takes then.
        curve: chunks that have passed, by when the segment begins. None: it never varies.
    """

    links: int
    offset: int
    ticks: int
    curve: Curve | None


class VariedWays:
    """How much longer ways take than at full bandwidth, by when a chunk sets out, in ticks."""

    def __init__(
        self, topology: Topology, clock: Clock, crossings: Crossings, bandwidth: VariableBandwidth
    ) -> None:
        """Read what links have over time.

        Raises:
            TopologyError: the machine lacks a link.
        """
        bandwidth.check_fits(topology)
        self.name = bandwidth.name
        us = Fraction(_PS_PER_US, clock.tick_ps)
        parts = [
            tuple((at * us, part) for at, part in bandwidth.of_link(link.edge))
            for link in topology.links
        ]
        self.parts: tuple[Steps, ...] = tuple(parts)
        self._rooms = {
            i: Curve(own) for i, own in enumerate(parts) if len(own) > 1 or own[0][1] < 1
        }
        ticks_of_one = Fraction(clock.sizes[0] * 1000, clock.tick_ps)
        self._ticks = [ticks_of_one / (k.lanes * Fraction(str(k.gb_per_s))) for k in topology.links]
        self._late = clock.alpha if clock.model is AlphaModel.OCCUPIES else (0,) * len(parts)
        self._least = clock.beta[0]
        first = crossings.first.tolist()
        stores = [True] * topology.ranks + [not one.cut_through for one in topology.switches]
        self._stores = [stores[link.dst] for link in topology.links]
        columns = (crossings.link.tolist(), crossings.offset.tolist(), crossings.pace.tolist())
        rows = list(zip(*columns, strict=True))
        self._ways = [self._segments(rows[a:b]) for a, b in pairwise(first)]

    def _segments(self, rows: list[tuple[int, int, int]]) -> tuple[_Segment, ...]:
        """Return the segments of a way, of the (link, offset, pace) of its links."""
        found: list[_Segment] = []
        begin = 0
        for i, (link, _, _) in enumerate(rows):
            if self._stores[link]:
                own = rows[begin : i + 1]
                found.append(_Segment(len(own), own[0][1], own[0][2], self._curve(own)))
                begin = i + 1
        return tuple(found)

    def _curve(self, rows: list[tuple[int, int, int]]) -> Curve | None:
        """Return what passes links together. None: they have their full bandwidth at all times."""
        if not any(link in self._rooms for link, _, _ in rows):
            return None
        ticks = rows[0][2]
        shifts = {link: offset - rows[0][1] + self._late[link] for link, offset, _ in rows}
        slower = ticks > max(self._least[link] for link in shifts)  # than its links: by a budget
        times = {at - shifts[link] for link in shifts for at, _ in self.parts[link]}
        steps = []
        for at in sorted({Fraction(0), *(t for t in times if t > 0)}):
            paces = [
                _at(self.parts[link], at + shift) / self._ticks[link]
                for link, shift in shifts.items()
            ]
            steps.append((at, min([*paces, Fraction(1, ticks)] if slower else paces)))
        return Curve(tuple(steps))

    def longer(self, way: int, start: int) -> list[int]:
        """Return by how many ticks each segment takes longer, if a chunk sets out at a tick."""
        found, late = [], 0
        for segment in self._ways[way]:
            took = segment.ticks
            if segment.curve is not None:
                passes = segment.curve.after(start + segment.offset + late, Fraction(1))
                if passes is None or passes > MAX_TICKS:
                    passes = FAR
                took = max(took, passes)
            found.append(took - segment.ticks)
            late += found[-1]
        return found

    def late(self, way: int, start: int) -> int:
        """Return by how many ticks a chunk arrives later. At least FAR: it never does."""
        return sum(self.longer(way, start))

    def idle(self, way: int, start: int) -> int:
        """Return for how many ticks nothing passes of a chunk that sets out at a tick."""
        first = self._ways[way][0]
        return 0 if first.curve is None else first.curve.idle(start + first.offset)

    def stretched(self, way: int, start: int, count: int) -> list[tuple[int, int]]:
        """Return by how much later and longer a chunk holds what its way has, that sets out then.

        Args:
            count: of things: the links of the way, and then others.
        """
        found: list[tuple[int, int]] = []
        late = 0
        for segment, more in zip(self._ways[way], self.longer(way, start), strict=True):
            found += [(late, more)] * segment.links
            late += more
        return found + [(0, late)] * (count - len(found))

    def room(self, link: int, begin: int, end: int) -> int:
        """Return what passes a link from one tick to another: whole ticks at full bandwidth."""
        curve = self._rooms.get(link)
        return end - begin if curve is None else floor(curve.passed(end) - curve.passed(begin))

    def chunks(self, link: int, end: int) -> int:
        """Return how many chunks one after the other can pass a link by a tick, at most."""
        curve = self._rooms.get(link)
        return int((end if curve is None else curve.passed(end)) // self._ticks[link])

    def alike(self, images: Sequence[int]) -> bool:
        """Return whether each link has the bandwidth over time that its image has."""
        return all(self.parts[link] == self.parts[image] for link, image in enumerate(images))


def _at(steps: Steps, time: Fraction) -> Fraction:
    """Return the value at a time."""
    return steps[bisect_right(steps, (time, Fraction(2))) - 1][1]
