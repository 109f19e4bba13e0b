"""The result type of topology generators: pairs of joined nodes, and link costs."""

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
NVLINK_COSTS = "alpha from TACCL (NSDI 2023) Table 1, NVLink on NDv2; GB/s of one NVLink 2.0 lane"

WiredPair = tuple[int, int, int]
"""Two nodes that are joined both ways, and of which dimension their links are, from 0."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """Links with the same cost.

    Attributes:
        name: description of the links, whose cost can be set separately.
        lanes: lanes of each link.
        alpha_us: latency of each link, microseconds.
        gb_per_s: bandwidth of one lane, 10^9 bytes per second.
    """

    name: str
    lanes: int = 1
    alpha_us: float = ALPHA_US
    gb_per_s: float = GB_PER_S


UNIFORM_LINKS = (Dimension("links"),)
"""The dimension of machines whose links all cost the same."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The result of a generator.

    Attributes:
        pairs: joined nodes. Ranks have the first numbers, then switches.
        one_way: pairs joined only from the first to the second.
        switches: names of switches, which forward and store nothing.
        chassis: ranks that share an enclosure.
        budgets: shared budgets.
        description: description of the result. Empty: that of the generator.
        costs: source of the costs, as text.
    """

    ranks: int
    pairs: Iterable[WiredPair]
    dimensions: tuple[Dimension, ...] = UNIFORM_LINKS
    switches: tuple[str, ...] = ()
    chassis: tuple[tuple[int, ...], ...] = ()
    budgets: tuple[Budget, ...] = ()
    description: str = ""
    costs: str = NVLINK_COSTS
    one_way: tuple[WiredPair, ...] = ()


def single_dimension(pairs: Iterable[tuple[int, int]]) -> Iterator[WiredPair]:
    """Yield pairs as all of the first dimension."""
    return ((a, b, 0) for a, b in pairs)


def parse_count(text: str, minimum: int) -> int:
    """Return a number of ranks, or of another thing that a machine has many of.

    Raises:
        ValueError: it is none, or below the minimum.
    """
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) < minimum:
        raise ValueError(f"a whole number from {minimum} to 9999999")
    return int(text)


def parse_sides(text: str) -> tuple[int, ...]:
    """Return the sides of ``4x4x4``.

    Raises:
        ValueError: they are none, or make too many ranks.
    """
    sides = text.split("x")
    if not all(re.fullmatch(r"[0-9]{1,6}", s) and int(s) >= 1 for s in sides):
        raise ValueError("sides of at least 1 such as 4x4 or 4x4x4")
    return tuple(int(s) for s in sides)


def check_ranks(sides: Iterable[int], max_ranks: int = MAX_RANKS) -> int:
    """Return how many ranks sides make.

    Raises:
        ValueError: they are too many.
    """
    ranks = prod(sides)
    if ranks > max_ranks:
        raise ValueError(f"at most {max_ranks} ranks")
    return ranks
