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


def identity_permutation(ranks: int) -> Permutation:
    """Return the permutation that moves none of so many ranks."""
    return tuple(range(ranks))


def compose(first: Permutation, second: Permutation) -> Permutation:
    """Return ``first`` followed by ``second``."""
    return tuple(second[r] for r in first)


def permutation_cycles(image: Permutation) -> list[list[int]]:
    """Return the cycles of a permutation, by their least members, from which each begins."""
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
    """Return how often a permutation must be applied to move nothing: the lcm of its cycles."""
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
    """Return the group of permutations. None: of more elements than ``factor`` times the ranks."""
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
    """Return whether only the identity keeps any rank."""
    return all(
        image == identity_permutation(len(image))
        or all(target != r for r, target in enumerate(image))
        for image in group
    )


def small_generating_set(group: frozenset[Permutation]) -> list[Permutation]:
    """Return few elements that make the whole group: those of the highest order first."""
    ranks = len(next(iter(group)))
    chosen: list[Permutation] = []
    made = frozenset([identity_permutation(ranks)])
    for element in sorted(group, key=lambda g: (-permutation_order(g), g)):
        if element not in made:
            chosen.append(element)
            made = closure(chosen, ranks) or made
    return chosen
