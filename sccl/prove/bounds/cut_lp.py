"""Find the best weighted cuts by a linear program with cut generation.

The program minimizes R over loads x_e. Every constraint (L, b) carries at most b * R. The load that
enters each set of ranks is at least the number of chunks that have to enter it. Violated sets are
found by max-flow. If all ranks are destinations (allgather, broadcast), this is the exact optimum
over all routings (Edmonds' theorem on packing arborescences). For other demands it is a valid
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from igraph import Graph

from sccl.core.bound import Cut
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, nonzero_prices
from sccl.solvers.lp import Model, fast_sum, solve, to_fraction

_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class _DemandFlow:
    """The flow of all chunks that a rank demands, over the links.

    Attributes:
        rank: the destination.
        demand: number of chunks.
        graph: the links in order, then arcs from a source (the vertex after the ranks) through a
            vertex per class of chunks to its holders.
        capacities: arc capacities. For links, their loads.
    """

    rank: int
    demand: int
    graph: Graph
    capacities: list[float]


def cut_proof(
    topology: Topology, collective: Collective, start: BandwidthProof
) -> BandwidthProof | None:
    """Return the proof of the cut LP, or None if the LP was not solved.

    Args:
        start: Proof whose cuts are the initial ones.
    """
    cuts = [frozenset(c.ranks) for c in start.cuts]
    flows = list(_demand_flows(topology, collective))
    while True:
        solved = _solve_cut_lp(topology, collective, cuts)
        if solved is None:
            return None
        loads, proof = solved
        fresh = set(_violated_cuts(topology, flows, loads)) - set(cuts)
        if not fresh:
            return proof
        cuts += sorted(fresh, key=sorted)


def _solve_cut_lp(
    topology: Topology, collective: Collective, cuts: list[frozenset[int]]
) -> tuple[dict[Edge, float], BandwidthProof] | None:
    model = Model()
    rounds = model.add_variable(lb=0.0)
    load = {edge: model.add_variable(lb=0.0) for edge in sorted(topology.edges)}
    constraint_rows = {
        c.key: model.add_linear_constraint(
            fast_sum([load[e] for e in c.edges]) - c.chunks_per_round * rounds <= 0.0
        )
        for c in topology.constraints()
    }
    cut_rows = [
        model.add_linear_constraint(
            fast_sum([x for (u, v), x in load.items() if v in inside and u not in inside])
            >= float(collective.amount_entering(inside))
        )
        for inside in cuts
    ]
    model.minimize(rounds)
    result = solve(model)
    if result is None:
        return None
    duals = result.dual_values()
    weights = [to_fraction(duals[row]) for row in cut_rows]
    prices = {key: to_fraction(-duals[row]) for key, row in constraint_rows.items()}
    loads = {edge: result.variable_values(x) for edge, x in load.items()}
    return loads, _scale_proof(topology, cuts, weights, prices)


def _scale_proof(
    topology: Topology,
    cuts: list[frozenset[int]],
    weights: list[Fraction],
    prices: dict[ConstraintKey, Fraction],
) -> BandwidthProof:
    """Return the proof with the weights scaled down so that no edge is overcharged.

    Rounding duals to fractions can break the dual constraints a little. Scaling repairs them
    exactly.
    """
    share = Fraction(1)
    for src, dst in topology.edges:
        weight = sum(
            (w for x, w in zip(cuts, weights, strict=True) if dst in x and src not in x),
            Fraction(0),
        )
        if weight:
            price = sum(
                (prices[c.key] for c in topology.constraints() if (src, dst) in c.edges),
                Fraction(0),
            )
            share = min(share, price / weight)
    used = tuple(
        Cut(tuple(sorted(x)), w * share, 0)
        for x, w in zip(cuts, weights, strict=True)
        if w * share > 0
    )
    return BandwidthProof(Fraction(0), nonzero_prices(prices), used)


def _demand_flows(topology: Topology, collective: Collective) -> Iterator[_DemandFlow]:
    """Yield the flow of all chunks that a rank demands, for each rank with a demand."""
    edges = sorted(topology.edges)
    source = topology.ranks
    for rank in range(topology.ranks):
        arcs: list[tuple[int, int]] = []
        capacities: list[float] = []
        wants = 0
        for (holders, wanted), chunks in collective.chunk_classes().items():
            if rank in wanted and rank not in holders:
                amount = collective.amount(chunks)
                wants += amount
                middle = source + len(capacities) + 1
                arcs += [(source, middle), *((middle, holder) for holder in sorted(holders))]
                capacities += [amount] * (1 + len(holders))
        if wants:
            vertices = source + len(capacities) + 1
            yield _DemandFlow(
                rank, wants, Graph(vertices, [*edges, *arcs], directed=True), capacities
            )


def _violated_cuts(
    topology: Topology, flows: list[_DemandFlow], loads: dict[Edge, float]
) -> Iterator[frozenset[int]]:
    on_links = [max(loads[edge], 0.0) for edge in sorted(topology.edges)]
    for flow in flows:
        capacity = [*on_links, *flow.capacities]
        cut = flow.graph.maxflow(topology.ranks, flow.rank, capacity=capacity)
        if cut.value < flow.demand * (1 - _TOLERANCE):
            yield frozenset(r for r in range(topology.ranks) if cut.membership[r])
