"""Proofs that need no LP: the cuts that usually bind, and lengths that are all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from sccl.core.bound import Cut
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, nonzero_prices
from sccl.topo.symmetry.group_choice import orbit_symmetries
from sccl.topo.symmetry.orbits import rank_orbits

_MAX_LENGTH_WORK = 12_000_000  # sources times edges: beyond, exact shortest paths take minutes


def simple_proofs(topology: Topology, collective: Collective) -> Iterator[BandwidthProof]:
    """Yield cheap candidate proofs for every machine, a cut first, without their values.

    On symmetric machines one of them already gives the best possible bound.
    """
    links, lanes = topology.edges, topology.lanes()
    best: tuple[Fraction, frozenset[int]] | None = None
    for inside in common_cuts(topology, collective):
        if entering := _entering_links(links, inside):
            carried = sum(chunks for _, chunks in _cheapest_cover(topology, entering, lanes))
            ratio = Fraction(collective.amount_entering(inside), carried)
            best = max(best or (ratio, inside), (ratio, inside), key=lambda each: each[0])
    if best and (proof := price_cut(topology, best[1])):
        yield proof
    if (
        collective.is_unicast
        and _source_count(topology, collective) * len(topology.links) <= _MAX_LENGTH_WORK
    ):
        prices = tuple((edge, Fraction(1)) for edge in sorted(topology.edges))
        yield BandwidthProof(Fraction(0), prices, ())


def _source_count(topology: Topology, collective: Collective) -> int:
    """Return how many sets of ranks shortest paths have to be sought from."""
    if collective.is_alltoall:
        return len(rank_orbits(topology, orbit_symmetries(topology, collective)))
    return len({sources for sources, _ in collective.chunk_classes()})


def common_cuts(topology: Topology, collective: Collective) -> Iterator[frozenset[int]]:
    """Yield the sets that are usually tight: one rank, all but one, a chassis, all but a chassis.

    One rank is enough among ranks that are images of each other under a symmetry.
    """
    everyone = frozenset(range(topology.ranks))
    ranks: Iterable[int] = everyone
    if symmetries := orbit_symmetries(topology, collective):
        ranks = rank_orbits(topology, symmetries)
    sets = [frozenset([r]) for r in ranks] + [frozenset(g) for g in topology.chassis]
    for group in sets:
        for inside in (group, everyone - group):
            if inside and collective.amount_entering(inside):
                yield inside


def price_cut(topology: Topology, inside: frozenset[int]) -> BandwidthProof | None:
    """Return the proof of a single cut: the cheapest cover of the edges that enter it.

    A shared budget covers several edges at one price, so it is taken greedily where that is cheaper
    than the links it covers. Any cover is valid, and an LP may find a better one.
    """
    entering = _entering_links(topology.edges, inside)
    if not entering:
        return None
    prices = nonzero_prices(
        {key: Fraction(1) for key, _ in _cheapest_cover(topology, entering, topology.lanes())}
    )
    return BandwidthProof(Fraction(0), prices, (Cut(tuple(sorted(inside)), Fraction(1), 0),))


def _entering_links(links: Iterable[Edge], inside: frozenset[int]) -> set[Edge]:
    return {(u, v) for u, v in links if v in inside and u not in inside}


def _cheapest_cover(
    topology: Topology, edges: Iterable[Edge], lanes: Mapping[Edge, int]
) -> list[tuple[ConstraintKey, int]]:
    """Return constraints that hold all of some edges, and their chunks per round."""
    left = set(edges)
    constraints: list[tuple[ConstraintKey, int]] = []
    for budget in topology.budgets:
        covered = left.intersection(budget.edges)
        if budget.chunks_per_round < sum(lanes[e] for e in covered):
            constraints.append((budget.name, budget.chunks_per_round))
            left -= covered
    return [*constraints, *((edge, lanes[edge]) for edge in left)]


def cover_names(topology: Topology, edges: Iterable[Edge]) -> tuple[str, ...]:
    """Return the names of the constraints that :func:`max_carried` counts."""
    return tuple(
        sorted(
            constraint_name(key) for key, _ in _cheapest_cover(topology, edges, topology.lanes())
        )
    )


def max_carried(topology: Topology, edges: Iterable[Edge]) -> int:
    """Return the maximum number of chunks that some edges carry in a round."""
    return sum(chunks for _, chunks in _cheapest_cover(topology, edges, topology.lanes()))
