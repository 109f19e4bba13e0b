"""TE-CCL's linear program: what is not copied, in the fewest epochs that do (section 4.1).

Bytes of a chunk may go several ways, as many of them on each as the program says: it is about
rates. All that starts at a rank is one flow, images of it by symmetries share theirs, and of flows
that are all there in time those are taken that pass the fewest links. Paths are taken from the
flows, each becomes chunks of its own size, and these are placed in exact time: so a schedule may be
faster than its epochs, or slower, where links wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from sccl.collectives import Dual, dual_of, named
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Bound, Found, GaveUp, Measure, Outcome
from sccl.core.words import counted
from sccl.errors import ParameterError, TooLargeError
from sccl.prove.bounds.least_time import least_time
from sccl.solvers.effort import Effort, Spending
from sccl.solvers.lp import SparseEnd
from sccl.synth.contract import Request
from sccl.synth.flows.arcs import FlowProgram, is_unicast
from sccl.synth.flows.placed import planned
from sccl.synth.flows.problem import FluidProblem, pose
from sccl.synth.flows.schedules import Placing, readings_of
from sccl.synth.flows.shares import TimedPacking
from sccl.synth.flows.slots import uniform
from sccl.synth.intervals.posed import pose as pose_chunks
from sccl.synth.teccl.epochs import AUTO, MOST, length_us
from sccl.synth.teccl.options import Options

MOST_COLUMNS = 400_000
"""Of a program."""

_SMALL = 60_000
"""Columns of a program whose epochs nobody has asked for."""

_COARSE = 12
"""Epochs in which all might be there, with which such programs begin."""

_PIVOT, _COLUMN = 4e-9, 1e-5
"""Of effort: of a pivot and a column, and of a column."""

UNITS = 2.0
"""Of effort, if nothing is said."""

MOST_RANKS = 256

_EFFORT = 30.0
"""Of a program, at most."""

_PS_PER_US = 10**6


@dataclass
class _Horizons:
    """How many epochs do.

    Attributes:
        length: of an epoch, microseconds.
        known: what was found, by the number of epochs. None: it is proved that they are too few.
    """

    program: FlowProgram
    solver: str
    length: Fraction
    spending: Spending
    known: dict[int, TimedPacking | None]

    def solved(self, count: int) -> TimedPacking | None:
        """Return flows that are all there after so many epochs. None: none are known.

        Raises:
            TooLargeError: the program would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        if count in self.known:
            return self.known[count]
        columns = self.program.columns(count)
        if columns > MOST_COLUMNS or count > MOST:
            problem = self.program.problem
            topology, name = problem.topology, problem.collective.name
            raise TooLargeError(
                f"{name} of {topology.ranks} ranks in {counted(count, 'epoch')} of "
                f"{float(self.length):g} us takes {columns} columns, at most {MOST_COLUMNS} in "
                f"{MOST} epochs are solved: give a larger multiplier"
            )
        if self.spending.late():
            return None
        slots = uniform(self.program.problem.alpha, self.length, count)
        whole, seconds = float(self.length * count), self.spending.effort.seconds
        seconds -= self.spending.seconds()
        found, result = self.program.solve(slots, whole, _EFFORT, seconds, self.solver)
        self.spending.units += (_PIVOT * result.pivots + _COLUMN) * columns
        if result.end is not SparseEnd.UNKNOWN:
            self.known[count] = None if found is None else replace(found, us=whole)
        return self.known.get(count)

    def packing(self, epochs: int, floor: Fraction) -> TimedPacking | None:
        """Return flows in so many epochs, or in the fewest that do. None: none are known.

        Args:
            epochs: 0: the fewest.
            floor: microseconds about which that may be.

        Raises:
            ParameterError: it is proved that these are too few.
            TooLargeError: the program would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        if not epochs:
            return self.fewest(floor)
        found = self.solved(epochs)
        if found is None and epochs in self.known:
            enough = self.fewest(floor)
            hint = "give more" if enough is None else f"{enough.slots.count} will do"
            raise ParameterError(
                f"epochs is {epochs}: it is proved that {counted(epochs, 'epoch')} of "
                f"{float(self.length):g} us are too few: {hint}"
            )
        return found

    def fewest(self, floor: Fraction) -> TimedPacking | None:
        """Return flows in the fewest epochs that do. None: time ran out first."""
        count = max(1, ceil(floor / self.length))
        low, high, stride = 0, None, 1
        while high is None or high - low > 1:
            found = self.solved(count)
            if found is not None:
                high = count
                count = max(low + 1, count - stride if low == 0 else (low + count) // 2)
            elif count in self.known:
                low = count
                count = count + stride if high is None else (low + high) // 2
            else:
                break
            stride *= 2
        return None if high is None else self.known[high]


def plan_flows(
    request: Request,
    options: Options,
    effort: Effort,
    counted_to: Callable[[float, int], None],
    better: Callable[[float, float], None],
) -> Outcome:
    """Return a schedule of flows that need no copies, with what no schedule takes less than.

    Args:
        counted_to: called with how long an epoch is, microseconds, and in how many all is there.
        better: called with what the best takes, and what none takes less than, microseconds.

    Raises:
        InputError: the options do not fit the request, or the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    dual = dual_of(request.spec)
    problem = _posed(request, options, dual)
    floor = least_time(request.topology, dual.spec).us(request.size_bytes)
    spending, ended = Spending(effort), ""
    placing = Placing(problem, dual, readings_of(request.topology, dual), spending.late)
    if not problem.commodities:
        placing.plan = planned(problem, None, dual, 1)
        return _found(request, placing, floor)
    enough = float(floor) * (1 + options.gap)
    units = UNITS if effort.units is None else effort.units
    best = float("inf")
    try:
        program = FlowProgram(problem)
        for length in _lengths(request, options, program, floor):
            horizons = _Horizons(program, options.solver, length, spending, {})
            packing = horizons.packing(options.epochs, floor)
            if packing is None:
                continue
            us = placing.place(packing, enough, thorough=True)
            if us < best:
                best = us
                counted_to(float(length), packing.slots.count)
                better(us, float(floor))
            if us <= enough or spending.units + placing.effort > units or spending.late():
                break
    except KeyboardInterrupt:
        if placing.plan is None:
            raise
        ended = "interrupted"
    if placing.plan is None:
        return GaveUp(effort.why_late if spending.late() else "no program was solved in its effort")
    if not ended and spending.late() and best > enough:
        ended = effort.why_late
    found = _found(request, placing, floor)
    return GaveUp(ended, found) if ended else found


def _posed(request: Request, options: Options, dual: Dual) -> FluidProblem:
    """Return what flows.

    Raises:
        InputError: that is not what the program is about, or there is too much of it.
    """
    topology, name = request.topology, request.spec.name
    if options.alpha != AlphaModel.TRAVELS.value:
        raise ParameterError(
            f"alpha is {options.alpha} in model lp, expected travels: bytes that flow wait for no "
            "chunk, and an alpha that occupies its link is paid for every chunk"
        )
    if options.ports:
        raise ParameterError(
            "switch is hyperedge in model lp, expected machine, copy or nocopy: of chunks that are "
            "split no link takes one at a time"
        )
    if topology.ranks > MOST_RANKS:
        raise TooLargeError(
            f"topology {topology.name!r} has {topology.ranks} ranks, at most {MOST_RANKS} are "
            "served by model lp: ask 'sccl tacos'"
        )
    if request.spec.combining:
        same = "; for as many bytes per rank, run lp on alltoall to get the arrival times"
        raise ParameterError(
            "model is lp, which sends bytes separately and reduces nothing on their way, and "
            f"{name} reduces: use milp or astar, or continuous, with combine direct if each "
            "contribution shall travel separately to the end"
            + (same if request.spec == named("reducescatter", topology.ranks) else "")
        )
    problem = pose(topology, dual, request.size_bytes)
    if not is_unicast(problem):
        raise ParameterError(
            f"model is lp, which copies nothing, and in {name} several ranks need the same data: "
            "use continuous, milp, or astar; lp supports alltoall, scatter, and gather"
        )
    return problem


def _lengths(
    request: Request, options: Options, program: FlowProgram, floor: Fraction
) -> Iterator[Fraction]:
    """Yield how long epochs are to be, microseconds: as asked for, or ever shorter ones.

    Raises:
        ParameterError: that is nothing to go by.
    """
    topology, spec = request.topology, request.spec
    largest = request.size_bytes * max((1, *spec.counts))
    chunk_bytes = -(-largest // (spec.unit * options.chunks))
    posed = pose_chunks(topology, spec.at(spec.unit), Clock.of(topology, chunk_bytes))
    length = length_us(posed, options.epoch, options.multiplier)
    if options.epoch != AUTO or options.multiplier > 1 or options.epochs:
        yield length
        return
    count = _COARSE
    while program.columns(count) <= _SMALL or count == _COARSE:
        yield floor / count
        count *= 2


def _found(request: Request, placing: Placing, floor: Fraction) -> Found:
    schedule = placing.schedule(request.topology, request.spec)
    attained = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    return Found(schedule, Bound(Measure.TIME_US, attained, floor, "any chunks"))
