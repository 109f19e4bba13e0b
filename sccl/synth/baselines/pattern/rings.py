"""Rings over links of a machine: constructed on grids, searched for on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.grid import Grid, find_grid
from sccl.synth.baselines.pattern.link_capacity import RemainingCapacity

RingOrder = tuple[int, ...]
"""Ranks in the order in which a ring passes them, from rank 0."""

_MAX_LINK_VISITS = 400_000
"""Links that a search for rings visits, in a fraction of a second."""


def find_ring(topology: Topology) -> RingOrder:
    """Return a ring over links through all ranks, or the ring in rank order if none is found.

    Rank order is tried first, then constructions on grids, then a bounded search.
    """
    ranks = tuple(range(topology.ranks))
    search = _RingSearch(topology)
    for order in (ranks, *_construct_rings(topology)):
        if _is_available(search.capacity, order):
            return order
    return next(search.rings(), ranks)


@lru_cache(maxsize=16)  # one search for all numbers of pieces
def find_rings(topology: Topology) -> tuple[RingOrder, ...]:
    """Return rings over links that fit together, with their reverses if these fit, too.

    A bounded search determines how many. If it finds none, the result is the ring in rank order.
    """
    search = _RingSearch(topology)
    best = search.max_disjoint_rings(())
    for order in _construct_rings(topology):
        search.restart()
        if _is_available(search.capacity, order):
            best = max(
                best, search.max_disjoint_rings(_reserve_rings(search.capacity, order)), key=len
            )
    return best or (tuple(range(topology.ranks)),)


def _construct_rings(topology: Topology) -> Iterator[RingOrder]:
    grid = find_grid(topology)
    if grid is None:
        return
    if len(grid.sides) == 2 and grid.sides[0] % grid.sides[1] == 0:
        yield _lee_code(grid)
    if len(grid.sides) == 1 or all(side % 2 for side in grid.sides):
        yield _odd_torus_ring(grid.sides)
    else:
        yield _snake_ring(grid.sides)


def _lee_code(grid: Grid) -> RingOrder:
    """Return the ring of a k-ary Gray code, whose complement in a square torus is a ring, too.

    Source: Bose, Broeg, Kwon, Ashir, "Lee distance and topological properties of k-ary n-cubes",
    IEEE Transactions on Computers 44(8), 1995.
    """
    rows, columns = grid.sides
    return tuple(i * columns + (j - i) % columns for i in range(rows) for j in range(columns))


def _odd_torus_ring(sides: tuple[int, ...]) -> RingOrder:
    """Return a ring of a torus of odd sides: rows are passed all around, in either direction.

    A row that is passed forwards shifts the column by -1, and a row that is passed backwards by +1.
    Their numbers are chosen so that the ring closes, which needs at least as many rows as columns.
    With more dimensions, the last one is combined with a ring of the others.
    """
    if len(sides) == 1:
        return tuple(range(sides[0]))
    before, last = _odd_torus_ring(sides[:-1]), sides[-1]
    swap = len(before) < last
    rows, columns = (last, len(before)) if swap else (len(before), last)
    backwards = (rows - columns) // 2
    places, column = [], 0
    for row in range(rows):
        direction = -1 if row < backwards else 1
        places += [(row, (column + direction * i) % columns) for i in range(columns)]
        column = places[-1][1]
    if swap:
        places = [(column, row) for row, column in places]
    return tuple(before[i] * last + j for i, j in places)


def _snake_ring(sides: tuple[int, ...]) -> RingOrder:
    """Return a ring of a mesh with an even side: up one column, and back through the others."""
    even = next(d for d, side in enumerate(sides) if side % 2 == 0)
    grid = Grid(sides)
    rest = _grid_path(tuple(side for d, side in enumerate(sides) if d != even))
    strides = [grid.stride(d) for d in range(len(sides)) if d != even]
    column = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in rest]
    order = []
    for row in range(sides[even]):
        segment = column[1:] if row % 2 == 0 else column[:0:-1]
        order += [row * grid.stride(even) + c for c in segment]
    return (*order, *(row * grid.stride(even) + column[0] for row in reversed(range(sides[even]))))


def _grid_path(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the positions of a grid in an order in which consecutive ones are adjacent."""
    places: list[tuple[int, ...]] = [()]
    for side in sides:
        both = (range(side), range(side - 1, -1, -1))
        places = [(*place, i) for n, place in enumerate(places) for i in both[n % 2]]
    return places


def _is_available(room: RemainingCapacity, order: RingOrder) -> bool:
    """Return whether a ring fits. It is not reserved."""
    taken = []
    for edge in ring_edges(order):
        if not room.free_chunks(edge):
            break
        room.reserve(edge)
        taken.append(edge)
    for edge in taken:
        room.release(edge)
    return len(taken) == len(order)


def _reserve_rings(room: RemainingCapacity, order: RingOrder) -> tuple[RingOrder, ...]:
    """Reserve a ring, and its reverse if that fits, too. Return the reserved rings."""
    rings: tuple[RingOrder, ...] = ()
    for ring in (order, (order[0], *order[:0:-1])):
        if ring not in rings and _is_available(room, ring):
            rings += (ring,)
            for edge in ring_edges(ring):
                room.reserve(edge)
    return rings


class _RingSearch:
    """A search for rings with a limit on effort."""

    def __init__(self, topology: Topology) -> None:
        self.ranks = topology.ranks
        self.successors = topology.successors()
        self.capacity = RemainingCapacity(topology)
        self.remaining_visits = _MAX_LINK_VISITS

    def restart(self) -> None:
        """Release all capacity, and restore the effort."""
        self.capacity.reset()
        self.remaining_visits = _MAX_LINK_VISITS

    def max_disjoint_rings(self, taken: tuple[RingOrder, ...]) -> tuple[RingOrder, ...]:
        """Return the most rings found that fit together, including those taken already."""
        best, bound = taken, len(taken) + self._upper_bound()
        for order in self.rings():
            rings = _reserve_rings(self.capacity, order)
            extended = self.max_disjoint_rings((*taken, *rings))
            for ring in rings:
                for edge in ring_edges(ring):
                    self.capacity.release(edge)
            best = max(best, extended, key=len)
            if len(best) == bound or self.remaining_visits <= 0:
                break
        return best

    def _upper_bound(self) -> int:
        """Return an upper bound on the number of further rings: each leaves each rank once."""
        ends = ((rank, self.successors[rank]) for rank in range(self.ranks))
        return min(
            sum(self.capacity.free_chunks((rank, end)) for end in targets) for rank, targets in ends
        )

    def rings(self) -> Iterator[RingOrder]:
        """Yield rings that fit. Ranks with few free neighbors are tried first."""
        path, passed = [0], {0}
        ahead = [self._next_ranks(0, passed)]
        while ahead and self.remaining_visits > 0:
            node = next(ahead[-1], None)
            if node is None:
                ahead.pop()
                passed.remove(path.pop())
                continue
            self.remaining_visits -= len(self.successors[node]) ** 2
            path.append(node)
            passed.add(node)
            ahead.append(self._next_ranks(node, passed))
            if len(path) == self.ranks and _is_available(self.capacity, order := tuple(path)):
                yield order

    def _next_ranks(self, node: int, passed: set[int]) -> Iterator[int]:
        def onward(rank: int) -> list[int]:
            """Return the ranks not passed yet to which a free link leads."""
            ranks = (r for r in self.successors[rank] if r < self.ranks and r not in passed)
            return [r for r in ranks if self.capacity.free_chunks((rank, r))]

        return iter(sorted(onward(node), key=lambda rank: len(onward(rank))))


def ring_edges(order: RingOrder) -> Iterator[Edge]:
    """Yield the links of a ring."""
    return pairwise((*order, order[0]))
