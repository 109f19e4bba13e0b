"""Links that are alike share one cost, so that a machine is as symmetric as it can be told to be.

No two links are measured to cost the same. Where the intervals of several have a point in common,
nothing that was measured tells them apart: they get one cost from what is common to all, written in
as few digits as say it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sccl.core.ids import Edge
from sccl.topo.profiles.fit import CostInterval, LinkFit

ALIKE = 0.1
"""Costs that differ by so little, in proportion, are alike however sharp the intervals are: they
tell how sure a fit is of what was measured, not by how much that differs from day to day."""

_CLOSE = 0.025
"""How far a number with fewer digits may be off, in proportion: lanes of 22 and 9.4 GB/s have a
common divisor that synthesis by steps can work with, those of 21.73 and 9.412 hardly."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class SharedCost:
    """What some links cost, all alike.

    Attributes:
        edges: the links, ascending.
        gb_per_s: of a link with all its lanes, 10^9 bytes per second.
    """

    edges: tuple[Edge, ...]
    alpha_us: float
    gb_per_s: float


def shared_costs(fits: Sequence[LinkFit], alike: float = ALIKE) -> tuple[SharedCost, ...]:
    """Return the costs of links, those that are alike together; the fastest first.

    Of equal rates there are as few as can be, and so of latencies for each of these.

    Args:
        alike: how far intervals reach at least, in proportion; 0 or more.
    """
    found = []
    for by_rate in _stabbed(fits, lambda fit: fit.gb_per_s.widened(alike)):
        rate = _common([fit.gb_per_s.widened(alike) for fit in by_rate])
        for both in _stabbed(by_rate, lambda fit: fit.alpha_us.widened(alike)):
            alpha = _common([fit.alpha_us.widened(alike) for fit in both])
            found.append(SharedCost(tuple(sorted(fit.edge for fit in both)), alpha, rate))
    return tuple(sorted(found, key=lambda cost: (-cost.gb_per_s, cost.alpha_us, cost.edges)))


def _stabbed(fits: Sequence[LinkFit], of: Callable[[LinkFit], CostInterval]) -> list[list[LinkFit]]:
    """Return the fits in groups whose intervals have a point in common: as few groups as can be.

    The interval that ends first needs a point, and none serves more others than its end.
    """
    groups: list[list[LinkFit]] = []
    end = -1.0
    for fit in sorted(fits, key=lambda one: (of(one).high, one.edge)):
        if not groups or of(fit).low > end:
            groups.append([])
            end = of(fit).high
        groups[-1].append(fit)
    return groups


def _common(intervals: Sequence[CostInterval]) -> float:
    """Return a number near the middle of several that lies in all their intervals."""
    low, high = max(i.low for i in intervals), min(i.high for i in intervals)
    middle = min(max(statistics.median(i.value for i in intervals), low), high)
    for digits in range(1, _DIGITS + 1):
        near = [x for x in _shorter(middle, digits) if low <= x <= high]
        best = min(near, key=lambda x: abs(x - middle), default=None)
        if best is not None and abs(best - middle) <= _CLOSE * middle:
            return best
    return middle


def _shorter(value: float, digits: int) -> list[float]:
    """Return the numbers of so many digits that are next to a value, below and above."""
    if value == 0:
        return [0.0]
    exponent = math.floor(math.log10(value)) - digits + 1
    whole = value / 10**exponent
    return [float(f"{n}e{exponent}") for n in (math.floor(whole), math.ceil(whole))]
