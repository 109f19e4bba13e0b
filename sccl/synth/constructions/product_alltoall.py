"""Alltoall on Cartesian products: the alltoalls of the factors one after the other, rotated.

A chunk is sent to its destination in one factor, then in the next one. Each pair of ranks has as
many pieces as there are factors, and each piece begins with another factor. So the links of all
factors are always busy. S is the sum of the factors' S. If the factors have equal rounds, R/C is
that of one factor: if the alltoall of a factor attains its bounds, so does that of its powers. A
mesh is thus solved by its lines.

A product is recognized from its links, for any name. Its ranks must be numbered row by row.
(Expansions of schedules: Zhao et al., NSDI 2025, which are for allgather.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from sccl.collectives import named_spec
from sccl.core.algorithm import Send
from sccl.core.arrays import IntArray
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Link, Topology
from sccl.synth.constructions.alltoall_routes import find_routes
from sccl.synth.constructions.bfb_costs import all_distances
from sccl.synth.constructions.send_rows import sorted_sends
from sccl.synth.limits import MAX_PROGRAM_RANKS, MAX_TABLE_ROWS
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.topo.symmetry.permutations import Permutation
from sccl.topo.symmetry.regular_groups import LinkArrays, find_semiregular_group


def factorize(topology: Topology) -> tuple[Topology, ...]:
    """Return machines of two or more ranks each whose Cartesian product is the given machine.

    Only the machine itself: it is no product, or has switches or shared budgets.
    """
    ranks = topology.ranks
    if topology.switches or topology.budgets or not topology.links:
        return (topology,)
    links = LinkArrays.from_topology(topology)
    for first in range(2, ranks // 2 + 1):
        if ranks % first == 0 and (parts := _split_product(topology, links, ranks // first)):
            return (parts[0], *factorize(parts[1]))
    return (topology,)


def _split_product(
    topology: Topology, links: LinkArrays, inner: int
) -> tuple[Topology, Topology] | None:
    """Return the factors of a machine, the second with ``inner`` ranks. None: it is no product."""
    row, column = np.divmod(links.src, inner)
    to_row, to_column = np.divmod(links.dst, inner)
    across = row != to_row
    if (across & (column != to_column)).any():
        return None
    outer = topology.ranks // inner
    machines = []
    for mask, src, dst, size, times in (
        (across, row, to_row, outer, inner),
        (~across, column, to_column, inner, outer),
    ):
        code = (src[mask] * size + dst[mask]) * (int(links.lanes.max()) + 1) + links.lanes[mask]
        which, first, counts = np.unique(code, return_index=True, return_counts=True)
        if not len(which) or (counts != times).any():
            return None
        link_indices = np.flatnonzero(mask)[first].tolist()
        made = tuple(
            Link(int(src[i]), int(dst[i]), topology.links[i].lanes, 0.0, 1.0) for i in link_indices
        )
        machines.append(
            Topology(f"factor of {topology.name}", size, made, alpha_us=0.0, gb_per_s=1.0)
        )
    return machines[0], machines[1]


@dataclass(frozen=True, slots=True, eq=False)
class _FactorAlltoall:
    """An alltoall of a factor.

    Attributes:
        ranks: Number of ranks.
        rounds: Rounds of each step.
        position: Rank of a chunk at a time, shape (sources, destinations, steps + 1).
        symmetries: Generators of its symmetries, of which only the identity fixes a rank.
        representatives: One rank of each orbit.
    """

    ranks: int
    rounds: tuple[int, ...]
    position: NDArray[np.int32]
    symmetries: tuple[Permutation, ...]
    representatives: tuple[int, ...]


@lru_cache(maxsize=8)
def _factor_alltoall(machine: Topology) -> _FactorAlltoall | None:
    """Return the alltoall of a factor by routes in the fewest steps. None: it is too large."""
    ranks = machine.ranks
    if ranks > MAX_PROGRAM_RANKS:
        return None
    steps = int(all_distances(machine).max())
    kept: tuple[Permutation, ...] = ()
    for candidate in candidate_groups(machine, named_spec("alltoall", ranks).at(ranks), "auto"):
        images = tuple(
            symmetry.ranks for symmetry in candidate.generators if not symmetry.chunk_shift
        )
        if images and find_semiregular_group(images, ranks):
            kept = images
            break
    routing = find_routes(machine, kept, 1, steps)
    if routing is None:
        return None
    ends = np.array([link.edge for link in machine.links], np.int64)
    at = np.zeros((ranks, ranks, steps + 1), np.int32)
    at[list(routing.representatives), :, 0] = np.array(routing.representatives)[:, None]
    for step in range(steps):
        link, current = routing.link_of_step[:, :, step], at[list(routing.representatives), :, step]
        at[list(routing.representatives), :, step + 1] = np.where(link >= 0, ends[link, 1], current)
    group = find_semiregular_group(kept, ranks) if kept else None
    for rank in range(ranks) if group else ():
        assert group is not None
        first, back = int(group.representative[rank]), group.element_to[rank]
        at[rank] = np.argsort(back)[at[first][back]]
    return _FactorAlltoall(ranks, routing.rounds, at, kept, routing.representatives)


@dataclass(frozen=True, slots=True, eq=False)
class ProductAlltoall:
    """An alltoall on a product.

    Attributes:
        factors: Alltoalls of the factors.
        rounds: Rounds of each step, if each pair of ranks has as many pieces as there are factors.
    """

    factors: tuple[_FactorAlltoall, ...]
    rounds: tuple[int, ...]

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(sum(self.rounds), len(self.factors) * prod(p.ranks for p in self.factors))

    @property
    def has_equal_rounds(self) -> bool:
        """Return whether all factors have the same rounds, so that no factor waits for another."""
        return len({part.rounds for part in self.factors}) == 1

    @property
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Return the symmetries of the factors as symmetries of the product."""
        sizes = [part.ranks for part in self.factors]
        symmetries = []
        for place, part in enumerate(self.factors):
            inner = prod(sizes[place + 1 :])
            ranks = np.arange(prod(sizes))
            coordinate = ranks // inner % sizes[place]
            for image in part.symmetries:
                moved = ranks + (np.array(image)[coordinate] - coordinate) * inner
                symmetries.append(Symmetry(tuple(moved.tolist())))
        return tuple(symmetries)

    def sends(self, pieces: int) -> list[Send] | None:
        """Return the sends of the chunks of one rank of each orbit. None: there are too many.

        Args:
            pieces: Number of pieces per pair of ranks, a multiple of the number of factors.
        """
        sizes = [part.ranks for part in self.factors]
        strides = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
        ranks = prod(sizes)
        firsts = np.array(
            [
                sum(a * s for a, s in zip(each, strides, strict=True))
                for each in product(*(part.representatives for part in self.factors))
            ],
            np.int64,
        )
        if len(firsts) * ranks * pieces * len(self.rounds) > 4 * MAX_TABLE_ROWS:
            return None
        columns = []
        for first in range(len(sizes)):
            where = self._positions(firsts, first, sizes, strides)
            row, to, step = np.nonzero(where[:, :, 1:] != where[:, :, :-1])
            src, dst = where[row, to, step], where[row, to, step + 1]
            for piece in range(first, pieces, len(sizes)):
                chunk = (piece * ranks + to) * ranks + firsts[row]
                columns.append(np.stack([step, chunk, src, dst]))
        table = np.concatenate(columns, axis=1)
        if table.shape[1] > MAX_TABLE_ROWS:
            return None
        return sorted_sends(table)

    def _positions(
        self, firsts: IntArray, first: int, sizes: list[int], strides: list[int]
    ) -> IntArray:
        """Return the rank of chunks that begin with a factor, by source, destination, and time."""
        everyone = np.arange(prod(sizes))
        steps, offset = len(self.rounds), 0
        where = np.zeros((len(firsts), len(everyone), steps + 1), np.int64)
        for place in _factor_order(first, len(sizes)):
            part_steps = self.factors[place].position.shape[2] - 1
            time = np.clip(np.arange(steps + 1) - offset, 0, part_steps)
            source = firsts // strides[place] % sizes[place]
            to = everyone // strides[place] % sizes[place]
            at = self.factors[place].position[source[:, None], to[None, :]]
            where += at[:, :, time] * np.int64(strides[place])
            offset += part_steps
        return where


def _factor_order(first: int, number: int) -> list[int]:
    """Return the order of the factors for chunks that begin with a given one."""
    return [(first + i) % number for i in range(number)]


@lru_cache(maxsize=8)
def product_alltoall(topology: Topology) -> ProductAlltoall | None:
    """Return the alltoall of a product. None: not a product, or its factors are too large.

    Raises:
        UnreachableError: A rank cannot reach another one.
    """
    machines = factorize(topology)
    if len(machines) < 2:
        return None
    parts = []
    for machine in machines:
        part = _factor_alltoall(machine)
        if part is None:
            return None
        parts.append(part)
    lengths = [len(part.rounds) for part in parts]
    loads = np.zeros((len(parts), sum(lengths)), np.int64)
    for first in range(len(parts)):
        order = _factor_order(first, len(parts))
        begins = [0, *accumulate(lengths[place] for place in order)]
        for begin, place in zip(begins, order, strict=False):
            others = topology.ranks // parts[place].ranks
            loads[place, begin : begin + lengths[place]] += np.array(parts[place].rounds) * others
    return ProductAlltoall(tuple(parts), tuple(loads.max(axis=0).tolist()))
