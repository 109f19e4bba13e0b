"""Sizes of chunks, and lower bounds for their schedules."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from sccl.collectives import Spec
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.least_time import MOST_RANKS, least_time
from sccl.synth.intervals.posed import Posed
from sccl.synth.network.crossings import crossings_of
from sccl.synth.network.demands import demand_of
from sccl.synth.network.least import clock_together, least_ticks
from sccl.synth.network.machine import net_of
from sccl.synth.network.nearest import nearest_ticks


def sizes_of(collective: Collective, size_bytes: int) -> int | tuple[int, ...]:
    """Return the bytes of each chunk, or one number if they are equal.

    Args:
        size_bytes: size of C chunks, or of an element if chunks have counts.
    """
    pieces, counts = collective.chunks, collective.counts
    if len(set(counts)) <= 1:
        return -(-size_bytes * max((1, *counts)) // pieces)
    return tuple(-(-size_bytes * count // pieces) for count in counts) * pieces


def least_of(  # noqa: PLR0913 - a question, and what is known
    machine: Topology,
    spec: Spec,
    posed: Posed,
    size_bytes: int,
    attained: int,
    *,
    together: bool = False,
) -> int:
    """Return a lower bound in ticks for schedules of such chunks.

    If chunks have several sizes, link loads count all as the smallest. Cuts count bytes, for any
    chunks, and no chunk arrives sooner than by the fastest ways.

    Args:
        together: whether schedules may also send chunks together, with weaker bounds.
    """
    clock = posed.clock
    smallest = Clock.of(machine, clock.sizes[0], clock.model, clock.tick_ps)
    known = clock_together(machine, smallest) if together else smallest
    least = 0
    if known is not None:
        crossings = crossings_of(machine, known) if together else posed.crossings[0]
        net = net_of(machine, known, crossings)
        demand = demand_of(posed.collective)
        least = least_ticks(machine, known, net, demand, attained, backwards=posed.backwards)
    if not posed.alike:
        least = max(least, farthest_of(posed))
    if machine.ranks <= MOST_RANKS:
        us = least_time(machine, spec, clock.model, backwards=posed.backwards).us(size_bytes)
        least = max(least, ceil(us * 10**6 / clock.tick_ps))
    return least


def farthest_of(posed: Posed) -> int:
    """Return the ticks before which no schedule ends, as some chunk is still on its way.

    Whichever way it goes, over more switches than those that are planned, too.
    """
    ends, costs = (np.array(posed.src), np.array(posed.dst)), list[tuple[int, ...]]()
    for size, ways in zip(posed.clock.sizes, posed.crossings, strict=True):
        clock = Clock.of(posed.topology, size, posed.clock.model, posed.clock.tick_ps)
        nearest = nearest_ticks(posed.topology, clock, *ends, ways.cost, backwards=posed.backwards)
        costs.append(tuple((nearest // posed.unit).tolist()))
    posed = replace(posed, costs=tuple(costs))
    chunk = np.repeat(np.arange(posed.chunks), [len(own) for own in posed.wanted])
    rank = np.array([r for own in posed.wanted for r in own], dtype=np.int64)
    return int(posed.soonest[chunk, rank].max(initial=0)) * posed.unit
