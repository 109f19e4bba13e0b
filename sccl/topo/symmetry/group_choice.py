"""Choose groups of symmetries for synthesis: known by construction, sampled, or given.

A larger group means a smaller search but also fewer symmetric algorithms. If no algorithm has the
symmetries of a group, nothing is proved, so several groups are tried, the largest first. The best
groups act freely on chunks: then the tree of the representative chunk is unrestricted. A rotation
about a rank acts freely if it also rotates the chunks of that rank (chunk j to chunk j+1).

For generated machines, :mod:`~sccl.topo.symmetry.automorphisms` constructs the groups. For other
machines, :mod:`~sccl.topo.symmetry.regular_groups` finds translations from the links, and
semiregular subgroups of the full automorphism group (by BLISS) are sampled. The full group itself
is rarely useful, because most of its elements fix some ranks. The sampling is a random walk over
products of its generators. Each visited element contributes the largest cyclic group of its powers
that moves every rank. Pairs of these groups contribute the groups that they generate. A missed
group costs time but never correctness. The walk has a fixed seed, so that the same machine has the
same groups.

A user may also provide a group in a file, as permutations or as offsets of TACCL's sketches.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm
from pathlib import Path

from sccl.core.collective import Collective
from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import SymmetryWire
from sccl.core.symmetric import Group, Symmetry
from sccl.core.topology import Topology
from sccl.errors import FormatError, ParameterError
from sccl.topo.symmetry.automorphisms import automorphisms, check_symmetry, generator_groups
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

MAX_BLISS_LINKS = 50_000
"""Maximum number of links for BLISS. Beyond, it takes longer than the symmetries save."""

_SAMPLED_RANKS = 64
"""Maximum number of ranks for sampling if translations are known. Beyond, it takes seconds."""

_SAMPLES = 200
_LONGEST_WALK = 4
_MAX_PAIRED_GROUPS = 12
"""Number of largest cyclic groups of which all pairs are tried."""


def candidate_groups(topology: Topology, collective: Collective, choice: str) -> tuple[Group, ...]:
    """Return the groups to try, the largest first.

    Args:
        collective: Non-combining collective with a fixed number of chunks.
        choice: ``auto``, ``none``, ``translations``, or the path of a .json file, whose group is
            omitted if C is no multiple of its period.

    Raises:
        ParameterError: The choice is unknown, or the file's symmetries do not preserve the machine
            or the demand.
        FormatError: The file is not a file of symmetries.
    """
    if choice == "none":
        return ()
    if choice.endswith(".json"):
        file_group = load_group(Path(choice), topology, collective)
        return (file_group,) if file_group.fits(collective) else ()
    if choice not in {"auto", "translations"}:
        raise ParameterError(
            f"symmetry is {choice!r}, expected auto, none, translations or a .json file"
        )
    candidates = tuple(generator_groups(topology, collective))
    if not candidates:
        candidates = _recognized_translations(topology, collective)
        if not candidates or topology.ranks <= _SAMPLED_RANKS:
            candidates += tuple(sample_groups(topology, collective))
    if choice == "translations":
        return tuple(group for group in candidates if not group.shifts_chunks())
    return candidates


@lru_cache(maxsize=4)
def orbit_symmetries(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return symmetries of a machine and its demand, for computing orbits.

    These are translations if they are known or recognized, else all symmetries by BLISS. Machines
    of more than :data:`MAX_BLISS_LINKS` links without translations have none here.
    """
    if candidates := translation_groups(topology, collective):
        return tuple(symmetry.ranks for symmetry in candidates[0].generators)
    if len(topology.links) > MAX_BLISS_LINKS:
        return ()
    return automorphisms(topology, collective)


def translation_groups(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return the group of known or recognized translations of a machine, at most one group."""
    candidates = (g for g in generator_groups(topology, collective) if not g.shifts_chunks())
    return tuple(candidates)[:1] or _recognized_translations(topology, collective)


def _recognized_translations(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return the translations of a machine, if it has some and they preserve the demand."""
    from sccl.topo.symmetry.regular_groups import find_translations  # noqa: PLC0415 - NumPy is slow

    rooted = any(r.root is not None for r in (collective.pre, collective.post))
    images = () if rooted else find_translations(topology)
    try:
        for image in images:
            check_symmetry(topology, collective, image)
    except ParameterError:  # its budgets or a user-defined demand distinguish ranks
        return ()
    return (Group("translations", tuple(Symmetry(image) for image in images)),) if images else ()


def load_group(path: Path, topology: Topology, collective: Collective) -> Group:
    """Load a group from a file and check that it preserves the machine and the demand.

    Raises:
        ParameterError: It does not.
        FormatError: The file is not a file of symmetries, or is for another number of ranks.
    """
    wire = parse(read_text(path), SymmetryWire, str(path))
    group = []
    for i, generator in enumerate(wire.generators):
        if len(generator.ranks) != topology.ranks:
            raise FormatError(
                f"{path}, $.generators[{i}].ranks has {len(generator.ranks)} images, expected one "
                f"for each of {topology.ranks} ranks"
            )
        group.append(Symmetry(generator.ranks, generator.turn % generator.period, generator.period))
    for i, (offset, size) in enumerate(wire.offsets):
        if not 1 <= size <= topology.ranks or topology.ranks % size:
            raise FormatError(
                f"{path}, $.offsets[{i}]: the size {size} does not divide {topology.ranks} ranks"
            )
        ranks = range(topology.ranks)
        group.append(Symmetry(tuple((r % size + offset) % size + r // size * size for r in ranks)))
    for symmetry in group:
        check_symmetry(topology, collective, symmetry.ranks)
    if not group:
        raise FormatError(f"{path}: no symmetry is given, expected 'generators' or 'offsets'")
    return Group(path.name, tuple(group))


def sample_groups(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield groups of symmetries of a machine and its demand, the largest first.

    Every symmetry of a rooted collective fixes the root. Its groups are the cyclic groups of the
    generators, each combined with a rotation of the chunks.
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
    """Return semiregular subgroups (only the identity fixes a rank), the largest first.

    These are cyclic groups, and groups generated by two of them.
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
    """Yield the largest semiregular group of powers of each element on a random walk."""
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
    """Return whether the power of an element generates a semiregular group: its cycles are equal.

    Args:
        lengths: Lengths of the element's cycles.
        exponent: Exponent of the power.
        order: Order of the power.
    """
    return all(length // gcd(length, exponent) == order for length in lengths)
