"""Orbits of ranks, of sets of them and of classes of chunks under symmetries, by union-find."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from sccl.core.collective import Collective
from sccl.core.ids import Rank
from sccl.core.topology import Topology, as_ranks
from sccl.topo.symmetry.automorphisms import image_of
from sccl.topo.symmetry.permutations import Permutation

T = TypeVar("T", bound=Hashable)


class Orbits(Generic[T]):
    """Which things are images of each other. The one given first stands for its orbit."""

    def __init__(self, things: Iterable[T]) -> None:
        self._things = list(things)
        self._number = {thing: i for i, thing in enumerate(self._things)}
        self._parent = list(range(len(self._things)))

    def join(self, a: T, b: T) -> None:
        """Put two things into one orbit."""
        low, high = sorted((self._root(self._number[a]), self._root(self._number[b])))
        self._parent[high] = low

    def first(self, thing: T) -> T:
        """Return the representative of a thing's orbit."""
        return self._things[self._root(self._number[thing])]

    def members(self) -> dict[T, list[T]]:
        """Return the orbits by representative, in the order things were given."""
        orbits: dict[T, list[T]] = {}
        for thing in self._things:
            orbits.setdefault(self.first(thing), []).append(thing)
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
    orbits = Orbits(collective.classes())
    everyone = frozenset(range(collective.ranks))
    for image in symmetries:
        moved = {everyone: as_ranks(everyone)}  # most classes are wanted everywhere
        for holders, wanted in collective.classes():
            for ranks in (holders, wanted):
                if ranks not in moved:
                    moved[ranks] = image_of(ranks, image)
            orbits.join((holders, wanted), (moved[holders], moved[wanted]))
    return orbits.members()


def set_orbits(
    sets: Iterable[frozenset[Rank]], symmetries: Sequence[Permutation]
) -> list[frozenset[Rank]]:
    """Return one set of each orbit. The images of a set must be among the sets."""
    every = list(sets)
    orbits = Orbits(every)
    for image in symmetries:
        for ranks in every:
            orbits.join(ranks, image_of(ranks, image))
    return list(orbits.members())


def rank_orbits(topology: Topology, symmetries: Sequence[Permutation]) -> dict[int, list[int]]:
    """Return the orbits of ranks, by the first of each."""
    orbits = Orbits(range(topology.ranks))
    for image in symmetries:
        for rank, there in enumerate(image):
            orbits.join(rank, there)
    return orbits.members()
