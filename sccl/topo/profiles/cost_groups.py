"""Give links with similar costs one shared cost, so that the machine is as symmetric as possible.

No two links have equal measured costs. If the intervals of several links have a point in common,
the measurements cannot distinguish the links: they get one cost from the common part of the
intervals, with few digits.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sccl.core.ids import Edge
from sccl.topo.profiles.fit import CostInterval, LinkFit

SAME_COST_TOLERANCE = 0.1
"""Relative difference up to which costs count as equal, however narrow the intervals are: intervals
state the uncertainty of a fit, not the variation of measurements from day to day.
"""

_ROUNDING_TOLERANCE = 0.025
"""How far a number with fewer digits may be off, in proportion: lanes of 22 and 9.4 GB/s have a
common divisor that synthesis by steps can work with, those of 21.73 and 9.412 hardly."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class SharedCost:
    """The shared cost of some links.

    Attributes:
        edges: the links, ascending.
        gb_per_s: bandwidth of a link with all its lanes, 10^9 bytes per second.
    """

    edges: tuple[Edge, ...]
    alpha_us: float
    gb_per_s: float


def shared_costs(
    fits: Sequence[LinkFit], alike: float = SAME_COST_TOLERANCE
) -> tuple[SharedCost, ...]:
    """Return the costs of links in groups of similar ones, the fastest first.

    Links of one rate may differ in latency, and then do not share a cost.

    Args:
        alike: how far intervals reach at least, in proportion, 0 or more.
    """
    costs = []
    for by_rate in _group_fits(fits, lambda fit: fit.gb_per_s.widen(alike)):
        rate = _common_value([fit.gb_per_s.widen(alike) for fit in by_rate])
        for both in _group_fits(by_rate, lambda fit: fit.alpha_us.widen(alike)):
            alpha = _common_value([fit.alpha_us.widen(alike) for fit in both])
            costs.append(SharedCost(tuple(sorted(fit.edge for fit in both)), alpha, rate))
    return tuple(sorted(costs, key=lambda cost: (-cost.gb_per_s, cost.alpha_us, cost.edges)))


def _group_fits(
    fits: Sequence[LinkFit], of: Callable[[LinkFit], CostInterval]
) -> list[list[LinkFit]]:
    """Return the fits in groups whose intervals have a point in common, the largest group first.

    The largest is all that have some point in common, the next of those that are left, and so on:
    a few links that were disturbed do not part the others.
    """
    left = sorted(((of(fit), fit) for fit in fits), key=lambda pair: (pair[0].high, pair[1].edge))
    groups: list[list[LinkFit]] = []
    while left:
        ends = [interval.high for interval, _ in left]
        begins = sorted(interval.low for interval, _ in left)
        # Wherever intervals meet, they do at the first of their ends.
        at = max(ends, key=lambda end: bisect_right(begins, end) - bisect_left(ends, end))
        groups.append([fit for interval, fit in left if interval.low <= at <= interval.high])
        left = [pair for pair in left if not pair[0].low <= at <= pair[0].high]
    return groups


def _common_value(intervals: Sequence[CostInterval]) -> float:
    """Return a rounded value in the intersection of intervals, near the middle of their values."""
    low, high = max(i.low for i in intervals), min(i.high for i in intervals)
    middle = min(max(statistics.median(i.value for i in intervals), low), high)
    for digits in range(1, _DIGITS + 1):
        short = float(f"{middle:.{digits}g}")
        if abs(short - middle) <= _ROUNDING_TOLERANCE * middle:
            return short
    return middle
