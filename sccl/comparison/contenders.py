"""Define the contenders of a comparison: synthesizers, classical algorithms, and files.

Each contender returns its fastest plan at a size. Algorithms in steps are timed with every send as
early as possible, and with chunks divided into the best number of pieces. Schedules are computed
for the size. TE-CCL and TACCL are exceptions: they plan only for one latency-bound size, one
bandwidth-bound size, and sizes between, and their schedules are retimed for other sizes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import msgspec

from sccl.collectives import Spec
from sccl.comparison.plan_simulation import buffer_bytes
from sccl.core.algorithm import Algorithm
from sccl.core.clock import AlphaModel, StepAlignment
from sccl.core.outcome import Inconclusive, Infeasible, Plan, Solution
from sccl.core.packed_schedule import PackedSchedule
from sccl.core.schedule import Schedule, ScheduleFilter
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TooLargeError
from sccl.judge import require_valid
from sccl.prove.bounds.time_cuts import CompletionTimeBound
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth import baselines
from sccl.synth.baselines import Pattern
from sccl.synth.baselines.pattern import build_pattern, split_chunks
from sccl.synth.baselines.pattern.link_capacity import link_bound_us
from sccl.synth.baselines.pattern.placement import time_pattern
from sccl.synth.common import registry
from sccl.synth.common.contract import Options, Request, Synthesizer, check_request
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform.retime import retime_schedule

PIECES = (1, 4, 16, 64)
"""Numbers of pieces per chunk that are tried, until more pieces do not help."""

MIN_GAIN = Fraction(99, 100)
"""Ratio to the time with fewer pieces up to which more pieces count as an improvement."""

MAX_SENDS = 40_000
"""Maximum number of sends after division into pieces, because verification is slow."""

CHUNKS = (1, 4, 16)
"""C divided by its unit, for synthesizers with an option for C."""

MAX_DELIVERIES = 300_000
"""Maximum number of chunk-destination pairs, for synthesizers with an option for C."""

TIME_LIMITS = "limits-time"
"""The synthesizer whose lower bounds hold for every chunk count. Others assume their own chunks."""

QUICK_UNITS = {"teccl": 0.1, "taccl": 0.1}
"""Budget per plan of synthesizers that improve their result. Their own commands use more."""

SIZE_STRIDES = {"teccl": 1, "taccl": 2}
"""Every n-th of the sizes between is planned for. With a stride of 2, allreduces on dgx1 take up to
1.3 % longer by TACCL and 15 % longer by TE-CCL.
"""

LATENCY_RATIO, BANDWIDTH_RATIO = Fraction(11, 10), 5
"""Ratios of a size's lower bound to that of one byte.

Latency dominates up to the first ratio, and bandwidth from the second ratio. In each of these two
ranges, one plan is retimed for all sizes. On dgx1, allreduce plans of TE-CCL and TACCL for 4 KB and
1 MB are within 0.1 % of plans for the smaller and larger sizes.
"""

ContenderKind = Literal["synthesiser", "baseline", "file"]


@dataclass(frozen=True, slots=True)
class ComparisonProblem:
    """The problem of a comparison.

    Attributes:
        topology: Machine as synthesis models it.
        spec: Collective.
        model: Alpha model.
        seed: Random seed.
        timeout_s: Time limit of each synthesizer in seconds. None: only the budget.
    """

    topology: Topology
    spec: Spec
    model: AlphaModel
    seed: int = 0
    timeout_s: float | None = None

    def request_for(self, size_bytes: int) -> Request:
        """Return the request for a size."""
        return Request(self.topology, self.spec, size_bytes)


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan with its times.

    Attributes:
        schedule: the plan as a schedule.
        about: description of the plan.
        is_verified: whether the plan has passed verification.
    """

    schedule: Schedule
    about: str
    is_verified: bool = False

    @property
    def us(self) -> Fraction:
        """Return the completion time in microseconds."""
        return self.schedule.finish_us

    def verify(self, made_by: str) -> TimedPlan:
        """Return the plan after verification.

        Raises:
            JudgeError: the plan fails verification.
        """
        if self.is_verified:
            return self
        return TimedPlan(require_valid(self.schedule, made_by), self.about, is_verified=True)


class DeadlineError(Exception):
    """A synthesizer has reached its time limit without a plan."""


@dataclass
class Contender(ABC):
    """A contender.

    Attributes:
        name: Name in the comparison.
        about: Description in one line.
        problem: Problem of the comparison.
        kind: Kind of contender.
        seconds: Seconds of planning so far.
        proved_us: Lower bound in microseconds that the contender proved for every chunk count, by
            size.
    """

    problem: ComparisonProblem
    name: str
    kind: ContenderKind
    about: str
    seconds: float = field(default=0.0, init=False)
    proved_us: dict[int, Fraction] = field(default_factory=dict, init=False)

    def choose_sizes(  # noqa: B027 - most contenders plan for each size
        self, sizes: Sequence[int], lower_bounds: CompletionTimeBound
    ) -> None:
        """Choose the sizes to plan for. The comparison calls this before :meth:`fastest`."""

    @abstractmethod
    def fastest(self, size_bytes: int) -> TimedPlan | None:
        """Return the fastest plan at a size, possibly not verified, or None if there is none.

        Raises:
            InputError: The contender does not support this machine, collective or size.
            DeadlineError: The contender has reached its time limit.
            KeyboardInterrupt: The user interrupted.
        """

    @contextmanager
    def count_time(self) -> Iterator[None]:
        """Add the time of the context to the seconds of planning."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began

    def best_plan(
        self, size_bytes: int, pattern_for: Callable[[int], Pattern | None], about: str
    ) -> TimedPlan:
        """Return the plan with the best number of pieces per chunk.

        More pieces are tried as long as they improve the time.

        Args:
            size_bytes: Size of a rank's buffer.
            pattern_for: Function from a number of pieces to a pattern. None: it is too large.
            about: Description of the algorithm. Empty: its chunk count.
        """
        best: TimedPlan | None = None
        chunks, problem = 0, self.problem
        for pieces in PIECES:
            pattern = pattern_for(pieces)
            if pattern is None:
                break
            if pattern.collective.chunks == chunks:
                continue  # algorithms that round small numbers of pieces up repeat a pattern
            chunks = pattern.collective.chunks
            if (
                best is not None
                and link_bound_us(pattern, problem.topology, size_bytes) > best.us * MIN_GAIN
            ):
                break
            schedule = time_pattern(
                pattern, problem.request_for(size_bytes), problem.model, StepAlignment.PIPELINED
            )
            words = about or f"C={pattern.collective.chunks}"
            candidate = TimedPlan(schedule, words + (f" in {pieces} pieces" if pieces > 1 else ""))
            if best is not None and candidate.us > best.us * MIN_GAIN:
                break
            best = candidate
        assert best is not None
        return best


@dataclass
class ClassicalContender(Contender):
    """A classical algorithm."""

    patterns: dict[tuple[int, int], Pattern | None] = field(default_factory=dict)

    def fastest(self, size_bytes: int) -> TimedPlan | None:
        """Return the algorithm with the fastest division into pieces."""
        return self.best_plan(size_bytes, lambda pieces: self._pattern(pieces, size_bytes), "")

    def _pattern(self, pieces: int, size_bytes: int) -> Pattern | None:
        key = (pieces, size_bytes if baselines.is_size_dependent(self.name) else 0)
        if key not in self.patterns:
            self.patterns[key] = self._build_pattern(pieces, size_bytes)
        return self.patterns[key]

    def _build_pattern(self, pieces: int, size_bytes: int) -> Pattern | None:
        """Return the pattern with chunks in ``pieces`` pieces, or None for too many sends."""
        fewer = [number for number in PIECES if number < pieces]
        if fewer:
            first, last = (self._pattern(number, size_bytes) for number in (1, fewer[-1]))
            assert first is not None
            grows = last is not None and last.num_sends > first.num_sends
            if last is None or first.num_sends * (pieces if grows else 1) > MAX_SENDS:
                return None
        with self.count_time():
            pattern = baselines.make_pattern(
                self.name, self.problem.request_for(size_bytes), pieces
            )
        return pattern if not fewer or pattern.num_sends <= MAX_SENDS else None


@dataclass
class AlgorithmContender(Contender):
    """Algorithms in steps.

    Attributes:
        find: Function that computes the algorithms. It is called on first use.
        algorithms: Description and pattern of each algorithm. None: not computed yet.
    """

    find: Callable[[], Sequence[Algorithm]]
    algorithms: list[tuple[str, Pattern]] | None = None

    def fastest(self, size_bytes: int) -> TimedPlan | None:
        """Return the fastest algorithm, with its fastest division into pieces."""
        if self.algorithms is None:
            with self.count_time():
                algorithms = self.find()
            self.algorithms = [(cost_text(a), pattern_of_algorithm(a)) for a in algorithms]
        best: TimedPlan | None = None
        for about, pattern in self.algorithms:
            if best and link_bound_us(pattern, self.problem.topology, size_bytes) >= best.us:
                continue
            plan = self.best_plan(size_bytes, lambda n, p=pattern: _cut_pattern(p, n), about)  # type: ignore[misc]
            if best is None or plan.us < best.us:
                best = plan
        return best


def _cut_pattern(pattern: Pattern, pieces: int) -> Pattern | None:
    """Return a pattern with chunks in ``pieces`` pieces, or None for too many sends."""
    few = pieces == 1 or pattern.num_sends * pieces <= MAX_SENDS
    return split_chunks(pattern, pieces) if few else None


def cost_text(algorithm: Algorithm) -> str:
    """Return the costs of an algorithm as text."""
    a = algorithm
    return f"C={a.collective.chunks} S={a.steps} R={a.rounds}"


def pattern_of_algorithm(algorithm: Algorithm) -> Pattern:
    """Return the sends of an algorithm as a pattern."""
    sends = algorithm.sends
    return build_pattern(
        algorithm.collective,
        step=[s.step for s in sends],
        chunk=[s.chunk for s in sends],
        src=[s.src for s in sends],
        dst=[s.dst for s in sends],
        reduce=[s.reduce for s in sends],
    )


@dataclass
class ScheduleContender(Contender):
    """A schedule, which is valid for a single size."""

    schedule: Schedule

    def fastest(self, size_bytes: int) -> TimedPlan | None:
        """Return the schedule if it has this size, else None."""
        if buffer_bytes(self.schedule) != size_bytes:
            return None
        chunks = self.schedule.collective.chunks
        return TimedPlan(self.schedule, f"C={chunks}", is_verified=True)


@dataclass
class SynthesizerContender(Contender):
    """A synthesizer.

    Synthesizers in :data:`QUICK_UNITS` plan for the largest size that latency dominates, for the
    smallest that bandwidth dominates, and for sizes between (:data:`SIZE_STRIDES`). For other
    sizes, these plans are retimed with the same order on each link.

    Attributes:
        synthesizer: The synthesizer.
        spending: Meter of the time and budget spent so far. None: not started.
        planned_sizes: Sizes for which it plans. Empty: all.
        plans: Plans for each size.
    """

    synthesizer: Synthesizer
    spending: EffortMeter | None = None
    planned_sizes: tuple[int, ...] = ()
    plans: dict[int, list[TimedPlan]] = field(default_factory=dict)

    def choose_sizes(self, sizes: Sequence[int], lower_bounds: CompletionTimeBound) -> None:
        """Choose the sizes to plan for, if the synthesizer is in :data:`QUICK_UNITS`.

        Args:
            sizes: All sizes of the comparison.
            lower_bounds: Lower bound on the completion time by size.
        """
        if self.synthesizer.NAME not in QUICK_UNITS:
            return
        latency, by_size = lower_bounds.us(1), {size: lower_bounds.us(size) for size in sizes}
        small = [size for size in sizes if by_size[size] <= LATENCY_RATIO * latency]
        large = [size for size in sizes if by_size[size] >= BANDWIDTH_RATIO * latency]
        between = sorted({*sizes} - {*small, *large})
        stride = SIZE_STRIDES[self.synthesizer.NAME]
        between = between[stride - 1 :: stride] or between
        planned = {*sorted(small)[-1:], *between, *sorted(large)[:1]}
        self.planned_sizes = tuple(sorted(planned))

    def fastest(self, size_bytes: int) -> TimedPlan | None:
        """Return the fastest plan, among several chunk counts if the synthesizer has the option."""
        if not self.planned_sizes or size_bytes in self.planned_sizes:
            plans = self._plans_at(size_bytes)
        else:
            smaller = [size for size in self.planned_sizes if size < size_bytes]
            larger = [size for size in self.planned_sizes if size > size_bytes]
            neighbors = [
                plan for size in (*smaller[-1:], *larger[:1]) for plan in self._plans_at(size)
            ]
            plans = self._retime(neighbors, size_bytes) or self._plans_at(size_bytes)
        return min(plans, key=lambda plan: plan.us, default=None)

    def _plans_at(self, size_bytes: int) -> list[TimedPlan]:
        """Return the plans for a size, which are computed once.

        After the time limit, these are the retimed plans for other sizes.
        """
        if size_bytes not in self.plans:
            try:
                self.plans[size_bytes] = self._plan_size(size_bytes)
            except DeadlineError:
                others = [plan for plans in self.plans.values() for plan in plans]
                self.plans[size_bytes] = self._retime(others, size_bytes)
                if not self.plans[size_bytes]:
                    raise
        return self.plans[size_bytes]

    def _plan_size(self, size_bytes: int) -> list[TimedPlan]:
        """Return a plan for each chunk count, until the time limit.

        Raises:
            DeadlineError: The time limit is reached without a plan.
            TooLargeError: Even the first chunk count is too large.
        """
        request = self.problem.request_for(size_bytes)
        check_request(self.synthesizer, request)
        self.spending = self.spending or EffortMeter(self._effort(self.problem.timeout_s))
        plans: list[TimedPlan] = []
        for options in self._option_variants(size_bytes):
            remaining = self.spending.remaining()
            if remaining is None:
                if not plans:
                    raise DeadlineError(str(self.spending.effort.timeout_reason))
                break
            try:
                plan = self._plan_once(request, options, remaining)
            except TooLargeError:
                if not plans:
                    raise
                break
            if plan is not None:
                plans.append(plan)
        return plans

    def _retime(self, plans: Sequence[TimedPlan], size_bytes: int) -> list[TimedPlan]:
        """Return plans retimed for another size. Plans that cannot be retimed are left out."""
        retimed = []
        for plan in plans:
            chunk_bytes = -(-size_bytes // plan.schedule.collective.chunks)
            with self.count_time(), suppress(ParameterError, TooLargeError):
                schedule = retime_schedule(plan.schedule, chunk_bytes)
                retimed.append(TimedPlan(schedule, plan.about))
        return retimed

    def _effort(self, seconds: float | None) -> Effort:
        return Effort(seconds, self.problem.seed, QUICK_UNITS.get(self.synthesizer.NAME))

    def _option_variants(self, size_bytes: int) -> Iterator[Options]:
        kind = self.synthesizer.Options
        names = {f.name for f in msgspec.structs.fields(kind)}
        common_options: dict[str, Any] = (
            {"alpha": self.problem.model.value} if "alpha" in names else {}
        )
        if "chunks" not in names or not kind().chunks:  # it chooses its own chunk count
            yield kind(**common_options)
            return
        spec = self.problem.spec
        pairs_per_unit = spec.at(spec.unit).pair_count
        fit = [c for c in CHUNKS if c == CHUNKS[0] or pairs_per_unit * c <= MAX_DELIVERIES]
        if self.problem.model is AlphaModel.TRAVELS:
            # If links are free during alpha, more chunks take no longer, except for rounding up
            # their size. So try the largest count, and the largest without rounding.
            divisors = [c for c in fit if size_bytes % (spec.unit * c) == 0]
            fit = sorted({fit[-1], *divisors[-1:]})
        for chunks in fit:
            yield kind(**common_options, chunks=chunks)

    def _plan_once(self, request: Request, options: Options, effort: Effort) -> TimedPlan | None:
        with self.count_time():
            outcome = registry.plan(self.synthesizer, request, options, effort)
        result = outcome.best if isinstance(outcome, Inconclusive) else outcome
        if (
            self.synthesizer.NAME == TIME_LIMITS
            and isinstance(result, Solution)
            and result.bound.value
        ):
            self.proved_us[request.size_bytes] = result.bound.value
        match outcome:
            case Solution(plan=plan):
                return self._time_plan(plan, request)
            case Inconclusive(reason=StopReason(kind=StopKind.INTERRUPTED)):
                raise KeyboardInterrupt
            case Inconclusive(reason=reason, best=None):
                raise DeadlineError(str(reason))
            case Inconclusive(best=Solution(plan=plan)):
                return self._time_plan(plan, request)
            case Infeasible():
                return None
        return None

    def _time_plan(self, plan: Plan, request: Request) -> TimedPlan:
        if isinstance(plan, PackedSchedule):
            return TimedPlan(plan.partial_schedule(ScheduleFilter()), f"C={plan.collective.chunks}")
        if isinstance(plan, Schedule):
            return TimedPlan(plan, f"C={plan.collective.chunks}", is_verified=True)
        algorithm = expand_algorithm(plan)
        pattern = pattern_of_algorithm(algorithm)
        about = cost_text(algorithm)
        return self.best_plan(
            request.size_bytes, lambda pieces: _cut_pattern(pattern, pieces), about
        )


@dataclass
class GatherContender(Contender):
    """An allreduce that gathers all buffers on every rank, which reduces them locally.

    The plan is an allgather of whole buffers. It takes half as many alphas as a reducescatter
    followed by an allgather, and transfers many more bytes.

    Attributes:
        gather: Contender that plans the allgather.
    """

    gather: SynthesizerContender

    def choose_sizes(self, sizes: Sequence[int], lower_bounds: CompletionTimeBound) -> None:
        """Choose the sizes that the allgather plans for."""
        self.gather.choose_sizes(sizes, lower_bounds)

    def fastest(self, size_bytes: int) -> TimedPlan | None:
        """Return the fastest allgather of buffers of a size."""
        if self.problem.spec.name != "allreduce":
            raise CollectiveError(
                f"{self.name} is an algorithm for allreduce, not for {self.problem.spec.name}: "
                "compare allreduce, or leave it out"
            )
        with self.count_time():
            gathered = self.gather.fastest(size_bytes)
        return gathered and replace(gathered, about=f"allgather, {gathered.about}")
