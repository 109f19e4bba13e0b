"""Rings over links of a machine: constructed on grids, searched for elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.grid import Grid, grid_of
from sccl.synth.baselines.pattern.links import Room

Order = tuple[int, ...]
"""Ranks in the order in which a ring passes them, from rank 0."""

_EFFORT = 400_000
"""Links that a search for rings looks at: a fraction of a second."""


def ring_of(topology: Topology) -> Order:
    """Return a ring over links through all ranks, or the ring in rank order if none is found.

    Rank order is tried first, then constructions on grids, then a bounded search.
    """
    ranks = tuple(range(topology.ranks))
    search = _Search(topology)
    for order in (ranks, *_constructed(topology)):
        if _fits(search.room, order):
            return order
    return next(search.rings(), ranks)


@lru_cache(maxsize=16)  # searched for once, however many pieces a pattern is made in
def rings_of(topology: Topology) -> tuple[Order, ...]:
    """Return rings over links that can all be used at once, each of them both ways if it can.

    As many as a bounded search finds; where it finds none, that of the ranks' numbers.
    """
    search = _Search(topology)
    best = search.most(())
    for order in _constructed(topology):
        search.restart()
        if _fits(search.room, order):
            best = max(best, search.most(_take(search.room, order)), key=len)
    return best or (tuple(range(topology.ranks)),)


def _constructed(topology: Topology) -> Iterator[Order]:
    grid = grid_of(topology)
    if grid is None:
        return
    if len(grid.sides) == 2 and grid.sides[0] % grid.sides[1] == 0:
        yield _lee_code(grid)
    if len(grid.sides) == 1 or all(side % 2 for side in grid.sides):
        yield _around(grid.sides)
    else:
        yield _snake(grid.sides)


def _lee_code(grid: Grid) -> Order:
    """Return the ring of a k-ary Gray code, whose complement in a square torus is a ring, too.

    Source: Bose, Broeg, Kwon, Ashir, "Lee distance and topological properties of k-ary n-cubes",
    IEEE Transactions on Computers 44(8), 1995.
    """
    rows, columns = grid.sides
    return tuple(i * columns + (j - i) % columns for i in range(rows) for j in range(columns))


def _around(sides: tuple[int, ...]) -> Order:
    """Return a ring of a torus of odd sides: rows are passed all around, in one of the two ways.

    A row that is passed forwards moves the column by -1, one that is passed backwards by +1, so
    many are passed each way that it closes, which takes no fewer rows than columns. The last
    dimension is taken with a ring of those before it.
    """
    if len(sides) == 1:
        return tuple(range(sides[0]))
    before, last = _around(sides[:-1]), sides[-1]
    swap = len(before) < last
    rows, columns = (last, len(before)) if swap else (len(before), last)
    backwards = (rows - columns) // 2
    places, column = [], 0
    for row in range(rows):
        way = -1 if row < backwards else 1
        places += [(row, (column + way * i) % columns) for i in range(columns)]
        column = places[-1][1]
    if swap:
        places = [(column, row) for row, column in places]
    return tuple(before[i] * last + j for i, j in places)


def _snake(sides: tuple[int, ...]) -> Order:
    """Return a ring of a mesh with an even side: up one column, and back through the others."""
    even = next(d for d, side in enumerate(sides) if side % 2 == 0)
    grid = Grid(sides)
    rest = _path(tuple(side for d, side in enumerate(sides) if d != even))
    strides = [grid.stride(d) for d in range(len(sides)) if d != even]
    column = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in rest]
    order = []
    for row in range(sides[even]):
        there = column[1:] if row % 2 == 0 else column[:0:-1]
        order += [row * grid.stride(even) + c for c in there]
    return (*order, *(row * grid.stride(even) + column[0] for row in reversed(range(sides[even]))))


def _path(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the places of a grid so that each is beside the one before."""
    places: list[tuple[int, ...]] = [()]
    for side in sides:
        both = (range(side), range(side - 1, -1, -1))
        places = [(*place, i) for n, place in enumerate(places) for i in both[n % 2]]
    return places


def _fits(room: Room, order: Order) -> bool:
    """Return whether a ring can be taken. Nothing is."""
    taken = []
    for edge in edges_of(order):
        if not room.of(edge):
            break
        room.take(edge)
        taken.append(edge)
    for edge in taken:
        room.give(edge)
    return len(taken) == len(order)


def _take(room: Room, order: Order) -> tuple[Order, ...]:
    """Take a ring, and its reverse if that fits, too. Return the rings taken."""
    rings: tuple[Order, ...] = ()
    for ring in (order, (order[0], *order[:0:-1])):
        if ring not in rings and _fits(room, ring):
            rings += (ring,)
            for edge in edges_of(ring):
                room.take(edge)
    return rings


class _Search:
    """A search for rings with a limit on effort."""

    def __init__(self, topology: Topology) -> None:
        self.ranks = topology.ranks
        self.successors = topology.successors()
        self.room = Room(topology)
        self.effort = _EFFORT

    def restart(self) -> None:
        """Give all room and effort back."""
        self.room.clear()
        self.effort = _EFFORT

    def most(self, taken: tuple[Order, ...]) -> tuple[Order, ...]:
        """Return as many rings that fit beside one another as are found, after those taken."""
        best, bound = taken, len(taken) + self._bound()
        for order in self.rings():
            rings = _take(self.room, order)
            found = self.most((*taken, *rings))
            for ring in rings:
                for edge in edges_of(ring):
                    self.room.give(edge)
            best = max(best, found, key=len)
            if len(best) == bound or self.effort <= 0:
                break
        return best

    def _bound(self) -> int:
        """Return a number that no more rings exceed: each leaves each rank once."""
        ends = ((rank, self.successors[rank]) for rank in range(self.ranks))
        return min(sum(self.room.of((rank, end)) for end in there) for rank, there in ends)

    def rings(self) -> Iterator[Order]:
        """Yield rings that fit, ranks with few free neighbours first."""
        path, passed = [0], {0}
        ahead = [self._ahead(0, passed)]
        while ahead and self.effort > 0:
            node = next(ahead[-1], None)
            if node is None:
                ahead.pop()
                passed.remove(path.pop())
                continue
            self.effort -= len(self.successors[node]) ** 2
            path.append(node)
            passed.add(node)
            ahead.append(self._ahead(node, passed))
            if len(path) == self.ranks and _fits(self.room, order := tuple(path)):
                yield order

    def _ahead(self, node: int, passed: set[int]) -> Iterator[int]:
        """Return the ranks to which a path can go on."""

        def onward(rank: int) -> list[int]:
            """Return the ranks not passed yet that a free link leads to."""
            ranks = (r for r in self.successors[rank] if r < self.ranks and r not in passed)
            return [r for r in ranks if self.room.of((rank, r))]

        return iter(sorted(onward(node), key=lambda rank: len(onward(rank))))


def edges_of(order: Order) -> Iterator[Edge]:
    """Yield the links of a ring."""
    return pairwise((*order, order[0]))
