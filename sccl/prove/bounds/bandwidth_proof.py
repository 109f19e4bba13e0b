"""Proofs of bandwidth bounds, their exact check, and the proofs that need no LP.

A proof assigns a price to each constraint (L, b) of the bandwidth relation B. The price l(e) of an
edge is the sum of the prices of its constraints. The sends of R rounds cost at most ``R * sum_b
price_b * b`` in total. So if all required sends cost at least D at these prices, then R >= D /
sum_b price_b * b. There are two ways to bound the cost:

* cuts: each chunk that starts outside a set of ranks and has a destination inside has to enter it.
  Weighted cuts whose weights on an edge never exceed l(e) add up. The classical argument is a
  single cut with unit prices on the edges into it: chunks that must enter, over the capacity into
  the set.

* lengths: each chunk has to pass at least the shortest path from its sources to its farthest
  destination, with l(e) as length: the dual of multicommodity flow.

All arithmetic here is on ``Fraction``. No solver is involved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from sccl.core.bound import Cut
from sccl.core.collective import Collective
from sccl.core.graphs import Number, shortest_paths
from sccl.core.ids import Edge, Rank
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.errors import UnreachableError
from sccl.topo.symmetry.group_choice import orbit_symmetries
from sccl.topo.symmetry.permutations import rank_orbits

_FEW_RANKS = 64  # ranks up to which shortest paths are faster than symmetries

ConstraintPrices = tuple[tuple[ConstraintKey, Fraction], ...]
"""(constraint, price), in the order of the constraints' names."""


def nonzero_prices(prices: Mapping[ConstraintKey, Fraction]) -> ConstraintPrices:
    """Return the prices that are not zero, by name."""
    by_name = sorted(prices.items(), key=lambda item: constraint_name(item[0]))
    return tuple((key, price) for key, price in by_name if price)


@dataclass(frozen=True, slots=True)
class BandwidthProof:
    """Prices of constraints, and the cuts that bound the cost of the demand.

    Attributes:
        value: The claimed bound on R for the proof's collective.
        prices: (constraint, price) of constraints with a price, in the order of their names.
        cuts: The weighted cuts, empty if lengths prove the bound.
    """

    value: Fraction
    prices: ConstraintPrices
    cuts: tuple[Cut, ...]

    @property
    def kind(self) -> str:
        """Return ``"cut"``, ``"cuts"`` (weighted) or ``"lengths"``."""
        return {0: "lengths", 1: "cut"}.get(len(self.cuts), "cuts")


def check_proof(topology: Topology, collective: Collective, proof: BandwidthProof) -> Fraction:
    """Recompute the bound on R that the prices and cuts of a proof imply.

    Args:
        collective: Non-combining collective.

    Raises:
        ValueError: a price or weight is negative, a constraint does not exist, the cuts together
            outweigh the price of an edge, or nothing is priced.
    """
    constraints = {c.key: c for c in topology.constraints()}
    length: dict[Edge, Fraction] = dict.fromkeys(topology.edges, Fraction(0))
    bought = Fraction(0)
    for key, price in proof.prices:
        if price < 0 or key not in constraints:
            name = constraint_name(key)
            raise ValueError(f"price {price} of {name!r}: negative, or there is no such constraint")
        bought += price * constraints[key].chunks_per_round
        for edge in constraints[key].edges:
            length[edge] += price
    if bought <= 0:
        raise ValueError("nothing has a price")
    if not proof.cuts:
        return _shortest_total(topology, collective, length) / bought
    spent: dict[Edge, Fraction] = dict.fromkeys(topology.edges, Fraction(0))
    demand = Fraction(0)
    for cut in proof.cuts:
        if cut.weight < 0:
            raise ValueError(f"cut {cut.ranks} has the negative weight {cut.weight}")
        inside = set(cut.ranks)
        demand += cut.weight * collective.amount_entering(inside)
        for src, dst in topology.edges:
            if dst in inside and src not in inside:
                spent[src, dst] += cut.weight
    for edge, weight in spent.items():
        if weight > length[edge]:
            raise ValueError(f"the cuts weigh {weight} on edge {edge}, its price is {length[edge]}")
    return demand / bought


def _shortest_total(
    topology: Topology, collective: Collective, length: dict[Edge, Fraction]
) -> Fraction:
    total: Number = 0
    scale = lcm(*(price.denominator for price in length.values()))
    scaled = {edge: int(price * scale) for edge, price in length.items()}  # integers add faster
    successors = topology.successors()
    if collective.is_alltoall:
        for source, images in _symmetric_ranks(topology, collective, scaled).items():
            far = shortest_paths(successors, scaled, [source])
            if len(far) < topology.ranks:
                raise UnreachableError(f"from rank {source} some rank cannot be reached")
            total += len(images) * collective.class_size_divisor * sum(far.values())
        return Fraction(total) / scale
    reached: dict[frozenset[Rank], dict[int, Number]] = {}
    for (sources, wanted), chunks in collective.chunk_classes().items():
        if sources not in reached:
            reached[sources] = shortest_paths(successors, scaled, sources)
        far = reached[sources]
        if unreached := sorted(r for r in wanted if r not in far):
            raise UnreachableError(f"chunk {chunks[0]} cannot reach rank {unreached[0]}")
        total += collective.amount(chunks) * max((far[r] for r in wanted), default=0)
    return Fraction(total) / scale


def _symmetric_ranks(
    topology: Topology, collective: Collective, length: Mapping[Edge, int]
) -> dict[int, list[int]]:
    """Return the orbits of ranks under symmetries that preserve lengths, by first rank."""
    symmetries = [
        image
        for image in (orbit_symmetries(topology, collective) if topology.ranks > _FEW_RANKS else ())
        if all(length[image[u], image[v]] == edge_length for (u, v), edge_length in length.items())
    ]
    return rank_orbits(topology, symmetries)


# --- proofs without an LP ------------------------------------------------------------------------

_MAX_LENGTH_WORK = 12_000_000  # sources times edges: beyond, exact shortest paths take minutes


def simple_proofs(topology: Topology, collective: Collective) -> Iterator[BandwidthProof]:
    """Yield candidate proofs that are fast to compute, without values, a cut first.

    On symmetric machines one of them gives the best possible bound.
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
    """Return the number of source sets for which shortest paths are needed."""
    if collective.is_alltoall:
        return len(rank_orbits(topology, orbit_symmetries(topology, collective)))
    return len({sources for sources, _ in collective.chunk_classes()})


def common_cuts(topology: Topology, collective: Collective) -> Iterator[frozenset[int]]:
    """Yield the sets that are usually tight: one rank, all but one, a chassis, all but a chassis.

    One rank of each orbit under symmetries is enough.
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

    A shared budget covers several edges at one price. It is chosen greedily if it is cheaper than
    the links that it covers. Any cover is valid, and an LP may find a better one.
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
    """Return constraints that cover all edges, with their chunks per round."""
    left = set(edges)
    constraints: list[tuple[ConstraintKey, int]] = []
    for budget in topology.budgets:
        covered = left.intersection(budget.edges)
        if budget.chunks_per_round < sum(lanes[e] for e in covered):
            constraints.append((budget.name, budget.chunks_per_round))
            left -= covered
    return [*constraints, *((edge, lanes[edge]) for edge in left)]


def cover_names(topology: Topology, edges: Iterable[Edge]) -> tuple[str, ...]:
    """Return the names of the constraints whose capacities :func:`max_carried` adds."""
    return tuple(
        sorted(
            constraint_name(key) for key, _ in _cheapest_cover(topology, edges, topology.lanes())
        )
    )


def max_carried(topology: Topology, edges: Iterable[Edge]) -> int:
    """Return an upper bound on the chunks that some edges carry in a round."""
    return sum(chunks for _, chunks in _cheapest_cover(topology, edges, topology.lanes()))
