"""Lower bounds for every allreduce, of any class.

They hold for algorithms whose sends each carry contributions to one chunk, reduced or not:
compositions, trees, and gathering all contributions are among these. There are three arguments.

* *Steps.* Each rank needs every contribution, so S is at least the largest distance between ranks.
* *A cut.* Every chunk needs a contribution from outside any set of ranks inside it. Partial sums
  travel as one, so at least one send per chunk enters.
* *Sends.* Each chunk takes 2 (P - 1) sends. Put its sends in an order consistent with the steps,
  and consider the first after which some rank knows all contributions. By then each of the P - 1
  other ranks has sent, or its contribution would not be known there. None of them knows all, so
  each has still to receive. (One-way gossip, as in Harary and Schwenk, The communication problem on
  graphs and digraphs, 1974.) The same holds for G groups of ranks, each regarded as one rank with
  the knowledge of all its ranks: 2 (G - 1) sends go between them.

Groups give the exact optimum if every link is as wide as its reverse and no budgets are shared. Let
q be the largest bound in rounds per chunk by groups, (G - 1) / (lanes between them, one way). If
each pair of ranks has its lanes times q, any G groups have G - 1 between them, so some mixture of
spanning trees fits (Tutte 1961, Nash-Williams 1961). Each chunk goes up its tree and down again,
one send each way over each of its links. Chunks that start one step after the other load links in a
step as one chunk does in all its steps, so R/C comes arbitrarily close to q as S grows. (According
to arXiv 2602.22482 the optimum is open. That is for algorithms that may mix chunks in a send. Ours
may not, and neither may those of any system that we know of.)

In process groups the same holds for the chunks of each group: each chunk takes two sends for each
rank of its group but one, or for each set of ranks with members of it but one
(:func:`exchange_demand`), and one enters every set that divides the group. Whether these bounds are
attained is not known there.
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

    Each chunk takes 2 (G - 1) sends, where G is the number of groups with ranks that reduce it. If
    other groups forward, the argument is the same: these G have to send and to receive.

    Args:
        groups: groups of nodes. Each rank is in one of them.
    """
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    sent = sum(
        2 * (len({group_of[int(rank)] for rank in held}) - 1) * collective.amount(chunks)
        for (held, _), chunks in collective.chunk_classes().items()
    )
    return Fraction(sent, collective.chunks)


def any_class_bandwidth(topology: Topology, spec: Spec) -> Fraction:
    """Return the R/C that no allreduce goes below, of all ranks or in groups.

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
    """Yield bounds by sends: between all ranks, the weakest groups, the chassis, and over cuts."""
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
    """Yield groups that take in all ranks, between which links may carry little."""
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
    """Return the names of constraints that hold all links between groups, or into a single one."""
    return cover_names(topology, _crossing_links(topology, groups))
