"""Find the best lengths by linear programming: the dual of multicommodity flow.

The program applies to demands in which every chunk has one destination. Commodities are merged if
that is exact: by source (alltoall, scatter), or into one if all chunks have the same destination
(gather).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

from sccl.core.bound import Cut
from sccl.core.collective import Collective
from sccl.core.graphs import shortest_paths
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, nonzero_prices
from sccl.solvers.lp import Model, Variable, fast_sum, solve, to_fraction

_MAX_VARIABLES = 10_000  # beyond, GLOP takes minutes, and only simple proofs remain

_Commodity = tuple[frozenset[int], Counter[int]]
"""Source set (flow may start anywhere in it), and demand of each rank."""


def flow_proof(topology: Topology, collective: Collective) -> BandwidthProof | None:
    """Return the proof of the flow LP, or None if it does not apply or is too large."""
    if collective.is_alltoall and len(topology.links) * topology.ranks > _MAX_VARIABLES:
        return None
    amount = collective.amount
    demand = [
        (frozenset(int(r) for r in sources), int(next(iter(wanted - sources))), amount(chunks))
        for (sources, wanted), chunks in collective.chunk_classes().items()
        if wanted - sources
    ]
    if any(len(wanted - sources) > 1 for sources, wanted in collective.chunk_classes()):
        return None
    if len({sink for _, sink, _ in demand}) == 1 and all(len(s) == 1 for s, _, _ in demand):
        return _single_sink(topology, demand)
    by_source: dict[frozenset[int], Counter[int]] = defaultdict(Counter)
    for sources, sink, count in demand:
        by_source[sources][sink] += count
    commodities = sorted(by_source.items(), key=lambda item: sorted(item[0]))
    prices = _solve_prices(topology, commodities)
    if prices is None or len(commodities) > 1:
        return prices
    return _as_cuts(topology, prices, commodities[0][0])


def _single_sink(
    topology: Topology, demand: list[tuple[frozenset[int], int, int]]
) -> BandwidthProof | None:
    """Solve gather as scatter on the reversed topology: one commodity instead of P."""
    wanted: Counter[int] = Counter()
    for sources, _, count in demand:
        wanted[next(iter(sources))] += count
    sink = demand[0][1]
    turned = _solve_prices(topology.reversed(), [(frozenset([sink]), wanted)])
    if turned is None:
        return None
    prices = nonzero_prices({_reversed_key(key): price for key, price in turned.prices})
    cuts = _as_cuts(topology.reversed(), turned, frozenset([sink])).cuts
    everyone = range(topology.ranks)
    outside = (tuple(r for r in everyone if r not in cut.ranks) for cut in cuts)
    return BandwidthProof(
        Fraction(0),
        prices,
        tuple(Cut(ranks, c.weight, 0) for ranks, c in zip(outside, cuts, strict=True)),
    )


def _reversed_key(key: ConstraintKey) -> ConstraintKey:
    """Return the constraint of a machine that corresponds to one of the reversed machine."""
    return key if isinstance(key, str) else (key[1], key[0])


def _as_cuts(
    topology: Topology, lengths: BandwidthProof, sources: frozenset[int]
) -> BandwidthProof:
    """Return the same bound by cuts: for each distance from the source set, the ranks beyond it.

    The weight of the cut between two levels is their difference, so the weights on an edge add up
    to at most its length.
    """
    price = dict(lengths.prices)
    length: dict[Edge, Fraction] = dict.fromkeys(topology.edges, Fraction(0))
    for constraint in topology.constraints():
        for edge in constraint.edges:
            length[edge] += price.get(constraint.key, Fraction(0))
    far = shortest_paths(topology.successors(), length, sources)
    levels = sorted({far[r] for r in range(topology.ranks) if r in far})
    cuts = tuple(
        Cut(
            tuple(r for r in range(topology.ranks) if far.get(r, high) >= high),
            Fraction(high - low),
            0,
        )
        for low, high in pairwise(levels)
    )
    return BandwidthProof(Fraction(0), lengths.prices, cuts)


def _solve_prices(topology: Topology, commodities: list[_Commodity]) -> BandwidthProof | None:
    edges = sorted(topology.edges)
    if len(edges) * len(commodities) > _MAX_VARIABLES:
        return None
    model = Model()
    rounds = model.add_variable(lb=0.0)
    on_edge: dict[Edge, list[Variable]] = {edge: [] for edge in edges}
    for sources, wanted in commodities:
        into: dict[int, list[Variable]] = defaultdict(list)
        out_of: dict[int, list[Variable]] = defaultdict(list)
        for u, v in edges:
            flow = model.add_variable(lb=0.0)
            on_edge[u, v].append(flow)
            out_of[u].append(flow)
            into[v].append(flow)
        for rank in range(topology.ranks):
            if rank not in sources:
                net = fast_sum(into[rank]) - fast_sum(out_of[rank])
                model.add_linear_constraint(net >= float(wanted[rank]))
    rows = {
        c.key: model.add_linear_constraint(
            fast_sum([x for e in c.edges for x in on_edge[e]]) - c.chunks_per_round * rounds <= 0.0
        )
        for c in topology.constraints()
    }
    model.minimize(rounds)
    result = solve(model)
    if result is None:
        return None
    duals = result.dual_values()
    prices = {key: to_fraction(-duals[row]) for key, row in rows.items()}
    return BandwidthProof(Fraction(0), nonzero_prices(prices), ())
