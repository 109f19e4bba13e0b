"""Allreduce on powers of cliques: halving along some dimensions, doubling along the others.

A hypercube is a power of two ranks joined both ways, a HyperX one of larger cliques. Along each of
j dimensions in turn ranks reduce the part of each member of the clique. Then along each of the
other d - j all send all their data to all of their clique, and reduce them. Then along the j, in
reverse order, results are sent to all. That takes S = d + j steps. With d parts of the data side by
side, each beginning with another dimension, the links of all dimensions are busy in every step, and

    R/C = (2 (1 - n^-j) / (n - 1) + (d - j) n^-j) / (d lanes).

With j = d this is recursive halving and doubling (Rabenseifner, ICCS 2004), a reducescatter and an
allgather. The others have fewer steps than these, or than trees: on hypercubes no allreduce of 2d -
2 steps has less than its 2 / d (by cuts through time, checked for d up to 8).
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
from sccl.core.algorithm import Algorithm, Send, send
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.topo.symmetry.expand import MAX_EXPANDED

SCOPE = "allreduce by halving along some dimensions and doubling along the others"


@dataclass(frozen=True, slots=True)
class Exchanges:
    """A power of a clique, and the allreduces on it.

    Attributes:
        side: n, the ranks of a clique.
        dimensions: d.
        lanes: of each link.
        ranks: by place, places counted row by row.
    """

    topology: Topology
    side: int
    dimensions: int
    lanes: int
    ranks: tuple[int, ...]

    def cost(self, halved: int) -> Fraction:
        """Return R/C with so many dimensions along which is halved."""
        rest = Fraction(1, self.side**halved)
        both = 2 * (1 - rest) / (self.side - 1) + (self.dimensions - halved) * rest
        return both / (self.dimensions * self.lanes)

    def halved(self) -> tuple[int, ...]:
        """Return the numbers of dimensions that are worth halving along: each has less R/C."""
        found = [0]
        for more in range(1, self.dimensions + 1):
            if self.cost(more) < self.cost(found[-1]):
                found.append(more)
        return tuple(found)

    def algorithm(self, spec: Spec, halved: int, chunks: int | None = None) -> Algorithm | None:
        """Return an allreduce, judged. None: it is too large, or does not come in so many chunks.

        Args:
            spec: allreduce.
            halved: dimensions along which is halved.
            chunks: C. None: the fewest.
        """
        whole = self.dimensions * self.side**halved
        unit = lcm(spec.unit, whole * self.lanes)
        chunks = chunks or unit
        again = 2 * (self.side**halved - 1) + (self.dimensions - halved) * (self.side - 1)
        sends = self.topology.ranks * (chunks // self.side**halved) * again
        if chunks % unit or sends > MAX_EXPANDED:
            return None
        pieces = chunks // whole
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

    def within(self, spec: Spec, chunks: int, steps: int, rounds: int) -> Algorithm | None:
        """Return an allreduce of so many chunks, steps and rounds. None: this makes none."""
        halved = steps - self.dimensions
        if not 0 <= halved <= self.dimensions or self.cost(halved) * chunks > rounds:
            return None
        made = self.algorithm(spec, halved, chunks)
        if made is None:
            return None
        first, *rest = made.rounds_per_step
        return replace(made, rounds_per_step=(first + rounds - made.rounds, *rest))

    def is_whole(self, near: Sequence[AbstractSet[int]]) -> bool:
        """Return whether ranks are joined just as their places differ in one dimension.

        Args:
            near: to whom each rank has a link.
        """
        for here, rank in enumerate(self.ranks):
            joined = {
                self.ranks[here + (to - here // stride % self.side) * stride]
                for stride in self.strides
                for to in range(self.side)
            }
            if joined - {rank} != near[rank]:
                return False
        return True

    @property
    def strides(self) -> tuple[int, ...]:
        """Return by how much places differ that are neighbours in each dimension."""
        return tuple(self.side ** (self.dimensions - 1 - k) for k in range(self.dimensions))

    def _sends(self, halved: int, pieces: int) -> Iterator[Send]:
        """Yield all sends: of each part, each piece, and each group of ranks it is halved to."""
        side, d, strides = self.side, self.dimensions, self.strides
        everyone = [
            (here, [here // stride % side for stride in strides]) for here in range(side**d)
        ]
        groups = list(product(range(side), repeat=halved))
        for part, (place, group) in product(range(d), enumerate(groups)):
            order = [(part + k) % d for k in range(d)]
            first = (part * len(groups) + place) * pieces
            for here, at in everyone:
                agree = 0  # along how many dimensions it is where the group is
                while agree < halved and at[order[agree]] == group[agree]:
                    agree += 1
                for step, dimension in enumerate(order):
                    stride, own = strides[dimension], at[dimension]
                    for to in range(side):
                        ends = self.ranks[here], self.ranks[here + (to - own) * stride]
                        down = step < halved and step <= agree and own != to == group[step]
                        across = step >= halved and agree == halved and own != to
                        for chunk in range(first, first + pieces):
                            if down or across:
                                yield send(chunk, *ends, step, reduce=True)
                            if step < halved and step < agree and own != to:
                                yield send(chunk, *ends, d + halved - 1 - step)


@lru_cache(maxsize=8)
def exchanges(topology: Topology) -> Exchanges | None:
    """Return the allreduces of a machine that is a power of a clique. None: it is none.

    The power is recognised from the links, for any name and numbering of ranks: a ring of 4 is the
    square of a pair, so that torus:4x4 is hypercube:4.
    """
    lanes = {link.lanes for link in topology.links}
    if topology.ranks < 2 or len(lanes) != 1 or topology.budgets or topology.switches:
        return None
    near = [frozenset(ranks) for ranks in topology.successors()]
    cliques = _cliques(near)
    side = len(cliques[0]) + 1 if cliques else 0
    if any(len(clique) + 1 != side for clique in cliques) or side ** len(cliques) != topology.ranks:
        return None
    ranks = _placed(near, cliques)
    made = Exchanges(topology, side, len(cliques), lanes.pop(), ranks)
    return made if sorted(ranks) == list(range(topology.ranks)) and made.is_whole(near) else None


def _cliques(near: Sequence[AbstractSet[int]]) -> list[list[int]]:
    """Return possible cliques of rank 0, without rank 0: groups of joined neighbours."""
    left, found = sorted(near[0]), []
    while left:
        clique = [left[0], *(rank for rank in left[1:] if rank in near[left[0]])]
        left = [rank for rank in left if rank not in clique]
        found.append(clique)
    return found


def _placed(near: Sequence[AbstractSet[int]], cliques: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the rank of each place, if cliques are those of rank 0; -1 where none is found.

    Farther away, a rank differs from 0 in all in which those before it do, that lead to it.
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
        here = {
            rank: tuple(map(max, zip(*(at[b] for b in layer if rank in near[b]), strict=True)))
            for rank in after
        }
        at.update(here)
        layer = after
    found = [-1] * side**d
    for rank, place in at.items():
        found[sum(own * side ** (d - 1 - k) for k, own in enumerate(place))] = rank
    return tuple(found)
