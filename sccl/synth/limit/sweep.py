"""Computing a limit frontier: the limit of one number of steps after the other, and its point."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sccl.collectives import Spec, dual_of
from sccl.core.bounds import Bounds
from sccl.core.cost import Costs
from sccl.core.frontier import ClassFrontier, Frontier, Point
from sccl.core.limit import StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.prove.bounds import lower_bounds
from sccl.synth.ask import Solve
from sccl.synth.candidates import last_step, scope_of
from sccl.synth.folder import Folder
from sccl.synth.limit.attain import attain
from sccl.synth.limit.options import MAX_STEPS
from sccl.synth.limit.steps import Packed, check_size, step_limit, steps_beyond
from sccl.transform import pose

NotifyLimit = Callable[[StepLimit | Point], None]
"""Called with every limit and every point, for progress."""


def limit_frontier(  # noqa: PLR0913 - what a sweep is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: NotifyLimit = lambda _: None,
) -> Frontier:
    """Return the limit frontier of a collective on a topology.

    Args:
        solve: answers an instance with little effort, for algorithms of few chunks. Its answers
            must not depend on the load of the machine.
        max_steps: last S. None: three steps (of the dual) more than the latency bound, and, for a
            broadcast of many ranks, those of a scatter and then an allgather, or twice the fewest.
        seconds: limit for each. By default only effort ends them. If time has run out, nothing is
            written from a packing, there or for more steps.
        folder: where to keep the algorithms. None: nowhere.
        notify: called with every limit and every point, for progress.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    pose(topology, spec, spec.unit, dual.phases, dual.phases)  # complains before anything runs
    check_size(topology, spec)
    bounds = lower_bounds(topology, spec)
    last = last_step(spec, bounds, max_steps)
    if folder:
        folder.prepare()
    scope = scope_of(None, dual.scope)
    more = None if max_steps else steps_beyond(topology, spec, bounds.steps)
    beyond = (more,) if more and more > last else ()
    every = _OfCollective(topology, bounds, seconds, "", scope, dual.phases, beyond, spec, solve)
    stopped, part = limits_until(last, every, folder, notify, begin)
    return Frontier(
        topology.name,
        spec.name,
        spec.root,
        Costs.of(topology),
        bounds,
        (part,),
        stopped=stopped,
        seconds=part.seconds,
    ).require_consistent()


@dataclass(frozen=True, slots=True)
class PackedClass(ABC):
    """A class of algorithms whose limits are those of packings.

    Attributes:
        topology: the machine.
        bounds: on S and R/C of the class.
        seconds: for each limit.
        name: of the class. Empty: the collective has this class alone.
        scope: the class, in words.
        stride: from one S to the next.
        beyond: more S to look at, after the last.
    """

    topology: Topology
    bounds: Bounds
    seconds: float
    name: str
    scope: str
    stride: int
    beyond: tuple[int, ...]

    @abstractmethod
    def packed(self, steps: int, earlier: Packed | None) -> Packed:
        """Return the limit of a number of steps, begun with that of fewer."""

    @abstractmethod
    def algorithm(self, packed: Packed, *, known: bool, late: bool) -> AnyAlgorithm | None:
        """Return an algorithm at or near a limit. None: it is too large, or not searched.

        Args:
            known: whether the limits up to this are known.
            late: whether seconds determined the packings: then none is written down.
        """


def limits_until(
    last: int, of: PackedClass, folder: Folder | None, notify: NotifyLimit, begin: float
) -> tuple[str, ClassFrontier]:
    """Return why the limits of a class end before or at S = ``last``, and the limits.

    They end at :data:`~sccl.synth.limit.options.MAX_STEPS` as well.

    Args:
        begin: start time, by ``time.perf_counter``.
    """
    run = _Run(of, folder, notify)
    most = max(MAX_STEPS, of.bounds.steps)  # where the first is too large, that is complained of
    stopped = run.until(min(last, most))
    return stopped, run.frontier(stopped, time.perf_counter() - begin)


@dataclass(slots=True)
class _Run:
    """The limits of a class as far as they are computed.

    Attributes:
        packed: of every S that was looked at.
    """

    of: PackedClass
    folder: Folder | None
    notify: NotifyLimit
    packed: list[Packed] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)

    @property
    def late(self) -> bool:
        """Return whether seconds determined some packing."""
        return any(packed.timed_out for packed in self.packed)

    @property
    def known(self) -> bool:
        """Return whether every limit is known."""
        return all(packed.limit.known for packed in self.packed)

    def until(self, last: int) -> str:
        """Look at numbers of steps until ``last``; return why it stopped."""
        bounds = self.of.bounds
        try:
            for steps in (*range(bounds.steps, last + 1, self.of.stride), *self.of.beyond):
                if self.look_at(steps).upper == bounds.bandwidth:
                    return "bandwidth-bound"
        except KeyboardInterrupt:
            return "interrupted"
        return "max-steps"

    def look_at(self, steps: int) -> StepLimit:
        """Return the limit of a number of steps, with its point if that improves on fewer steps."""
        started = time.perf_counter()
        before = self.packed[-1] if self.packed and not self.late else None
        self.packed.append(self.of.packed(steps, before))
        limit = self.packed[-1].limit
        self.notify(limit)
        if not self.points or limit.best < self.points[-1].cost:
            point = Point.at(limit, self.of.bounds)
            seconds = time.perf_counter() - started
            self.points.append(replace(point, missing="interrupted", seconds=seconds))
            point = self.attained(point)  # the user may interrupt, which leaves the other
            self.points[-1] = replace(point, seconds=time.perf_counter() - started)
            self.notify(self.points[-1])
        return limit

    def attained(self, point: Point) -> Point:
        """Return the latest point with its algorithm, or why there is none."""
        known, late = self.known, self.late
        found = self.of.algorithm(self.packed[-1], known=known, late=late)
        if found is None:
            return replace(point, missing="timeout" if late else "")
        if known and found.bandwidth_cost == point.cost:
            claims = (*point.optimal, "pareto")
            found = replace(found, scope=self.of.scope, proved=claims)
        return point.with_algorithm(
            found, self.folder.save(found, self.of.name) if self.folder else None
        )

    def frontier(self, stopped: str, seconds: float) -> ClassFrontier:
        """Return the frontier so far."""
        return ClassFrontier(
            self.of.name,
            self.of.scope,
            self.of.bounds.steps,
            self.of.bounds.bandwidth,
            tuple(self.points),
            tuple(packed.limit for packed in self.packed),
            complete=stopped == "bandwidth-bound" and self.known,
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True)
class _OfCollective(PackedClass):
    """All algorithms of a collective; of allreduce, compositions of equal halves."""

    spec: Spec
    solve: Solve

    def packed(self, steps: int, earlier: Packed | None) -> Packed:
        """Return the limit of a number of steps, begun with that of a step less."""
        return step_limit(self.topology, self.spec, steps, self.bounds, self.seconds, earlier)

    def algorithm(self, packed: Packed, *, known: bool, late: bool) -> AnyAlgorithm | None:
        """Return one of few chunks, or the packing's; of few only where the limits are certain."""
        ways = self.solve if known or not late else None
        return attain(packed, dual_of(self.spec), ways, from_packing=not late)
