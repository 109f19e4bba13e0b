"""Allreduce on powers of cliques: halving along some dimensions, exchange along the others.

A hypercube is a power of two ranks joined both ways, and a HyperX a power of larger cliques. The
algorithm has three parts. Along each of j dimensions in turn, ranks reduce the part of each member
of their clique. Along each of the other d - j dimensions, all ranks send all their data to their
clique and reduce. Along the j dimensions in reverse order, they send the results to their clique.
That takes S = d + j steps. The data are divided into d parts, and each part begins with another
dimension. So the links of all dimensions are busy in every step, and

    R/C = (2 (1 - n^-j) / (n - 1) + (d - j) n^-j) / (d lanes).

With j = d this is recursive halving and doubling (Rabenseifner, ICCS 2004), a reducescatter and an
allgather. Smaller j have fewer steps than it or than trees: on hypercubes no allreduce of 2d - 2
steps has a smaller R/C than theirs, 2 / d (by cuts through time, checked for d up to 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import lcm

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.topo.symmetry.expansion import MAX_EXPANDED_SENDS

SCOPE = "allreduce by halving along some dimensions and doubling along the others"


@dataclass(frozen=True, slots=True)
class CliqueExchange:
    """A power of a clique, and the allreduces on it.

    Attributes:
        topology: The machine.
        side: n, the number of ranks of a clique.
        dimensions: d, the number of dimensions.
        lanes: Lanes of each link.
        ranks: Rank at each place. Places are numbered row by row.
    """

    topology: Topology
    side: int
    dimensions: int
    lanes: int
    ranks: tuple[int, ...]

    def cost(self, halved: int) -> Fraction:
        """Return R/C with this number of halved dimensions."""
        rest = Fraction(1, self.side**halved)
        both = 2 * (1 - rest) / (self.side - 1) + (self.dimensions - halved) * rest
        return both / (self.dimensions * self.lanes)

    def useful_halvings(self) -> tuple[int, ...]:
        """Return the useful numbers of halved dimensions: each has a smaller R/C than the last."""
        dimension_counts = [0]
        for more in range(1, self.dimensions + 1):
            if self.cost(more) < self.cost(dimension_counts[-1]):
                dimension_counts.append(more)
        return tuple(dimension_counts)

    def algorithm(self, spec: Spec, halved: int, chunks: int | None = None) -> Algorithm | None:
        """Return a verified allreduce. None: it is too large, or C has another divisor.

        Args:
            spec: The allreduce.
            halved: Number of halved dimensions.
            chunks: C. None: the smallest possible C.
        """
        part_count = self.dimensions * self.side**halved
        unit = lcm(spec.unit, part_count * self.lanes)
        chunks = chunks or unit
        again = 2 * (self.side**halved - 1) + (self.dimensions - halved) * (self.side - 1)
        sends = self.topology.ranks * (chunks // self.side**halved) * again
        if chunks % unit or sends > MAX_EXPANDED_SENDS:
            return None
        pieces = chunks // part_count
        half = [pieces * self.side ** (halved - 1 - step) for step in range(halved)]
        rounds = [*half, *[pieces] * (self.dimensions - halved), *reversed(half)]
        made = Algorithm(
            self.topology,
            spec.at(chunks),
            tuple(r // self.lanes for r in rounds),
            tuple(self._sends(halved, pieces)),
            scope=SCOPE,
        )
        return require_valid(made, "halving and doubling")

    def fit_algorithm(self, spec: Spec, chunks: int, steps: int, rounds: int) -> Algorithm | None:
        """Return an allreduce with these chunks, steps, and rounds. None: not possible."""
        halved = steps - self.dimensions
        if not 0 <= halved <= self.dimensions or self.cost(halved) * chunks > rounds:
            return None
        made = self.algorithm(spec, halved, chunks)
        if made is None:
            return None
        first, *rest = made.rounds_per_step
        return replace(made, rounds_per_step=(first + rounds - made.rounds, *rest))

    def is_clique_power(self, near: Sequence[AbstractSet[int]]) -> bool:
        """Return whether ranks are joined exactly if their places differ in one dimension.

        Args:
            near: Neighbors of each rank.
        """
        for index, rank in enumerate(self.ranks):
            joined = {
                self.ranks[index + (to - index // stride % self.side) * stride]
                for stride in self.strides
                for to in range(self.side)
            }
            if joined - {rank} != near[rank]:
                return False
        return True

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the difference between adjacent places in each dimension."""
        return tuple(self.side ** (self.dimensions - 1 - k) for k in range(self.dimensions))

    def _sends(self, halved: int, pieces: int) -> Iterator[Send]:
        """Yield all sends: for each part, each piece, and each group of ranks it is halved to."""
        side, d, strides = self.side, self.dimensions, self.strides
        everyone = [
            (index, [index // stride % side for stride in strides]) for index in range(side**d)
        ]
        groups = list(product(range(side), repeat=halved))
        for part, (place, group) in product(range(d), enumerate(groups)):
            order = [(part + k) % d for k in range(d)]
            first = (part * len(groups) + place) * pieces
            for index, at in everyone:
                agree = 0  # leading dimensions in which the rank is in the group
                while agree < halved and at[order[agree]] == group[agree]:
                    agree += 1
                for step, dimension in enumerate(order):
                    stride, digit = strides[dimension], at[dimension]
                    for to in range(side):
                        ends = self.ranks[index], self.ranks[index + (to - digit) * stride]
                        down = step < halved and step <= agree and digit != to == group[step]
                        across = step >= halved and agree == halved and digit != to
                        for chunk in range(first, first + pieces):
                            if down or across:
                                yield make_send(chunk, *ends, step, reduce=True)
                            if step < halved and step < agree and digit != to:
                                yield make_send(chunk, *ends, d + halved - 1 - step)


@lru_cache(maxsize=8)
def find_clique_exchange(topology: Topology) -> CliqueExchange | None:
    """Return the allreduces of a machine that is a power of a clique. None: it is not.

    The power is recognized from the links, for any name and numbering of ranks. A ring of 4 is the
    square of a pair, so torus:4x4 is hypercube:4.
    """
    lanes = {link.lanes for link in topology.links}
    if topology.ranks < 2 or len(lanes) != 1 or topology.budgets or topology.switches:
        return None
    near = [frozenset(ranks) for ranks in topology.successors()]
    cliques = _cliques_at_origin(near)
    side = len(cliques[0]) + 1 if cliques else 0
    if any(len(clique) + 1 != side for clique in cliques) or side ** len(cliques) != topology.ranks:
        return None
    ranks = _place_ranks(near, cliques)
    made = CliqueExchange(topology, side, len(cliques), lanes.pop(), ranks)
    return (
        made
        if sorted(ranks) == list(range(topology.ranks)) and made.is_clique_power(near)
        else None
    )


def _cliques_at_origin(near: Sequence[AbstractSet[int]]) -> list[list[int]]:
    """Return possible cliques of rank 0, without rank 0: groups of joined neighbors."""
    left, cliques = sorted(near[0]), []
    while left:
        clique = [left[0], *(rank for rank in left[1:] if rank in near[left[0]])]
        left = [rank for rank in left if rank not in clique]
        cliques.append(clique)
    return cliques


def _place_ranks(
    near: Sequence[AbstractSet[int]], cliques: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Return the rank of each place, given the cliques of rank 0. -1: none was found.

    A rank that is farther away has the coordinates of all its predecessors together.
    """
    side, d = len(cliques[0]) + 1, len(cliques)
    at: dict[int, tuple[int, ...]] = {0: (0,) * d}
    layer = []
    for dimension, clique in enumerate(cliques):
        for value, rank in enumerate(clique, start=1):
            at[rank] = tuple(value if k == dimension else 0 for k in range(d))
            layer.append(rank)
    while layer:
        after = sorted({rank for before in layer for rank in near[before]} - at.keys())
        coordinates = {
            rank: tuple(map(max, zip(*(at[b] for b in layer if rank in near[b]), strict=True)))
            for rank in after
        }
        at.update(coordinates)
        layer = after
    rank_at = [-1] * side**d
    for rank, place in at.items():
        rank_at[sum(digit * side ** (d - 1 - k) for k, digit in enumerate(place))] = rank
    return tuple(rank_at)
