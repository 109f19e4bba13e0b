"""Compute the lower bounds of a collective on a machine (SCCL section 3.7).

- On steps (``a_l``): the distance that a chunk has to travel.
- On R/C (``b_l``): the dual of the LP over all routings. Floating-point solutions of LPs only
  *propose* proofs. :func:`sccl.prove.bounds.bandwidth_proof.check_proof` computes every returned
  value in exact arithmetic, and the best proposal is used.

Collectives that reduce are bounded through their duals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds, DistanceProof, PriceProof
from sccl.core.collective import Collective
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import Rank
from sccl.core.instance import Instance, check_direct
from sccl.core.topology import Topology, constraint_name
from sccl.errors import CollectiveError, UnreachableError
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, check_proof, simple_proofs
from sccl.topo.symmetry.group_choice import orbit_symmetries, translation_groups
from sccl.topo.symmetry.permutations import rank_orbits, set_orbits

_CUT_LP_RANKS = 64  # above, only simple proofs are used if there are budgets
_MANY_SOURCES = 256


@dataclass(frozen=True, slots=True)
class FarthestPair:
    """The proof of a latency bound: a chunk, a destination, and their distance.

    Attributes:
        steps: Number of links on a shortest path from the nearest source to ``rank``.
        chunk: The chunk.
        sources: The ranks that hold it initially.
        rank: The destination.
    """

    steps: int
    chunk: int
    sources: tuple[int, ...]
    rank: int


def farthest_pair(topology: Topology, collective: Collective) -> FarthestPair:
    """Return the (chunk, destination) that is farthest from the chunk's sources.

    Args:
        collective: Non-combining collective.

    Raises:
        UnreachableError: A chunk cannot reach a destination. The message names the pair.
    """
    successors = topology.successors()
    best = FarthestPair(0, 0, (), 0)
    for sources, wanted_by in _targets_by_sources(topology, collective):
        far = distances(successors, sources)
        for wanted, chunk in wanted_by:
            for rank in sorted(wanted):
                if far[rank] == UNREACHED:
                    origin = ", ".join(str(r) for r in sorted(sources))
                    raise UnreachableError(
                        f"{collective.name} on {topology.name!r}: chunk {chunk} starts on rank "
                        f"{origin} and must reach rank {rank}, but no path of links leads from "
                        f"{origin} to {rank}; add a link or leave the rank out"
                    )
                if far[rank] > best.steps:
                    best = FarthestPair(far[rank], chunk, tuple(sorted(sources)), rank)
    return best


def _targets_by_sources(
    topology: Topology, collective: Collective
) -> Iterator[tuple[frozenset[Rank], Iterable[tuple[frozenset[Rank], int]]]]:
    """Yield sets of sources, each with the sets of destinations of its chunks and one chunk.

    If there are many sources, only one of each orbit under symmetries is included.
    """
    ranks = topology.ranks
    if collective.is_alltoall:
        representatives: Iterable[int] = range(ranks)
        if ranks > _MANY_SOURCES:
            representatives = rank_orbits(topology, orbit_symmetries(topology, collective))
        for rank in representatives:
            chunks = range(rank, ranks * ranks, ranks)
            yield collective.holders(rank), ((collective.destinations(c), c) for c in chunks)
        return
    first: dict[frozenset[Rank], dict[frozenset[Rank], int]] = {}
    for (sources, wanted), class_chunks in collective.chunk_classes().items():
        first.setdefault(sources, {})[wanted] = class_chunks[0]
    several: Iterable[frozenset[Rank]] = first
    if len(first) > _MANY_SOURCES:
        several = set_orbits(first, orbit_symmetries(topology, collective))
    for sources in several:
        yield sources, first[sources].items()


def require_reachable(instances: Iterable[Instance]) -> None:
    """Check that every chunk can reach all its destinations in some number of steps.

    Raises:
        UnreachableError: A chunk cannot. The message names the pair.
    """
    for instance in instances:
        farthest_pair(instance.topology, instance.collective)


def bandwidth_bound(topology: Topology, collective: Collective) -> BandwidthProof:
    """Return the best certified lower bound on R for ``collective``. Divide by C for R/C.

    Args:
        collective: Non-combining collective with a reachable demand.
    """
    best = _best_proof(topology, collective, simple_proofs(topology, collective))
    lp_proof = _best_proof(
        topology, collective, _linear_programming_proofs(topology, collective, best)
    )
    return lp_proof if lp_proof.value > best.value else best


def _linear_programming_proofs(
    topology: Topology, collective: Collective, start: BandwidthProof
) -> Iterator[BandwidthProof]:
    # Imports are local, since loading MathOpt takes longer than computing most bounds.
    proposal = None
    if collective.is_unicast:
        from sccl.prove.bounds.flow_lp import flow_proof  # noqa: PLC0415

        proposal = flow_proof(topology, collective)
        if proposal is None and collective.is_alltoall:
            yield from _alltoall_proofs(topology, collective)
    elif collective.is_allgather and not topology.budgets:
        from sccl.prove.bounds.sink_cuts import sinks_proof  # noqa: PLC0415

        proposal = sinks_proof(topology, collective, start)
    elif topology.ranks <= _CUT_LP_RANKS:
        from sccl.prove.bounds.cut_lp import cut_proof  # noqa: PLC0415

        proposal = cut_proof(topology, collective, start)
    if proposal is not None and proposal.prices:
        yield proposal


def _alltoall_proofs(topology: Topology, alltoall: Collective) -> Iterator[BandwidthProof]:
    """Yield the proofs of an alltoall that is too large for the flow LP."""
    from sccl.topo.symmetry.regular_groups import translation_group  # noqa: PLC0415 - NumPy is slow to load

    if any(translation_group(g.generators) for g in translation_groups(topology, alltoall)):
        from sccl.prove.bounds.cayley_prices import cayley_proofs  # noqa: PLC0415

        yield from cayley_proofs(topology, alltoall)
    else:
        from sccl.prove.bounds.flow_orbits import orbit_flow_proofs  # noqa: PLC0415

        yield from orbit_flow_proofs(topology, alltoall)


def _best_proof(
    topology: Topology, collective: Collective, proposals: Iterable[BandwidthProof]
) -> BandwidthProof:
    """Return the proposal with the highest computed value, the first of equal ones."""
    best = BandwidthProof(Fraction(0), (), ())
    for proposal in proposals:
        if not proposal.prices:
            continue
        value = check_proof(topology, collective, proposal)
        if value > best.value:
            best = replace(proposal, value=value)
    cuts = (replace(c, chunks=collective.amount_entering(set(c.ranks))) for c in best.cuts)
    return replace(best, cuts=tuple(cuts))


def lower_bounds(topology: Topology, spec: Spec) -> AlgorithmBounds:
    """Return the lower bounds of a collective on a topology, with their proofs.

    The bounds of a combining collective are those of its dual with the smallest possible number of
    chunks, on the reversed topology if necessary. For an allreduce on asymmetric links both phases
    are bounded. The tighter bound holds for each phase, since they have equal steps and rounds.

    Raises:
        CollectiveError: the collective is for another number of ranks.
        UnreachableError: A chunk cannot reach a destination.
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
