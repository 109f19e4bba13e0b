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

from sccl.collectives import Dual, dual_of, named_spec
from sccl.core.bound import Bound, Measure
from sccl.core.clock import AlphaModel, Clock
from sccl.core.formatting import format_count
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import INTERRUPTED, NOT_STOPPED, StopKind, StopReason
from sccl.errors import ParameterError, TooLargeError
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.solvers.effort import Effort, EffortMeter
from sccl.solvers.lp import SparseStatus
from sccl.synth.common.contract import Request
from sccl.synth.packing.schedules.flow_problem import FlowProblem, build_flow_problem
from sccl.synth.packing.schedules.schedule_builder import ScheduleBuilder, forward_or_reversed
from sccl.synth.packing.schedules.send_plans import plan_sends
from sccl.synth.packing.schedules.time_slots import uniform_slots
from sccl.synth.packing.schedules.tree_shares import TimedPacking
from sccl.synth.packing.schedules.unicast_flow_lp import FlowProgram, is_unicast
from sccl.synth.scheduling.problem import build_problem as pose_chunks
from sccl.synth.teccl.epochs import AUTO, MAX_EPOCHS, epoch_length_us
from sccl.synth.teccl.options import Options

MAX_COLUMNS = 400_000
"""Of a program."""

_MAX_AUTO_COLUMNS = 60_000
"""Columns of a program whose epochs nobody has asked for."""

_COARSE_EPOCHS = 12
"""Epochs in which all might be there, with which such programs begin."""

_UNITS_PER_PIVOT, _UNITS_PER_COLUMN = 4e-9, 1e-5
"""Of effort: of a pivot and a column, and of a column."""

DEFAULT_UNITS = 2.0
"""Of effort, if nothing is said."""

MAX_RANKS = 256

_MAX_PROGRAM_UNITS = 30.0
"""Of a program, at most."""

_PS_PER_US = 10**6
_NOT_SOLVED = StopReason(StopKind.BUDGET, "no program was solved in its effort")


@dataclass
class _HorizonSearch:
    """How many epochs do.

    Attributes:
        length: of an epoch, microseconds.
        results: what was found, by the number of epochs. None: it is proved that they are too few.
    """

    program: FlowProgram
    solver: str
    length: Fraction
    spending: EffortMeter
    results: dict[int, TimedPacking | None]

    def solve(self, count: int) -> TimedPacking | None:
        """Return flows that are all there after so many epochs. None: none are known.

        Raises:
            TooLargeError: the program would be too large.
            KeyboardInterrupt: the user interrupted.
        """
        if count in self.results:
            return self.results[count]
        columns = self.program.columns(count)
        if columns > MAX_COLUMNS or count > MAX_EPOCHS:
            problem = self.program.problem
            topology, name = problem.topology, problem.collective.name
            raise TooLargeError(
                f"{name} of {topology.ranks} ranks in {format_count(count, 'epoch')} of "
                f"{float(self.length):g} us takes {columns} columns, at most {MAX_COLUMNS} in "
                f"{MAX_EPOCHS} epochs are solved: give a larger multiplier"
            )
        if self.spending.deadline_passed():
            return None
        slots = uniform_slots(self.program.problem.alpha, self.length, count)
        total_us, seconds = float(self.length * count), self.spending.effort.seconds
        seconds -= self.spending.elapsed_seconds()
        packing, result = self.program.solve(
            slots, total_us, _MAX_PROGRAM_UNITS, seconds, self.solver
        )
        self.spending.units += (_UNITS_PER_PIVOT * result.pivots + _UNITS_PER_COLUMN) * columns
        if result.status is not SparseStatus.UNKNOWN:
            self.results[count] = None if packing is None else replace(packing, us=total_us)
        return self.results.get(count)

    def find_packing(self, epochs: int, floor: Fraction) -> TimedPacking | None:
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
            return self.find_min_packing(floor)
        packing = self.solve(epochs)
        if packing is None and epochs in self.results:
            fewest_packing = self.find_min_packing(floor)
            hint = (
                "give more" if fewest_packing is None else f"{fewest_packing.slots.count} will do"
            )
            raise ParameterError(
                f"epochs is {epochs}: it is proved that {format_count(epochs, 'epoch')} of "
                f"{float(self.length):g} us are too few: {hint}"
            )
        return packing

    def find_min_packing(self, floor: Fraction) -> TimedPacking | None:
        """Return flows in the fewest epochs that do. None: time ran out first."""
        count = max(1, ceil(floor / self.length))
        low, high, stride = 0, None, 1
        while high is None or high - low > 1:
            packing = self.solve(count)
            if packing is not None:
                high = count
                count = max(low + 1, count - stride if low == 0 else (low + count) // 2)
            elif count in self.results:
                low = count
                count = count + stride if high is None else (low + high) // 2
            else:
                break
            stride *= 2
        return None if high is None else self.results[high]


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
    problem = _build_problem(request, options, dual)
    floor = completion_time_bound(request.topology, dual.spec).us(request.size_bytes)
    spending, ended = EffortMeter(effort), NOT_STOPPED
    placing = ScheduleBuilder(
        problem, dual, forward_or_reversed(request.topology, dual), spending.deadline_passed
    )
    if not problem.commodities:
        placing.plan = plan_sends(problem, None, dual, 1)
        return _build_result(request, placing, floor)
    target_us = float(floor) * (1 + options.gap)
    units = DEFAULT_UNITS if effort.units is None else effort.units
    best = float("inf")
    try:
        program = FlowProgram(problem)
        for length in _epoch_lengths(request, options, program, floor):
            horizons = _HorizonSearch(program, options.solver, length, spending, {})
            packing = horizons.find_packing(options.epochs, floor)
            if packing is None:
                continue
            us = placing.schedule_packing(packing, target_us, thorough=True)
            if us < best:
                best = us
                counted_to(float(length), packing.slots.count)
                better(us, float(floor))
            if (
                us <= target_us
                or spending.units + placing.effort > units
                or spending.deadline_passed()
            ):
                break
    except KeyboardInterrupt:
        if placing.plan is None:
            raise
        ended = INTERRUPTED
    if placing.plan is None:
        return Inconclusive(effort.timeout_reason if spending.deadline_passed() else _NOT_SOLVED)
    if not ended and spending.deadline_passed() and best > target_us:
        ended = effort.timeout_reason
    result = _build_result(request, placing, floor)
    return Inconclusive(ended, result) if ended else result


def _build_problem(request: Request, options: Options, dual: Dual) -> FlowProblem:
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
    if topology.ranks > MAX_RANKS:
        raise TooLargeError(
            f"topology {topology.name!r} has {topology.ranks} ranks, at most {MAX_RANKS} are "
            "served by model lp: ask 'sccl tacos'"
        )
    if request.spec.combining:
        hint = "; for as many bytes per rank, run lp on alltoall to get the arrival times"
        raise ParameterError(
            "model is lp, which sends bytes separately and reduces nothing on their way, and "
            f"{name} reduces: use milp or astar, or continuous, with combine direct if each "
            "contribution shall travel separately to the end"
            + (hint if request.spec == named_spec("reducescatter", topology.ranks) else "")
        )
    problem = build_flow_problem(topology, dual, request.size_bytes)
    if not is_unicast(problem):
        raise ParameterError(
            f"model is lp, which copies nothing, and in {name} several ranks need the same data: "
            "use continuous, milp, or astar; lp supports alltoall, scatter, and gather"
        )
    return problem


def _epoch_lengths(
    request: Request, options: Options, program: FlowProgram, floor: Fraction
) -> Iterator[Fraction]:
    """Yield how long epochs are to be, microseconds: as asked for, or ever shorter ones.

    Raises:
        ParameterError: that is nothing to go by.
    """
    topology, spec = request.topology, request.spec
    largest = request.size_bytes * max((1, *spec.counts))
    chunk_bytes = -(-largest // (spec.unit * options.chunks))
    problem = pose_chunks(topology, spec.at(spec.unit), Clock.from_topology(topology, chunk_bytes))
    length = epoch_length_us(problem, options.epoch, options.multiplier)
    if options.epoch != AUTO or options.multiplier > 1 or options.epochs:
        yield length
        return
    count = _COARSE_EPOCHS
    while program.columns(count) <= _MAX_AUTO_COLUMNS or count == _COARSE_EPOCHS:
        yield floor / count
        count *= 2


def _build_result(request: Request, placing: ScheduleBuilder, floor: Fraction) -> Solution:
    schedule = placing.schedule(request.topology, request.spec)
    attained = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    return Solution(schedule, attained, Bound(Measure.TIME_US, floor, (), "any chunks"))
