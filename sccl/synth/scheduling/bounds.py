"""Sizes of chunks, and lower bounds for their schedules."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from sccl.collectives import Spec
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.time_cuts import MAX_RANKS, completion_time_bound
from sccl.synth.network.arrays import build_arrays
from sccl.synth.network.demand import build_demand
from sccl.synth.network.routes import build_routes
from sccl.synth.network.switch_distances import nearest_ticks
from sccl.synth.network.tick_bounds import combined_clock, lower_bound_ticks
from sccl.synth.scheduling.problem import SchedulingProblem


def chunk_sizes(collective: Collective, size_bytes: int) -> int | tuple[int, ...]:
    """Return the bytes of each chunk, or one number if they are equal.

    Args:
        collective: The collective.
        size_bytes: Size of C chunks, or of an element if chunks have counts.
    """
    pieces, counts = collective.chunks, collective.counts
    if len(set(counts)) <= 1:
        return -(-size_bytes * max((1, *counts)) // pieces)
    return tuple(-(-size_bytes * count // pieces) for count in counts) * pieces


def compute_lower_bound(  # noqa: PLR0913 - independent inputs
    machine: Topology,
    spec: Spec,
    problem: SchedulingProblem,
    size_bytes: int,
    attained: int,
    *,
    together: bool = False,
) -> int:
    """Return a lower bound on the completion time of schedules of these chunks, in ticks.

    If chunks have several sizes, link loads count all as the smallest. Cuts count bytes, for any
    chunks. No chunk arrives earlier than by its fastest routes.

    Args:
        machine: The machine.
        spec: The collective.
        problem: The scheduling problem.
        size_bytes: Size of C chunks, or of an element if chunks have counts.
        attained: Completion time of a known schedule, ticks.
        together: Whether schedules may also send chunks together. The bounds are then weaker.
    """
    clock = problem.clock
    smallest = Clock.from_topology(machine, clock.sizes[0], clock.model, clock.tick_ps)
    model_clock = combined_clock(machine, smallest) if together else smallest
    lower_bound = 0
    if model_clock is not None:
        crossings = build_routes(machine, model_clock) if together else problem.crossings[0]
        net = build_arrays(machine, model_clock, crossings)
        demand = build_demand(problem.collective)
        lower_bound = lower_bound_ticks(
            machine, model_clock, net, demand, attained, backwards=problem.is_backwards
        )
    if not problem.has_uniform_chunks:
        lower_bound = max(lower_bound, latency_bound_ticks(problem))
    if machine.ranks <= MAX_RANKS:
        us = completion_time_bound(machine, spec, clock.model, backwards=problem.is_backwards).us(
            size_bytes
        )
        lower_bound = max(lower_bound, ceil(us * 10**6 / clock.tick_ps))
    return lower_bound


def latency_bound_ticks(problem: SchedulingProblem) -> int:
    """Return the latest of the earliest arrivals of all demands, in ticks.

    Routes may pass more switches than those of the problem.
    """
    ends, costs = (np.array(problem.src), np.array(problem.dst)), list[tuple[int, ...]]()
    for size, crossing in zip(problem.clock.sizes, problem.crossings, strict=True):
        clock = Clock.from_topology(
            problem.topology, size, problem.clock.model, problem.clock.tick_ps
        )
        nearest = nearest_ticks(
            problem.topology, clock, *ends, crossing.cost, backwards=problem.is_backwards
        )
        costs.append(tuple((nearest // problem.unit).tolist()))
    problem = replace(problem, costs=tuple(costs))
    chunk = np.repeat(np.arange(problem.chunks), [len(ranks) for ranks in problem.wanted])
    rank = np.array([r for ranks in problem.wanted for r in ranks], dtype=np.int64)
    return int(problem.earliest_arrival[chunk, rank].max(initial=0)) * problem.unit
