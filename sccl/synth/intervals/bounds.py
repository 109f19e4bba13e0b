"""Sizes of chunks, and what no schedule of them takes less than."""

from __future__ import annotations

from math import ceil

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


def sizes_of(collective: Collective, size_bytes: int) -> int | tuple[int, ...]:
    """Return the bytes of each chunk; a number, where they are alike.

    Args:
        size_bytes: what C chunks make up; of chunks with counts, an element.
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
    """Return the ticks that no schedule of such chunks takes less than.

    Of chunks of several sizes, what links carry is counted as if all had the least; cuts count
    bytes, whatever the chunks; and none comes sooner than the quickest ways bring it.

    Args:
        together: whether schedules may send chunks together, too, of which less is known.
    """
    clock = posed.clock
    smallest = Clock.of(machine, clock.sizes[0], clock.model, clock.tick_ps)
    known = clock_together(machine, smallest) if together else smallest
    least = 0
    if known is not None:
        crossings = crossings_of(machine, known) if together else posed.crossings[0]
        net = net_of(machine, known, crossings)
        least = least_ticks(machine, known, net, demand_of(posed.collective), attained)
    if not posed.alike:
        own = (posed.soonest[c][r] for c, wanted in enumerate(posed.wanted) for r in wanted)
        least = max(least, int(max(own, default=0)) * posed.unit)
    if machine.ranks <= MOST_RANKS:
        us = least_time(machine, spec).us(size_bytes)
        least = max(least, ceil(us * 10**6 / clock.tick_ps))
    return least
