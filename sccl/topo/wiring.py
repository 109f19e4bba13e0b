"""What generators of topologies make: nodes that are joined, and what the links cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from sccl.core.topology import MAX_RANKS, Budget

# TACCL (NSDI 2023) Table 1 gives NVLink on NDv2 as alpha 0.7 us; NVLink 2.0's data sheet rate is
# 25 GB/s per lane and direction.
ALPHA_US = 0.7
GB_PER_S = 25.0
NVLINK = "alpha from TACCL (NSDI 2023) Table 1, NVLink on NDv2; GB/s of one NVLink 2.0 lane"

Pair = tuple[int, int, int]
"""Two nodes that are joined both ways, and of which dimension their links are, from 0."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """Links that cost the same.

    Attributes:
        name: in words: what may have a speed of its own.
        lanes: of each link.
        alpha_us: latency of each link, microseconds.
        gb_per_s: bandwidth of one lane, 10^9 bytes per second.
    """

    name: str
    lanes: int = 1
    alpha_us: float = ALPHA_US
    gb_per_s: float = GB_PER_S


LINKS = (Dimension("links"),)
"""Of machines whose links all cost the same."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a generator makes.

    Attributes:
        pairs: the nodes that are joined. Ranks come first, switches after them.
        one_way: those that are joined from the first to the second alone.
        switches: names of switches, which forward and hold nothing.
        chassis: ranks that share an enclosure.
        budgets: shared budgets.
        describes: what was made. Empty: what the generator says.
        costs: where the costs come from, in words.
    """

    ranks: int
    pairs: Iterable[Pair]
    dimensions: tuple[Dimension, ...] = LINKS
    switches: tuple[str, ...] = ()
    chassis: tuple[tuple[int, ...], ...] = ()
    budgets: tuple[Budget, ...] = ()
    describes: str = ""
    costs: str = NVLINK
    one_way: tuple[Pair, ...] = ()


def alike(pairs: Iterable[tuple[int, int]]) -> Iterator[Pair]:
    """Yield pairs as all of the first dimension."""
    return ((a, b, 0) for a, b in pairs)


def number_of(text: str, minimum: int) -> int:
    """Return a number of ranks, or of another thing that a machine has many of.

    Raises:
        ValueError: it is none, or below the minimum.
    """
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) < minimum:
        raise ValueError(f"a whole number from {minimum} to 9999999")
    return int(text)


def sides_of(text: str) -> tuple[int, ...]:
    """Return the sides of ``4x4x4``.

    Raises:
        ValueError: they are none, or make too many ranks.
    """
    sides = text.split("x")
    if not all(re.fullmatch(r"[0-9]{1,6}", s) and int(s) >= 1 for s in sides):
        raise ValueError("sides of at least 1 such as 4x4 or 4x4x4")
    return tuple(int(s) for s in sides)


def check_ranks(sides: Iterable[int], most: int = MAX_RANKS) -> int:
    """Return how many ranks sides make.

    Raises:
        ValueError: they are too many.
    """
    ranks = prod(sides)
    if ranks > most:
        raise ValueError(f"at most {most} ranks")
    return ranks
