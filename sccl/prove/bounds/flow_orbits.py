"""Prices for an alltoall on machines too large for the flow LP: one price for each orbit.

The mean of optimal prices over symmetries is optimal too. So all constraints of an orbit can have
one price, and the chunks of all ranks of an orbit cost the same. The program is solved by cutting
planes (Kelley 1960): at given prices, the shortest paths from a rank of each orbit load the
constraints. At any other prices, the rank's chunks cost at most the cost of these loads. The next
prices are the mean of the best prices so far and the optimum of the current cuts (Wentges 1997).
The value of a proof is computed exactly, so the search may end at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from igraph import Graph

from sccl.core.arrays import FloatArray
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Constraint, Topology
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, nonzero_prices
from sccl.solvers import lp
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.group_choice import MAX_BLISS_LINKS
from sccl.topo.symmetry.permutations import Permutation, capacity_orbits, rank_orbits

_MAX_PATH_WORK = (
    50_000  # orbits of ranks times ranks, of one look at all paths: mesh:16x16 has 9,216
)
_MAX_TOTAL_WORK = 3_000_000  # maximum total of this work
_GAP = 1e-7
_SIMPLE_DENOMINATOR = 60  # maximum denominator of rounded prices


def orbit_flow_proofs(topology: Topology, collective: Collective) -> Iterator[BandwidthProof]:
    """Yield proofs of an alltoall by prices of orbits, none if it is too large.

    One proof has the best prices, the other one rounds them to simple fractions.

    Raises:
        SolverError: No solver finds the optimum of a linear program.
        KeyboardInterrupt: The user interrupted.
    """
    if len(topology.links) > MAX_BLISS_LINKS:
        return
    program = _OrbitPriceSearch(topology, collective)
    if program.work <= _MAX_PATH_WORK:
        program.run()
        yield program.proof(lambda price: Fraction(price).limit_denominator(_SIMPLE_DENOMINATOR))
        yield program.proof(lp.to_fraction)


class _OrbitPriceSearch:
    """The search for prices by orbit, normalized such that the capacity of a round costs 1.

    Attributes:
        constraints: The constraints of each orbit.
        bought: Total capacity of each orbit's constraints in a round, shape (orbits,).
        work: Work of one computation of all shortest paths: orbits of ranks times ranks.
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self.topology = topology
        symmetries = automorphisms(topology, collective)
        sources = rank_orbits(topology, symmetries)
        self.sources = [(first, len(ranks)) for first, ranks in sources.items()]
        self.work = len(self.sources) * topology.ranks
        self.constraints = _constraint_orbits(topology, symmetries)
        self.bought = np.array(
            [len(orbit) * orbit[0].chunks_per_round for orbit in self.constraints], np.float64
        )
        place = {link.edge: i for i, link in enumerate(topology.links)}
        pairs = [
            (place[edge], number)
            for number, orbit in enumerate(self.constraints)
            for constraint in orbit
            for edge in constraint.edges
        ]
        self.link, self.orbit = np.array(pairs, np.int64).T
        self.graph = Graph(topology.ranks, list(place), directed=True)
        self.best, self.value = 1 / self.bought.sum() * np.ones(len(self.bought)), -1.0

    def run(self) -> None:
        """Improve the prices until cuts and paths agree, or the work limit is reached."""
        model = lp.Model()
        price = [model.add_variable(lb=0.0) for _ in self.bought]
        paid = [model.add_variable(lb=0.0) for _ in self.sources]
        each = zip(self.bought, price, strict=True)
        model.add_linear_constraint(lp.fast_sum([b * x for b, x in each]) <= 1.0)
        weights = [ranks for _, ranks in self.sources]
        model.maximize(lp.fast_sum([n * y for n, y in zip(weights, paid, strict=True)]))
        growing, spent, at = None, 0.0, self.best
        while spent < _MAX_TOTAL_WORK:
            value = 0.0
            for (source, ranks), y in zip(self.sources, paid, strict=True):
                loads = self._loads(source, at)
                value += ranks * float(loads @ at)
                model.add_linear_constraint(
                    y - lp.fast_sum([n * x for n, x in zip(loads, price, strict=True) if n]) <= 0.0
                )
            if value > self.value:
                self.best, self.value = at, value
            spent += self.work
            growing = growing or lp.IncrementalProgram(model)
            result = growing.solve()
            if result.objective_value() <= self.value * (1 + _GAP):
                return
            values = result.variable_values()
            wanted = np.array([max(values[x], 0.0) for x in price])
            at = (wanted + self.best) / 2

    def _loads(self, source: int, prices: FloatArray) -> FloatArray:
        """Return the total load of each orbit's constraints by the shortest paths from a rank."""
        length = np.zeros(len(self.topology.links))
        np.add.at(length, self.link, prices[self.orbit])
        paths = self.graph.get_shortest_paths(source, weights=length.tolist(), output="epath")
        links = np.bincount([link for path in paths for link in path], minlength=len(length))
        return np.bincount(self.orbit, links[self.link], len(self.bought)).astype(np.float64)

    def proof(self, exactly: Callable[[float], Fraction]) -> BandwidthProof:
        """Return the proof of the best prices, scaled to a maximum of 1, as fractions."""
        scaled = self.best / self.best.max()
        prices = {
            constraint.key: exactly(float(price))
            for orbit, price in zip(self.constraints, scaled, strict=True)
            for constraint in orbit
        }
        return BandwidthProof(Fraction(0), nonzero_prices(prices), ())


def _constraint_orbits(
    topology: Topology, symmetries: tuple[Permutation, ...]
) -> list[list[Constraint]]:
    """Return the orbits of constraints, with equal constraints in one orbit."""
    by_key: dict[tuple[frozenset[Edge], int], list[Constraint]] = {}
    for constraint in topology.constraints():
        key = (frozenset(constraint.edges), constraint.chunks_per_round)
        by_key.setdefault(key, []).append(constraint)
    return [
        [constraint for key in keys for constraint in by_key[key]]
        for keys in capacity_orbits(by_key, symmetries).values()
    ]
