"""Compute the best known lower bound on the completion time of a collective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sccl.collectives import Spec, dual_of
from sccl.core.bound import Bound, Measure
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.cost import Costs
from sccl.core.topology import Topology
from sccl.errors import TooLargeError, TopologyError
from sccl.prove.bounds.time_cuts import CompletionTimeBound, completion_time_bound
from sccl.synth.limits import MAX_CUT_RANKS
from sccl.synth.network.arrays import build_arrays
from sccl.synth.network.demand import build_demand
from sccl.synth.network.routes import build_routes
from sccl.synth.network.tick_bounds import allreduce_bound_ticks, combined_clock, lower_bound_ticks
from sccl.synth.packing.by_time.time_bound_curve import compute_bound_curve
from sccl.topo.machine_model import machine_model

_CHART_SIZES = tuple(4**n for n in range(5, 16))
"""Sizes at which prices are looked for, for a line from 1 KiB to 1 GiB."""


TickBound = Bound[int, str]
"""A lower bound on the completion time in ticks, with its proof as a clause."""


def compute_time_bound(
    topology: Topology,
    spec: Spec,
    collective: Collective,
    clock: Clock,
    *,
    together: bool = False,
) -> TickBound:
    """Return the best known lower bound on the completion time.

    It holds for every order of transfers, with or without barriers. It is the larger of two bounds:
    :mod:`sccl.synth.network.tick_bounds` for chunks of this size, and
    :mod:`sccl.prove.bounds.time_cuts` for all chunks. (S alphas plus R/C bytes is a bound for steps
    with barriers only. Pipelined steps can overlap their alphas with bytes of others.)

    The bound of links assumes that each chunk is sent separately. For chunks that are sent together
    there is a weaker one (:func:`sccl.synth.network.tick_bounds.combined_clock`), or none.

    Args:
        spec: Collective for any number of chunks.
        clock: Clock of this machine. If chunks have several sizes, bounds of links, ranks, and
            groups use the smallest, and cuts use the actual bytes.
        together: Whether chunks may be sent together.

    Raises:
        InputError: Some destination cannot be reached, or switches join ranks in too many ways.
        TooLargeError: No bound is known for this number of ranks if chunks may be sent together.
    """
    served = collective.served_bytes(clock.chunk_bytes)
    clock = Clock.from_topology(topology, clock.sizes[0], clock.model, clock.tick_ps)
    size = clock.sizes[0]
    about = f"chunks of {size} bytes over the links of each rank and group, and the longest path"
    suffix = "" if together else ", each chunk sent separately"
    bounds: list[TickBound] = []
    ticks = _link_bound(topology, spec, collective, clock, together=together)
    if ticks is not None:
        bounds.append(Bound(Measure.TICKS, ticks, about + suffix))
    for machine in (
        _equivalent_machines(topology, clock.model) if topology.ranks <= MAX_CUT_RANKS else ()
    ):
        us = completion_time_bound(machine, spec, clock.model).us(served)
        ticks = math.ceil(us * 10**6 / clock.tick_ps)
        proof = "cuts of the machine and R/C, for every chunk count"
        bounds.append(Bound(Measure.TICKS, ticks, proof))
    if not bounds:
        raise TooLargeError(
            f"no bound is known for chunks that are sent together through {topology.name!r}'s "
            f"budgets or switches, with more than {MAX_CUT_RANKS} ranks"
        )
    return max(bounds, key=lambda bound: bound.value)


def lower_bound_function(
    topology: Topology, spec: Spec, costs: Costs
) -> Callable[[float], float] | None:
    """Return a function from the bytes of a rank's buffer to the lower bound.

    Args:
        costs: Requested costs. There is no bound for costs other than the machine's.

    Returns:
        None: there is no bound here.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    if topology.ranks > MAX_CUT_RANKS or costs != Costs.from_topology(topology, None, None):
        return None
    curve = lower_bound_curve(topology, spec, _CHART_SIZES)
    return lambda size_bytes: float(curve.us(round(size_bytes)))


def lower_bound_curve(
    topology: Topology,
    spec: Spec,
    sizes: Sequence[int],
    model: AlphaModel = AlphaModel.TRAVELS,
) -> CompletionTimeBound:
    """Return the lower bound for all chunkings, from cuts and prices, as a function of the size.

    Args:
        sizes: Bytes of a rank's buffer, ascending, for which it is optimized.

    Raises:
        InputError: Some destination cannot be reached, or there are too many ranks.
        KeyboardInterrupt: The user interrupted.
    """
    return compute_bound_curve(topology, spec, completion_time_bound(topology, spec, model), sizes)


def _equivalent_machines(topology: Topology, model: AlphaModel) -> tuple[Topology, ...]:
    """Return the machine, and its equivalent with links instead of switches if it has one.

    A direct link combines both alphas of a path over a switch. This shifts the budgets of ranks
    against each other, unless all links of switches have one alpha and alphas occupy no links.
    """
    alphas = {k.alpha_us for k in topology.links if max(k.edge) >= topology.ranks}
    if not topology.switches or len(alphas) > 1 or model is AlphaModel.OCCUPIES:
        return (topology,)
    try:
        return (topology, machine_model(topology).topology)
    except TopologyError:
        return (topology,)


def _link_bound(
    topology: Topology, spec: Spec, collective: Collective, clock: Clock, *, together: bool
) -> int | None:
    """Return the bound of links and paths.

    None: there is none for chunks that are sent together.
    """
    dual = dual_of(spec)
    if dual.on_reversed:
        topology = topology.reversed()
        clock = Clock.from_topology(topology, clock.chunk_bytes, clock.model, clock.tick_ps)
    link_clock = combined_clock(topology, clock) if together else clock
    if link_clock is None:
        return None
    net = build_arrays(topology, link_clock, build_routes(topology, link_clock))
    if dual.phases == 2:
        return allreduce_bound_ticks(topology, link_clock, net, collective)
    demand = build_demand(dual.spec.at(dual.spec.unit * (collective.chunks // spec.unit)))
    return lower_bound_ticks(topology, link_clock, net, demand, 0, backwards=dual.on_reversed)
