"""Permutations of ranks, small groups of them, element by element, and orbits under them.

A group is *semiregular* if only the identity fixes any rank. Such a group has at most as many
elements as there are ranks, so it can be listed cheaply, without a stabilizer chain. Source:
Wielandt, Finite Permutation Groups (1964), section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import lcm
from typing import TypeVar

from sccl.core.collective import Collective
from sccl.core.graphs import connected_components
from sccl.core.ids import Edge, Rank
from sccl.core.topology import Topology, to_ranks

Permutation = tuple[int, ...]
"""The image of each rank."""

CapacityT = TypeVar("CapacityT", int, Fraction)


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


ChunkClass = tuple[frozenset[Rank], frozenset[Rank]]
"""(holders, destinations): a key of :meth:`Collective.chunk_classes`."""


def class_orbits(
    collective: Collective, symmetries: Sequence[Permutation]
) -> dict[ChunkClass, list[ChunkClass]]:
    """Return the orbits of chunk classes, keyed by the first class of each."""
    return connected_components(collective.chunk_classes(), _class_images(collective, symmetries))


def _class_images(
    collective: Collective, symmetries: Sequence[Permutation]
) -> Iterator[tuple[ChunkClass, ChunkClass]]:
    everyone = frozenset(range(collective.ranks))
    for image in symmetries:
        moved = {everyone: to_ranks(everyone)}  # most classes have all ranks as destinations
        for holders, wanted in collective.chunk_classes():
            for ranks in (holders, wanted):
                if ranks not in moved:
                    moved[ranks] = map_ranks(ranks, image)
            yield (holders, wanted), (moved[holders], moved[wanted])


def set_orbits(
    sets: Iterable[frozenset[Rank]], symmetries: Iterable[Permutation]
) -> list[frozenset[Rank]]:
    """Return one set of each orbit. The images of a set must be among the sets."""
    all_sets = list(sets)
    images = ((ranks, map_ranks(ranks, image)) for image in symmetries for ranks in all_sets)
    return list(connected_components(all_sets, images))


def rank_orbits(topology: Topology, symmetries: Iterable[Permutation]) -> dict[int, list[int]]:
    """Return the orbits of ranks, keyed by the first rank of each."""
    images = (pair for image in symmetries for pair in enumerate(image))
    return connected_components(range(topology.ranks), images)


def edge_orbits(edges: Iterable[Edge], symmetries: Iterable[Permutation]) -> dict[Edge, list[Edge]]:
    """Return the orbits of links, keyed by the first of each. Images must be among the links."""
    links = list(edges)
    images = (((u, v), (image[u], image[v])) for image in symmetries for u, v in links)
    return connected_components(links, images)


def capacity_orbits(
    capacities: Iterable[tuple[frozenset[Edge], CapacityT]], symmetries: Iterable[Permutation]
) -> dict[tuple[frozenset[Edge], CapacityT], list[tuple[frozenset[Edge], CapacityT]]]:
    """Return the orbits of pairs (links, their joint capacity), keyed by the first pair of each.

    Images must be among the pairs.
    """
    pairs = list(dict.fromkeys(capacities))
    images = (
        ((edges, capacity), (frozenset((image[u], image[v]) for u, v in edges), capacity))
        for image in symmetries
        for edges, capacity in pairs
    )
    return connected_components(pairs, images)
