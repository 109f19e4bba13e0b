"""Symmetries of generated machines, known by construction: translations of a torus, and turns.

A ring, a circulant, a full machine and a switch are tori of one dimension, a hypercube is one whose
sides are 2. Their translations, as those of Cayley graphs, move every rank. With a turn about a
rank, which permutes the directions cyclically, they also move the chunks of that rank (the j-th
becomes the j+1-th). All of it is checked on the machine, whose name may lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import prod

from sccl.core.collective import Collective
from sccl.core.symmetric import Group, Symmetry
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo.symmetry.automorphisms import check_symmetry
from sccl.topo.symmetry.permutations import (
    Permutation,
    identity_permutation,
    permutation_order,
    power,
)

_CAYLEY_NAME = re.compile(r"cayley:([0-9]{1,5})x([0-9]{1,5})(?:\^([0-9]{1,5}))?:")
_TORUS_NAME = re.compile(r"(torus|hypercube|ring|circulant|full|switch):(.*)")


def generator_groups(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield the groups of a generated topology, the largest first. None if it is another."""
    if topology.name.startswith("cayley:"):
        yield from _cayley_translations(topology, collective)
        return
    sides = _torus_sides(topology)
    if not sides:
        return
    root = next((r.root for r in (collective.pre, collective.post) if r.root is not None), None)
    shifts = [] if root is not None else [_translation(sides, d) for d in range(len(sides))]
    turn = _rotation(sides, root or 0)
    try:
        for image in (*shifts, turn):
            check_symmetry(topology, collective, image)
    except ParameterError:  # another machine of that name
        return
    translations = tuple(Symmetry(s) for s in shifts if s != identity_permutation(topology.ranks))
    order = permutation_order(turn)
    for period in range(order, 1, -1):
        if order % period == 0 and collective.class_size_divisor % period == 0:
            generator = Symmetry(power(turn, order // period), 1, period)
            name = f"turns of order {period}"
            name = f"translations and {name}" if translations else f"{name} about rank {root}"
            yield Group(name, (*translations, generator))
    if translations:
        yield Group("translations", translations)


def _cayley_translations(topology: Topology, collective: Collective) -> Iterator[Group]:
    """Yield the left multiplications of a Cayley graph that keep a collective.

    The group of ``MxK^R`` has elements (i, j), and (i, j)(k, l) is (i + R^j k, j + l).
    """
    match = _CAYLEY_NAME.match(topology.name)
    if not match or int(match[1]) * int(match[2]) != topology.ranks:
        return
    m, k, turn = int(match[1]), int(match[2]), int(match[3] or "1")
    elements = _coordinates((m, k))
    moves = (
        tuple((i + 1) % m * k + j for i, j in elements),
        tuple(turn * i % m * k + (j + 1) % k for i, j in elements),
    )
    try:
        for image in moves:
            check_symmetry(topology, collective, image)
    except ParameterError:  # another machine of that name, or a collective with a root
        return
    still = identity_permutation(topology.ranks)
    yield Group("translations", tuple(Symmetry(move) for move in moves if move != still))


def _torus_sides(topology: Topology) -> tuple[int, ...]:
    """Return the sides of the torus whose translations a generated topology has."""
    match = _TORUS_NAME.fullmatch(topology.name)
    if not match:
        return ()
    kind, arguments = match[1], match[2].partition("@")[0]
    if not re.fullmatch(r"[0-9]{1,5}(x[0-9]{1,5}){0,15}(:[0-9,]+)?", arguments):
        return ()
    numbers = [int(n) for n in arguments.partition(":")[0].split("x")]
    sides = tuple([2] * min(numbers[0], 32) if kind == "hypercube" else numbers)
    return sides if prod(sides) == topology.ranks else ()


def _coordinates(sides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(side) for side in sides)))


def _translation(sides: tuple[int, ...], dimension: int) -> Permutation:
    places = _coordinates(sides)
    number = {place: i for i, place in enumerate(places)}
    side = sides[dimension]

    def moved(place: tuple[int, ...]) -> tuple[int, ...]:
        return (*place[:dimension], (place[dimension] + 1) % side, *place[dimension + 1 :])

    return tuple(number[moved(place)] for place in places)


def _rotation(sides: tuple[int, ...], centre: int) -> Permutation:
    """Return a rotation about a rank that moves every direction.

    Among sides of the same length, each direction becomes the next and the last the reverse of the
    first: (x, y) -> (-y, x) on a square. It permutes the 2d directions of a cube cyclically.
    """
    places = _coordinates(sides)
    number = {place: i for i, place in enumerate(places)}
    middle = places[centre]
    blocks: dict[int, list[int]] = {}
    for d, side in enumerate(sides):
        blocks.setdefault(side, []).append(d)

    def moved(place: tuple[int, ...]) -> tuple[int, ...]:
        target = list(place)
        for side, block in blocks.items():
            offsets = [(place[d] - middle[d]) % side for d in block]
            turned = [-offsets[-1], *offsets[:-1]]
            for d, offset in zip(block, turned, strict=True):
                target[d] = (middle[d] + offset) % side
        return tuple(target)

    return tuple(number[moved(place)] for place in places)
