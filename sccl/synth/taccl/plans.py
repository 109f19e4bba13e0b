"""From a request and a sketch to a schedule, and a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec

from sccl.collectives import dual_of
from sccl.collectives.duality import Dual
from sccl.core.clock import AlphaModel, Clock
from sccl.core.files.sketches import sketch_of_wire
from sccl.core.outcome import Bound, Found, GaveUp, Measure, Outcome
from sccl.core.sketch import Sketch
from sccl.prove.bounds.least_time import MOST_RANKS, least_time
from sccl.solvers.effort import Effort, Spending
from sccl.synth.contract import Notify, Request
from sccl.synth.intervals.bounds import least_of, sizes_of
from sccl.synth.intervals.posed import pose
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.network.crossings import crossings_of
from sccl.synth.network.least import least_of_allreduce
from sccl.synth.network.machine import net_of
from sccl.synth.network.paths import FAR
from sccl.synth.taccl.assembled import Rows, mirrored, one_after_another, rows_of, schedule_of
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.phase import NoRoutesError, SketchedPhase
from sccl.synth.taccl.routing import check_reachable

UNITS = 4.0
"""Of effort, if nothing is said."""

PS_PER_US = 10**6


@dataclass(frozen=True, slots=True)
class SketchedBest:
    """The best schedule so far, and what none takes less than, of one phase; microseconds."""

    us: float
    least_us: float


@dataclass(frozen=True, slots=True)
class PhaseFound:
    """What a phase came to.

    Attributes:
        relaxed_us: of its routes: no order of them takes less.
        by: what found its schedule.
        tried: what each order, and each model, came to, microseconds.
    """

    relaxed_us: float
    by: str
    tried: dict[str, float]


def plan(request: Request, options: Options, effort: Effort, notify: Notify) -> Outcome:
    """Return the best schedule of chunks within a sketch that is found, with a lower bound.

    Raises:
        InputError: the sketch or the options do not fit the request.
        KeyboardInterrupt: the user interrupted before there was a schedule.
    """
    sketch = None if options.sketch is None else sketch_of_wire(options.sketch)
    return planned(request, sketch, options, effort, notify)


def planned(
    request: Request, sketch: Sketch | None, options: Options, effort: Effort, notify: Notify
) -> Outcome:
    """Return the best schedule within a sketch; None: on all ways of the machine."""
    units = UNITS if effort.units is None else effort.units
    effort = Effort(effort.timeout_s, effort.seed, units)
    dual = dual_of(request.spec)
    chunks = options.chunks or (sketch.chunks if sketch else 1)
    phases = [
        _phase(
            request,
            sketch,
            msgspec.structs.replace(options, chunks=chunks),
            dual,
            notify,
            backwards=backwards,
        )
        for backwards in _directions(dual)
    ]
    spending, ended = Spending(effort), ""
    try:
        for phase in phases:
            left = spending.left(units / len(phases))
            if left is None:
                break
            phase.run(left)
    except KeyboardInterrupt:
        ended = "interrupted"
        if not all(phase.batches for phase in phases):
            raise
    except NoRoutesError as why:
        return GaveUp(str(why))
    if not all(phase.batches for phase in phases):
        return GaveUp(effort.why_late)
    for phase in phases:
        assert phase.routes is not None
        tried = {by: phase.us(units_of) for by, units_of in phase.tried.items()}
        notify(PhaseFound(phase.us(phase.routes.units), phase.by, tried))
    if not ended and spending.late() and not all(phase.done for phase in phases):
        ended = effort.why_late
    found = _assembled(request, dual, chunks, phases)
    return GaveUp(ended, found) if ended else found


def _directions(dual: Dual) -> list[bool]:
    """Return of each phase whether it is planned on the reversed machine."""
    if dual.phases == 2:
        return [True, False]
    return [dual.on_reversed]


def _phase(  # noqa: PLR0913 - what is asked, and how
    request: Request,
    sketch: Sketch | None,
    options: Options,
    dual: Dual,
    notify: Notify,
    *,
    backwards: bool,
) -> SketchedPhase:
    """Return a phase, with nothing found yet.

    Raises:
        InputError: the sketch does not fit the machine or the collective.
    """
    machine = request.topology
    if backwards:  # what a switch would copy forwards it would have to reduce
        plain = tuple(replace(switch, copies=False) for switch in machine.switches)
        machine = replace(machine.reversed(), switches=plain)
    collective = dual.spec.at(dual.spec.unit * options.chunks)
    size = -(-request.size_bytes // dual.chunk_factor)
    sketched = None if sketch is None else Sketched(sketch, machine, backwards)
    if sketched is not None:
        sketched.check_keeps(collective)
    clock = Clock.of(machine, sizes_of(collective, size), AlphaModel(options.alpha))
    posed = pose(machine, collective, clock, sketched=sketched)
    if sketched is not None:
        check_reachable(posed, f"sketch {sketched.sketch.name}, on {machine.name!r}")
        whole = pose(machine, collective, clock)
    else:
        whole = posed
    least = least_of(machine, dual.spec, whole, size, int(FAR))
    return SketchedPhase(
        posed,
        sketched,
        options,
        -(-least // posed.unit),
        lambda us, least_us: notify(SketchedBest(us, least_us)),
    )


def _assembled(request: Request, dual: Dual, chunks: int, phases: list[SketchedPhase]) -> Found:
    """Return what the phases found as one schedule."""
    topology, its = request.topology, phases[-1].posed.clock
    clock = Clock.of(topology, its.chunk_bytes, its.model, its.tick_ps)
    collective = request.spec.at(request.spec.unit * chunks)
    rows: Rows | None = None
    for phase, backwards in zip(phases, _directions(dual), strict=True):
        own = rows_of(phase.posed, phase.batches)
        own = mirrored(topology, clock, own) if backwards else own
        rows = own if rows is None else one_after_another(rows, own)
    assert rows is not None
    count, (size,) = collective.num_chunks, clock.sizes
    least = Fraction(sum(phase.least * phase.posed.unit for phase in phases))
    if dual.phases == 2:
        net = net_of(topology, clock, crossings_of(topology, clock))
        least = Fraction(least_of_allreduce(topology, clock, net, count))
        if topology.ranks <= MOST_RANKS:
            us = least_time(topology, request.spec).us(request.size_bytes)
            least = max(least, us * PS_PER_US / clock.tick_ps)
    tick = Fraction(clock.tick_ps, PS_PER_US)
    scope = f"{count} chunks of {size} bytes"
    plan = schedule_of(topology, collective, clock, rows)
    return Found(plan, Bound(Measure.TIME_US, rows.finish * tick, least * tick, scope))
