"""The phases of a collective within a sketch: posed, bounded, and put one after another."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sccl.collectives.duality import Dual
from sccl.core.clock import AlphaModel, Clock
from sccl.core.outcome import Bound, Found, Measure
from sccl.core.sketch import Sketch
from sccl.core.words import counted
from sccl.prove.bounds.least_time import MOST_RANKS, least_time
from sccl.synth.contract import Request
from sccl.synth.intervals.bounds import sizes_of
from sccl.synth.intervals.posed import pose
from sccl.synth.intervals.sketched import Sketched
from sccl.synth.network.crossings import crossings_of
from sccl.synth.network.least import clock_together, least_of_allreduce
from sccl.synth.network.machine import net_of
from sccl.synth.taccl.assembled import TimedRows, mirrored, one_after_another, rows_of, schedule_of
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.phase import SketchedPhase, Told
from sccl.synth.taccl.routing import check_reachable

PS_PER_US = 10**6


def directions(dual: Dual) -> list[bool]:
    """Return of each phase whether it is planned on the reversed machine."""
    if dual.phases == 2:
        return [True, False]
    return [dual.on_reversed]


def phase_of(  # noqa: PLR0913, PLR0917 - what is asked, and how
    request: Request,
    sketch: Sketch,
    options: Options,
    dual: Dual,
    told: Told,
    before: SketchedPhase | None,
    *,
    backwards: bool,
) -> SketchedPhase:
    """Return a phase, with nothing found yet, nor known of any chunks.

    Args:
        before: the phase before it. None: it is the first.

    Raises:
        InputError: the sketch does not fit the machine or the collective.
    """
    machine = request.topology
    if backwards:  # what a switch would copy forwards it would have to reduce
        plain = tuple(replace(switch, copies=False) for switch in machine.switches)
        machine = replace(machine.reversed(), switches=plain)
    collective = dual.spec.at(dual.spec.unit * options.chunks)
    size = -(-request.size_bytes // dual.chunk_factor)
    sketched = Sketched(sketch, machine, backwards)
    sketched.check_keeps(collective)
    clock = Clock.of(machine, sizes_of(collective, size), AlphaModel(options.alpha))
    together = options.together and clock.model is AlphaModel.OCCUPIES
    posed = pose(
        machine, collective, clock, sketched=sketched, together=together, backwards=backwards
    )
    check_reachable(posed, f"sketch {sketch.name}, on {machine.name!r}")
    narrowed = sketch.within is not None or sketch.relays is not None  # or of slower ways
    whole = posed
    if narrowed:
        whole = pose(machine, collective, clock, together=together, backwards=backwards)
    twin = before if before and before.whole.topology.takes_like(machine) else None
    return SketchedPhase(
        posed,
        sketched,
        options,
        dual.spec,
        size,
        told,
        strict=options.sketch is not None,
        whole=whole,
        twin=twin,
    )


def bound_of_any_chunks(phase: SketchedPhase) -> Fraction:
    """Return the ticks that no schedule of any chunks takes less than, on any ways of the machine.

    On machines of many ranks these are not worked out: 0.
    """
    machine = phase.whole.topology
    if phase.twin is not None:  # links both ways: what bounds one phase bounds the other
        return phase.twin.any_chunks
    if machine.ranks > MOST_RANKS:
        return Fraction(0)
    posed = phase.posed
    least = least_time(machine, phase.spec, posed.clock.model, backwards=posed.backwards)
    us = least.us(phase.size_bytes)
    return us * PS_PER_US / phase.posed.clock.tick_ps


def assembled(
    request: Request, dual: Dual, chunks: int, phases: list[SketchedPhase], *, at_once: bool
) -> Found:
    """Return the results of the phases as one schedule.

    Args:
        at_once: whether to leave out bounds that take seconds.
    """
    topology, its = request.topology, phases[-1].posed.clock
    clock = Clock.of(topology, its.chunk_bytes, its.model, its.tick_ps)
    collective = request.spec.at(request.spec.unit * chunks)
    rows: TimedRows | None = None
    for phase, backwards in zip(phases, directions(dual), strict=True):
        own = rows_of(phase.posed, phase.batches)
        own = mirrored(topology, clock, own) if backwards else own
        rows = own if rows is None else one_after_another(rows, own)
    assert rows is not None
    count, (size,) = collective.num_chunks, clock.sizes
    least = Fraction(sum(phase.least_ticks for phase in phases))
    if dual.phases == 2:
        known = clock_together(topology, clock) if phases[0].joins else clock
        least = Fraction(0)
        if known is not None:
            net = net_of(topology, known, crossings_of(topology, known))
            least = Fraction(least_of_allreduce(topology, known, net, collective))
        if topology.ranks <= MOST_RANKS and not at_once:
            us = least_time(topology, request.spec, clock.model).us(request.size_bytes)
            least = max(least, us * PS_PER_US / clock.tick_ps)
    tick = Fraction(clock.tick_ps, PS_PER_US)
    scope = f"{counted(count, 'chunk')} of {size} bytes"
    if clock.model is AlphaModel.OCCUPIES and not phases[0].joins:
        scope += ", each sent separately"
    plan = schedule_of(topology, collective, clock, rows)
    return Found(plan, Bound(Measure.TIME_US, rows.finish * tick, least * tick, scope))
