"""Allgather on products of lines (meshes): dimension by dimension, in each rotation.

A chunk is sent along one dimension. From each rank that it reaches it is sent along the next
dimension, and so on. There are as many pieces as dimensions, and each piece begins with another
dimension. In step t - 1 each link may carry as many chunks as arrive from distance t over the
fullest link into a corner. If all sides are equal, the links into a corner have equal loads, and
the corner receives each chunk as early as possible at the minimum load. At other ranks more chunks
wait than can pass. Chunks with the longest remaining path go first, then the earliest arrivals. It
is not proved that all chunks arrive in time, but it is checked at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Send
from sccl.core.arrays import IntArray
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology
from sccl.synth.constructions.product_alltoall import factorize
from sccl.synth.constructions.send_rows import sorted_sends
from sccl.synth.limits import MAX_TABLE_ROWS


@dataclass(frozen=True)
class Mesh:
    """A product of lines with ranks numbered row by row.

    Attributes:
        sides: Number of ranks of each line.
        lanes: Lanes of each link.
    """

    sides: tuple[int, ...]
    lanes: int

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return prod(self.sides)

    @property
    def num_representatives(self) -> int:
        """Return the number of representative ranks under the symmetries."""
        return self.ranks >> int(self.is_foldable.sum())

    @property
    def steps(self) -> int:
        """Return S, the distance between opposite corners."""
        return sum(self.sides) - len(self.sides)

    @property
    def pieces(self) -> int:
        """Return the unit of C: for each lane, one piece begins with each dimension."""
        return len(self.sides) * self.lanes

    @property
    def cost(self) -> Fraction:
        """Return R/C."""
        return Fraction(sum(self.rounds), self.pieces)

    @property
    def has_equal_sides(self) -> bool:
        """Return whether all sides are equal. Then both bounds are attained."""
        return len(set(self.sides)) == 1

    @cached_property
    def rounds(self) -> tuple[int, ...]:
        """Return the rounds of each step with :attr:`pieces`.

        The load of each dimension's link into a corner is the number of chunks whose last dimension
        it is.
        """
        at = self.coordinates(np.arange(1, self.ranks))
        far, number = at.sum(axis=0), len(self.sides)
        loads = np.zeros((number, self.steps), np.int64)
        for first in range(number):
            order = np.roll(np.arange(number), -first)
            last = order[number - 1 - np.argmax(at[order][::-1] > 0, axis=0)]
            np.add.at(loads, (last, far - 1), 1)
        return tuple(loads.max(axis=0).tolist())

    @cached_property
    def is_foldable(self) -> NDArray[np.bool_]:
        """Return whether the reflection of each dimension fixes no rank."""
        even: NDArray[np.bool_] = np.array(self.sides) % 2 == 0
        return even

    def symmetries(self) -> tuple[Symmetry, ...]:
        """Return the reflections of single dimensions that fix no rank."""
        symmetries = []
        for k in np.flatnonzero(self.is_foldable).tolist():
            turned = self.coordinates(np.arange(self.ranks))
            turned[k] = self.sides[k] - 1 - turned[k]
            symmetries.append(Symmetry(tuple(self.ranks_at(turned).tolist())))
        return tuple(symmetries)

    def coordinates(self, ranks: IntArray) -> IntArray:
        """Return the coordinates of ranks, shape (dimensions, ranks)."""
        return np.array(np.unravel_index(ranks, self.sides), np.int64)

    def ranks_at(self, places: IntArray) -> IntArray:
        """Return the ranks at given coordinates."""
        return np.asarray(np.ravel_multi_index(tuple(places), self.sides), np.int64)

    def is_in_folded_half(self, places: IntArray) -> NDArray[np.bool_]:
        """Return whether ranks are in a half without representatives, shape (dimensions, ranks)."""
        middle = np.array(self.sides)[:, None] // 2
        return self.is_foldable[:, None] & (places >= middle)

    def mirror(self, places: IntArray, which: NDArray[np.bool_]) -> IntArray:
        """Return coordinates after the reflection of the selected dimensions."""
        turned: IntArray = np.where(which, np.array(self.sides)[:, None] - 1 - places, places)
        return turned


def find_mesh(topology: Topology) -> Mesh | None:
    """Return the mesh of a machine. None: not a mesh, too large, or chunks arrive late."""
    lines = mesh_of(topology)
    few = (
        lines is not None
        and lines.num_representatives * (lines.ranks - 1) * lines.pieces <= MAX_TABLE_ROWS
    )
    return lines if lines is not None and few and _simulate(lines) is not None else None


@lru_cache(maxsize=8)
def mesh_of(topology: Topology) -> Mesh | None:
    """Return the decomposition of a machine into two or more lines of equal lanes, or None.

    A line of 2 ranks is also a ring. Machines with only such lines are left to other modules.
    """
    parts, lanes = factorize(topology), {link.lanes for link in topology.links}
    sides = tuple(part.ranks for part in parts)
    if len(parts) < 2 or max(sides) < 3 or len(lanes) > 1:
        return None
    for part in parts:
        if len(part.links) != 2 * (part.ranks - 1):
            return None
        if any(abs(link.src - link.dst) != 1 for link in part.links):
            return None
    return Mesh(sides, *lanes)


def build_sends(lines: Mesh, pieces: int) -> list[Send] | None:
    """Return the sends of the representatives' chunks. None: there are too many.

    Args:
        lines: The mesh.
        pieces: C, a multiple of :attr:`Mesh.pieces`.
    """
    if lines.num_representatives * (lines.ranks - 1) * pieces > MAX_TABLE_ROWS:
        return None
    table = _simulate(lines)
    assert table is not None, "lines in which something is late are not asked for"
    step, source, first, src, dst = table
    each = pieces // len(lines.sides)
    piece = np.repeat(first * each, each) + np.tile(np.arange(each), len(step))
    chunk = piece * lines.ranks + np.repeat(source, each)
    rows = np.stack([np.repeat(step, each), chunk, np.repeat(src, each), np.repeat(dst, each)])
    return sorted_sends(rows)


@lru_cache(maxsize=2)
def _simulate(lines: Mesh) -> IntArray | None:
    """Return the rows (step, source, first dimension, from, to) for representative sources.

    None: chunks are left after the last step.
    """
    run = _MeshRun(lines)
    table = np.concatenate([run.advance(t, limit) for t, limit in enumerate(lines.rounds)], axis=1)
    if run.waiting.shape[1]:
        return None
    which = lines.is_in_folded_half(lines.coordinates(table[1]))
    for row in (1, 3, 4):
        table[row] = lines.ranks_at(lines.mirror(lines.coordinates(table[row]), which))
    return table


class _MeshRun:
    """The chunks that wait for links from representative ranks.

    A chunk that would leave the representatives is replaced by its reflected image.

    Attributes:
        waiting: Shape (5, chunks). Rows: the link, minus the length of the remaining path, the step
            of the arrival, the source, and the first dimension.
    """

    def __init__(self, lines: Mesh) -> None:
        self.mesh, self.num_dimensions = lines, len(lines.sides)
        self.sides = np.array(lines.sides, np.int64)
        self.strides = np.array(
            [prod(lines.sides[k + 1 :]) for k in range(self.num_dimensions)], np.int64
        )
        self.waiting = np.zeros((5, 0), np.int64)
        ranks = np.arange(lines.ranks)
        ranks = ranks[~lines.is_in_folded_half(lines.coordinates(ranks)).any(axis=0)]
        first = np.repeat(np.arange(self.num_dimensions), len(ranks))
        source = np.tile(ranks, self.num_dimensions)
        for nth in range(self.num_dimensions):
            self._branch(source, first, source, nth, 0)

    def advance(self, step: int, limit: int) -> IntArray:
        """Send as many chunks as fit. Return rows (step, source, first dimension, from, to)."""
        self.waiting = self.waiting[:, np.lexsort(self.waiting[::-1])]
        link = self.waiting[0]
        passing = np.arange(len(link)) - np.searchsorted(link, link) < limit
        link, _, _, source, first = self.waiting[:, passing]
        self.waiting = self.waiting[:, ~passing]
        src, dimension = np.divmod(link // 2, self.num_dimensions)
        up = link % 2
        dst = src + (2 * up - 1) * self.strides[dimension]
        self._arrive(source, first, dst, dimension, up, step + 1)
        return np.stack([np.full_like(source, step), source, first, src, dst])

    def _arrive(  # noqa: PLR0913, PLR0917 - columns
        self,
        source: IntArray,
        first: IntArray,
        rank: IntArray,
        dimension: IntArray,
        up: IntArray,
        step: int,
    ) -> None:
        """Queue arrived chunks for the links that they pass next."""
        lines, places = self.mesh, self.mesh.coordinates(rank)
        which = lines.is_in_folded_half(places)
        rank = lines.ranks_at(lines.mirror(places, which))
        source = lines.ranks_at(lines.mirror(lines.coordinates(source), which))
        up = np.where(which[dimension, np.arange(len(rank))], 1 - up, up)
        nth_of = (dimension - first) % self.num_dimensions
        for nth in range(self.num_dimensions):
            on, later = nth_of == nth, nth_of < nth
            self._enqueue(source[on], first[on], rank[on], nth, up[on], step)
            self._branch(source[later], first[later], rank[later], nth, step)

    def _branch(
        self, source: IntArray, first: IntArray, rank: IntArray, nth: int, step: int
    ) -> None:
        """Queue chunks for both links along the n-th of their dimensions."""
        for up in (0, 1):
            self._enqueue(source, first, rank, nth, np.full_like(source, up), step)

    def _enqueue(  # noqa: PLR0913, PLR0917 - columns
        self, source: IntArray, first: IntArray, rank: IntArray, nth: int, up: IntArray, step: int
    ) -> None:
        """Queue chunks for a link along the n-th of their dimensions, if there is one."""
        dimension = (first + nth) % self.num_dimensions
        at, row = self.mesh.coordinates(rank), np.arange(len(rank))
        behind = np.where(
            up == 1, self.sides[dimension] - 1 - at[dimension, row], at[dimension, row]
        )
        has_next = behind > 0
        for offset in range(nth + 1, self.num_dimensions):
            across = (first + offset) % self.num_dimensions
            behind = behind + np.maximum(at[across, row], self.sides[across] - 1 - at[across, row])
        link = (rank * self.num_dimensions + dimension) * 2 + up
        more = np.stack([link, -behind, np.full_like(link, step), source, first])
        self.waiting = np.concatenate([self.waiting, more[:, has_next]], axis=1)
