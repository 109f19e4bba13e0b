"""Groups of symmetries made of a machine's automorphisms, where none are known by construction.

BLISS gives generators of the whole group (:func:`automorphisms`), which as a rule keeps some ranks
while it moves others, and is then of no use. Sought are its semiregular subgroups, by sampling: a
random walk over products of the generators, of each element met the largest cyclic group of its
powers that moves every rank, and of those groups the products of two. That is no list of all
subgroups. A group that is missed costs time and no truth. The walk has a fixed seed, so that the
same machine has the same groups.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import gcd, lcm

from sccl.core.collective import Collective
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.group import Group
from sccl.topo.symmetry.permutations import (
    Permutation,
    closure,
    compose,
    identity_permutation,
    is_semiregular,
    permutation_cycles,
    permutation_order,
    power,
    small_generating_set,
)

_SAMPLES = 200
_LONGEST_WALK = 4
_MAX_PAIRED_GROUPS = 12
"""Cyclic groups of which all pairs are tried: the largest."""


def sample_groups(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield groups of symmetries of a machine and its demand, the largest first.

    With a root, which every symmetry keeps: the cyclic groups of the generators, each of which also
    turns the chunks.
    """
    generators = automorphisms(topology, collective)
    if not generators:
        return
    if any(r.root is not None for r in (collective.pre, collective.post)):
        yield from _root_stabilizing_groups(generators, collective)
        return
    seen = set()
    for group in semiregular_groups(generators, topology.ranks):
        size = len(group)
        if size not in seen:
            seen.add(size)
            few = small_generating_set(group)
            yield Group(f"{size} symmetries that move every rank", tuple(Symmetry(g) for g in few))


def _root_stabilizing_groups(
    generators: Sequence[Permutation], collective: Collective
) -> Iterator[Group]:
    for image in sorted(generators, key=permutation_order, reverse=True):
        order = permutation_order(image)
        if collective.class_size_divisor % order == 0:
            yield Group(f"a turn of order {order}", (Symmetry(image, 1, order),))


def semiregular_groups(
    generators: Sequence[Permutation], ranks: int
) -> list[frozenset[Permutation]]:
    """Return groups in which only the identity keeps a rank, the largest first.

    These are cyclic groups, and groups that two of them generate.
    """
    cyclic = dict.fromkeys(_cyclic_groups(generators, ranks))  # in the order in which they were met
    largest = sorted(cyclic, key=len, reverse=True)
    groups = list(largest)
    for a in largest[:_MAX_PAIRED_GROUPS]:
        for b in largest[:_MAX_PAIRED_GROUPS]:
            both = closure([*small_generating_set(a), *small_generating_set(b)], ranks)
            if both and len(both) > max(len(a), len(b)) and is_semiregular(both):
                groups.append(both)
    return sorted(groups, key=len, reverse=True)


def _cyclic_groups(
    generators: Sequence[Permutation], ranks: int
) -> Iterator[frozenset[Permutation]]:
    """Yield, of each element that a random walk meets, the largest group of its powers that is."""
    rng = random.Random(0)  # noqa: S311 - a sample, not a secret
    element = identity_permutation(ranks)
    for _ in range(_SAMPLES):
        for _ in range(rng.randint(1, _LONGEST_WALK)):
            element = compose(element, rng.choice(generators))
        lengths = {len(cycle) for cycle in permutation_cycles(element)}
        order = lcm(*lengths)
        for divisor in range(1, order):
            if order % divisor == 0 and _is_semiregular_power(lengths, divisor, order // divisor):
                yield frozenset(power(element, times) for times in range(0, order, divisor))
                break


def _is_semiregular_power(lengths: set[int], exponent: int, order: int) -> bool:
    """Return whether all powers of an element's power move every rank: its cycles are as long.

    Args:
        lengths: of the element's cycles.
        order: of the power.
    """
    return all(length // gcd(length, exponent) == order for length in lengths)
