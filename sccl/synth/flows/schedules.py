"""Select the best schedule of several packings of a phase, and extend it to the collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from sccl.collectives import Dual, Spec
from sccl.core.clock import Clock
from sccl.core.schedule import MAX_TIME, Schedule, schedule_of
from sccl.core.topology import Topology
from sccl.synth.flows.gathered import chassis_of, gathered
from sccl.synth.flows.matched import MatchedPlan, matched
from sccl.synth.flows.placed import Planned, Reading, Sent, placed, planned, rows_of
from sccl.synth.flows.polished import MOST_SENDS as MOST_POLISHED
from sccl.synth.flows.polished import is_polished, polished
from sccl.synth.flows.problem import FluidProblem, ways_of
from sccl.synth.flows.shares import TimedPacking

PIECES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Chunks of each share of a tree, as long as there are not too many sends."""

_USUAL = 32
"""Number of pieces. More are tried only if half of the last gain would reach the target."""

FLOWING = 32
"""Times as many of trees through which all flows, link after link: a chunk waits for its whole."""

MATCHED, GATHERED = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Parts of each class, where chunks are of one size."""

_MORE = 8
"""Such a part more of them at most, where bytes are fewer that way."""

MOST_SENDS, MOST_MATCHED = 60_000, 300_000
"""Largest numbers of sends, for packings and for chunks of one size, which are placed once."""

_MOST_NEAR = 200_000
"""Largest number of sends of a packing if repeating the last gain would reach the target."""

_FEW, _FEWEST = 5000, 600
"""Sends up to which chunks are cut smaller before their sizes are found again, where whole shares
are at most so many; of more sizes gain more."""

_SOONER = 0.97
"""Factor of the target time for a second gathering, if the first one missed the target."""

_SURE, _NEARLY = 16, 0.01
"""Number of pieces from which twice the last gain bounds the remaining gain, and a gap that is
small enough to stop even if a smaller one was requested.
"""

_IDLE, _LITTLE = 2, 1 - 1e-3
"""So often in turn more parts take more than that part of the time, and no more are tried."""

_PLACED = 200_000
"""Sends that are placed again, however few there are of them at a time."""

_MOST_PASSES = 12

_SEND = 3e-6
"""Budget of one send, in units of some seconds."""

_HARDLY = 1 - 1e-4
"""Smaller chunks that take more than that part of the time are not made smaller again."""

_NEAR, _POLISHING, _POLISHED_PASSES = 1.1, 1.0, 4
"""Factor of the target up to which sizes are optimized again, the budget of this, and the number of
placements of the result.
"""

_PS_PER_US = 10**6


@dataclass(frozen=True, slots=True)
class UpAndDownWays:
    """The meaning of the paths of an allreduce.

    Attributes:
        turned: Path of the machine for each path. -1: none, because the rank already has the data.
        adds: Whether arrivals by it are added to the value there instead of replacing it.
        exchanged: Number of the exchange. Paths with one number, from a rank to another and back,
            are an exchange. -1: none.
    """

    turned: tuple[int, ...]
    adds: tuple[bool, ...]
    exchanged: tuple[int, ...]


@dataclass
class Placing:
    """Schedules of a phase: a non-combining collective on its machine.

    Attributes:
        readings: Readings of the placed sends.
        late: Whether time is over. Then no smaller chunks are placed.
        up_and_down: Paths of a plan for a whole allreduce. None: it is a plan for one phase.
        ticks: Time of the best schedule, picoseconds. Without one, a maximum.
        plan: Plan of the best schedule. None: there is none yet.
        effort: Budget used.
    """

    problem: FluidProblem
    dual: Dual
    readings: tuple[Reading, ...]
    late: Callable[[], bool]
    up_and_down: UpAndDownWays | None = None
    ticks: int = MAX_TIME
    plan: Planned | None = None
    sent: list[Sent] = field(default_factory=list)
    effort: float = 0.0

    @property
    def us(self) -> float:
        """Return the time of the best schedule, microseconds. Infinite: there is none."""
        return inf if self.plan is None else self.ticks / _PS_PER_US

    def place(self, packing: TimedPacking, enough: float, thorough: bool) -> float:
        """Make schedules of a packing, until one is fast enough; return the best's microseconds."""
        flows = FLOWING if packing.slots.later else 1
        if thorough and self._cut(packing, flows, enough):
            return self.us
        before, most, soon = float("inf"), MOST_SENDS, False
        for pieces in PIECES:
            if pieces > _USUAL and not soon:
                break
            plan = planned(self.problem, packing, self.dual, pieces * flows)
            if self.plan is not None and (len(plan.sends) > most or self.late()):
                break
            sent = self._placed(plan)
            ticks = self._take(plan, sent)
            if self.ticks <= enough * _PS_PER_US or not thorough:
                break
            self._polish(plan, sent, enough)
            if self.ticks <= enough * _PS_PER_US or ticks > before * _HARDLY:
                break
            near = before < float("inf") and 2 * ticks - before <= enough * _PS_PER_US
            soon = 3 * ticks - before <= 2 * enough * _PS_PER_US
            before, most = ticks, _MOST_NEAR if near else MOST_SENDS
        return self.us

    def _cut(self, packing: TimedPacking, flows: int, enough: float) -> bool:
        """Place smaller and smaller chunks while sends are few; return whether that is enough.

        It takes a tenth of the time of finding their sizes again, or less.
        """
        before = float("inf")
        for pieces in PIECES:
            plan = planned(self.problem, packing, self.dual, pieces * flows)
            few = _FEW if pieces > 1 else _FEWEST
            if len(plan.sends) > few or self.late():
                return False
            ticks = self._take(plan, self._placed(plan))
            if self.ticks <= enough * _PS_PER_US:
                return True
            if ticks > before * _HARDLY:
                return False
            before = ticks
        return False

    def _placed(self, plan: Planned) -> list[Sent]:
        """Return the sends of a plan, each as soon as may be."""
        many = max(1, len(plan.sends))
        passes = min(_MOST_PASSES, _PLACED // many)
        self.effort += _SEND * many * (1 + passes)
        return placed(self.problem, plan, self.readings, passes)

    def _polish(self, plan: Planned, sent: list[Sent], enough: float) -> None:
        """Size the chunks of a schedule again, if it is near enough for that to help."""
        ticks, near = max(one.arrival for one in sent), enough * _PS_PER_US * _NEAR
        if ticks > near or len(sent) > MOST_POLISHED or not is_polished(self.problem):
            return
        while not self.late():
            better, took = polished(self.problem, self.dual, plan, sent, _POLISHING)
            self.effort += took
            if better is None:
                return
            plan, sent = better, placed(self.problem, better, self.readings, _POLISHED_PASSES)
            before, ticks = ticks, self._take(plan, sent)
            if self.ticks <= enough * _PS_PER_US or ticks > before * _LITTLE:
                return

    def match(self, floor: float, gap: float, spare_us: float, effort: float) -> float:
        """Make schedules of chunks of one size, until one is fast enough; return as ``place``.

        Args:
            floor: no schedule takes less, microseconds.
            gap: such a part above it is fast enough.
            spare_us: see :func:`.matched.matched`.
            effort: after which nothing is cut smaller, planned from either end.
        """
        late, enough, near = self.late, floor * (1 + gap), floor * (1 + max(gap, _NEARLY))
        if chassis := chassis_of(self.problem):
            several: Sequence[int] = GATHERED
            for horizon in (enough, enough * _SOONER):

                def gather(pieces: int, horizon: float = horizon) -> MatchedPlan:
                    return gathered(chassis, self.dual, pieces, horizon, late)

                best = self._divide(several, gather, enough, near, effort)
                if not best or self.ticks <= enough * _PS_PER_US:
                    break
                several = (best,)
        if self.plan is None or self.ticks > enough * _PS_PER_US:
            self._divide(
                MATCHED,
                lambda n: matched(self.problem, self.dual, n, spare_us, late),
                enough,
                inf,
                effort,
            )
        return self.us

    def _divide(
        self,
        several: Sequence[int],
        make: Callable[[int], MatchedPlan],
        enough: float,
        near: float,
        effort: float,
    ) -> int:
        """Divide chunks into more and more pieces, until the target, no more gain, or the budget.

        Args:
            near: Time. If twice the last gain does not reach it, further pieces do not help.

        Returns:
            Number of pieces of the fastest of these plans. 0: there is none.
        """
        classes = self.problem.collective.classes().items()
        each = sum(len(own) * len(post - pre) for (pre, post), own in classes)
        before, idle, most, best = float("inf"), 0, self.effort + effort, 0
        for many in several:
            pieces = _of_whole_bytes(self.problem.chunk_bytes, many)
            over = pieces * each > MOST_MATCHED or self.effort > most or self.late()
            if self.plan is not None and over:
                break
            found = make(pieces)
            self.effort += found.effort + _SEND * pieces * each
            if found.plan is None:
                break
            ticks = self._take(found.plan, placed(self.problem, found.plan, self.readings))
            best = many if ticks < before else best
            far = many >= _SURE and 3 * ticks - 2 * before > near * _PS_PER_US
            if self.ticks <= enough * _PS_PER_US or far:
                break
            idle = idle + 1 if ticks > before * _LITTLE else 0
            if idle == _IDLE:
                break
            before = min(before, ticks)
        return best

    def _take(self, plan: Planned, sent: list[Sent]) -> int:
        """Store a placed plan if it is the best so far. Return its time, picoseconds."""
        ticks = max(one.arrival for one in sent)
        if ticks < self.ticks and not self._mixes(sent):
            self.ticks, self.plan, self.sent = ticks, plan, sent
        return ticks

    def schedule(self, topology: Topology, spec: Spec) -> Schedule:
        """Return the best schedule for the requested collective.

        Args:
            topology: Machine of the collective, forwards.
        """
        dual, plan = self.dual, self.plan
        assert plan is not None
        rows: list[tuple[int, int, int, int, bool]] = []
        messages: list[int] = []
        later = 0
        if self.up_and_down is not None:
            own = self.up_and_down
            real = [s for s in self.sent if own.turned[s.way] >= 0]
            sent, adds = [s._replace(way=own.turned[s.way]) for s in real], self._adding(own, real)
            first, messages = rows_of(topology, plan.sizes, sent)
            last = dict(zip(messages, range(len(first)), strict=True))
            rows = [
                (*row, adds[number] and last[number] == i)
                for i, (row, number) in enumerate(zip(first, messages, strict=True))
            ]
        elif dual.on_reversed or dual.phases > 1:
            first, numbers = rows_of(topology, plan.sizes, self._backwards())
            last = dict(zip(numbers, range(len(first)), strict=True))  # a switch only passes on
            for i, (row, number) in enumerate(zip(first, numbers, strict=True)):
                rows.append((*row, spec.combining and last[number] == i))
            messages, later = numbers, self.ticks
        if not dual.on_reversed and self.up_and_down is None:
            sent = [s._replace(start=s.start + later, arrival=s.arrival + later) for s in self.sent]
            then, numbers = rows_of(topology, plan.sizes, sent)
            rows += [(*row, False) for row in then]
            messages += [number + len(self.sent) for number in numbers]
        sizes = plan.sizes[0] if len(set(plan.sizes)) == 1 else plan.sizes
        collective = spec.at(plan.chunks * dual.chunk_factor)
        told = messages if topology.switches else None
        return schedule_of(topology, collective, rows, Clock.of(topology, sizes), told)

    def _adding(self, own: UpAndDownWays, sent: Sequence[Sent]) -> list[bool]:
        """Return for each send whether it is added to the value there instead of replacing it.

        In an exchange, a send that starts after the other's arrival carries the sum of both.
        """
        edges = self.problem.edges
        exchange = [(s.chunk, own.exchanged[s.way], *edges[own.turned[s.way]]) for s in sent]
        come = {key: s.arrival for key, s in zip(exchange, sent, strict=True) if key[1] >= 0}

        def alone(s: Sent, chunk: int, number: int, u: int, v: int) -> bool:
            return number < 0 or s.start < come.get((chunk, number, v, u), inf)

        return [own.adds[s.way] and alone(s, *key) for s, key in zip(sent, exchange, strict=True)]

    def _mixes(self, sent: Sequence[Sent]) -> bool:
        """Return whether one of several that exchange sends something when some of theirs has come.

        That would go to the others along with its own, and they have it twice.
        """
        own, edges = self.up_and_down, self.problem.edges
        if own is None:
            return False
        last: dict[tuple[int, int, int], list[int]] = {}
        for s in sent:
            if (number := own.exchanged[s.way]) >= 0:
                key = (s.chunk, number, edges[own.turned[s.way]][0])
                last.setdefault(key, []).append(s.start)
        late = {key: max(starts) for key, starts in last.items() if len(starts) > 1}
        return any(
            s.arrival <= late.get((s.chunk, own.exchanged[s.way], edges[own.turned[s.way]][1]), -1)
            for s in sent
        )

    def _backwards(self) -> list[Sent]:
        """Return the sends reversed in time."""
        turned = self.readings[0].turned
        assert turned is not None
        return [
            Sent(self.ticks - s.arrival, self.ticks - s.start, s.chunk, turned[s.way])
            for s in self.sent
        ]


def _of_whole_bytes(size: Fraction, many: int) -> int:
    """Return that many parts, or some more: as all are of one size in bytes, the least too long."""
    each = range(many, many + many // _MORE + 1)
    return min(each, key=lambda parts: (-(-size // parts) * parts, parts))


def readings_of(topology: Topology, dual: Dual) -> tuple[Reading, ...]:
    """Return the readings of a phase: forwards, backwards, or both."""
    forwards = () if dual.on_reversed else (Reading(topology),)
    if not dual.on_reversed and dual.phases == 1:
        return forwards
    place = {link.edge: i for i, link in enumerate(topology.links)}
    back = [place[link.edge[::-1]] for link in topology.reversed().links]
    ways = {way: i for i, way in enumerate(ways_of(topology))}
    turned = tuple(
        ways[tuple(back[link] for link in reversed(way))] for way in ways_of(topology.reversed())
    )
    return (Reading(topology, turned, backwards=True), *forwards)
