"""Lower bounds for every allreduce, of any class.

They hold for algorithms in which each send carries contributions to one chunk, reduced or not.
These include compositions, trees, and gathering all contributions. There are three arguments.

* *Steps.* Each rank needs every contribution, so S is at least the largest distance between ranks.
* *A cut.* Take any set of ranks. For every chunk, it needs a contribution from outside. Partial
  sums travel as one, so at least one send per chunk enters the set.
* *Sends.* Each chunk takes 2 (P - 1) sends. Put its sends in an order consistent with the steps,
  and consider the first after which some rank knows all contributions. By then each of the P - 1
  other ranks has sent, or its contribution would be missing. None of them knows all, so each still
  has to receive. (One-way gossip, as in Harary and Schwenk, The communication problem on graphs and
  digraphs, 1974.) The same holds for G groups of ranks, each regarded as one rank with the
  knowledge of all its ranks: 2 (G - 1) sends go between them.

Groups give the exact optimum if every link is as wide as its reverse and no budgets are shared. Let
q be the largest bound in rounds per chunk by groups, (G - 1) / (lanes between them, one way). If
the lanes of each pair of ranks are multiplied by q, any G groups have at least G - 1 lanes between
them. So some mixture of spanning trees fits (Tutte 1961, Nash-Williams 1961). Each chunk goes up
its tree and down again, with one send in each direction over each of its links. If chunks start in
consecutive steps, a step loads the links as one chunk does in all its steps. So R/C approaches q
arbitrarily as S grows. (According to arXiv 2602.22482 the optimum is open. That statement concerns
algorithms that may mix chunks in a send. Our algorithms may not, nor do those of any known system.)

In process groups the same holds for the chunks of each group. A chunk takes two sends for each rank
of its group but one, or two sends for each set of ranks with members of the group but one
(:func:`exchange_demand`). One send enters every set that divides the group. It is unknown whether
process groups attain these bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sccl.collectives import Spec, dual_of, named_spec
from sccl.core.bound import AlgorithmBounds, CountProof, DistanceProof
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.prove.bounds.bandwidth_proof import common_cuts, cover_names, max_carried
from sccl.prove.bounds.lower_bounds import farthest_pair

if TYPE_CHECKING:
    from sccl.prove.bounds.network_strength import Partition


def exchange_demand(collective: Collective, groups: Sequence[frozenset[int]]) -> Fraction:
    """Return the data an allreduce must send between groups, relative to a rank's buffer.

    Each chunk takes 2 (G - 1) sends, where G is the number of groups with ranks that reduce it.
    Other groups may forward data without changing the argument: these G groups have to send and to
    receive.

    Args:
        groups: Groups of nodes, with each rank in one of them.
    """
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    sent = sum(
        2 * (len({group_of[int(rank)] for rank in held}) - 1) * collective.amount(chunks)
        for (held, _), chunks in collective.chunk_classes().items()
    )
    return Fraction(sent, collective.chunks)


def any_class_bandwidth(topology: Topology, spec: Spec) -> Fraction:
    """Return a lower bound on R/C of every allreduce, of all ranks or in groups.

    Raises:
        UnreachableError: a contribution cannot reach a rank.
    """
    if not spec.post.pattern:
        bounds = any_class_bounds(topology, named_spec("allreduce", spec.ranks))
        return bounds.bandwidth * Fraction(spec.pattern_chunks, spec.unit)
    if not spec.counts:
        return any_class_bounds(topology, spec).bandwidth
    singletons = [frozenset([rank]) for rank in range(topology.ranks)]
    return exchange_demand(spec.at(spec.unit), singletons) / max_carried(topology, topology.edges)


def any_class_bounds(topology: Topology, spec: Spec) -> AlgorithmBounds:
    """Return lower bounds for every allreduce on a topology, of all ranks or in groups.

    Raises:
        UnreachableError: a contribution cannot reach a rank.
    """
    dual = dual_of(spec).spec
    gathered = dual.at(dual.unit)
    pair = farthest_pair(topology, gathered)
    best = max(_count_proofs(topology, spec, gathered), key=lambda bound: bound.bandwidth)
    far = DistanceProof(dual.name, False, pair.chunk, pair.sources, pair.rank, pair.steps)  # noqa: FBT003
    return AlgorithmBounds(pair.steps, best.bandwidth, distance=far, evidence=best)


def _count_proofs(topology: Topology, spec: Spec, gathered: Collective) -> Iterator[CountProof]:
    """Yield bounds by sends: between ranks, the weakest groups, and the chassis, and over cuts."""
    from sccl.prove.bounds.network_strength import merged_partition  # noqa: PLC0415 - loads NumPy and OR-Tools

    unit = spec.at(spec.unit)
    weakest = merged_partition(topology, unit)
    settled = weakest is not None and not topology.budgets and not spec.post.pattern
    settled = settled and topology.reversed().same_capacities(topology)
    for groups in _partitions(topology, weakest):
        if capacity := max_carried(topology, _crossing_links(topology, groups)):
            are_singletons = all(len(group) == 1 for group in groups)
            shown = () if are_singletons else tuple(tuple(sorted(group)) for group in groups)
            sends, near = int(exchange_demand(unit, groups)), settled and weakest == groups
            yield CountProof(spec.name, sends, capacity, (), shown, is_asymptotic=near)
    reduced = unit.chunk_classes()
    for inside in common_cuts(topology, gathered):
        split = (chunks for (held, _), chunks in reduced.items() if held & inside and held - inside)
        if capacity := max_carried(topology, _crossing_links(topology, (inside,))):
            sends = sum(map(len, split)) // unit.chunks
            yield CountProof(spec.name, sends, capacity, tuple(sorted(inside)))


def _partitions(topology: Topology, weakest: Partition | None) -> Iterator[Partition]:
    """Yield partitions of all ranks that may have low capacity between their groups."""
    everyone = frozenset(range(topology.ranks))
    yield tuple(frozenset([rank]) for rank in range(topology.ranks))
    if weakest is not None:
        yield weakest
    for chassis in topology.chassis:
        group = frozenset(chassis)
        if rest := everyone - group:
            yield group, rest
            yield group, *(frozenset([rank]) for rank in sorted(rest))
    if topology.chassis and everyone == frozenset().union(*topology.chassis):
        yield tuple(map(frozenset, topology.chassis))


def _crossing_links(topology: Topology, groups: Sequence[Collection[int]]) -> set[Edge]:
    """Return the links between groups, or those that enter a single group."""
    of = {rank: i for i, group in enumerate(groups) for rank in group}
    if len(groups) == 1:
        return {(u, v) for u, v in topology.edges if v in of and u not in of}
    return {(u, v) for u, v in topology.edges if of.get(u, u) != of.get(v, v)}


def covering_constraints(topology: Topology, groups: Sequence[Collection[int]]) -> tuple[str, ...]:
    """Return the names of constraints that cover all links between groups, or into a single one."""
    return cover_names(topology, _crossing_links(topology, groups))
