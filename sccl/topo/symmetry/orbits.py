"""Orbits of ranks, of sets of them and of classes of chunks under symmetries, by union-find."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from sccl.core.collective import Collective
from sccl.core.ids import Rank
from sccl.core.topology import Topology, to_ranks
from sccl.topo.symmetry.automorphisms import map_ranks
from sccl.topo.symmetry.permutations import Permutation

T = TypeVar("T", bound=Hashable)


class Orbits(Generic[T]):
    """Which things are images of each other. The one given first stands for its orbit."""

    def __init__(self, things: Iterable[T]) -> None:
        self._items = list(things)
        self._number = {thing: i for i, thing in enumerate(self._items)}
        self._parent = list(range(len(self._items)))

    def join(self, a: T, b: T) -> None:
        """Put two things into one orbit."""
        low, high = sorted((self._root(self._number[a]), self._root(self._number[b])))
        self._parent[high] = low

    def representative(self, thing: T) -> T:
        """Return the representative of a thing's orbit."""
        return self._items[self._root(self._number[thing])]

    def members(self) -> dict[T, list[T]]:
        """Return the orbits by representative, in the order things were given."""
        orbits: dict[T, list[T]] = {}
        for thing in self._items:
            orbits.setdefault(self.representative(thing), []).append(thing)
        return orbits

    def _root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i


ChunkClass = tuple[frozenset[Rank], frozenset[Rank]]
"""(holders, wanted): the key of :meth:`Collective.classes`."""


def class_orbits(
    collective: Collective, symmetries: Sequence[Permutation]
) -> dict[ChunkClass, list[ChunkClass]]:
    """Return the orbits of chunk classes, by the first of each."""
    orbits = Orbits(collective.chunk_classes())
    everyone = frozenset(range(collective.ranks))
    for image in symmetries:
        moved = {everyone: to_ranks(everyone)}  # most classes are wanted everywhere
        for holders, wanted in collective.chunk_classes():
            for ranks in (holders, wanted):
                if ranks not in moved:
                    moved[ranks] = map_ranks(ranks, image)
            orbits.join((holders, wanted), (moved[holders], moved[wanted]))
    return orbits.members()


def set_orbits(
    sets: Iterable[frozenset[Rank]], symmetries: Sequence[Permutation]
) -> list[frozenset[Rank]]:
    """Return one set of each orbit. The images of a set must be among the sets."""
    all_sets = list(sets)
    orbits = Orbits(all_sets)
    for image in symmetries:
        for ranks in all_sets:
            orbits.join(ranks, map_ranks(ranks, image))
    return list(orbits.members())


def rank_orbits(topology: Topology, symmetries: Sequence[Permutation]) -> dict[int, list[int]]:
    """Return the orbits of ranks, by the first of each."""
    orbits = Orbits(range(topology.ranks))
    for image in symmetries:
        for rank, target in enumerate(image):
            orbits.join(rank, target)
    return orbits.members()
