"""Permutations of ranks, and small groups of them, element by element.

A group in which only the identity keeps any rank (a *semiregular* one) has at most as many elements
as there are ranks, so that listing them is cheap: no stabiliser chain is needed. Source: Wielandt,
Finite Permutation Groups (1964), section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

Permutation = tuple[int, ...]
"""The image of each rank."""


def identity_of(ranks: int) -> Permutation:
    """Return the permutation that moves none of so many ranks."""
    return tuple(range(ranks))


def then(first: Permutation, second: Permutation) -> Permutation:
    """Return ``first`` followed by ``second``."""
    return tuple(second[r] for r in first)


def cycles_of(image: Permutation) -> list[list[int]]:
    """Return the cycles of a permutation, by their least members, from which each begins."""
    seen: set[int] = set()
    found = []
    for start in range(len(image)):
        cycle, at = [], start
        while at not in seen:
            seen.add(at)
            cycle.append(at)
            at = image[at]
        if cycle:
            found.append(cycle)
    return found


def order_of(image: Permutation) -> int:
    """Return how often a permutation must be applied to move nothing: the lcm of its cycles."""
    return lcm(*map(len, cycles_of(image)))


def power(image: Permutation, exponent: int) -> Permutation:
    """Return a permutation applied ``exponent`` times."""
    result = list(image)
    for cycle in cycles_of(image):
        for at, rank in enumerate(cycle):
            result[rank] = cycle[(at + exponent) % len(cycle)]
    return tuple(result)


def closure(
    generators: Iterable[Permutation], ranks: int, most: int = 1
) -> frozenset[Permutation] | None:
    """Return the group of permutations. None: of more elements than ``most`` times the ranks."""
    several = list(generators)
    seen = {identity_of(ranks)}
    for element in (queue := list(seen)):
        for generator in several:
            image = then(element, generator)
            if image not in seen:
                seen.add(image)
                queue.append(image)
        if len(seen) > most * ranks:
            return None
    return frozenset(seen)


def is_semiregular(group: Iterable[Permutation]) -> bool:
    """Return whether only the identity keeps any rank."""
    return all(
        image == identity_of(len(image)) or all(there != r for r, there in enumerate(image))
        for image in group
    )


def few_generators(group: frozenset[Permutation]) -> list[Permutation]:
    """Return few elements that make the whole group: those of the highest order first."""
    ranks = len(next(iter(group)))
    chosen: list[Permutation] = []
    made = frozenset([identity_of(ranks)])
    for element in sorted(group, key=lambda g: (-order_of(g), g)):
        if element not in made:
            chosen.append(element)
            made = closure(chosen, ranks) or made
    return chosen
