"""Routes with bandwidth that varies over time: a chunk's time depends on its start.

A segment is the links of a route up to the next place where a chunk can be stored. All links of a
segment carry the chunk at one rate: at each moment the rate of the slowest link. Each link is read
at its own time, which is later than the start of the route by its offset. So a chunk has passed a
segment when the integral of this rate is 1, rounded up to whole ticks. Rates are fractions. A later
start never arrives earlier.

A chunk also uses budgets and buffers of switches. It keeps them as many ticks longer as its route
takes longer, with the share for the full rate. That is more than it needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

from sccl.core.clock import MAX_TICKS, PS_PER_US, AlphaModel, Clock
from sccl.core.topology import Topology
from sccl.synth.limits import INFINITE
from sccl.synth.network.routes import Routes
from sccl.synth.network.variable_bandwidth import StepFunction, VariableBandwidth


class TransferCurve:
    """The amount that has passed by each tick, at a rate that changes in steps. It is exact."""

    def __init__(self, steps: StepFunction) -> None:
        """Build the curve from steps (tick, rate). The first step is at tick 0."""
        self._times = [at for at, _ in steps]
        self._paces = [pace for _, pace in steps]
        self._amounts = [Fraction(0)]
        for (at, pace), (then, _) in pairwise(steps):
            self._amounts.append(self._amounts[-1] + pace * (then - at))

    def amount_by(self, tick: int) -> Fraction:
        """Return the amount that has passed by a tick."""
        k = bisect_right(self._times, tick) - 1
        return self._amounts[k] + self._paces[k] * (tick - self._times[k])

    def ticks_for(self, tick: int, amount: Fraction) -> int | None:
        """Return the ticks from ``tick`` until an amount has passed, rounded up. None: never."""
        goal = self.amount_by(tick) + amount
        k = bisect_right(self._amounts, goal) - 1
        while k > 0 and self._amounts[k] == goal:  # an earlier idle interval has the amount
            k -= 1
        if not self._paces[k]:
            return None
        return ceil(self._times[k] + (goal - self._amounts[k]) / self._paces[k]) - tick

    def idle_ticks(self, tick: int) -> int:
        """Return the whole ticks from ``tick`` until something passes. 0 also if nothing will."""
        k = bisect_right(self._times, tick) - 1
        ends = (self._times[i] for i in range(k, len(self._times)) if self._paces[i])
        return 0 if self._paces[k] else floor(next(ends, tick)) - tick


@dataclass(frozen=True, slots=True)
class _Segment:
    """Links that carry a chunk at one rate.

    Attributes:
        links: Number of links.
        offset: Ticks from the start of the route to the start of the first link at full bandwidth.
        ticks: Ticks of a chunk at full bandwidth.
        curve: Chunks passed by each start of the segment. None: the bandwidth is constant.
    """

    links: int
    offset: int
    ticks: int
    curve: TransferCurve | None


class VaryingRoutes:
    """Additional time of routes compared with full bandwidth, by start of the chunk, in ticks."""

    def __init__(
        self, topology: Topology, clock: Clock, crossings: Routes, bandwidth: VariableBandwidth
    ) -> None:
        """Read the bandwidth of links over time.

        Raises:
            TopologyError: The machine lacks a link of ``bandwidth``.
        """
        bandwidth.check_fits(topology)
        self.name = bandwidth.name
        us = Fraction(PS_PER_US, clock.tick_ps)
        parts = [
            tuple((at * us, part) for at, part in bandwidth.link_fractions(link.edge))
            for link in topology.links
        ]
        self.bandwidth_steps: tuple[StepFunction, ...] = tuple(parts)
        self._link_curves = {
            i: TransferCurve(steps)
            for i, steps in enumerate(parts)
            if len(steps) > 1 or steps[0][1] < 1
        }
        ticks_of_one = Fraction(clock.sizes[0] * 1000, clock.tick_ps)
        self._ticks_per_chunk = [
            ticks_of_one / (k.lanes * Fraction(str(k.gb_per_s))) for k in topology.links
        ]
        self._link_delays = clock.alpha if clock.model is AlphaModel.OCCUPIES else (0,) * len(parts)
        self._min_ticks = clock.beta[0]
        first = crossings.first.tolist()
        stores = [True] * topology.ranks + [not switch.cut_through for switch in topology.switches]
        self._stores_chunks = [stores[link.dst] for link in topology.links]
        columns = (crossings.link.tolist(), crossings.offset.tolist(), crossings.pace.tolist())
        rows = list(zip(*columns, strict=True))
        self._route_segments = [self._segments(rows[a:b]) for a, b in pairwise(first)]

    def _segments(self, rows: list[tuple[int, int, int]]) -> tuple[_Segment, ...]:
        """Return the segments of a route from the (link, offset, pace) of its links."""
        segments: list[_Segment] = []
        begin = 0
        for i, (link, _, _) in enumerate(rows):
            if self._stores_chunks[link]:
                part = rows[begin : i + 1]
                segments.append(_Segment(len(part), part[0][1], part[0][2], self._curve(part)))
                begin = i + 1
        return tuple(segments)

    def _curve(self, rows: list[tuple[int, int, int]]) -> TransferCurve | None:
        """Return the curve of links that pass a chunk together. None: always full bandwidth."""
        if not any(link in self._link_curves for link, _, _ in rows):
            return None
        ticks = rows[0][2]
        shifts = {link: offset - rows[0][1] + self._link_delays[link] for link, offset, _ in rows}
        slower = ticks > max(
            self._min_ticks[link] for link in shifts
        )  # than each link alone, because of a budget
        times = {at - shifts[link] for link in shifts for at, _ in self.bandwidth_steps[link]}
        steps = []
        for at in sorted({Fraction(0), *(t for t in times if t > 0)}):
            paces = [
                _value_at(self.bandwidth_steps[link], at + shift) / self._ticks_per_chunk[link]
                for link, shift in shifts.items()
            ]
            steps.append((at, min([*paces, Fraction(1, ticks)] if slower else paces)))
        return TransferCurve(tuple(steps))

    def segment_delays(self, path: int, start: int) -> list[int]:
        """Return the additional ticks of each segment for a chunk that starts at a tick."""
        extra_ticks, delay = [], 0
        for segment in self._route_segments[path]:
            took = segment.ticks
            if segment.curve is not None:
                passes = segment.curve.ticks_for(start + segment.offset + delay, Fraction(1))
                if passes is None or passes > MAX_TICKS:
                    passes = INFINITE
                took = max(took, passes)
            extra_ticks.append(took - segment.ticks)
            delay += extra_ticks[-1]
        return extra_ticks

    def arrival_delay(self, path: int, start: int) -> int:
        """Return the additional ticks until the arrival. At least INFINITE: it never arrives."""
        return sum(self.segment_delays(path, start))

    def idle_ticks(self, path: int, start: int) -> int:
        """Return the ticks from the start of a chunk until its first byte passes."""
        first = self._route_segments[path][0]
        return 0 if first.curve is None else first.curve.idle_ticks(start + first.offset)

    def use_delays(self, path: int, start: int, count: int) -> list[tuple[int, int]]:
        """Return (additional offset, additional duration) of each use of a route.

        Args:
            path: The route.
            start: Start of the chunk, ticks.
            count: Number of uses: the links of the route, then other resources.
        """
        shifts: list[tuple[int, int]] = []
        delay = 0
        for segment, more in zip(
            self._route_segments[path], self.segment_delays(path, start), strict=True
        ):
            shifts += [(delay, more)] * segment.links
            delay += more
        return shifts + [(0, delay)] * (count - len(shifts))

    def capacity(self, link: int, begin: int, end: int) -> int:
        """Return the amount that passes a link between two ticks, in ticks at full bandwidth."""
        curve = self._link_curves.get(link)
        return (
            end - begin if curve is None else floor(curve.amount_by(end) - curve.amount_by(begin))
        )

    def max_chunks(self, link: int, end: int) -> int:
        """Return the maximum number of chunks that can pass a link by a tick, one by one."""
        curve = self._link_curves.get(link)
        return int((end if curve is None else curve.amount_by(end)) // self._ticks_per_chunk[link])

    def is_invariant(self, images: Sequence[int]) -> bool:
        """Return whether each link has the same bandwidth over time as its image."""
        return all(
            self.bandwidth_steps[link] == self.bandwidth_steps[image]
            for link, image in enumerate(images)
        )


def _value_at(steps: StepFunction, time: Fraction) -> Fraction:
    return steps[bisect_right(steps, (time, Fraction(2))) - 1][1]
