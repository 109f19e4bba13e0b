"""The groups of ranks between which links carry least: what bounds allreduces of any class.

Between G groups, which take in all ranks, each chunk of an allreduce takes 2 (G - 1) sends. The
partition at which that takes most rounds is the one whose weight per group but one is least, if the
weight is that of all links between groups: the *strength* of a graph (Gusfield 1983).

It is found in whole numbers, by flows (Cunningham 1985). At a guess p / q of the strength

    f(A) = q * (weight of the links that leave A or enter it) - 2 p

is submodular on sets that meet, so that the greedy algorithm finds the partition of least sum: rank
by rank, v gets the value  y_v = min { f(A) - y(A - v) : v in A, A within the first ranks up to v },
which is a least cut, and sets of which the minimum was taken are merged where they meet. The sum is
2 (q w - p G), so if it is below -2 p the partition has a smaller w / (G - 1), which is the next
guess (Dinkelbach 1967). Otherwise no partition has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sccl.core.topology import Topology
from sccl.solvers.max_flow import Network

Partition = tuple[frozenset[int], ...]

_WORK = 1_500_000  # ranks times links: beyond, flows for every rank take seconds


def weakest_groups(topology: Topology) -> Partition | None:
    """Return groups of ranks of least lanes between them, both ways, per group but one.

    Shared budgets are not looked at. None: there are too many ranks, a single one, or switches.
    """
    large = topology.ranks * len(topology.links) > _WORK
    if large or topology.ranks < 2 or topology.switches:
        return None
    weights: dict[tuple[int, int], int] = defaultdict(int)
    for link in topology.links:
        weights[min(link.edge), max(link.edge)] += link.lanes
    best: Partition = tuple(frozenset([rank]) for rank in range(topology.ranks))
    while True:
        guess = _ratio(weights, best)
        found = _least_partition(topology.ranks, weights, guess)
        if len(found) < 2 or _ratio(weights, found) >= guess:
            return best
        best = found


def _ratio(weights: Mapping[tuple[int, int], int], groups: Partition) -> Fraction:
    """Return the weight of what is between groups, per group but one."""
    of = {rank: i for i, group in enumerate(groups) for rank in group}
    return Fraction(sum(n for (u, v), n in weights.items() if of[u] != of[v]), len(groups) - 1)


def _least_partition(
    ranks: int, weights: Mapping[tuple[int, int], int], guess: Fraction
) -> Partition:
    """Return a partition of the least sum of f, greedily."""
    greedy = _Greedy(ranks, weights, guess)
    groups: list[frozenset[int]] = []
    for rank in range(ranks):
        tight = greedy.add(rank)
        apart = [group for group in groups if group.isdisjoint(tight)]
        groups = [*apart, tight.union(*(group for group in groups if group not in apart))]
    return tuple(sorted(groups, key=min))


class _Greedy:
    """The values of ranks so far, and the network of which they are least cuts.

    A cut has on the source's side what is in A; ranks after v are the sink's, v the source's.
    """

    def __init__(self, ranks: int, weights: Mapping[tuple[int, int], int], guess: Fraction) -> None:
        self.ranks, self.guess = ranks, guess
        self.values: list[int] = []
        ends = np.array(list(weights), np.int64).reshape(-1, 2)
        tails, heads, every = ends[:, 0], ends[:, 1], np.arange(ranks)
        lanes = np.array(list(weights.values()), np.int64) * guess.denominator
        self.lanes = np.concatenate([lanes, lanes])
        source, sink = np.full(ranks, ranks), np.full(ranks, ranks + 1)
        self.network = Network(
            ranks + 2,
            np.concatenate([tails, heads, source, every]),
            np.concatenate([heads, tails, every, sink]),
        )
        self.infinite = int(self.lanes.sum()) + ranks * 2 * guess.numerator + 1

    def add(self, rank: int) -> frozenset[int]:
        """Add the value of the next rank; return the set that it is the minimum of."""
        known = np.array(self.values, np.int64)
        wins, costs = np.zeros(self.ranks, np.int64), np.zeros(self.ranks, np.int64)
        wins[:rank], costs[:rank] = np.maximum(known, 0), np.maximum(-known, 0)
        wins[rank], costs[rank + 1 :] = self.infinite, self.infinite
        capacities = np.concatenate([self.lanes, wins, costs])
        cut = self.network.flow(capacities, self.ranks, self.ranks + 1)
        self.values.append(cut.value - int(wins[:rank].sum()) - 2 * self.guess.numerator)
        return frozenset(np.flatnonzero(cut.near[: self.ranks]).tolist())
