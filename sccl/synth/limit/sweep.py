"""Computing a limit frontier: the limit of one number of steps after the other, and its point."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.bounds import Bounds
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds import lower_bounds
from sccl.synth.ask import Solve
from sccl.synth.candidates import last_step, scope_of
from sccl.synth.folder import Folder
from sccl.synth.limit.attain import attain
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint
from sccl.synth.limit.steps import Packed, step_limit
from sccl.transform import pose


def limit_frontier(  # noqa: PLR0913 - what a sweep is given, and how it reports
    topology: Topology,
    spec: Spec,
    solve: Solve,
    *,
    max_steps: int | None = None,
    seconds: float = math.inf,
    folder: Folder | None = None,
    notify: Callable[[StepLimit | LimitPoint], None] = lambda _: None,
) -> LimitFrontier:
    """Return the limit frontier of a collective on a topology.

    Args:
        solve: answers an instance with little effort; asked for algorithms of few chunks. What it
            finds must not depend on how busy the machine is.
        max_steps: last S; None: three steps (of the dual) more than the latency bound.
        seconds: for each limit; by default effort alone ends them. Where time has run out, nothing
            is written from a packing, there or for more steps.
        folder: where to keep the algorithms; None: nowhere.
        notify: called with every limit and every point, for progress.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    begin = time.perf_counter()
    dual = dual_of(spec)
    pose(topology, spec, spec.unit, dual.phases, dual.phases)  # complains before anything runs
    bounds = lower_bounds(topology, spec)
    last = last_step(spec, bounds, max_steps)
    if folder:
        folder.prepare()
    run = _Run(topology, spec, dual, bounds, solve, seconds, folder, notify)
    stopped = run.until(last)
    return run.frontier(stopped, time.perf_counter() - begin)


@dataclass(slots=True)
class _Run:
    """A limit frontier as far as it is computed.

    Attributes:
        seconds: for each limit.
        packed: of every S that was looked at.
    """

    topology: Topology
    spec: Spec
    dual: Dual
    bounds: Bounds
    solve: Solve
    seconds: float
    folder: Folder | None
    notify: Callable[[StepLimit | LimitPoint], None]
    packed: list[Packed] = field(default_factory=list)
    points: list[LimitPoint] = field(default_factory=list)

    @property
    def late(self) -> bool:
        """Return whether seconds decided what some packing is."""
        return any(packed.timed_out for packed in self.packed)

    @property
    def known(self) -> bool:
        """Return whether every limit is known."""
        return all(packed.limit.known for packed in self.packed)

    def until(self, last: int) -> str:
        """Look at numbers of steps until ``last``; return why it stopped."""
        try:
            for steps in range(self.bounds.steps, last + 1, self.dual.phases):
                if self.look_at(steps).upper == self.bounds.bandwidth:
                    return "bandwidth-bound"
        except KeyboardInterrupt:
            return "interrupted"
        return "max-steps"

    def look_at(self, steps: int) -> StepLimit:
        """Return the limit of a number of steps, with its point if that improves on fewer steps."""
        started = time.perf_counter()
        before = self.packed[-1] if self.packed and not self.late else None
        self.packed.append(
            step_limit(self.topology, self.spec, steps, self.bounds, self.seconds, before)
        )
        limit = self.packed[-1].limit
        self.notify(limit)
        if not self.points or limit.upper < self.points[-1].limit.upper:
            self.points.append(_bare(limit, self.bounds, started))
            self.points[-1] = self.attained(self.points[-1])
            self.notify(self.points[-1])
        return limit

    def attained(self, point: LimitPoint) -> LimitPoint:
        """Return the latest point with its algorithm, if there is one.

        Where seconds decided what packings are, none is written down; and nothing is asked for
        unless every limit is known all the same.
        """
        begin, limit = time.perf_counter(), point.limit
        known, late = self.known, self.late
        ways = self.solve if known or not late else None
        algorithm = attain(self.packed[-1], self.dual, ways, from_packing=not late)
        if algorithm is not None and known and algorithm.bandwidth_cost == limit.lower:
            claims = (*point.optimal, "pareto")
            algorithm = replace(algorithm, scope=scope_of(None, self.dual.scope), proved=claims)
        seconds = point.seconds + time.perf_counter() - begin
        saved = self.folder.save(algorithm) if self.folder and algorithm is not None else None
        return replace(
            point,
            algorithm=algorithm,
            seconds=seconds,
            file=None if saved is None else str(saved),
            stopped="timeout" if late and algorithm is None else "",
        )

    def frontier(self, stopped: str, seconds: float) -> LimitFrontier:
        """Return what was found."""
        return LimitFrontier(
            self.topology,
            self.spec,
            self.bounds,
            tuple(self.points),
            tuple(packed.limit for packed in self.packed),
            complete=stopped == "bandwidth-bound" and self.known,
            stopped=stopped,
            scope=scope_of(None, self.dual.scope),
            seconds=seconds,
        )


def _bare(limit: StepLimit, bounds: Bounds, started: float) -> LimitPoint:
    """Return a point without its algorithm: what is left of it if the user interrupts now."""
    optimal = tuple(
        what
        for what, met in (
            ("latency", limit.steps == bounds.steps),
            ("bandwidth", limit.upper == bounds.bandwidth),
        )
        if met
    )
    return LimitPoint(limit, None, optimal, time.perf_counter() - started, stopped="interrupted")
