"""Groups of symmetries to synthesise under: known, found, or given.

The larger the group, the smaller the search, and the fewer the algorithms that are left: a group
that leaves none is no proof of anything, so several are offered, the largest first. Best are groups
that act freely on chunks: then one chunk's tree can be any tree. A rotation about a rank does so if
it also turns the chunks of that rank (chunk j to chunk j+1).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, lcm
from pathlib import Path

from sccl.core.collective import Collective
from sccl.core.files.disk import read_text
from sccl.core.files.shapes import SymmetryWire
from sccl.core.files.text import parse
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology
from sccl.errors import FormatError, ParameterError
from sccl.topo.symmetry.automorphisms import Permutation, automorphisms, check_symmetry

_SAMPLES = 200
_KNOWN = re.compile(r"(torus|hypercube|ring|circulant|full|switch):(.*)")


@dataclass(frozen=True, slots=True)
class Group:
    """Generators of a group of symmetries.

    Attributes:
        name: for people: ``"translations and turns of order 4"``.
    """

    name: str
    generators: tuple[Symmetry, ...]


def groups(topology: Topology, collective: Collective, choice: str) -> tuple[Group, ...]:
    """Return the groups to try, the largest first.

    Args:
        collective: non-combining, with its chunks.
        choice: ``auto``, ``none``, ``translations``, or the path of a .json file, which is not
            offered where C is no multiple of its period.

    Raises:
        ParameterError: there is no such choice, or the file's symmetries do not preserve the
            machine or the demand.
        FormatError: the file is none of symmetries.
    """
    if choice == "none":
        return ()
    if choice.endswith(".json"):
        given = _from_file(Path(choice), topology, collective)
        fits = all(_fits(symmetry, collective) for symmetry in given.generators)
        return (given,) if fits else ()
    if choice not in {"auto", "translations"}:
        raise ParameterError(
            f"symmetry is {choice!r}, expected auto, none, translations or a .json file"
        )
    known = list(_known(topology, collective)) or list(_found(topology, collective))
    if choice == "translations":
        known = [g for g in known if all(s.turn == 0 for s in g.generators)]
    return tuple(known)


# --- known by construction -----------------------------------------------------------------------


def _known(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield the groups of a generated topology, if it is what its name says."""
    sides = _sides(topology)
    if not sides:
        return
    root = next((r.root for r in (collective.pre, collective.post) if r.root is not None), None)
    shifts = [] if root is not None else [_translation(sides, d) for d in range(len(sides))]
    chunks = gcd(*(len(c) for c in collective.classes().values()))
    turn, order = _turn(sides, root or 0)
    try:
        for image in (*shifts, turn):
            check_symmetry(topology, collective, image)
    except ParameterError:  # another machine of that name
        return
    translations = tuple(Symmetry(s) for s in shifts if s != tuple(range(topology.ranks)))
    for period in range(order, 1, -1):
        if order % period == 0 and chunks % period == 0:
            generator = Symmetry(_power(turn, order // period), 1, period)
            name = f"turns of order {period}"
            name = f"translations and {name}" if translations else f"{name} about rank {root}"
            yield Group(name, (*translations, generator))
    if translations:
        yield Group("translations", translations)


def _sides(topology: Topology) -> tuple[int, ...]:
    """Return the sides of the torus whose translations a generated topology has."""
    match = _KNOWN.fullmatch(topology.name)
    if not match:
        return ()
    kind, arguments = match.groups()
    if not re.fullmatch(r"[0-9]{1,5}(x[0-9]{1,5}){0,15}(:[0-9,]+)?", arguments):
        return ()
    numbers = [int(n) for n in arguments.partition(":")[0].split("x")]
    sides = tuple([2] * min(numbers[0], 32) if kind == "hypercube" else numbers)
    size = 1
    for side in sides:
        size *= side
    return sides if size == topology.ranks else ()


def _places(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(side) for side in sides)))


def _translation(sides: tuple[int, ...], dimension: int) -> Permutation:
    places = _places(sides)
    number = {place: i for i, place in enumerate(places)}
    side = sides[dimension]

    def moved(place: tuple[int, ...]) -> tuple[int, ...]:
        return (*place[:dimension], (place[dimension] + 1) % side, *place[dimension + 1 :])

    return tuple(number[moved(place)] for place in places)


def _turn(sides: tuple[int, ...], centre: int) -> tuple[Permutation, int]:
    """Return a rotation about a rank that moves every direction, and its order.

    Among sides of the same length, each direction becomes the next and the last the reverse of the
    first: (x, y) -> (-y, x) on a square. It permutes the 2d directions of a cube cyclically.
    """
    places = _places(sides)
    number = {place: i for i, place in enumerate(places)}
    middle = places[centre]
    blocks: dict[int, list[int]] = {}
    for d, side in enumerate(sides):
        blocks.setdefault(side, []).append(d)

    def moved(place: tuple[int, ...]) -> tuple[int, ...]:
        there = list(place)
        for side, block in blocks.items():
            offsets = [(place[d] - middle[d]) % side for d in block]
            turned = [-offsets[-1], *offsets[:-1]]
            for d, offset in zip(block, turned, strict=True):
                there[d] = (middle[d] + offset) % side
        return tuple(there)

    image = tuple(number[moved(place)] for place in places)
    return image, _order(image)


# --- found ---------------------------------------------------------------------------------------


def _found(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield groups made of the automorphisms that were found."""
    generators = automorphisms(topology, collective)
    if not generators:
        return
    if any(r.root is not None for r in (collective.pre, collective.post)):
        chunks = gcd(*(len(c) for c in collective.classes().values()))
        for image in sorted(generators, key=_order, reverse=True):
            order = _order(image)
            if chunks % order == 0:
                yield Group(f"a turn of order {order}", (Symmetry(image, 1, order),))
        return
    seen = set()
    for group in _semiregular(generators, topology.ranks):
        size = len(group)
        if size not in seen:
            seen.add(size)
            few = _generators(group)
            yield Group(f"{size} symmetries that move every rank", tuple(Symmetry(g) for g in few))


def _semiregular(generators: tuple[Permutation, ...], ranks: int) -> list[frozenset[Permutation]]:
    """Return groups in which only the identity keeps any rank, the largest first.

    Random elements of the whole group (from a fixed seed), their powers, and what two of them make.
    """
    rng = random.Random(0)  # noqa: S311 - a sample, not a secret
    element = tuple(range(ranks))
    cyclic: dict[frozenset[Permutation], None] = {}
    for _ in range(_SAMPLES):
        for _ in range(rng.randint(1, 4)):
            generator = rng.choice(generators)
            element = tuple(generator[r] for r in element)
        order = _order(element)
        for divisor in range(1, order):
            if order % divisor == 0:
                power = _power(element, divisor)
                made = _closure([power], ranks)
                if made and _is_free(made):
                    cyclic[made] = None
                    break
    largest = sorted(cyclic, key=len, reverse=True)
    found = list(largest)
    for a in largest[:12]:
        for b in largest[:12]:
            both = _closure([*_generators(a), *_generators(b)], ranks)
            if both and len(both) > max(len(a), len(b)) and _is_free(both):
                found.append(both)
    return sorted(found, key=len, reverse=True)


def _is_free(group: Iterable[Permutation]) -> bool:
    return all(
        all(image[r] != r for r in range(len(image)))
        for image in group
        if image != tuple(range(len(image)))
    )


def _closure(generators: list[Permutation], ranks: int) -> frozenset[Permutation] | None:
    """Return the group of some permutations; None if it has more elements than there are ranks."""
    identity = tuple(range(ranks))
    seen = {identity}
    for element in (queue := [identity]):
        for generator in generators:
            image = tuple(generator[r] for r in element)
            if image not in seen:
                seen.add(image)
                queue.append(image)
        if len(seen) > ranks:
            return None
    return frozenset(seen)


def _generators(group: frozenset[Permutation]) -> list[Permutation]:
    """Return few elements that make the whole group."""
    ranks = len(next(iter(group)))
    chosen: list[Permutation] = []
    made = frozenset([tuple(range(ranks))])
    for element in sorted(group, key=lambda g: (-_order(g), g)):
        if element not in made:
            chosen.append(element)
            made = _closure(chosen, ranks) or made
    return chosen


def _order(image: Permutation) -> int:
    seen: set[int] = set()
    order = 1
    for start in range(len(image)):
        length, at = 0, start
        while at not in seen:
            seen.add(at)
            at, length = image[at], length + 1
        order = lcm(order, length or 1)
    return order


def _power(image: Permutation, exponent: int) -> Permutation:
    result = tuple(range(len(image)))
    for _ in range(exponent):
        result = tuple(image[r] for r in result)
    return result


# --- given ---------------------------------------------------------------------------------------


def _fits(symmetry: Symmetry, collective: Collective) -> bool:
    """Return whether the chunks of a class can be turned in blocks of the symmetry's period."""
    return all(len(chunks) % symmetry.period == 0 for chunks in collective.classes().values())


def _from_file(path: Path, topology: Topology, collective: Collective) -> Group:
    wire = parse(read_text(path), SymmetryWire, str(path))
    found = []
    for i, generator in enumerate(wire.generators):
        if len(generator.ranks) != topology.ranks:
            raise FormatError(
                f"{path}, $.generators[{i}].ranks has {len(generator.ranks)} images, expected one "
                f"for each of {topology.ranks} ranks"
            )
        found.append(Symmetry(generator.ranks, generator.turn % generator.period, generator.period))
    for i, (offset, size) in enumerate(wire.offsets):
        if not 1 <= size <= topology.ranks or topology.ranks % size:
            raise FormatError(
                f"{path}, $.offsets[{i}]: the size {size} does not divide {topology.ranks} ranks"
            )
        ranks = range(topology.ranks)
        found.append(Symmetry(tuple((r % size + offset) % size + r // size * size for r in ranks)))
    for symmetry in found:
        check_symmetry(topology, collective, symmetry.ranks)
    if not found:
        raise FormatError(f"{path}: no symmetry is given, expected 'generators' or 'offsets'")
    return Group(path.name, tuple(found))
