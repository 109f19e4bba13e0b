"""A schedule near the least time of all chunkings, and its bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from sccl.collectives import Dual, dual_of
from sccl.core.clock import Clock
from sccl.core.outcome import Bound, Found, GaveUp, Measure, Outcome
from sccl.core.schedule import Schedule, schedule_of
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TooLargeError, TopologyError
from sccl.prove.bounds import least_time
from sccl.solvers.effort import Effort
from sccl.synth.contract import Notify, Request
from sccl.synth.flows.placed import Planned, Reading, Sent, placed, planned, rows_of
from sccl.synth.flows.problem import FluidProblem, pose, ways_of
from sccl.synth.flows.shares import TimedPacking
from sccl.synth.fluid.least import Least, engine_of
from sccl.synth.fluid.options import Options

PIECES = (1, 2, 4, 8, 16)
"""Chunks of each share of a tree, as long as there are not too many sends."""

FLOWING = 32
"""Times as many of trees through which all flows, link after link: a chunk waits for its whole."""

MOST_SENDS = 60_000

UNITS = 0.7
"""Of effort, if nothing is said: about as many times some seconds."""

MOST_RANKS = 128
MOST_COMMODITIES = 5000
"""Of classes that are no images of one another: of more the program becomes slow."""

_PS_PER_US = 10**6

_LATE = "late"


@dataclass(frozen=True, slots=True)
class Narrowed:
    """No schedule takes less than one time, and one takes the other, microseconds."""

    least_us: float
    us: float


@dataclass
class _Half:
    """What is found for one phase: a collective that does not combine, on its machine.

    Attributes:
        readings: what is placed is read like this.
        floor: no schedule takes less, microseconds.
        ticks: what the best takes; picoseconds.
        ended: why it ended before its time; empty: it did not.
    """

    problem: FluidProblem
    dual: Dual
    readings: tuple[Reading, ...]
    floor: Fraction
    ticks: int = 0
    ended: str = ""
    plan: Planned | None = None
    sent: list[Sent] = field(default_factory=list)

    def place(self, packing: TimedPacking, enough: float, thorough: bool) -> float:
        """Make schedules of a packing, until one is fast enough; return the best's microseconds."""
        flows = FLOWING if packing.slots.later else 1
        for pieces in PIECES:
            plan = planned(self.problem, packing, self.dual, pieces * flows)
            if self.plan is not None and len(plan.sends) > MOST_SENDS:
                break
            sent = placed(self.problem, plan, self.readings)
            ticks = max(one.arrival for one in sent)
            if self.plan is None or ticks < self.ticks:
                self.ticks, self.plan, self.sent = ticks, plan, sent
            if self.ticks <= enough * _PS_PER_US or not thorough:
                break
        return self.ticks / _PS_PER_US


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return a schedule near the infimum over all chunkings, with what none takes less than.

    Raises:
        InputError: the options do not fit the request, or the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    if options.alpha != "travels":
        raise ParameterError(
            f"alpha is {options.alpha}: the least time over all chunkings is that of an alpha that "
            "travels, as one that occupies its link is paid for every chunk; leave it out"
        )
    topology, dual = request.topology, dual_of(request.spec)
    if dual.phases > 1 and not topology.reversed().takes_like(topology):
        raise TopologyError(
            f"topology {topology.name!r} is not the same both ways, which the least time of "
            f"{request.spec.name} over all chunkings asks for: ask for reducescatter and allgather"
        )
    half = _half(request, dual, options, effort, notify)
    if half.plan is None:
        return GaveUp(half.ended or "nothing was found")
    schedule = _schedule(request, dual, half)
    attained = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    floor = half.floor
    if dual.phases > 1:  # of halves that overlap nothing is known but cuts
        floor = least_time(topology, request.spec).us(request.size_bytes)
    found = Found(schedule, Bound(Measure.TIME_US, attained, floor))
    if half.ended:
        return GaveUp(effort.why_late if half.ended == _LATE else half.ended, found)
    return found


def _half(request: Request, dual: Dual, options: Options, effort: Effort, notify: Notify) -> _Half:
    """Return what is found for a phase.

    Raises:
        InputError: the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    deadline = time.perf_counter() + effort.seconds
    if request.topology.ranks > MOST_RANKS:
        raise _too_large(request, f"{request.topology.ranks} ranks", f"up to {MOST_RANKS}")
    for switch in request.topology.switches:
        if not switch.cut_through and switch.buffer_chunks is not None:
            raise TopologyError(
                f"topology {request.topology.name!r}, switch {switch.name!r} stores chunks and has "
                f"places for {switch.buffer_chunks}: the least time over all chunkings is worked "
                "out for switches that cut through, or hold any number"
            )
    machine = request.topology.reversed() if dual.on_reversed else request.topology
    problem = pose(machine, dual, request.size_bytes)
    if (many := len(problem.commodities)) > MOST_COMMODITIES:
        raise _too_large(request, f"{many} kinds of chunks", f"up to {MOST_COMMODITIES}")
    floor = least_time(machine, dual.spec).us(Fraction(request.size_bytes, dual.chunk_factor))
    half = _Half(problem, dual, _readings(request.topology, dual), floor)
    if not problem.commodities:
        half.plan = planned(problem, None, dual, 1)
        return half
    told: Callable[[float, float], None] = lambda low, high: notify(Narrowed(low, high))  # noqa: E731
    units = UNITS if effort.units is None else effort.units
    search = Least(
        problem, engine_of(problem), floor, options.gap, units, deadline, told, half.place
    )
    try:
        search.run()
    except KeyboardInterrupt:
        if half.plan is None:
            raise
        half.ended = "interrupted"
        if search.best is not None:
            half.place(search.best, search.enough, thorough=True)
    half.floor = search.floor
    if not half.ended and time.perf_counter() > deadline:
        half.ended = _LATE
    return half


def _too_large(request: Request, what: str, most: str) -> TooLargeError:
    return TooLargeError(
        f"topology {request.topology.name!r}: {request.spec.name} has {what}, and the least time "
        f"over all chunkings is worked out for {most}: give fewer ranks; 'sccl tacos' takes them"
    )


def _schedule(request: Request, dual: Dual, half: _Half) -> Schedule:
    """Return what was found as a schedule of what was asked for."""
    topology, plan = request.topology, half.plan
    assert plan is not None
    rows: list[tuple[int, int, int, int, bool]] = []
    messages: list[int] = []
    later = 0
    if dual.on_reversed or dual.phases > 1:
        first, numbers = rows_of(topology, plan.sizes, _backwards(half))
        last = dict(zip(numbers, range(len(first)), strict=True))  # a switch only passes on
        for i, (row, number) in enumerate(zip(first, numbers, strict=True)):
            rows.append((*row, request.spec.combining and last[number] == i))
        messages, later = numbers, half.ticks
    if not dual.on_reversed:
        sent = [s._replace(start=s.start + later, arrival=s.arrival + later) for s in half.sent]
        then, numbers = rows_of(topology, plan.sizes, sent)
        rows += [(*row, False) for row in then]
        messages += [number + len(half.sent) for number in numbers]
    sizes = plan.sizes[0] if len(set(plan.sizes)) == 1 else plan.sizes
    collective = request.spec.at(plan.chunks * dual.chunk_factor)
    told = messages if topology.switches else None
    return schedule_of(topology, collective, rows, Clock.of(topology, sizes), told)


def _readings(topology: Topology, dual: Dual) -> tuple[Reading, ...]:
    """Return how what is placed will be read: forwards, backwards, or the one and the other."""
    forwards = () if dual.on_reversed else (Reading(topology),)
    if not dual.on_reversed and dual.phases == 1:
        return forwards
    place = {link.edge: i for i, link in enumerate(topology.links)}
    back = [place[link.edge[::-1]] for link in topology.reversed().links]
    ways = {way: i for i, way in enumerate(ways_of(topology))}
    turned = tuple(
        ways[tuple(back[link] for link in reversed(way))] for way in ways_of(topology.reversed())
    )
    return (Reading(topology, turned), *forwards)


def _backwards(half: _Half) -> list[Sent]:
    """Return what is sent, read backwards."""
    turned = half.readings[0].turned
    assert turned is not None
    return [
        Sent(half.ticks - s.arrival, half.ticks - s.start, s.chunk, turned[s.way])
        for s in half.sent
    ]
