"""Find the groups of ranks with the weakest links between them, a bound for any allreduce.

Between G groups that contain all ranks, each chunk of an allreduce takes 2 (G - 1) sends. So the
bound is largest for the partition that minimizes w / (G - 1), where w is the weight of all links
between groups. The minimum is the *strength* of a graph (Gusfield 1983).

It is computed in integers, by flows (Cunningham 1985). For a guess p / q of the strength,

    f(A) = q * (weight of the links that leave A or enter it) - 2 p

is submodular on intersecting sets, so the greedy algorithm finds the partition that minimizes the
sum of f over its sets: each rank v in turn gets the value y_v = min { f(A) - y(A - v) : v in A, A
within the first ranks up to v }, by a minimum cut. Minimizing sets that intersect are merged. The
sum is 2 (q w - p G). If it is below -2 p, the partition has a smaller w / (G - 1), which is the
next guess (Dinkelbach 1967). Otherwise no partition has a smaller ratio.

In process groups, the data between sets depend on each group's members, not only on the number of
sets. Then sets are merged in pairs, greedily by the remaining bound in rounds. Any partition gives
a valid bound, and the greedy one is usually the strongest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.solvers.network_flow import FlowNetwork

Partition = tuple[frozenset[int], ...]

_MAX_WORK = 1_500_000  # ranks times links: beyond, flows for every rank take seconds
_MAX_MERGED_RANKS = 256  # ranks: beyond, merging sets takes seconds


def strength_partition(topology: Topology) -> Partition | None:
    """Return the partition of ranks that minimizes the lanes between groups over groups minus one.

    Shared budgets are ignored. None: there are too many ranks, a single rank, or switches.
    """
    large = topology.ranks * len(topology.links) > _MAX_WORK
    if large or topology.ranks < 2 or topology.switches:
        return None
    weights: dict[tuple[int, int], int] = defaultdict(int)
    for link in topology.links:
        weights[min(link.edge), max(link.edge)] += link.lanes
    best: Partition = tuple(frozenset([rank]) for rank in range(topology.ranks))
    while True:
        guess = _partition_ratio(weights, best)
        partition = _min_partition(topology.ranks, weights, guess)
        if len(partition) < 2 or _partition_ratio(weights, partition) >= guess:
            return best
        best = partition


def _partition_ratio(weights: Mapping[tuple[int, int], int], groups: Partition) -> Fraction:
    """Return the weight between groups, divided by the number of groups minus one."""
    of = {rank: i for i, group in enumerate(groups) for rank in group}
    return Fraction(sum(n for (u, v), n in weights.items() if of[u] != of[v]), len(groups) - 1)


def _min_partition(
    ranks: int, weights: Mapping[tuple[int, int], int], guess: Fraction
) -> Partition:
    """Return the partition that minimizes the sum of f, by the greedy algorithm."""
    greedy = _GreedyPolymatroid(ranks, weights, guess)
    groups: list[frozenset[int]] = []
    for rank in range(ranks):
        tight = greedy.add(rank)
        apart = [group for group in groups if group.isdisjoint(tight)]
        groups = [*apart, tight.union(*(group for group in groups if group not in apart))]
    return tuple(sorted(groups, key=min))


class _GreedyPolymatroid:
    """Values of the ranks so far, and the flow network that computes the next value.

    The source side of a minimum cut is A. Ranks after v are merged into the sink, and v into the
    source.
    """

    def __init__(self, ranks: int, weights: Mapping[tuple[int, int], int], guess: Fraction) -> None:
        self.ranks, self.guess = ranks, guess
        self.values: list[int] = []
        ends = np.array(list(weights), np.int64).reshape(-1, 2)
        tails, heads, all_ranks = ends[:, 0], ends[:, 1], np.arange(ranks)
        lanes = np.array(list(weights.values()), np.int64) * guess.denominator
        self.lanes = np.concatenate([lanes, lanes])
        source, sink = np.full(ranks, ranks), np.full(ranks, ranks + 1)
        self.network = FlowNetwork(
            ranks + 2,
            np.concatenate([tails, heads, source, all_ranks]),
            np.concatenate([heads, tails, all_ranks, sink]),
        )
        self.infinite = int(self.lanes.sum()) + ranks * 2 * guess.numerator + 1

    def add(self, rank: int) -> frozenset[int]:
        """Compute the value of the next rank, and return the set that attains the minimum."""
        values = np.array(self.values, np.int64)
        wins, costs = np.zeros(self.ranks, np.int64), np.zeros(self.ranks, np.int64)
        wins[:rank], costs[:rank] = np.maximum(values, 0), np.maximum(-values, 0)
        wins[rank], costs[rank + 1 :] = self.infinite, self.infinite
        capacities = np.concatenate([self.lanes, wins, costs])
        cut = self.network.max_flow(capacities, self.ranks, self.ranks + 1)
        self.values.append(cut.value - int(wins[:rank].sum()) - 2 * self.guess.numerator)
        return frozenset(np.flatnonzero(cut.source_side[: self.ranks]).tolist())


def merged_partition(topology: Topology, reduced: Collective) -> Partition | None:
    """Return a partition with a high bound on an allreduce, the highest if all ranks reduce.

    Shared budgets are ignored. None: there are too many ranks, or switches.

    Args:
        reduced: The allreduce, of all ranks or in process groups.
    """
    if all(len(held) == topology.ranks for held, _ in reduced.chunk_classes()):
        return strength_partition(topology)
    if topology.switches or topology.ranks > _MAX_MERGED_RANKS:
        return None
    sets = _MergedSets(topology, reduced)
    best, max_rounds = sets.partition(), sets.rounds()
    while sets.merge():
        if sets.rounds() > max_rounds:
            best, max_rounds = sets.partition(), sets.rounds()
    return best


class _MergedSets:
    """Merged sets of ranks, the capacity between them, and the data between them.

    Attributes:
        members: Ranks of each set.
        lanes: Lanes between two sets in both directions together, shape (sets, sets).
        of: Whether a set has ranks that reduce the chunks of a class, shape (sets, classes).
        amounts: Number of chunks of each class, shape (classes,).
    """

    def __init__(self, topology: Topology, reduced: Collective) -> None:
        classes = reduced.chunk_classes()
        self.members = [[rank] for rank in range(topology.ranks)]
        self.lanes = np.zeros((topology.ranks, topology.ranks), np.int64)
        for link in topology.links:
            self.lanes[link.src, link.dst] += link.lanes
            self.lanes[link.dst, link.src] += link.lanes
        self.amounts = np.array([reduced.amount(chunks) for chunks in classes.values()], np.int64)
        self.of = np.zeros((topology.ranks, len(classes)), np.bool_)
        for number, (held, _) in enumerate(classes):
            self.of[sorted(held), number] = True

    def _exchange_demand(self) -> int:
        return int(((self.of.sum(axis=0) - 1) * self.amounts).sum())

    def _max_carried(self) -> int:
        return int(self.lanes.sum()) // 2

    def rounds(self) -> Fraction:
        """Return the bound in rounds, up to a constant factor, or 0 if no data are sent."""
        return Fraction(self._exchange_demand(), max(self._max_carried(), 1))

    def partition(self) -> Partition:
        return tuple(sorted((frozenset(group) for group in self.members), key=min))

    def merge(self) -> bool:
        """Merge the pair of sets that leaves the highest bound, and return False at two sets."""
        if len(self.members) <= 2:
            return False
        less = (self.of * self.amounts) @ self.of.T
        demand, carried = self._exchange_demand() - less, self._max_carried() - self.lanes
        rounds = np.where(
            carried > 0, demand / np.maximum(carried, 1), np.where(demand > 0, np.inf, 0)
        )
        # ties: two sets that share links, since they are probably in one box
        rounds[np.tril_indices(len(rounds))] = -1
        best = np.lexsort((-self.lanes.ravel(), -rounds.ravel()))[0]
        into, out = divmod(int(best), len(rounds))
        self.members[into] += self.members.pop(out)
        self.of[into] |= self.of[out]
        self.lanes[into] += self.lanes[out]
        self.lanes[:, into] += self.lanes[:, out]
        self.lanes[into, into] = 0
        self.of = np.delete(self.of, out, 0)
        self.lanes = np.delete(np.delete(self.lanes, out, 0), out, 1)
        return True
