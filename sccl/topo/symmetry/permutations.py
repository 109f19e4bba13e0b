"""Permutations of ranks, small groups of them, element by element, and orbits under them.

A group is *semiregular* if only the identity fixes any rank. Such a group has at most as many
elements as there are ranks, so it can be listed cheaply, without a stabilizer chain. Source:
Wielandt, Finite Permutation Groups (1964), section 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import lcm
from typing import Generic, TypeVar

from sccl.core.collective import Collective
from sccl.core.ids import Rank
from sccl.core.topology import Topology, to_ranks

Permutation = tuple[int, ...]
"""The image of each rank."""

T = TypeVar("T", bound=Hashable)


def identity_permutation(ranks: int) -> Permutation:
    """Return the identity permutation of ``ranks`` ranks."""
    return tuple(range(ranks))


def compose(first: Permutation, second: Permutation) -> Permutation:
    """Return ``first`` followed by ``second``."""
    return tuple(second[r] for r in first)


def map_ranks(ranks: Iterable[int], image: Sequence[int]) -> frozenset[Rank]:
    """Return the images of a set of ranks."""
    return to_ranks(image[r] for r in ranks)


def permutation_cycles(image: Permutation) -> list[list[int]]:
    """Return the cycles of a permutation. Each starts with its least member, in ascending order."""
    seen: set[int] = set()
    cycles = []
    for start in range(len(image)):
        cycle, at = [], start
        while at not in seen:
            seen.add(at)
            cycle.append(at)
            at = image[at]
        if cycle:
            cycles.append(cycle)
    return cycles


def permutation_order(image: Permutation) -> int:
    """Return the order of a permutation: the lcm of its cycle lengths."""
    return lcm(*map(len, permutation_cycles(image)))


def power(image: Permutation, exponent: int) -> Permutation:
    """Return a permutation applied ``exponent`` times."""
    result = list(image)
    for cycle in permutation_cycles(image):
        for at, rank in enumerate(cycle):
            result[rank] = cycle[(at + exponent) % len(cycle)]
    return tuple(result)


def closure(
    generators: Iterable[Permutation], ranks: int, factor: int = 1
) -> frozenset[Permutation] | None:
    """Return the generated group, None if it has more than ``factor * ranks`` elements."""
    several = list(generators)
    seen = {identity_permutation(ranks)}
    for element in (queue := list(seen)):
        for generator in several:
            image = compose(element, generator)
            if image not in seen:
                seen.add(image)
                queue.append(image)
        if len(seen) > factor * ranks:
            return None
    return frozenset(seen)


def is_semiregular(group: Iterable[Permutation]) -> bool:
    """Return whether only the identity fixes any rank."""
    return all(
        image == identity_permutation(len(image))
        or all(target != r for r, target in enumerate(image))
        for image in group
    )


def small_generating_set(group: frozenset[Permutation]) -> list[Permutation]:
    """Return few generators of a group, chosen greedily by the highest order."""
    ranks = len(next(iter(group)))
    chosen: list[Permutation] = []
    made = frozenset([identity_permutation(ranks)])
    for element in sorted(group, key=lambda g: (-permutation_order(g), g)):
        if element not in made:
            chosen.append(element)
            made = closure(chosen, ranks) or made
    return chosen


class Orbits(Generic[T]):
    """Partition of items into orbits (union-find). The first item of an orbit represents it."""

    def __init__(self, things: Iterable[T]) -> None:
        self._items = list(things)
        self._number = {thing: i for i, thing in enumerate(self._items)}
        self._parent = list(range(len(self._items)))

    def join(self, a: T, b: T) -> None:
        """Merge the orbits of two items."""
        low, high = sorted((self._root(self._number[a]), self._root(self._number[b])))
        self._parent[high] = low

    def representative(self, thing: T) -> T:
        """Return the representative of an item's orbit."""
        return self._items[self._root(self._number[thing])]

    def members(self) -> dict[T, list[T]]:
        """Return the orbits by representative, in the order of the items."""
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
"""(holders, destinations): a key of :meth:`Collective.chunk_classes`."""


def class_orbits(
    collective: Collective, symmetries: Sequence[Permutation]
) -> dict[ChunkClass, list[ChunkClass]]:
    """Return the orbits of chunk classes, keyed by the first class of each."""
    orbits = Orbits(collective.chunk_classes())
    everyone = frozenset(range(collective.ranks))
    for image in symmetries:
        moved = {everyone: to_ranks(everyone)}  # most classes have all ranks as destinations
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
    """Return the orbits of ranks, keyed by the first rank of each."""
    orbits = Orbits(range(topology.ranks))
    for image in symmetries:
        for rank, target in enumerate(image):
            orbits.join(rank, target)
    return orbits.members()
