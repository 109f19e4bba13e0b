"""What no allreduce can beat, of whatever class.

The algorithms meant are those whose sends each carry contributions to one chunk, reduced or not:
compositions, trees, and gathering all of them are among these. Three things hold for all.

* *Steps.* Each rank needs every contribution, so S is at least the largest distance between ranks.
* *A cut.* Every chunk needs a contribution from outside any set of ranks inside it. Partial sums
  travel as one, so at least one send per chunk enters.
* *Sends.* Each chunk takes 2 (P - 1) sends. Put its sends in an order that goes with the steps, and
  look at the first after which some rank knows all contributions. By then each of the P - 1 other
  ranks has sent, or its contribution would not be known there. None of them knows all, so each is
  still to receive. (One-way gossip, as in Harary and Schwenk, The communication problem on graphs
  and digraphs, 1974.)

In groups of ranks that holds of the chunks of each: of as many as a rank has for it, each takes two
sends for each rank of the group but one, and one enters a set that the group is not all in or out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sccl.collectives import Spec, dual_of, named
from sccl.core.bounds import Bounds, Counted, Distance
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.simple import common_cuts, most_carried
from sccl.prove.bounds.steps import farthest_pair


def told_between(collective: Collective, groups: Sequence[frozenset[int]]) -> Fraction:
    """Return what an allreduce has to send from group to group, by bytes of a rank's buffer.

    Of each chunk 2 (G - 1) sends, where the ranks that reduce it are in G of the groups. If others
    pass something on, the argument is the same: who has to send and to receive are those G.

    Args:
        groups: of nodes; each rank is in one of them.
    """
    group_of = {node: i for i, group in enumerate(groups) for node in group}
    sent = sum(
        2 * (len({group_of[int(rank)] for rank in held}) - 1) * collective.amount(chunks)
        for (held, _), chunks in collective.classes().items()
    )
    return Fraction(sent, collective.chunks)


def any_bandwidth(topology: Topology, spec: Spec) -> Fraction:
    """Return the R/C that no allreduce goes below, of all ranks or in groups.

    Raises:
        UnreachableError: a contribution cannot reach a rank.
    """
    if not spec.post.pattern:
        whole = any_bounds(topology, named("allreduce", spec.ranks))
        return whole.bandwidth * Fraction(spec.pattern_chunks, spec.unit)
    if not spec.counts:
        return any_bounds(topology, spec).bandwidth
    alone = [frozenset([rank]) for rank in range(topology.ranks)]
    return told_between(spec.at(spec.unit), alone) / most_carried(topology, topology.edges)


def any_bounds(topology: Topology, spec: Spec) -> Bounds:
    """Return what no allreduce on a topology can beat, of all ranks or in groups.

    Raises:
        UnreachableError: a contribution cannot reach a rank.
    """
    dual, unit = dual_of(spec).spec, spec.at(spec.unit)
    gathered = dual.at(dual.unit)
    pair = farthest_pair(topology, gathered)
    everywhere = most_carried(topology, topology.edges)
    alone = [frozenset([rank]) for rank in range(topology.ranks)]
    best = Counted(spec.name, int(told_between(unit, alone)), everywhere, ())
    groups = unit.classes()
    for inside in common_cuts(topology, gathered):
        entering = {(u, v) for u, v in topology.edges if v in inside and u not in inside}
        split = (chunks for (held, _), chunks in groups.items() if held & inside and held - inside)
        sends = sum(map(len, split)) // unit.chunks
        cut = Counted(spec.name, sends, most_carried(topology, entering), tuple(sorted(inside)))
        best = max(best, cut, key=lambda bound: bound.bandwidth)
    far = Distance(dual.name, False, pair.chunk, pair.sources, pair.rank, pair.steps)  # noqa: FBT003
    return Bounds(pair.steps, best.bandwidth, distance=far, evidence=best)
