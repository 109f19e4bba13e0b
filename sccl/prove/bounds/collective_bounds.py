"""Both lower bounds of a collective on a topology, combining collectives through their duals."""

from __future__ import annotations

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds, DistanceProof, PriceProof
from sccl.core.instance import check_direct
from sccl.core.topology import Topology, constraint_name
from sccl.errors import CollectiveError
from sccl.prove.bounds.bandwidth import bandwidth_bound
from sccl.prove.bounds.latency import farthest_pair


def lower_bounds(topology: Topology, spec: Spec) -> AlgorithmBounds:
    """Return the lower bounds of a collective on a topology, with their proofs.

    For a combining collective they are bounds on its dual, if necessary on the reversed topology,
    with the smallest possible number of chunks. For allreduce on one-way links both of its phases
    are bounded, and the tighter bound holds for each: they have equal steps and rounds.

    Raises:
        CollectiveError: the collective is for another number of ranks.
        UnreachableError: a chunk cannot reach a rank that wants it.
        TopologyError: the topology has switch nodes.
    """
    check_direct(topology)
    if spec.ranks != topology.ranks:
        raise CollectiveError(
            f"collective {spec.name!r} is for {spec.ranks} ranks, topology {topology.name!r} has "
            f"{topology.ranks}"
        )
    dual = dual_of(spec)
    unit = dual.spec.at(dual.spec.unit)
    phases = dual.phases_on(topology)
    pairs = [(farthest_pair(phase.topology, unit), phase.on_reversed) for phase in phases]
    proofs = [(bandwidth_bound(phase.topology, unit), phase.on_reversed) for phase in phases]
    pair, far_on_reversed = max(pairs, key=lambda each: each[0].steps)
    tightest, on_reversed = max(proofs, key=lambda each: each[0].value)
    name = dual.spec.name
    prices = tuple((constraint_name(key), price) for key, price in tightest.prices)
    return AlgorithmBounds(
        pair.steps * dual.phases,
        dual.bandwidth(tightest.value / unit.chunks),
        dual.scope,
        DistanceProof(name, far_on_reversed, pair.chunk, pair.sources, pair.rank, pair.steps),
        PriceProof(name, on_reversed, unit.chunks, tightest.value, prices, tightest.cuts),
    )
