"""The phases of a collective within a sketch: posed, bounded, and put one after another."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sccl.collectives.duals import Dual
from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US, AlphaModel, Clock
from sccl.core.formatting import format_count
from sccl.core.outcome import Solution
from sccl.core.sketch import Sketch
from sccl.prove.bounds.time_cuts import MAX_RANKS, completion_time_bound
from sccl.synth.common.contract import Request
from sccl.synth.network.arrays import build_arrays
from sccl.synth.network.routes import build_routes
from sccl.synth.network.tick_bounds import allreduce_bound_ticks, combined_clock
from sccl.synth.scheduling.bounds import chunk_sizes
from sccl.synth.scheduling.problem import build_problem
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.taccl.combining import (
    TimedRows,
    batch_rows,
    build_schedule,
    concatenate_rows,
    reverse_in_time,
)
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.phase_steps import GapCallback, SketchedPhase
from sccl.synth.taccl.routing import check_reachable


def phase_directions(dual: Dual) -> list[bool]:
    """Return of each phase whether it is planned on the reversed machine."""
    if dual.phases == 2:
        return [True, False]
    return [dual.on_reversed]


def build_phase(  # noqa: PLR0913, PLR0917 - independent inputs
    request: Request,
    sketch: Sketch,
    options: Options,
    dual: Dual,
    on_progress: GapCallback,
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
    if backwards:  # backwards, a switch would have to reduce instead of copy
        plain = tuple(replace(switch, copies=False) for switch in machine.switches)
        machine = replace(machine.reversed(), switches=plain)
    collective = dual.spec.at(dual.spec.unit * options.chunks)
    size = -(-request.size_bytes // dual.chunk_factor)
    sketched = MachineSketch(sketch, machine, backwards)
    sketched.check_preserves(collective)
    clock = Clock.from_topology(machine, chunk_sizes(collective, size), AlphaModel(options.alpha))
    together = options.together and clock.model is AlphaModel.OCCUPIES
    problem = build_problem(
        machine, collective, clock, sketched=sketched, together=together, backwards=backwards
    )
    check_reachable(problem, f"sketch {sketch.name}, on {machine.name!r}")
    narrowed = sketch.intranode_links is not None or sketch.relays is not None  # or of slower ways
    full_problem = problem
    if narrowed:
        full_problem = build_problem(
            machine, collective, clock, together=together, backwards=backwards
        )
    twin = before if before and before.unrestricted_problem.topology.same_timing(machine) else None
    return SketchedPhase(
        problem,
        sketched,
        options,
        dual.spec,
        size,
        on_progress,
        is_strict=options.sketch is not None,
        unrestricted_problem=full_problem,
        mirror_phase=twin,
    )


def any_chunks_bound(phase: SketchedPhase) -> Fraction:
    """Return the ticks that no schedule of any chunks takes less than, on any ways of the machine.

    On machines of many ranks these are not worked out: 0.
    """
    machine = phase.unrestricted_problem.topology
    if phase.mirror_phase is not None:  # links both ways, so a bound of one phase bounds the other
        return phase.mirror_phase.any_chunks_bound
    if machine.ranks > MAX_RANKS:
        return Fraction(0)
    problem = phase.problem
    lower_bound = completion_time_bound(
        machine, phase.spec, problem.clock.model, backwards=problem.is_backwards
    )
    us = lower_bound.us(phase.size_bytes)
    return us * PS_PER_US / phase.problem.clock.tick_ps


def assemble_schedule(
    request: Request, dual: Dual, chunks: int, phases: list[SketchedPhase], *, at_once: bool
) -> Solution:
    """Return the results of the phases as one schedule.

    Args:
        at_once: whether to leave out bounds that take seconds.
    """
    topology, its = request.topology, phases[-1].problem.clock
    clock = Clock.from_topology(topology, its.chunk_bytes, its.model, its.tick_ps)
    collective = request.spec.at(request.spec.unit * chunks)
    rows: TimedRows | None = None
    for phase, backwards in zip(phases, phase_directions(dual), strict=True):
        phase_rows = batch_rows(phase.problem, phase.batches)
        phase_rows = reverse_in_time(topology, clock, phase_rows) if backwards else phase_rows
        rows = phase_rows if rows is None else concatenate_rows(rows, phase_rows)
    assert rows is not None
    count, (size,) = collective.num_chunks, clock.sizes
    lower_bound = Fraction(sum(phase.lower_bound_ticks for phase in phases))
    if dual.phases == 2:
        shared_clock = combined_clock(topology, clock) if phases[0].can_batch else clock
        lower_bound = Fraction(0)
        if shared_clock is not None:
            net = build_arrays(topology, shared_clock, build_routes(topology, shared_clock))
            lower_bound = Fraction(allreduce_bound_ticks(topology, shared_clock, net, collective))
        if topology.ranks <= MAX_RANKS and not at_once:
            us = completion_time_bound(topology, request.spec, clock.model).us(request.size_bytes)
            lower_bound = max(lower_bound, us * PS_PER_US / clock.tick_ps)
    tick = Fraction(clock.tick_ps, PS_PER_US)
    scope = f"{format_count(count, 'chunk')} of {size} bytes"
    if clock.model is AlphaModel.OCCUPIES and not phases[0].can_batch:
        scope += ", each sent separately"
    plan = build_schedule(topology, collective, clock, rows)
    return Solution(plan, rows.finish * tick, Bound(Measure.TIME_US, lower_bound * tick, (), scope))
