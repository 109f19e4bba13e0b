"""Define the wiring of generated topologies: pairs of joined nodes, and costs of links.

Names may have costs: ``torus:4x4x4@50,25,12.5GB+0.5,0.5,1us``. The ``@`` is followed by the
bandwidth of one lane in GB (10^9 bytes per second), the latency of a link in us, or both with a
plus between them. Each is one number for all links, or one number per dimension, in the order of
the dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from sccl.core.topology import MAX_RANKS, Budget

# TACCL (NSDI 2023) Table 1 gives NVLink on NDv2 as alpha 0.7 us; NVLink 2.0's data sheet rate is
# 25 GB/s per lane and direction.
ALPHA_US = 0.7
GB_PER_S = 25.0
NVLINK_COSTS = "alpha from TACCL (NSDI 2023) Table 1, NVLink on NDv2; GB/s of one NVLink 2.0 lane"

WiredPair = tuple[int, int, int]
"""Two nodes that are joined both ways, and the dimension of their links, from 0."""


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
    """Assign pairs to the first dimension."""
    return ((a, b, 0) for a, b in pairs)


def parse_count(text: str, minimum: int) -> int:
    """Parse a count, for example of ranks or switches.

    Raises:
        ValueError: It is no count, or below the minimum.
    """
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) < minimum:
        raise ValueError(f"a whole number from {minimum} to 9999999")
    return int(text)


def parse_sides(text: str) -> tuple[int, ...]:
    """Parse the sides of ``4x4x4``.

    Raises:
        ValueError: The text is not a list of sides.
    """
    sides = text.split("x")
    if not all(re.fullmatch(r"[0-9]{1,6}", s) and int(s) >= 1 for s in sides):
        raise ValueError("sides of at least 1 such as 4x4 or 4x4x4")
    return tuple(int(s) for s in sides)


def check_ranks(sides: Iterable[int], max_ranks: int = MAX_RANKS) -> int:
    """Return the number of ranks of a grid with these sides.

    Raises:
        ValueError: There are too many.
    """
    ranks = prod(sides)
    if ranks > max_ranks:
        raise ValueError(f"at most {max_ranks} ranks")
    return ranks


COST_EXAMPLE = "@50GB+0.5us"

_PART = re.compile(r"([^A-Za-z]*)([A-Za-z].*)?", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_UNITS = ("GB", "us")


def apply_costs(dimensions: Sequence[Dimension], text: str) -> tuple[Dimension, ...]:
    """Return dimensions with the given costs. Other costs stay unchanged.

    Args:
        text: Costs without the ``@``.

    Raises:
        ValueError: The form is wrong, or the count of numbers is neither one nor that of the
            dimensions.
    """
    updated = tuple(dimensions)
    seen: set[str] = set()
    for part in text.split("+"):
        numbers, unit = _split_unit(part)
        if unit in seen:
            raise ValueError(f"{unit} once after '@'")
        seen.add(unit)
        values = _parse_values(numbers, unit, dimensions)
        each = zip(updated, values, strict=True)
        if unit == "GB":
            updated = tuple(replace(d, gb_per_s=value) for d, value in each)
        else:
            updated = tuple(replace(d, alpha_us=value) for d, value in each)
    return updated


def _split_unit(part: str) -> tuple[str, str]:
    match = _PART.fullmatch(part)
    numbers, unit = (match[1], match[2]) if match else (part, None)
    if unit not in _UNITS:
        detail = f"not {unit!r}" if unit else "and there is none"
        raise ValueError(
            f"numbers in GB (10^9 bytes per second) or us (microseconds) after '@', {detail}"
        )
    return numbers, unit


def _parse_values(numbers: str, unit: str, dimensions: Sequence[Dimension]) -> list[float]:
    """Return one number for each dimension.

    Raises:
        ValueError: the count of numbers, or a number, does not fit.
    """
    texts = numbers.split(",")
    for text in texts:
        if not _NUMBER.fullmatch(text) or (unit == "GB" and float(text) == 0):
            limits = "above 0" if unit == "GB" else "of 0 or more"
            raise ValueError(
                f"plain numbers {limits}, of up to 9 digits before and after the point, for {unit} "
                f"after '@', not {text!r}"
            )
    if len(texts) not in {1, len(dimensions)}:
        names = ", ".join([d.name for d in dimensions[:6]] + ["..."] * (len(dimensions) > 6))
        each = f", or {len(dimensions)} ({names})" if len(dimensions) > 1 else ""
        raise ValueError(f"one number in {unit} after '@'{each}, not {len(texts)}")
    values = [float(text) for text in texts]
    return values * (len(dimensions) if len(values) == 1 else 1)
