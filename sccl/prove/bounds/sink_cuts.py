"""Find the best single-cut bound for an allgather exactly, by max-flows to each rank.

The chunks of a set A of ranks must leave it for the ranks outside. So R/C is at least |A| over the
capacity out of A in a round. Pipelined trees attain the maximum of this ratio, so it is the infimum
over all numbers of steps. Dinkelbach's method computes it. At a guess a/b, a source feeds b into
every rank, and links carry a times their lanes. If less than P b reach some rank, the minimum cut
has a greater ratio, which is the next guess. If P b reach all ranks, no cut has a greater ratio.
Only integers are used.

Source: Zhao et al., ForestColl (arXiv 2402.06787), theorem 1, for the ratio. Dinkelbach, On
nonlinear fractional programming (1967).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, price_cut
from sccl.solvers.network_flow import FlowNetwork
from sccl.topo.symmetry.group_choice import orbit_symmetries
from sccl.topo.symmetry.permutations import rank_orbits

_MAX_WORK = 20_000_000  # sinks times links: beyond, flows take longer than half a minute


def sinks_proof(
    topology: Topology, collective: Collective, start: BandwidthProof
) -> BandwidthProof | None:
    """Return the proof of the best cut, or None if none is better or the search is skipped.

    Args:
        topology: Machine without budgets.
        collective: Allgather.
        start: Proof by a cut. Without one, the search is skipped.
    """
    sinks = rank_orbits(topology, orbit_symmetries(topology, collective))
    if len(sinks) * len(topology.links) > _MAX_WORK or not start.cuts:
        return None
    _, inside = fullest_cut(topology, sinks, start.value / collective.chunks)
    return price_cut(topology, inside) if inside else None


def fullest_cut(
    topology: Topology, sinks: Iterable[int], guess: Fraction
) -> tuple[Fraction, frozenset[int]]:
    """Return the minimum R/C of an allgather without budgets, and its bottleneck cut.

    Args:
        sinks: Ranks to test as sinks. One of each orbit under symmetries is enough.
        guess: Ratio of some cut.

    Returns:
        The ratio, and the ranks outside of the cut, empty if no cut exceeds the guess.
    """
    ranks = topology.ranks
    links = np.array([k.edge for k in topology.links], np.int64)
    lanes = np.array([k.lanes for k in topology.links], np.int64)
    tails = np.concatenate([links[:, 0], np.full(ranks, ranks)])
    flows = FlowNetwork(ranks + 1, tails, np.concatenate([links[:, 1], np.arange(ranks)]))

    def capacities_at(ratio: Fraction) -> IntArray:
        """Return the capacities for a guess: of the links, then of the source arcs."""
        rank_capacities = np.full(ranks, ratio.denominator, dtype=np.int64)
        return np.concatenate([lanes * ratio.numerator, rank_capacities])

    inside: frozenset[int] = frozenset()
    left = list(sinks)
    capacities = capacities_at(guess)
    while left:
        flow = flows.max_flow(capacities, ranks, left[-1])
        if flow.value == ranks * guess.denominator:
            left.pop()
            continue
        before = flow.source_side
        leaving = int(lanes[before[links[:, 0]] & ~before[links[:, 1]]].sum())
        guess = Fraction(int(before[:ranks].sum()), leaving)
        inside = frozenset(np.flatnonzero(~before[:ranks]).tolist())
        capacities = capacities_at(guess)
    return guess, inside
