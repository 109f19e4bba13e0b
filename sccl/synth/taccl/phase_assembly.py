"""Build the phases of a collective within a sketch, bound them, and assemble their schedules."""

from __future__ import annotations

from fractions import Fraction

from sccl.core.bound import Bound, Measure
from sccl.core.clock import PS_PER_US, AlphaModel, Clock
from sccl.core.formatting import format_count
from sccl.core.outcome import Solution
from sccl.prove.bounds.time_cuts import MAX_RANKS, completion_time_bound
from sccl.synth.common.reduction import Phase, Reduction
from sccl.synth.scheduling.bounds import chunk_sizes
from sccl.synth.scheduling.problem import build_problem
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.sketches.sketch import Sketch
from sccl.synth.taccl.batches import batch_schedule
from sccl.synth.taccl.options import Options
from sccl.synth.taccl.phase_steps import GapCallback, SketchedPhase
from sccl.synth.taccl.routing import check_reachable


def build_phase(
    phase: Phase,
    sketch: Sketch,
    options: Options,
    on_progress: GapCallback,
    before: SketchedPhase | None,
) -> SketchedPhase:
    """Return a phase without a schedule, and without the bound for any chunks.

    Args:
        phase: The phase of the request.
        sketch: The sketch.
        options: Options of TACCL.
        on_progress: Called with the best completion time and its bound.
        before: The previous phase. None: this is the first.

    Raises:
        InputError: The sketch does not fit the machine or the collective.
    """
    machine, size, backwards = phase.topology, phase.size_bytes, phase.is_backwards
    collective = phase.spec.at(phase.spec.unit * options.chunks)
    sketched = MachineSketch(sketch, machine, backwards)
    sketched.check_preserves(collective)
    clock = Clock.from_topology(machine, chunk_sizes(collective, size), AlphaModel(options.alpha))
    together = options.together and clock.model is AlphaModel.OCCUPIES
    problem = build_problem(
        machine, collective, clock, sketched=sketched, together=together, backwards=backwards
    )
    check_reachable(problem, f"sketch {sketch.name}, on {machine.name!r}")
    narrowed = sketch.intranode_links is not None or sketch.relays is not None  # or slows routes
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
        phase.spec,
        size,
        on_progress,
        is_strict=options.sketch is not None,
        unrestricted_problem=full_problem,
        mirror_phase=twin,
    )


def any_chunks_bound(phase: SketchedPhase) -> Fraction:
    """Return a lower bound for schedules of any chunks, on any routes of the machine, in ticks.

    It is 0 on machines with many ranks, for which it takes too long.
    """
    machine = phase.unrestricted_problem.topology
    if phase.mirror_phase is not None:  # symmetric links: both phases have the same bound
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
    reduction: Reduction, phases: list[SketchedPhase], *, at_once: bool
) -> Solution:
    """Return the results of the phases as one schedule.

    Args:
        reduction: The request and its phases.
        phases: The solved phases.
        at_once: Whether to omit bounds that take seconds.
    """
    plan = reduction.invert([batch_schedule(phase.problem, phase.batches) for phase in phases])
    clock, can_batch = plan.clock, phases[0].can_batch
    lower_bound = Fraction(sum(phase.lower_bound_ticks for phase in phases))
    if reduction.dual.phases == 2:
        lower_bound = reduction.allreduce_bound(
            plan.collective, clock, batches=can_batch, with_cuts=not at_once
        )
    tick = Fraction(clock.tick_ps, PS_PER_US)
    (size,) = clock.sizes
    scope = f"{format_count(plan.collective.num_chunks, 'chunk')} of {size} bytes"
    if clock.model is AlphaModel.OCCUPIES and not can_batch:
        scope += ", each sent separately"
    return Solution(plan, plan.finish * tick, Bound(Measure.TIME_US, lower_bound * tick, (), scope))
