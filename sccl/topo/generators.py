"""Topologies made from a formula: ``ring:8``, ``torus:4x4x4``, ``circulant:8:1,3`` and so on.

Every link of a generated topology goes both ways, with one lane where nothing else is said. Costs
are those of the V100's NVLink as TACCL measured them, so that tables have a time axis; give a file
to say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations, islice, pairwise, permutations

from sccl.core.topology import MAX_PAIRED, MAX_RANKS, Budget, Link, Topology, per_rank_budgets
from sccl.errors import ParameterError, unknown_name

# TACCL (NSDI 2023) Table 1 gives NVLink on NDv2 as alpha 0.7 us; NVLink 2.0's data sheet rate is
# 25 GB/s per lane and direction.
ALPHA_US = 0.7
GB_PER_S = 25.0
_MAX_PAIRS = 2**19  # a full machine of 1,024 ranks


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a generator makes.

    Attributes:
        pairs: the ranks that are joined, both ways.
        lanes: of the pairs that have more than one.
        budgets: shared budgets.
        describes: what was made; empty: what the generator says.
    """

    ranks: int
    pairs: Iterable[tuple[int, int]]
    lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    describes: str = ""


@dataclass(frozen=True, slots=True)
class Generator:
    """A family of topologies.

    Attributes:
        arguments: what comes after the colon, in words.
        example: a call that works.
    """

    name: str
    arguments: str
    example: str
    describes: str
    make: Callable[[str], Wiring]


def _size(text: str, minimum: int) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) < minimum:
        raise ValueError(f"a whole number from {minimum} to 9999999")
    return int(text)


def _sides(text: str) -> tuple[int, ...]:
    sides = text.split("x")
    if not all(re.fullmatch(r"[0-9]{1,6}", s) and int(s) >= 1 for s in sides):
        raise ValueError("sides of at least 1 such as 4x4 or 4x4x4")
    return tuple(int(s) for s in sides)


def _ring(text: str) -> Wiring:
    n = _size(text, 2)
    return _offsets(n, [1])


def _line(text: str) -> Wiring:
    n = _size(text, 2)
    return Wiring(n, pairwise(range(n)))


def _star(text: str) -> Wiring:
    n = _size(text, 2)
    return Wiring(n, ((0, other) for other in range(1, n)))


def _full(text: str) -> Wiring:
    n = _size(text, 2)
    return Wiring(n, combinations(range(n), 2))


def _grid(text: str, *, periodic: bool) -> Wiring:
    sides = _sides(text)
    total = 1
    for side in sides:
        total *= side
        if total > MAX_RANKS:
            raise ValueError(f"at most {MAX_RANKS} ranks")
    pairs: set[tuple[int, int]] = set()
    stride = total
    for side in sides:
        stride //= side
        for rank in range(total):
            at = rank // stride % side
            there = rank + stride * ((at + 1) % side - at)
            if there > rank or (periodic and side > 2 and there < rank):
                pairs.add(_sorted(rank, there))
    return Wiring(total, pairs)


def _hypercube(text: str) -> Wiring:
    d = _size(text, 1)
    if 2**d > MAX_RANKS:
        raise ValueError(f"at most {MAX_RANKS} ranks")
    flips = ((n, n ^ 1 << i) for n in range(2**d) for i in range(d) if not n >> i & 1)
    return Wiring(2**d, flips)


def _circulant(text: str) -> Wiring:
    size, _, offsets = text.partition(":")
    n = _size(size, 2)
    if not re.fullmatch(r"[0-9]{1,6}(,[0-9]{1,6})*", offsets):
        raise ValueError("a size, a colon and offsets such as 8:1,3")
    jumps = [int(o) for o in offsets.split(",")]
    if any(not 0 < jump < n for jump in jumps):
        raise ValueError(f"offsets from 1 to {n - 1}")
    return _offsets(n, jumps)


def _offsets(n: int, jumps: Iterable[int]) -> Wiring:
    """Return the machine in which each rank is joined to those so far on, around."""
    return Wiring(n, (_sorted(rank, (rank + jump) % n) for jump in jumps for rank in range(n)))


def _sorted(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _switch(text: str) -> Wiring:
    """Lanes of every rank into and out of a switch: links with a shared budget per rank."""
    size, sign, wide = text.partition("x")
    if sign and not re.fullmatch(r"[1-9][0-9]{0,3}", wide):
        raise ValueError("ranks, then (optionally) lanes of each to the switch, such as 8x18")
    n, lanes = _size(size, 2), int(wide or "1")
    if n > MAX_PAIRED:
        raise ValueError(f"at most {MAX_PAIRED} ranks")
    pairs = list(combinations(range(n), 2))
    budgets = per_rank_budgets(permutations(range(n), 2), lanes, lanes)
    describes = f"{'one lane' if lanes == 1 else f'{lanes} lanes'} of each rank to a switch"
    return Wiring(n, pairs, dict.fromkeys(pairs, lanes), tuple(budgets), describes)


def _dragonfly(text: str) -> Wiring:
    """Groups of ``a`` joined ranks; each pair of groups is joined by one link between two ranks.

    Group i's links to the groups i+1, i+2, ... start at its ranks 0, 1, ... in turn, so that with
    a + 1 groups each rank has exactly one (Kim et al., ISCA 2008, with one global link per router).
    """
    size, _, widths = text.partition(":")
    sides = _sides(size)
    lanes = [int(w) for w in (widths or "1,1").split(",") if re.fullmatch(r"[1-9][0-9]{0,3}", w)]
    if len(sides) != 2 or len(lanes) != 2 or sides[1] < 2:
        raise ValueError(
            "ranks per group x groups, then (optionally) lanes within and between groups, such as "
            "4x5:2,1"
        )
    members, groups = sides
    if members * groups > MAX_PAIRED:
        raise ValueError(f"at most {MAX_PAIRED} ranks")
    width: dict[tuple[int, int], int] = {}
    for group in range(groups):
        ranks = range(group * members, (group + 1) * members)
        width |= dict.fromkeys(combinations(ranks, 2), lanes[0])
        for other in range(group + 1, groups):
            here = (other - group - 1) % members
            there = (group - other - 1) % groups % members
            width[group * members + here, other * members + there] = lanes[1]
    return Wiring(members * groups, width, lanes=width)


_GENERATORS = (
    Generator("ring", "RANKS", "ring:8", "a cycle", _ring),
    Generator("line", "RANKS", "line:4", "a path", _line),
    Generator("star", "RANKS", "star:5", "rank 0 joined to all others", _star),
    Generator("full", "RANKS", "full:4", "every pair joined", _full),
    Generator("mesh", "AxB..", "mesh:3x3", "a grid", lambda t: _grid(t, periodic=False)),
    Generator(
        "torus", "AxB..", "torus:4x4x4", "a grid that wraps", lambda t: _grid(t, periodic=True)
    ),
    Generator("hypercube", "DIMENSIONS", "hypercube:4", "2^d ranks, bits flip", _hypercube),
    Generator(
        "circulant", "RANKS:OFFSETS", "circulant:8:1,3", "n joined to n +- offset", _circulant
    ),
    Generator("switch", "RANKS[xLANES]", "switch:8x18", "lanes of each rank to a switch", _switch),
    Generator(
        "dragonfly", "RANKSxGROUPS", "dragonfly:4x5", "full groups, one link a pair", _dragonfly
    ),
)


def generators() -> tuple[Generator, ...]:
    """Return every family of generated topologies."""
    return _GENERATORS


def generated(text: str) -> Topology:
    """Return the topology of ``name:arguments``.

    Raises:
        UnknownNameError: there is no generator of that name.
        ParameterError: its arguments are not what it takes.
    """
    name, _, arguments = text.partition(":")
    by_name = {g.name: g for g in _GENERATORS}
    if name not in by_name:
        hint = f"the generators are {', '.join(g.example for g in _GENERATORS)}"
        raise unknown_name("topology generator", name, by_name, hint)
    generator = by_name[name]
    try:
        wiring = generator.make(arguments)
    except ValueError as error:
        raise ParameterError(
            f"topology {text!r}: {name} expects {error}, as in {generator.example!r}"
        ) from error
    if not 2 <= wiring.ranks <= MAX_RANKS:
        raise ParameterError(
            f"topology {text!r} has {wiring.ranks} ranks, expected 2 to {MAX_RANKS}"
        )
    pairs = list(islice(wiring.pairs, _MAX_PAIRS + 1))
    if len(pairs) > _MAX_PAIRS:
        raise ParameterError(
            f"topology {text!r}, of {wiring.ranks} ranks, has more than {_MAX_PAIRS} joined pairs, "
            "which this version does not build: give fewer ranks"
        )
    lanes = {edge: wiring.lanes.get((a, b), 1) for a, b in pairs for edge in ((a, b), (b, a))}
    return Topology(
        name=text,
        ranks=wiring.ranks,
        links=tuple(Link(a, b, lanes[a, b], ALPHA_US, GB_PER_S) for a, b in sorted(lanes)),
        budgets=wiring.budgets,
        alpha_us=ALPHA_US,
        gb_per_s=GB_PER_S,
        source=(
            f"generated: {wiring.describes or generator.describes}; alpha from TACCL (NSDI 2023) "
            "Table 1, NVLink on NDv2; GB/s of one NVLink 2.0 lane"
        ),
    )
