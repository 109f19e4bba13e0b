"""Alltoall on Cartesian products, by the alltoalls of the factors in turn, in every rotation.

A chunk goes to its place in one factor, then in the next. With as many pieces of each pair of ranks
as there are factors, each begins with another factor, so that the links of all of them are always
busy. S is the sum of the factors' and R/C, if they are equal, that of one of them: if the alltoall
of a factor attains its bounds, that of its powers does. So a mesh follows from its lines.

A product is recognised from its links, for any name. Ranks are numbered row by row. (Expansions of
schedules: Zhao et al., NSDI 2025, which are for allgather.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import named
from sccl.core.algorithm import Send, send
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Link, Topology
from sccl.synth.direct.arrivals import MOST_SENDS
from sccl.synth.direct.breadth_first import all_distances
from sccl.synth.direct.routes import routes
from sccl.topo.symmetry.free import free_group
from sccl.topo.symmetry.groups import groups
from sccl.topo.symmetry.permutations import Permutation
from sccl.topo.symmetry.regular import LinkArrays

Ints = NDArray[np.int64]

_RANKS = 128  # of a factor


def factors(topology: Topology) -> tuple[Topology, ...]:
    """Return machines whose Cartesian product a machine is, of several or more ranks each.

    The machine alone: it is none, or has switches or shared budgets.
    """
    ranks = topology.ranks
    if topology.switches or topology.budgets or not topology.links:
        return (topology,)
    links = LinkArrays.of(topology)
    for first in range(2, ranks // 2 + 1):
        if ranks % first == 0 and (parts := _two(topology, links, ranks // first)):
            return (parts[0], *factors(parts[1]))
    return (topology,)


def _two(topology: Topology, links: LinkArrays, inner: int) -> tuple[Topology, Topology] | None:
    """Return two machines, the second of so many ranks, whose product a machine is. None: none."""
    row, column = np.divmod(links.src, inner)
    to_row, to_column = np.divmod(links.dst, inner)
    across = row != to_row
    if (across & (column != to_column)).any():
        return None
    outer = topology.ranks // inner
    found = []
    for own, src, dst, size, times in (
        (across, row, to_row, outer, inner),
        (~across, column, to_column, inner, outer),
    ):
        code = (src[own] * size + dst[own]) * (int(links.lanes.max()) + 1) + links.lanes[own]
        which, first, counts = np.unique(code, return_index=True, return_counts=True)
        if not len(which) or (counts != times).any():
            return None
        one = np.flatnonzero(own)[first].tolist()
        made = tuple(Link(int(src[i]), int(dst[i]), topology.links[i].lanes, 0.0, 1.0) for i in one)
        found.append(Topology(f"factor of {topology.name}", size, made, alpha_us=0.0, gb_per_s=1.0))
    return found[0], found[1]


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """An alltoall of a factor.

    Attributes:
        rounds: by step.
        at: by source, destination and time, where the chunk is.
        kept: symmetries that it is invariant under, of which only the identity keeps a rank.
        firsts: a rank of each orbit.
    """

    ranks: int
    rounds: tuple[int, ...]
    at: NDArray[np.int32]
    kept: tuple[Permutation, ...]
    firsts: tuple[int, ...]


@lru_cache(maxsize=8)
def _factor(machine: Topology) -> _Factor | None:
    """Return the alltoall of a factor by routes, in the fewest steps. None: it is too large."""
    ranks = machine.ranks
    if ranks > _RANKS:
        return None
    steps = int(all_distances(machine).max())
    kept: tuple[Permutation, ...] = ()
    for one in groups(machine, named("alltoall", ranks).at(ranks), "auto"):
        images = tuple(symmetry.ranks for symmetry in one.generators if not symmetry.turn)
        if images and free_group(images, ranks):
            kept = images
            break
    found = routes(machine, kept, 1, steps)
    if found is None:
        return None
    ends = np.array([link.edge for link in machine.links], np.int64)
    at = np.zeros((ranks, ranks, steps + 1), np.int32)
    at[list(found.firsts), :, 0] = np.array(found.firsts)[:, None]
    for step in range(steps):
        link, here = found.ways[:, :, step], at[list(found.firsts), :, step]
        at[list(found.firsts), :, step + 1] = np.where(link >= 0, ends[link, 1], here)
    group = free_group(kept, ranks) if kept else None
    for rank in range(ranks) if group else ():
        assert group is not None
        first, back = int(group.first[rank]), group.back[rank]
        at[rank] = np.argsort(back)[at[first][back]]
    return _Factor(ranks, found.rounds, at, kept, found.firsts)


@dataclass(frozen=True, slots=True, eq=False)
class Rotated:
    """An alltoall on a product.

    Attributes:
        rounds: by step, with as many pieces of each pair of ranks as there are factors.
    """

    parts: tuple[_Factor, ...]
    rounds: tuple[int, ...]

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(sum(self.rounds), len(self.parts) * prod(p.ranks for p in self.parts))

    @property
    def is_even(self) -> bool:
        """Return whether all factors have the same rounds, so that none waits for another."""
        return len({part.rounds for part in self.parts}) == 1

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Return the symmetries of the factors, as they are on the product."""
        sizes = [part.ranks for part in self.parts]
        found = []
        for place, part in enumerate(self.parts):
            inner = prod(sizes[place + 1 :])
            ranks = np.arange(prod(sizes))
            own = ranks // inner % sizes[place]
            for image in part.kept:
                moved = ranks + (np.array(image)[own] - own) * inner
                found.append(Symmetry(tuple(moved.tolist())))
        return tuple(found)

    def sends(self, pieces: int) -> list[Send] | None:
        """Return the sends of the chunks of a rank of each orbit. None: they are too many.

        Args:
            pieces: of each pair of ranks, a multiple of the number of factors.
        """
        sizes = [part.ranks for part in self.parts]
        strides = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
        ranks = prod(sizes)
        firsts = np.array(
            [
                sum(a * s for a, s in zip(each, strides, strict=True))
                for each in product(*(part.firsts for part in self.parts))
            ],
            np.int64,
        )
        if len(firsts) * ranks * pieces * len(self.rounds) > 4 * MOST_SENDS:
            return None
        columns = []
        for first in range(len(sizes)):
            where = self._walk(firsts, first, sizes, strides)
            row, to, step = np.nonzero(where[:, :, 1:] != where[:, :, :-1])
            src, dst = where[row, to, step], where[row, to, step + 1]
            for piece in range(first, pieces, len(sizes)):
                chunk = (piece * ranks + to) * ranks + firsts[row]
                columns.append(np.stack([step, chunk, src, dst]))
        table = np.concatenate(columns, axis=1)
        if table.shape[1] > MOST_SENDS:
            return None
        table = table[:, np.lexsort(table[::-1])]
        return [send(c, u, v, s) for s, c, u, v in zip(*table.tolist(), strict=True)]

    def _walk(self, firsts: Ints, first: int, sizes: list[int], strides: list[int]) -> Ints:
        """Return by source, destination and time where chunks are that begin with some factor."""
        everyone = np.arange(prod(sizes))
        steps, offset = len(self.rounds), 0
        where = np.zeros((len(firsts), len(everyone), steps + 1), np.int64)
        for place in _order(first, len(sizes)):
            own = self.parts[place].at.shape[2] - 1
            time = np.clip(np.arange(steps + 1) - offset, 0, own)
            source = firsts // strides[place] % sizes[place]
            to = everyone // strides[place] % sizes[place]
            at = self.parts[place].at[source[:, None], to[None, :]]
            where += at[:, :, time] * np.int64(strides[place])
            offset += own
        return where


def _order(first: int, number: int) -> list[int]:
    """Return factors in the order in which chunks are sent that begin with one."""
    return [(first + i) % number for i in range(number)]


@lru_cache(maxsize=8)
def rotated(topology: Topology) -> Rotated | None:
    """Return the alltoall of a product. None: a machine is none, or its factors are too large.

    Raises:
        UnreachableError: some rank does not reach another.
    """
    machines = factors(topology)
    if len(machines) < 2:
        return None
    parts = []
    for machine in machines:
        part = _factor(machine)
        if part is None:
            return None
        parts.append(part)
    lengths = [len(part.rounds) for part in parts]
    loads = np.zeros((len(parts), sum(lengths)), np.int64)
    for first in range(len(parts)):
        order = _order(first, len(parts))
        begins = [0, *accumulate(lengths[place] for place in order)]
        for begin, place in zip(begins, order, strict=False):
            others = topology.ranks // parts[place].ranks
            loads[place, begin : begin + lengths[place]] += np.array(parts[place].rounds) * others
    return Rotated(tuple(parts), tuple(loads.max(axis=0).tolist()))
