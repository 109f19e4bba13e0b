"""Compute a limit frontier: the limit of each number of steps, and its point."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds
from sccl.core.cost import Costs
from sccl.core.frontier import ClassFrontier, LimitPoint, StepLimitFrontier
from sccl.core.step_limit import StepLimit
from sccl.core.stop import INTERRUPTED, StopKind, StopReason
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.common.algorithm_folder import AlgorithmFolder
from sccl.synth.common.candidates import last_step, scope_text
from sccl.synth.common.step_limits import MAX_STEPS
from sccl.synth.packing.by_steps.limits_by_steps import (
    LimitWithPacking,
    check_size,
    extra_broadcast_steps,
    step_limit,
)
from sccl.synth.packing.by_steps.rounding import round_to_algorithm
from sccl.transform import InstanceSolver, build_question

NotifyLimit = Callable[[StepLimit | LimitPoint], None]
"""Called with every limit and every point, for progress."""


def limit_frontier(  # noqa: PLR0913 - the inputs and callbacks of a sweep
    topology: Topology,
    spec: Spec,
    solve: InstanceSolver,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: AlgorithmFolder | None = None,
    notify: NotifyLimit = lambda _: None,
    few_chunks: bool = True,
) -> StepLimitFrontier:
    """Return the limit frontier of a collective on a topology.

    Args:
        solve: Function that answers an instance with little effort, for algorithms of few chunks.
            Its answers must not depend on the load of the machine.
        max_steps: Last S. None: three steps (of the dual) more than the latency bound. For a
            broadcast to many ranks one more S is added: that of a scatter followed by an allgather,
            or else twice the smallest S.
        seconds: Time limit for each S. By default only effort ends the search. Once time has run
            out, no algorithm is written from a packing, for this S or a larger one.
        folder: Folder for the algorithms. None: they are not written.
        notify: Function that receives every limit and every point, for progress.
        few_chunks: Whether to search for algorithms with few chunks.

    Raises:
        InputError: The collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    build_question(topology, spec, spec.unit, dual.phases, dual.phases)  # checks the input early
    check_size(topology, spec)
    bounds = lower_bounds(topology, spec)
    last = last_step(spec, bounds, max_steps)
    if folder:
        folder.prepare()
    scope = scope_text(None, dual.scope)
    more = None if max_steps else extra_broadcast_steps(topology, spec, bounds.steps)
    beyond = (more,) if more and more > last else ()
    packed_class = _CollectiveClass(
        topology, bounds, seconds, "", scope, dual.phases, beyond, few_chunks, spec, solve
    )
    return compute_limits(last, packed_class, folder, notify, begin, bounds)


@dataclass(frozen=True, slots=True)
class PackingClass(ABC):
    """A class of algorithms whose limits are those of packings.

    Attributes:
        topology: Machine.
        bounds: Lower bounds on S and R/C of the class.
        seconds: Time limit for each S.
        name: Name of the class. Empty: it is the only class of the collective.
        scope: Description of the class.
        stride: Difference between consecutive S.
        extra_steps: Further S to compute after the last one.
        few_chunks: Whether to search for algorithms with few chunks.
        spec: Collective.
    """

    topology: Topology
    bounds: AlgorithmBounds
    seconds: float
    name: str
    scope: str
    stride: int
    extra_steps: tuple[int, ...]
    few_chunks: bool
    spec: Spec

    @abstractmethod
    def limit_with_packing(self, steps: int, earlier: LimitWithPacking | None) -> LimitWithPacking:
        """Return the limit of a number of steps, started from that of fewer steps."""

    @abstractmethod
    def algorithm(
        self, packed: LimitWithPacking, *, is_known: bool, is_late: bool
    ) -> tuple[AnyAlgorithm, str] | None:
        """Return an algorithm at or near a limit, and the method that made it.

        None: it is too large, or not searched.

        Args:
            is_known: Whether the limits up to this one are known.
            is_late: Whether the time limit influenced the packings. No algorithm is then written
                from them.
        """


def compute_limits(  # noqa: PLR0913, PLR0917 - the inputs and callbacks of a sweep
    last: int,
    of: PackingClass,
    folder: AlgorithmFolder | None,
    notify: NotifyLimit,
    begin: float,
    bounds: AlgorithmBounds | None = None,
) -> StepLimitFrontier:
    """Return the limit frontier of a collective with one class.

    Its limits end at S = ``last`` or :data:`~sccl.synth.common.step_limits.MAX_STEPS`.

    Args:
        begin: Start time on the clock of ``time.perf_counter``.
        bounds: Lower bounds of the collective.
    """
    run = _LimitSweep(of, folder, notify)
    ceiling = max(MAX_STEPS, of.bounds.steps)  # the first S is always tried, for its error
    stopped = run.run_until(min(last, ceiling))
    part = run.frontier(stopped, time.perf_counter() - begin)
    return StepLimitFrontier(
        of.topology.name,
        of.spec.name,
        of.spec.root,
        Costs.from_topology(of.topology),
        bounds,
        (part,),
        stop_reason=stopped,
        seconds=part.seconds,
    ).require_consistent()


@dataclass(slots=True)
class _LimitSweep:
    """The limits of a class that have been computed.

    Attributes:
        packed: Limits and packings of every S so far.
    """

    algorithm_class: PackingClass
    folder: AlgorithmFolder | None
    notify: NotifyLimit
    packed: list[LimitWithPacking] = field(default_factory=list)
    points: list[LimitPoint] = field(default_factory=list)

    @property
    def is_timed_out(self) -> bool:
        """Return whether the time limit influenced some packing."""
        return any(packed.is_timed_out for packed in self.packed)

    @property
    def is_exact(self) -> bool:
        return all(packed.limit.is_exact for packed in self.packed)

    def run_until(self, last: int) -> StopReason:
        """Compute limits of numbers of steps up to ``last``. Return why this stopped."""
        bounds = self.algorithm_class.bounds
        try:
            for steps in (
                *range(bounds.steps, last + 1, self.algorithm_class.stride),
                *self.algorithm_class.extra_steps,
            ):
                if self.examine_steps(steps).upper == bounds.bandwidth:
                    return StopReason(StopKind.BANDWIDTH_BOUND)
        except KeyboardInterrupt:
            return INTERRUPTED
        return StopReason(StopKind.MAX_STEPS)

    def examine_steps(self, steps: int) -> StepLimit:
        """Return the limit of a number of steps, with its point if that improves on fewer steps."""
        started = time.perf_counter()
        before = self.packed[-1] if self.packed and not self.is_timed_out else None
        self.packed.append(self.algorithm_class.limit_with_packing(steps, before))
        limit = self.packed[-1].limit
        self.notify(limit)
        if not self.points or limit.required_upper < self.points[-1].cost:
            point = LimitPoint.from_limit(limit, self.algorithm_class.bounds)
            seconds = time.perf_counter() - started
            self.points.append(replace(point, missing_reason=INTERRUPTED, seconds=seconds))
            point = self.with_algorithm(point)  # an interrupt here keeps the earlier point
            self.points[-1] = replace(point, seconds=time.perf_counter() - started)
            self.notify(self.points[-1])
        return limit

    def with_algorithm(self, point: LimitPoint) -> LimitPoint:
        """Return the latest point with its algorithm, or why there is none."""
        is_known, is_late = self.is_exact, self.is_timed_out
        made = self.algorithm_class.algorithm(self.packed[-1], is_known=is_known, is_late=is_late)
        if made is None:
            kind = StopKind.TIMEOUT if is_late else StopKind.TOO_LARGE
            return replace(point, missing_reason=StopReason(kind))
        algorithm, method = made
        if is_known and algorithm.bandwidth_cost == point.cost:
            claims = (*point.optimal, "pareto")
            algorithm = replace(algorithm, scope=self.algorithm_class.scope, proved=claims)
        return point.with_algorithm(
            algorithm,
            self.folder.save(algorithm, self.algorithm_class.name) if self.folder else None,
            method,
        )

    def frontier(self, stopped: StopReason, seconds: float) -> ClassFrontier:
        return ClassFrontier(
            self.algorithm_class.name,
            self.algorithm_class.scope,
            self.algorithm_class.bounds.steps,
            self.algorithm_class.bounds.bandwidth,
            tuple(self.points),
            tuple(packed.limit for packed in self.packed),
            is_complete=stopped.kind is StopKind.BANDWIDTH_BOUND and self.is_exact,
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class _CollectiveClass(PackingClass):
    """All algorithms of a collective. For allreduce: compositions of equal phases."""

    solve: InstanceSolver

    def limit_with_packing(self, steps: int, earlier: LimitWithPacking | None) -> LimitWithPacking:
        """Return the limit of a number of steps, started from that of one step less."""
        return step_limit(self.topology, self.spec, steps, self.bounds, self.seconds, earlier)

    def algorithm(
        self, packed: LimitWithPacking, *, is_known: bool, is_late: bool
    ) -> tuple[AnyAlgorithm, str] | None:
        """Return an algorithm of few chunks if limits are certain, or the packing's algorithm."""
        solve = self.solve if is_known or not is_late else None
        return round_to_algorithm(
            packed,
            dual_of(self.spec),
            solve,
            from_packing=not is_late,
            few_chunks=self.few_chunks,
        )
