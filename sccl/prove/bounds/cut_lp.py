"""The best weighted cuts by linear programming with cuts added as they are violated.

Minimise R over loads x_e: every constraint (L, b) carries at most b * R, and at least as much load
enters each set of ranks as chunks have to. Violated sets are found by max-flow. For demand that is
wanted everywhere (allgather, broadcast) this is the exact optimum over all routings (Edmonds'
theorem on packing arborescences); for other demand it is a valid bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import networkx as nx

from sccl.core.bounds import Cut
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import ConstraintKey, Topology
from sccl.prove.bounds.proof import BandwidthProof, entering_chunks, priced
from sccl.solvers.lp import Model, fast_sum, rational, solve

_TOLERANCE = 1e-6

_Arc = tuple[object, object, float]


def cut_proof(
    topology: Topology, collective: Collective, start: BandwidthProof
) -> BandwidthProof | None:
    """Return the proof of the cut LP, or None if the LP was not solved.

    Args:
        start: a proof whose cuts are the first to be tried.
    """
    cuts = [frozenset(c.ranks) for c in start.cuts]
    demand = list(_demand_arcs(topology, collective))
    while True:
        solved = _solve_cut_lp(topology, collective, cuts)
        if solved is None:
            return None
        loads, proof = solved
        fresh = set(_violated_cuts(topology, demand, loads)) - set(cuts)
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
            >= float(entering_chunks(collective, set(inside)))
        )
        for inside in cuts
    ]
    model.minimize(rounds)
    result = solve(model)
    if result is None:
        return None
    duals = result.dual_values()
    weights = [rational(duals[row]) for row in cut_rows]
    prices = {key: rational(-duals[row]) for key, row in constraint_rows.items()}
    loads = {edge: result.variable_values(x) for edge, x in load.items()}
    return loads, _scaled(topology, cuts, weights, prices)


def _scaled(
    topology: Topology,
    cuts: list[frozenset[int]],
    weights: list[Fraction],
    prices: dict[ConstraintKey, Fraction],
) -> BandwidthProof:
    """Return the proof with the weights scaled down so that no edge is overcharged.

    Rounding duals to fractions can break the dual constraints a little; this mends them exactly.
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
    return BandwidthProof(Fraction(0), priced(prices), used)


def _demand_arcs(
    topology: Topology, collective: Collective
) -> Iterator[tuple[int, float, list[_Arc]]]:
    """Yield (rank, chunks it wants, arcs from "s" through a node per class to its sources)."""
    classes = list(collective.classes().items())
    for rank in range(topology.ranks):
        arcs: list[_Arc] = []
        total = 0
        for i, ((sources, wanted), chunks) in enumerate(classes):
            if rank in wanted and rank not in sources:
                total += len(chunks)
                arcs.append(("s", ("class", i), float(len(chunks))))
                arcs += [(("class", i), int(r), float("inf")) for r in sorted(sources)]
        if total:
            yield rank, float(total), arcs


def _violated_cuts(
    topology: Topology,
    demand: list[tuple[int, float, list[_Arc]]],
    loads: dict[Edge, float],
) -> Iterator[frozenset[int]]:
    base = nx.DiGraph()
    for (src, dst), load in loads.items():
        base.add_edge(src, dst, capacity=max(load, 0.0))
    for rank, required, arcs in demand:
        graph = base.copy()
        for tail, head, capacity in arcs:
            graph.add_edge(tail, head, capacity=capacity)
        value, (reached, _) = nx.minimum_cut(graph, "s", rank)
        if value < required * (1 - _TOLERANCE):
            yield frozenset(r for r in range(topology.ranks) if r not in reached)
