"""What no schedule of a collective takes less time than, by all that is known of the machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sccl.collectives import Spec, dual_of
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import TopologyError
from sccl.prove.bounds import any_bounds, lower_bounds
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.tacos.crossings import crossings_of
from sccl.synth.tacos.demands import demand_of
from sccl.synth.tacos.least import least_of_allreduce, least_ticks
from sccl.synth.tacos.machine import net_of
from sccl.topo import machine_model

MOST_RANKS = 64
"""Up to which the bound on R/C is asked for: it may be a linear program, which grows fast."""


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A time that no schedule beats.

    Attributes:
        ticks: of the clock that was given.
        about: what shows it, in words.
    """

    ticks: int
    about: str


def time_bound(topology: Topology, spec: Spec, collective: Collective, clock: Clock) -> TimeBound:
    """Return the best lower bound that is known on when all of a collective has arrived.

    It holds for every order of transfers, with barriers or without: that of
    :mod:`sccl.synth.tacos.least`, for chunks of this size; or, where it says more, that of R/C
    (:mod:`sccl.prove.bounds`), for chunks of any: all bytes at the speed of the lanes, and an
    alpha. (S and R/C bound a sum only for steps with barriers; what is pipelined may pay for most
    of its steps while bytes pass.)

    Args:
        spec: the collective at any number of chunks.
        clock: of this machine; where chunks are of several sizes, they count as the smallest.

    Raises:
        InputError: something cannot be reached, or switches join ranks in too many ways.
    """
    clock = Clock.of(topology, clock.sizes[0], clock.model, clock.tick_ps)
    size = clock.sizes[0]
    about = f"chunks of {size} bytes over the links of each rank and group, and the farthest way"
    found = [TimeBound(_by_links(topology, spec, collective, clock), about)]
    direct = _without_switches(topology)
    if direct and direct.ranks <= MOST_RANKS and direct.equally_fast:
        cost, lane = _bandwidth(direct, spec), Fraction(str(direct.links[0].gb_per_s))
        passing = math.ceil(cost * collective.chunks * size * 1000 / lane / clock.tick_ps)
        found.append(TimeBound(passing + min(clock.alpha), f"R/C >= {cost}, and an alpha"))
    return max(found, key=lambda bound: bound.ticks)


def _without_switches(topology: Topology) -> Topology | None:
    """Return a machine with links in place of switches; None: they do not say what these do."""
    if not topology.switches:
        return topology
    try:
        return machine_model(topology).topology
    except TopologyError:
        return None


def _by_links(topology: Topology, spec: Spec, collective: Collective, clock: Clock) -> int:
    dual = dual_of(spec)
    net = net_of(topology, clock, crossings_of(topology, clock))
    if dual.phases == 2:
        return least_of_allreduce(topology, clock, net, collective.num_chunks)
    demand = demand_of(dual.spec.at(dual.spec.unit * (collective.chunks // spec.unit)))
    if not dual.on_reversed:
        return least_ticks(topology, clock, net, demand, 0)
    there = topology.reversed()
    clock = Clock.of(there, clock.chunk_bytes, clock.model, clock.tick_ps)
    net = net_of(there, clock, crossings_of(there, clock))
    return least_ticks(there, clock, net, demand, 0)


@lru_cache(maxsize=8)
def _bandwidth(topology: Topology, spec: Spec) -> Fraction:
    """Return what R/C is at least, which is the same at every size."""
    return (any_bounds(topology) if has_classes(spec) else lower_bounds(topology, spec)).bandwidth
