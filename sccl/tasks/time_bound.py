"""What no schedule of a collective takes less time than, by all that is known of the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sccl.collectives import Spec, dual_of
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.cost import Costs
from sccl.core.topology import Topology
from sccl.errors import TooLargeError, TopologyError
from sccl.prove.bounds import least_time
from sccl.synth.fluid.curve import LeastCurve, least_curve
from sccl.synth.network.crossings import crossings_of
from sccl.synth.network.demands import demand_of
from sccl.synth.network.least import clock_together, least_of_allreduce, least_ticks
from sccl.synth.network.machine import net_of
from sccl.topo import machine_model

MOST_RANKS = 64
"""Up to which cuts are looked at, and a linear program may be: they take longer than the rest."""

_DRAWN = tuple(4**n for n in range(5, 16))
"""Sizes at which prices are looked for, for a line from 1 KiB to 1 GiB."""


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A time that no schedule beats.

    Attributes:
        ticks: of the clock that was given.
        about: what shows it, in words.
    """

    ticks: int
    about: str


def time_bound(
    topology: Topology,
    spec: Spec,
    collective: Collective,
    clock: Clock,
    *,
    together: bool = False,
) -> TimeBound:
    """Return the best lower bound that is known on when all of a collective has arrived.

    It holds for every order of transfers, with barriers or without: that of
    :mod:`sccl.synth.network.least`, for chunks of this size, or, where it says more, that of
    :mod:`sccl.prove.bounds.least_time`, whatever the chunks. (S alphas and R/C bytes bound a sum
    only for steps with barriers; what is pipelined may pay for most of its steps while bytes pass.)

    That of links is about chunks that are each sent by itself. For those that are sent together
    there is a weaker one (:func:`sccl.synth.network.least.clock_together`), or none.

    Args:
        spec: the collective at any number of chunks.
        clock: of this machine; where chunks are of several sizes, links of ranks and groups are
            bounded as if all were as the smallest, and cuts by the bytes that there are.
        together: whether chunks may be sent together.

    Raises:
        InputError: something cannot be reached, or switches join ranks in too many ways.
        TooLargeError: nothing is known of so many ranks whose chunks may be sent together.
    """
    served = collective.served(clock.chunk_bytes)
    clock = Clock.of(topology, clock.sizes[0], clock.model, clock.tick_ps)
    size = clock.sizes[0]
    about = f"chunks of {size} bytes over the links of each rank and group, and the farthest way"
    alone = "" if together else ", each chunk sent separately"
    found: list[TimeBound] = []
    ticks = _by_links(topology, spec, collective, clock, together=together)
    if ticks is not None:
        found.append(TimeBound(ticks, about + alone))
    for machine in _models(topology, clock.model) if topology.ranks <= MOST_RANKS else ():
        us = least_time(machine, spec, clock.model).us(served)
        ticks = math.ceil(us * 10**6 / clock.tick_ps)
        found.append(TimeBound(ticks, "cuts of the machine and R/C, for every chunk count"))
    if not found:
        raise TooLargeError(
            f"no bound is known for chunks that are sent together through {topology.name!r}'s "
            f"budgets or switches, with more than {MOST_RANKS} ranks"
        )
    return max(found, key=lambda bound: bound.ticks)


def least_us(topology: Topology, spec: Spec, costs: Costs) -> Callable[[float], float] | None:
    """Return what no plan takes less than, by bytes of a rank's buffer.

    Args:
        costs: that are asked for. Others than the machine's have no such bound.

    Returns:
        None: it is not worked out here.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    if topology.ranks > MOST_RANKS or costs != Costs.of(topology, None, None):
        return None
    least = least_by_size(topology, spec, _DRAWN)
    return lambda size_bytes: float(least.us(round(size_bytes)))


def least_by_size(
    topology: Topology,
    spec: Spec,
    sizes: Sequence[int],
    model: AlphaModel = AlphaModel.TRAVELS,
) -> LeastCurve:
    """Return what no plan of any chunks takes less than: cuts, and prices that say more.

    Args:
        sizes: bytes of a rank's buffer, ascending, for which it is to be good.

    Raises:
        InputError: something cannot be reached, or there are too many ranks.
        KeyboardInterrupt: the user interrupted.
    """
    return least_curve(topology, spec, least_time(topology, spec, model), sizes)


def _models(topology: Topology, model: AlphaModel) -> tuple[Topology, ...]:
    """Return a machine, and that with links instead of switches where these say the same.

    The links take both alphas at once. That shifts the budgets of ranks against each other, unless
    all links of switches have one alpha, and the bytes do not pass while an alpha goes on.
    """
    alphas = {k.alpha_us for k in topology.links if max(k.edge) >= topology.ranks}
    if not topology.switches or len(alphas) > 1 or model is AlphaModel.OCCUPIES:
        return (topology,)
    try:
        return (topology, machine_model(topology).topology)
    except TopologyError:
        return (topology,)


def _by_links(
    topology: Topology, spec: Spec, collective: Collective, clock: Clock, *, together: bool
) -> int | None:
    """Return what links and ways say. None: nothing, of chunks that may be sent together."""
    dual = dual_of(spec)
    if dual.on_reversed:
        topology = topology.reversed()
        clock = Clock.of(topology, clock.chunk_bytes, clock.model, clock.tick_ps)
    known = clock_together(topology, clock) if together else clock
    if known is None:
        return None
    net = net_of(topology, known, crossings_of(topology, known))
    if dual.phases == 2:
        return least_of_allreduce(topology, known, net, collective)
    demand = demand_of(dual.spec.at(dual.spec.unit * (collective.chunks // spec.unit)))
    return least_ticks(topology, known, net, demand, 0, backwards=dual.on_reversed)
