"""Improve the schedule of one phase of a collective until it attains its lower bound.

A combining collective is planned as its dual on the reversed machine. An allreduce has both phases,
one after the other (:mod:`sccl.collectives.duals`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import Spec
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.stop import NOT_STOPPED, StopReason
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.solvers import cpsat
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.common.contract import Notify, Request, SearchProgress
from sccl.synth.common.reduction import Phase
from sccl.synth.limits import INFINITE, MAX_INTERVALS, MAX_SENDS
from sccl.synth.network.bandwidth_files import bandwidth_from_wire
from sccl.synth.network.symmetries import free_symmetries
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.bounds import chunk_sizes, compute_lower_bound
from sccl.synth.scheduling.intervals_cpsat import IntervalModel, SymmetryAction
from sccl.synth.scheduling.list_scheduling import list_schedule
from sccl.synth.scheduling.neighborhoods import NeighborhoodSearch
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem, build_problem
from sccl.synth.scheduling.serial import serial_schedule
from sccl.synth.scheduling.warm_start import (
    NoScheduleError,
    schedule_to_sends,
    warm_start_from_tacos,
)
from sccl.synth.teccl.astar import solve_rounds
from sccl.synth.teccl.epoch_search import EpochSearch
from sccl.synth.teccl.epochs import epoch_length
from sccl.synth.teccl.options import Options
from sccl.synth.teccl.time_varying_epochs import build_varying_epochs
from sccl.synth.teccl.time_varying_problem import varying_lower_bound, with_varying_bandwidth

_MAX_GROUPS = 3
"""Groups of symmetries that are tried, the largest ones. Each takes a part of the budget."""

EPOCH_MODELS = frozenset({"milp", "astar"})
"""Models whose time is in epochs."""

LIST_SCHEDULING = "list scheduling"
"""Name of the method that finds the schedule that models begin with."""

_MIN_ROUND_EPOCHS = 4
"""Fewest epochs of a round of A*, in addition to those of the longest alpha."""

STRATEGY = cpsat.Strategy(conflicts=4000)


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """Epoch length, number of epochs, and model of the best schedule so far."""

    epoch_us: float
    epochs: int
    model: str


@dataclass(frozen=True, slots=True)
class ScheduleOrigin:
    """Method that found the returned schedule, for collectives without reductions."""

    found_by: str


@dataclass
class PhaseSearch:
    """A search for a schedule of one phase.

    Attributes:
        problem: Scheduling problem of the phase.
        options: Options of TE-CCL.
        sends: Sends of the best schedule. None: no schedule is known.
        lower_bound: Lower bound on the completion time with these chunks, units. For concurrent
            collectives with priorities: on the weighted sum of their completion times.
        steady_lower_bound: Lower bound on the completion time at constant bandwidth, units.
        earliest_finishes: Lower bounds on the completion times of concurrent collectives, units.
        notify: Receiver of progress.
        stop_reason: Why list scheduling ended before its budget was spent.
        method: Method that found the best schedule: list scheduling, or a model. Empty: no
            schedule is known.
        is_bound_by_search: Whether the solver proved the lower bound.
        is_exhausted: Whether the model of all chunks has no better schedule.
    """

    problem: SchedulingProblem
    options: Options
    sends: tuple[ChunkSend, ...] | None
    lower_bound: int
    steady_lower_bound: int
    earliest_finishes: tuple[int, ...]
    notify: Notify
    stop_reason: StopReason = NOT_STOPPED
    method: str = ""
    is_bound_by_search: bool = False
    is_exhausted: bool = False
    model_type: ClassVar[type[IntervalModel]] = IntervalModel
    intervals_per_route: ClassVar[int] = 1
    """Number of intervals per chunk and route in a model."""
    max_intervals: ClassVar[int] = MAX_INTERVALS
    """Maximum number of intervals in a model of all chunks."""
    min_units: ClassVar[float] = 1e-3
    """Minimum effort for a neighborhood."""
    full_model_units: ClassVar[tuple[float, float]] = (2.0, 1.0)
    """Effort for a model of all chunks, and for one with a chunk of each orbit."""

    @property
    def finish(self) -> int:
        """Return the completion time, in units."""
        if self.sends is None:
            return INFINITE
        return self.problem.finish(self.sends)

    @property
    def objective(self) -> int:
        """Return the objective: the completion time, or its weighted sum with priorities."""
        return INFINITE if self.sends is None else self.problem.objective(self.sends)

    @property
    def finish_ticks(self) -> int:
        """Return the completion time, in ticks."""
        return self.finish * self.problem.unit

    @property
    def target(self) -> int:
        """Return the largest objective within the requested gap of the lower bound, in units."""
        return max(self.lower_bound, int(self.lower_bound * (1 + Fraction(self.options.gap))))

    def durations(self, sends: Sends) -> NDArray[np.int64]:
        """Return the ticks between start and arrival of each send, shape (sends,)."""
        costs = np.array(self.problem.costs, dtype=np.int64) * self.problem.unit
        return costs[np.array(self.problem.size, dtype=np.int64)[sends.chunk], sends.link]

    def to_sends(self) -> Sends:
        """Return the sends as columns, with starts in ticks."""
        return to_columns(self.problem, self.sends or ())

    def _accept(self, sends: tuple[ChunkSend, ...]) -> None:
        before, kept = self.objective, (self.sends, self.method)
        model = self.options.model
        self.sends, self.method = sends, model if model in EPOCH_MODELS else "continuous"
        if self.objective < before:
            self.report()
        elif self.objective > before:
            self.sends, self.method = kept

    def report(self) -> None:
        """Report the objective and its bound, as a weighted mean, in microseconds."""
        all_of_it = sum(self.problem.priorities)
        us, lower_bound_us = map(self.problem.to_us, (self.objective, self.lower_bound))
        self.notify(SearchProgress(us / all_of_it, lower_bound_us / all_of_it))

    def improve(self, effort: Effort) -> None:
        """Improve the schedule until it is within the gap, or the budget is spent.

        Raises:
            ParameterError: The options are contradictory.
            TooLargeError: A model would be too large.
            KeyboardInterrupt: The user interrupted. Results so far are kept.
        """
        target, spending = self.target, EffortMeter(effort)
        if self.options.model in EPOCH_MODELS:
            self._improve_in_epochs(spending, target)
        else:
            self._improve_continuously(spending, target)

    def _improve_continuously(self, spending: EffortMeter, target: int) -> None:
        for action in self._symmetry_actions():
            if self.objective > target:
                self._solve_all_chunks(action, spending)
        if self.objective > target and not self.is_exhausted and self.sends is not None:
            search = NeighborhoodSearch(
                self.problem,
                SymmetryAction.identity(self.problem),
                self.sends,
                target,
                self.earliest_finishes,
                STRATEGY,
                self._accept,
                self.model_type,
                self.intervals_per_route,
                self.min_units,
            )
            search.run(spending)

    def _improve_in_epochs(self, spending: EffortMeter, target: int) -> None:
        asked = self.options
        length = epoch_length(self.problem, asked.epoch, asked.multiplier)
        epochs = build_varying_epochs(self.problem, length, ports=asked.has_exclusive_ports)
        actions = list(self._symmetry_actions())
        take = lambda sends, count: self._accept_epochs(sends, epochs.length_us, count)  # noqa: E731
        if asked.buffers is not None:
            actions = actions[-1:]
        search = EpochSearch(
            epochs, actions, self.steady_lower_bound, asked.buffers, take, asked.solver
        )
        if asked.model == "astar":
            self._improve_in_rounds(
                search, spending, asked.epochs or max(_MIN_ROUND_EPOCHS, epochs.max_delay) + 1
            )
        elif asked.epochs:
            search.solve_within(asked.epochs, spending)
        else:
            search.find_min_epochs(spending, target, None if self.sends is None else self.finish)

    def _improve_in_rounds(self, search: EpochSearch, spending: EffortMeter, count: int) -> None:
        """Keep the schedule of A*, even if it is slower. If it has none, keep the earlier one.

        Args:
            search: The search, with epochs and symmetries.
            spending: The budget.
            count: Number of epochs of a round.
        """
        before = self.sends, self.method
        self.sends, self.method = None, ""
        try:
            solve_rounds(search, spending, count)
        finally:
            if self.sends is None:
                self.sends, self.method = before

    def _accept_epochs(self, sends: tuple[ChunkSend, ...], epoch_us: float, count: int) -> None:
        before = self.finish
        self._accept(sends)
        if self.finish < before:
            self.notify(EpochProgress(epoch_us, count, self.options.model))

    def _symmetry_actions(self) -> Iterator[SymmetryAction]:
        """Yield symmetries to impose on a model of all chunks. The last one is the identity."""
        problem = self.problem
        if len(problem.capacity) == len(problem.topology.links) and len(problem.priorities) == 1:
            for group in islice(free_symmetries(problem.topology, problem.collective), _MAX_GROUPS):
                if len(group) > 1:
                    action = SymmetryAction.of(problem, group)
                    if problem.varying_routes and not all(
                        map(problem.varying_routes[0].is_invariant, action.links)
                    ):
                        continue
                    yield action
        yield SymmetryAction.identity(problem)

    def _solve_all_chunks(self, action: SymmetryAction, spending: EffortMeter) -> None:
        is_single = len(action.chunks) == 1
        left = spending.remaining(self.full_model_units[0 if is_single else 1])
        if (
            self.intervals_per_route * len(action.representatives) * len(self.problem.src)
            > self.max_intervals
            or not left
            or spending.is_exhausted()
        ):
            return
        hint_sends = (self.sends or ()) if is_single else ()
        model = self.model_type(self.problem, action, self._horizon(), hint_sends)
        model.minimize_finish(self.lower_bound)
        result = model.solve(left, STRATEGY)
        spending.units += result.effort_units
        if result.sends is not None:
            self._accept(tuple(action.images(result.sends)))
        if is_single and (result.optimal or result.refuted):
            self._mark_exhausted()

    def _cutoff(self) -> int:
        """Return the completion time that a model must beat, in units."""
        return self.finish

    def _mark_exhausted(self) -> None:
        """Record that the model of all chunks has no better schedule."""
        self.is_exhausted = True
        if self.problem.is_link_only:
            self.lower_bound, self.is_bound_by_search = self.objective, True

    def _horizon(self) -> int:
        """Return an upper bound on the completion time of any better schedule, in units.

        With priorities, one collective may finish later if the others finish as early as possible.
        """
        if len(self.earliest_finishes) == 1:
            return self._cutoff() - 1
        spare = self.objective - 1 - self.problem.weighted_sum(self.earliest_finishes)
        pairs = zip(self.earliest_finishes, self.problem.priorities, strict=True)
        return max(lower_bound + spare // priority for lower_bound, priority in pairs)


def to_columns(problem: SchedulingProblem, sends: Iterable[ChunkSend]) -> Sends:
    """Return sends as columns, with starts in ticks."""
    rows = [(s.start * problem.unit, s.chunk, s.route, s.reduce) for s in sends]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Sends(
        start=table[:, 0].copy(),
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=table[:, 3].astype(np.bool_),
    ).sorted_sends()


def build_phase(reduced: Phase, options: Options, effort: Effort, notify: Notify) -> PhaseSearch:
    """Build the search of a phase, with a first schedule if list scheduling supports the options.

    Args:
        reduced: The phase. Its size is that of an element if chunks have counts.
        options: Options of TE-CCL.
        effort: The budget.
        notify: Receiver of progress.

    Raises:
        InputError: The machine or the collective is not supported, or the transfers are too many.
        NoScheduleError: Time ran out before there was a schedule.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    machine, spec, size_bytes = reduced.topology, reduced.spec, reduced.size_bytes
    collective = spec.at(spec.unit * options.chunks)
    _check_size(collective, spec.name, machine.ranks)
    sizes = chunk_sizes(collective, size_bytes)
    request = Request(machine, spec, size_bytes)
    model = AlphaModel(options.alpha)
    first, ended = None, NOT_STOPPED
    alike = not collective.counts  # TACOS supports only chunks of one size
    rounds = options.model == "astar"
    begins = options.buffers is None and (rounds or not options.epochs)
    if alike and begins:
        # a schedule for A* is kept only if its rounds do not end
        improve = 0.0 if rounds else min(1.0, effort.units or 1.0)
        first, ended = warm_start_from_tacos(
            request, options.chunks, options.alpha, effort, improve
        )
    tick_ps = 1 if first is None else first.tick_ps
    clock = Clock.from_topology(machine, sizes, model, tick_ps)
    parts = [count for _, count in spec.parts] if options.priorities else []
    problem = build_problem(
        machine, collective, clock, parts, options.priorities, backwards=reduced.is_backwards
    )
    if options.bandwidth is not None:
        problem = with_varying_bandwidth(problem, bandwidth_from_wire(options.bandwidth))
    sends = None if first is None else schedule_to_sends(problem, first)
    if not alike and begins:
        sends = list_schedule(problem, effort.seed, EffortMeter(effort).deadline_passed)
        if sends is None:
            raise NoScheduleError(effort.timeout_reason)
    attained = INFINITE if first is None else first.finish
    lower_bound = -(
        -compute_lower_bound(machine, spec, problem, size_bytes, attained) // problem.unit
    )
    steady = lower_bound
    if problem.varying_routes:
        lower_bound = max(lower_bound, varying_lower_bound(problem))
        sends = None if sends is None else serial_schedule(problem, sends, 0)
        if sends is not None and problem.finish(sends) >= INFINITE:  # a link is out forever
            sends = None
    soonest: tuple[int, ...] = (lower_bound,)
    if options.priorities:
        soonest = _separate_lower_bounds(machine, spec, problem, size_bytes, options.chunks)
        lower_bound = _joint_lower_bound(problem.priorities, soonest, lower_bound)
    phase = PhaseSearch(problem, options, sends, lower_bound, steady, soonest, notify, ended)
    if sends is not None:
        phase.method = LIST_SCHEDULING
        phase.report()
    return phase


def _check_size(collective: Collective, name: str, ranks: int) -> None:
    """Check that models of a collective are small enough.

    Raises:
        TooLargeError: There are too many transfers.
    """
    classes = collective.chunk_classes().items()
    wanted = sum(len(members) * len(post - pre) for (pre, post), members in classes)
    if wanted > MAX_SENDS:
        raise TooLargeError(
            f"{name} of {ranks} ranks with C={collective.chunks} takes {wanted} transfers; models "
            f"are made of up to {MAX_SENDS}: give fewer chunks, or ask 'sccl synth tacos'"
        )


def _separate_lower_bounds(
    machine: Topology, spec: Spec, problem: SchedulingProblem, size_bytes: int, chunks: int
) -> tuple[int, ...]:
    """Return a lower bound for each of several concurrent collectives alone, in units."""
    lower_bounds = []
    for part in spec.single_specs():
        collective, its = part.at(part.unit * chunks), problem.clock
        clock = Clock.from_topology(
            machine, chunk_sizes(collective, size_bytes), its.model, its.tick_ps
        )
        lower_bound = compute_lower_bound(
            machine, part, build_problem(machine, collective, clock), size_bytes, INFINITE
        )
        lower_bounds.append(-(-lower_bound // problem.unit))
    return tuple(lower_bounds)


def _joint_lower_bound(priorities: Sequence[int], soonest: Sequence[int], lower_bound: int) -> int:
    """Return a lower bound on the weighted sum of completion times.

    Each collective finishes no earlier than its own bound, and the last one no earlier than the
    bound of all together.
    """
    value = sum(p * finish for p, finish in zip(priorities, soonest, strict=True))
    pairs = zip(priorities, soonest, strict=True)
    return value + min(p * max(0, lower_bound - finish) for p, finish in pairs)
