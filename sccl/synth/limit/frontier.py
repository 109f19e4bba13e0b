"""The limit frontier: for every S the infimum of R/C over all k and all C, and what attains it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat
from sccl.core.collective import MAX_CLASSIFIED
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds import LowerBounds, lower_bounds
from sccl.synth.ask import Solve, ask
from sccl.synth.candidates import last_step, scope_of
from sccl.synth.folder import Folder
from sccl.synth.limit.steps import Packed, step_limit
from sccl.topo.symmetry.expand import expand
from sccl.transform import pose

if TYPE_CHECKING:
    from sccl.synth.limit.solve import Limit

_ROUNDED_TIMES = (256, 64)  # C, in units, of an algorithm near a limit too large to write down
_ASKED_TIMES = (1, 2)
_AGAIN_EFFORT = 6.0  # 1.9 finds allgather (340, 7, 2771) on ndv2x2


@dataclass(frozen=True, slots=True)
class LimitPoint:
    """A point of the limit frontier.

    Attributes:
        algorithm: attains ``limit.upper`` if it can be found or written down, else is near it.
        attains: whether it does.
        optimal: ``"latency"``, ``"bandwidth"``, as far as the lower bounds are met.
        proved: whether no algorithm of the class with as many steps has a smaller R/C.
        seconds: for the limit and the algorithm together.
        stopped: why there is no algorithm, unless it would be too large: ``"timeout"``, here or
            with fewer steps, or ``"interrupted"``.
    """

    limit: StepLimit
    algorithm: Algorithm | None
    optimal: tuple[str, ...]
    seconds: float
    file: str | None = None
    stopped: str = ""

    @property
    def attains(self) -> bool:
        """Return whether the algorithm attains the limit's upper bound."""
        return self.algorithm is not None and self.algorithm.bandwidth_cost == self.limit.upper

    @property
    def proved(self) -> bool:
        """Return whether the limit is known."""
        return self.limit.known


@dataclass(frozen=True, slots=True)
class LimitFrontier:
    """The limit frontier, as far as it was computed.

    Attributes:
        points: by ascending S, each with a smaller R/C than the one before.
        limits: of every S that was looked at.
        complete: whether nothing of the class is missing: every limit is known, and the last meets
            the bandwidth bound.
        stopped: ``"bandwidth-bound"``, ``"max-steps"`` or ``"interrupted"``.
    """

    topology: Topology
    spec: Spec
    bounds: LowerBounds
    points: tuple[LimitPoint, ...]
    limits: tuple[StepLimit, ...]
    complete: bool
    stopped: str
    scope: str
    seconds: float


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
    every: list[Packed] = []
    limits: list[StepLimit] = []
    points: list[LimitPoint] = []
    stopped = "max-steps"
    try:
        for steps in range(bounds.steps, last + 1, dual.phases):
            started = time.perf_counter()
            late = any(packed.timed_out for packed in every)
            before = every[-1] if every and not late else None
            every.append(step_limit(topology, spec, steps, bounds, seconds, before))
            limits.append(every[-1].limit)
            notify(limits[-1])
            if not points or limits[-1].upper < points[-1].limit.upper:
                late |= every[-1].timed_out
                known = all(limit.known for limit in limits)
                points.append(_bare(limits[-1], bounds, started))
                ways = solve if known or not late else None
                points[-1] = _attained(
                    points[-1], every[-1], dual, ways, folder, known=known, late=late
                )
                notify(points[-1])
            if limits[-1].upper == bounds.bandwidth:
                stopped = "bandwidth-bound"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    return LimitFrontier(
        topology,
        spec,
        bounds,
        tuple(points),
        tuple(limits),
        complete=stopped == "bandwidth-bound" and all(limit.known for limit in limits),
        stopped=stopped,
        scope=scope_of(None, dual.scope),
        seconds=time.perf_counter() - begin,
    )


def _bare(limit: StepLimit, bounds: LowerBounds, started: float) -> LimitPoint:
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


def _attained(  # noqa: PLR0913 - a point, and all that decides what attains it
    point: LimitPoint,
    packed: Packed,
    dual: Dual,
    solve: Solve | None,
    folder: Folder | None,
    *,
    known: bool,
    late: bool,
) -> LimitPoint:
    """Return a point with its algorithm, if there is one.

    Args:
        solve: None: nothing is asked, as seconds decided what would be asked for.
        late: whether seconds decided what the packing is, so that it is not written down.
    """
    begin, limit = time.perf_counter(), point.limit
    algorithm = attain(packed, dual, solve, from_packing=not late)
    if algorithm is not None and known and algorithm.bandwidth_cost == limit.lower:
        claims = (*point.optimal, "pareto")
        algorithm = replace(algorithm, scope=scope_of(None, dual.scope), proved=claims)
    return replace(
        point,
        algorithm=algorithm,
        seconds=point.seconds + time.perf_counter() - begin,
        file=str(folder.save(algorithm)) if folder and algorithm is not None else None,
        stopped="timeout" if late and algorithm is None else "",
    )


def attain(
    packed: Packed, dual: Dual, solve: Solve | None, *, from_packing: bool = True
) -> Algorithm | None:
    """Return an algorithm at the limit with few chunks, else multiplied out, else one near it.

    Args:
        solve: None: no search for few chunks.
        from_packing: whether the packing may be written down.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    from sccl.synth.limit.multiply import multiply_out  # noqa: PLC0415 - loads the LP solver
    from sccl.synth.limit.solve import solve as solve_packing  # noqa: PLC0415

    limit, packings = packed.limit, packed.packings
    topology = packings[0].problem.topology
    if limit.proofs[0].on_reversed:
        topology = topology.reversed()
    for chunks, rounds in _smallest(limit, dual):
        if solve is None or chunks * topology.ranks > MAX_CLASSIFIED:
            break
        answer = ask(pose(topology, dual.original, chunks, limit.steps, rounds), solve)
        if isinstance(answer, Sat):
            return expand(answer.algorithm)
    if len(packings) > 1 or not from_packing:
        return None  # two phases that would have to agree in C and in rounds
    packing = packings[0]
    found = multiply_out(packing)
    if found is None and packing.exact:  # from other trees, perhaps with smaller denominators
        found = multiply_out(solve_packing(packing.problem, packing.lower, effort=_AGAIN_EFFORT))
    found = found or near(packing)
    if found is None:
        return None
    whole = found.collective.chunks * dual.chunk_factor
    question = pose(topology, dual.original, whole, limit.steps, found.rounds * dual.phases)
    return expand(question.recover([found]))


def near(packing: Limit) -> Algorithm | None:
    """Return an algorithm near a packing, of as many chunks as can well be written down."""
    from sccl.synth.limit.multiply import round_off  # noqa: PLC0415 - loads the LP solver

    return next(filter(None, (round_off(packing, times) for times in _ROUNDED_TIMES)), None)


def _smallest(limit: StepLimit, dual: Dual) -> Iterator[tuple[int, int]]:
    """Yield the smallest (C, R) with R/C at the limit."""
    unit = dual.spec.unit * dual.chunk_factor
    per_unit = limit.upper * unit / dual.phases
    chunks = unit * per_unit.denominator
    while chunks * limit.upper < limit.steps:
        chunks += unit * per_unit.denominator
    for times in _ASKED_TIMES:
        yield chunks * times, int(chunks * times * limit.upper)
