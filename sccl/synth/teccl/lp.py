"""Solve TE-CCL's linear program, for collectives without copies, in the fewest epochs.

Source: Liu et al., TE-CCL (SIGCOMM 2024), section 4.1. The program has rates, so the bytes of a
chunk may take several paths. All data of a source rank are one flow, and images of a flow under
symmetries share its variables.

Three deviations: the objective is not early arrival. The search decides numbers of epochs one after
the other, and selects, among the flows that arrive in time, those that use the fewest links. The
paths of the flows become chunks of different sizes, and these are scheduled in exact time. So a
schedule may be faster than its epochs, or slower if links wait for one another.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from sccl.synth.common.contract import Notify, Request, SearchProgress
from sccl.synth.limits import (
    BOUND_SLOTS,
    ELEMENT_EFFORT,
    LIMIT_EFFORT,
    MAX_COLUMNS,
    MAX_PROGRAM_RANKS,
    MAX_SMALL_MODEL,
    OPERATION_EFFORT,
    STEP_EFFORT,
)
from sccl.synth.packing.flow_lp import FlowProgram, is_unicast
from sccl.synth.packing.flow_problem import FlowProblem, build_flow_problem
from sccl.synth.packing.schedule_builder import ScheduleBuilder, forward_or_reversed
from sccl.synth.packing.send_plans import plan_sends
from sccl.synth.packing.slots import TimedPacking, uniform_slots
from sccl.synth.scheduling.problem import build_problem as build_chunk_problem
from sccl.synth.teccl.epochs import AUTO, MAX_EPOCHS, epoch_length_us
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.phase_search import EpochProgress

_NOT_SOLVED = StopReason(StopKind.BUDGET, "no program was solved in its effort")


@dataclass
class _HorizonSearch:
    """A search for the fewest epochs.

    Attributes:
        program: Linear program of the flows.
        solver: Solver of the program.
        length: Length of an epoch, microseconds.
        spending: Budget of effort.
        results: Flows for each number of epochs. None: proved to be infeasible.
    """

    program: FlowProgram
    solver: str
    length: Fraction
    spending: EffortMeter
    results: dict[int, TimedPacking | None]

    def solve(self, count: int) -> TimedPacking | None:
        """Return flows that arrive within a number of epochs. None: no such flows are known.

        Raises:
            TooLargeError: The program would be too large.
            KeyboardInterrupt: The user interrupted.
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
        packing, result = self.program.solve(slots, total_us, LIMIT_EFFORT, seconds, self.solver)
        self.spending.units += (ELEMENT_EFFORT * result.pivots + OPERATION_EFFORT) * columns
        if result.status is not SparseStatus.UNKNOWN:
            self.results[count] = None if packing is None else replace(packing, us=total_us)
        return self.results.get(count)

    def find_packing(self, epochs: int, bound_us: Fraction) -> TimedPacking | None:
        """Return flows in a number of epochs, or in the fewest. None: no such flows are known.

        Args:
            epochs: Number of epochs. 0: the fewest.
            bound_us: Lower bound on the completion time, microseconds, where the search starts.

        Raises:
            ParameterError: It is proved that the epochs are too few.
            TooLargeError: The program would be too large.
            KeyboardInterrupt: The user interrupted.
        """
        if not epochs:
            return self.find_min_packing(bound_us)
        packing = self.solve(epochs)
        if packing is None and epochs in self.results:
            fewest_packing = self.find_min_packing(bound_us)
            hint = (
                "give more" if fewest_packing is None else f"{fewest_packing.slots.count} will do"
            )
            raise ParameterError(
                f"epochs is {epochs}: it is proved that {format_count(epochs, 'epoch')} of "
                f"{float(self.length):g} us are too few: {hint}"
            )
        return packing

    def find_min_packing(self, bound_us: Fraction) -> TimedPacking | None:
        """Return flows in the fewest epochs. None: time ran out first."""
        count = max(1, ceil(bound_us / self.length))
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


def plan_flows(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return a schedule of flows without copies, with a lower bound.

    Args:
        request: Machine, collective, and size.
        options: Options of TE-CCL.
        effort: The budget.
        notify: Receiver of progress.

    Raises:
        InputError: The options do not fit the request, or the machine is too large.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    dual = dual_of(request.spec)
    problem = _build_problem(request, options, dual)
    bound_us = completion_time_bound(request.topology, dual.spec).us(request.size_bytes)
    spending, ended = EffortMeter(effort), NOT_STOPPED
    builder = ScheduleBuilder(
        problem, dual, forward_or_reversed(request.topology, dual), spending.deadline_passed
    )
    if not problem.commodities:
        builder.plan = plan_sends(problem, None, dual, 1)
        return _build_result(request, builder, bound_us)
    target_us = float(bound_us) * (1 + options.gap)
    units = STEP_EFFORT if effort.units is None else effort.units
    best = float("inf")
    try:
        program = FlowProgram(problem)
        for length in _epoch_lengths(request, options, program, bound_us):
            horizons = _HorizonSearch(program, options.solver, length, spending, {})
            packing = horizons.find_packing(options.epochs, bound_us)
            if packing is None:
                continue
            us = builder.schedule_packing(packing, target_us, thorough=True)
            if us < best:
                best = us
                notify(EpochProgress(float(length), packing.slots.count, options.model))
                notify(SearchProgress(us, float(bound_us)))
            if (
                us <= target_us
                or spending.units + builder.effort > units
                or spending.deadline_passed()
            ):
                break
    except KeyboardInterrupt:
        if builder.plan is None:
            raise
        ended = INTERRUPTED
    if builder.plan is None:
        return Inconclusive(effort.timeout_reason if spending.deadline_passed() else _NOT_SOLVED)
    if not ended and spending.deadline_passed() and best > target_us:
        ended = effort.timeout_reason
    result = _build_result(request, builder, bound_us)
    return Inconclusive(ended, result) if ended else result


def _build_problem(request: Request, options: Options, dual: Dual) -> FlowProblem:
    """Return the flow problem of a request.

    Raises:
        InputError: The program does not support the request, or the machine is too large.
    """
    topology, name = request.topology, request.spec.name
    if options.alpha != AlphaModel.TRAVELS.value:
        raise ParameterError(
            f"alpha is {options.alpha} in model lp, expected travels: bytes that flow wait for no "
            "chunk, and an alpha that occupies its link is paid for every chunk"
        )
    if options.has_exclusive_ports:
        raise ParameterError(
            "switch is hyperedge in model lp, expected machine, copy or nocopy: with split "
            "chunks, links do not send one chunk at a time"
        )
    if topology.ranks > MAX_PROGRAM_RANKS:
        raise TooLargeError(
            f"topology {topology.name!r} has {topology.ranks} ranks, at most {MAX_PROGRAM_RANKS} "
            "are served by model lp: ask 'sccl synth tacos'"
        )
    if request.spec.combining:
        hint = "; for as many bytes per rank, run lp on alltoall to get the arrival times"
        raise ParameterError(
            f"model is lp, which has no reductions on a path, and {name} reduces: use milp or "
            "astar, or continuous, with combine direct if each contribution shall travel "
            "separately to the end"
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
    request: Request, options: Options, program: FlowProgram, bound_us: Fraction
) -> Iterator[Fraction]:
    """Yield epoch lengths in microseconds: the requested one, or ever shorter ones.

    Raises:
        ParameterError: The requested length is invalid.
    """
    topology, spec = request.topology, request.spec
    largest = request.size_bytes * max((1, *spec.counts))
    chunk_bytes = -(-largest // (spec.unit * options.chunks))
    problem = build_chunk_problem(
        topology, spec.at(spec.unit), Clock.from_topology(topology, chunk_bytes)
    )
    length = epoch_length_us(problem, options.epoch, options.multiplier)
    if options.epoch != AUTO or options.multiplier > 1 or options.epochs:
        yield length
        return
    count = BOUND_SLOTS
    while program.columns(count) <= MAX_SMALL_MODEL or count == BOUND_SLOTS:
        yield bound_us / count
        count *= 2


def _build_result(request: Request, builder: ScheduleBuilder, bound_us: Fraction) -> Solution:
    schedule = builder.schedule(request.topology, request.spec)
    return Solution(
        schedule, schedule.finish_us, Bound(Measure.TIME_US, bound_us, (), "any chunks")
    )
