"""A schedule near the least time of all chunkings, and its bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.outcome import Bound, Found, GaveUp, Measure, Outcome
from sccl.errors import ParameterError, TooLargeError, TopologyError
from sccl.prove.bounds import least_time
from sccl.solvers.effort import Effort
from sccl.synth.contract import Notify, Request
from sccl.synth.flows.arcs import is_unicast
from sccl.synth.flows.matched import has_ports
from sccl.synth.flows.placed import planned
from sccl.synth.flows.problem import pose
from sccl.synth.flows.schedules import Placing, readings_of
from sccl.synth.fluid.equal import better, finer, listed, overlapping
from sccl.synth.fluid.floors import engine_of, narrowed_search
from sccl.synth.fluid.late import late_us
from sccl.synth.fluid.least import Least
from sccl.synth.fluid.options import Options
from sccl.synth.fluid.pricing import TreePricing
from sccl.synth.fluid.turning import can_turn, turned

UNITS = 0.7
"""Default effort in units of a few seconds."""

MOST_RANKS = 128
MOST_COMMODITIES = 5000
"""Limit on classes that are no images of one another: with more the program becomes slow."""

_PS_PER_US = 10**6

_FEW = 3
"""Multiple of the longest alpha within which links between chassis cannot forward arrivals."""

_NEAR, _DEAR, _SLOTS = 1.03, 0.1, 20
"""Times the bound, up to which a schedule is not bettered by packings if these are dear: if pricing
trees of so many slots once takes so much effort."""

_WHOLE = 2.0
"""Effort for an allreduce that is not two phases."""

_LATE, _INTERRUPTED = "late", "interrupted"


@dataclass(frozen=True, slots=True)
class Narrowed:
    """No schedule takes less than one time, and one takes the other, microseconds."""

    least_us: float
    us: float


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user interrupted. The result is kept once its sends are verified."""

    kept_sends: int


class _NoPackingError(Exception):
    """Packings cannot be looked for, and there is no schedule."""

    def __init__(self, floor: Fraction, why: TooLargeError) -> None:
        """Keep the lower bound, microseconds, and why there is no packing."""
        super().__init__(str(why))
        self.floor, self.why = floor, why


@dataclass
class _Half:
    """The result of one phase.

    Attributes:
        floor: lower bound, microseconds.
        ended: why it ended before its time. Empty: it did not.
    """

    placing: Placing
    floor: Fraction
    ended: str = ""

    def match(self, gap: float, units: float, told: Callable[[float, float], None]) -> None:
        """Make schedules of chunks of one size.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        floor = float(self.floor)
        told(floor, inf)
        few = self.floor < _FEW * max(self.placing.problem.alpha)
        us = self.placing.match(floor, gap, floor if few else 0.0, units)
        told(floor, us if self.placing.plan is not None else inf)

    def pack(
        self, gap: float, units: float, deadline: float, told: Callable[[float, float], None]
    ) -> None:
        """Make schedules of packings, unless one is near enough, and raise the floor.

        Raises:
            _NoPackingError: packings cannot be looked for, and there is no schedule yet.
            KeyboardInterrupt: the user interrupted.
        """
        problem, placing = self.placing.problem, self.placing
        try:
            engine = engine_of(problem)
        except TooLargeError as why:
            if few := narrowed_search(problem, self.floor, deadline):
                few.raise_floor()
                self.floor = few.floor
            if placing.plan is None:
                raise _NoPackingError(self.floor, why) from why
            return
        search = Least(problem, engine, self.floor, gap, units, deadline, told, placing.place)
        if placing.plan is not None:
            search.placed_us, search.spent = placing.ticks / _PS_PER_US, placing.effort
            dear = isinstance(engine, TreePricing) and engine.effort(_SLOTS) > _DEAR
            if dear and search.placed_us <= _NEAR * float(self.floor):
                return
        try:
            search.run()
        except TooLargeError as why:
            if placing.plan is None:
                raise _NoPackingError(search.floor, why) from why
        except KeyboardInterrupt:
            if search.best is not None:
                placing.place(search.best, search.enough, thorough=True)
            raise
        finally:
            self.floor = search.floor


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return a schedule near the infimum over all chunkings, with a lower bound.

    Raises:
        InputError: the options do not fit the request, or the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    if options.alpha != "travels":
        raise ParameterError(
            f"alpha is {options.alpha}: the lower bound over all chunkings needs an alpha that "
            "travels, because an alpha that occupies its link is paid for every chunk; leave it "
            "out"
        )
    topology, dual = request.topology, _dual_of(request)
    deadline = time.perf_counter() + effort.seconds
    if dual.phases > 1 and not topology.reversed().takes_like(topology):
        _check_size(request)  # one phase read backwards is none of the other, so it is one whole
        return _one_whole(request, options, effort, notify, deadline)
    if request.spec.combining:
        _check_read_backwards(request)
    _check_size(request)
    ended = ""
    try:
        half = _half(request, dual, options, effort, notify, deadline)
        floor, ended = half.floor, half.ended
    except _NoPackingError as error:
        if request.spec.counts:  # which list scheduling does not take
            raise error.why from error
        half, floor = None, error.floor
    if dual.phases > 1:  # of halves that overlap nothing is known but cuts
        floor = least_time(topology, request.spec).us(request.size_bytes)
    if half is None or half.placing.plan is None:
        if ended or request.spec.counts:
            return GaveUp(effort.why_late if ended == _LATE else ended or "no schedule")
        return listed(request, floor, options.gap, effort, deadline)
    if ended == _INTERRUPTED:
        notify(Interrupted(len(half.placing.sent)))
    schedule = half.placing.schedule(topology, request.spec)
    attained = Fraction(schedule.finish * schedule.tick_ps, _PS_PER_US)
    found = Found(schedule, Bound(Measure.TIME_US, attained, floor))
    enough = floor * (1 + Fraction(options.gap))
    if dual.phases > 1 and not ended and attained > enough:
        found, ended = _bettered(request, found, options, effort, notify, deadline)
    elif not ended and _is_single(request.spec):
        found = finer(request, found, enough, effort, deadline - time.perf_counter())
    if ended:
        return GaveUp(effort.why_late if ended == _LATE else ended, found)
    return found


def _bettered(  # noqa: PLR0913, PLR0917 - a question, how well, how long, and who is told
    request: Request,
    phases: Found,
    options: Options,
    effort: Effort,
    notify: Notify,
    deadline: float,
) -> tuple[Found, str]:
    """Return the best of an allreduce of two phases and of others, and why it ended too soon."""
    floor = Fraction(phases.bound.least or 0)
    found, interrupted = phases, False
    if can_turn(request.topology, request.spec):
        trees, interrupted = _trees(request, phases, floor, options, effort, notify, deadline)
        found = trees or phases
    if not interrupted and found.bound.attained > floor * (1 + Fraction(options.gap)):
        found = better(request, found, effort, deadline)
    return found, _INTERRUPTED if interrupted else ""


def _one_whole(
    request: Request, options: Options, effort: Effort, notify: Notify, deadline: float
) -> Outcome:
    """Return an allreduce of which no phase is the other one read backwards."""
    floor = least_time(request.topology, request.spec).us(request.size_bytes)
    trees = None
    if can_turn(request.topology, request.spec):
        trees, interrupted = _trees(request, None, floor, options, effort, notify, deadline)
        if trees and interrupted:
            return GaveUp(_INTERRUPTED, trees)
        if trees and trees.bound.attained <= floor * (1 + Fraction(options.gap)):
            return trees
    seconds = deadline - time.perf_counter()
    outcome = overlapping(request, effort, min(_units(effort), _WHOLE), seconds)
    other = outcome.best if isinstance(outcome, GaveUp) else outcome
    if trees is None or (isinstance(other, Found) and other.bound.attained <= trees.bound.attained):
        return outcome
    return GaveUp(outcome.reason, trees) if isinstance(outcome, GaveUp) else trees


def _trees(  # noqa: PLR0913, PLR0917 - a question, what is known, how well, how long, who is told
    request: Request,
    phases: Found | None,
    floor: Fraction,
    options: Options,
    effort: Effort,
    notify: Notify,
    deadline: float,
) -> tuple[Found | None, bool]:
    told: Callable[[float, float], None] = lambda low, high: notify(Narrowed(low, high))  # noqa: E731
    return turned(request, phases, floor, options.gap, _units(effort), deadline, told)


def _units(effort: Effort) -> float:
    return UNITS if effort.units is None else effort.units


def _is_single(spec: Spec) -> bool:
    """Return whether all is wanted by the same ranks, and starts at the same, or contributes so."""
    return not spec.counts and len(spec.at(spec.unit).classes()) == 1


def _dual_of(request: Request) -> Dual:
    """Return the dual that is solved. A gather is a scatter, read backwards.

    Flows into one rank need a separate program for each source. Flows out of it need only one.
    Budgets are reversed only if necessary.
    """
    dual, spec = dual_of(request.spec), request.spec
    classes = spec.at(spec.unit).classes()
    goals = {frozenset(wanted - held) for held, wanted in classes if wanted - held}
    alone = all(len(held) == 1 or not wanted - held for held, wanted in classes)
    single = len(goals) == 1 and len(*goals) == 1
    if spec.combining or not single or not alone or len(classes) == 1 or request.topology.budgets:
        return dual
    scattered = replace(spec, name="scatter", pre=spec.post, post=spec.pre)
    return replace(dual, spec=scattered, on_reversed=True)


def _check_read_backwards(request: Request) -> None:
    """Check that budgets bear schedules that are read backwards.

    Each link's times are then shifted by its own alpha, so are those of a budget, but where a chunk
    passes it twice on its way through a switch that cuts through.

    Raises:
        TopologyError: a budget is of links into and out of such a switch.
    """
    topology = request.topology
    through = {topology.ranks + i for i, one in enumerate(topology.switches) if one.cut_through}
    for budget in topology.budgets:
        twice = {src for src, _ in budget.edges} & {dst for _, dst in budget.edges} & through
        if twice:
            switch = topology.switches[min(twice) - topology.ranks].name
            raise TopologyError(
                f"topology {topology.name!r}, budget {budget.name!r} is of links into and out of "
                f"switch {switch!r}, which the lower bound for {request.spec.name} over all "
                "chunkings does not support: give each direction its own budget, or use 'sccl "
                "teccl' for a schedule"
            )


def _half(  # noqa: PLR0913, PLR0917 - a question, how well, how long, and who is told
    request: Request,
    dual: Dual,
    options: Options,
    effort: Effort,
    notify: Notify,
    deadline: float,
) -> _Half:
    """Return the result for a phase.

    Raises:
        InputError: the machine is too large.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    for switch in request.topology.switches:
        if not switch.cut_through and switch.buffer_chunks is not None:
            raise TopologyError(
                f"topology {request.topology.name!r}, switch {switch.name!r} stores chunks and "
                f"has places for {switch.buffer_chunks}: the lower bound over all chunkings is "
                "computed for switches that cut through, or store any number"
            )
    machine = request.topology.reversed() if dual.on_reversed else request.topology
    problem = pose(machine, dual, request.size_bytes)
    least = least_time(machine, dual.spec, backwards=dual.on_reversed)
    floor = least.us(Fraction(request.size_bytes, dual.chunk_factor))
    if (many := len(problem.commodities)) > MOST_COMMODITIES:
        why = _too_large(request, f"{many} kinds of chunks", f"up to {MOST_COMMODITIES}")
        raise _NoPackingError(floor, why)
    floor = max(floor, late_us(problem))
    late = lambda: time.perf_counter() > deadline  # noqa: E731
    half = _Half(Placing(problem, dual, readings_of(request.topology, dual), late), floor)
    if not problem.commodities:
        half.placing.plan = planned(problem, None, dual, 1)
        return half
    told: Callable[[float, float], None] = lambda low, high: notify(Narrowed(low, high))  # noqa: E731
    units = _units(effort)
    try:
        if not is_unicast(problem) and has_ports(problem):
            half.match(options.gap, units, told)
        half.pack(options.gap, units, deadline, told)
    except KeyboardInterrupt:
        if half.placing.plan is None:
            raise
        half.ended = _INTERRUPTED
    if not half.ended and time.perf_counter() > deadline:
        half.ended = _LATE
    return half


def _check_size(request: Request) -> None:
    if request.topology.ranks > MOST_RANKS:
        raise _too_large(request, f"{request.topology.ranks} ranks", f"up to {MOST_RANKS}")


def _too_large(request: Request, what: str, most: str) -> TooLargeError:
    return TooLargeError(
        f"topology {request.topology.name!r}: {request.spec.name} has {what}, and the lower bound "
        f"over all chunkings is computed for {most}: give fewer ranks, or use 'sccl tacos'"
    )
