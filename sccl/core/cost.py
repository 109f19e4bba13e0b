"""The alpha-beta cost model of SCCL section 3.6, and which algorithm wins at which size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.topology import Topology


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Buffer sizes at which one of several algorithms is the fastest.

    Attributes:
        index: which algorithm.
        from_bytes: smallest size at which it wins.
        to_bytes: first size at which the next one wins; None for no end.
    """

    index: int
    from_bytes: float
    to_bytes: float | None


def alpha_us(topology: Topology) -> float:
    """Return the latency of a step, microseconds: that of the slowest link."""
    return max(link.alpha_us for link in topology.links)


def lane_gb_per_s(topology: Topology) -> float:
    """Return the bandwidth of a lane, GB/s: that of the slowest, since a step waits for it."""
    return min(link.gb_per_s for link in topology.links)


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(size_bytes: float) -> str:
    """Return a number of bytes with a binary unit and three digits."""
    value, unit = float(size_bytes), 0
    while value >= 1023.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}" if value < 999.5 else f"{value:.0f} {_UNITS[unit]}"


def time_us(
    steps: int, bandwidth_cost: Fraction, size_bytes: float, alpha_us: float, gb_per_s: float
) -> float:
    """Return ``S * alpha + R/C * L * beta`` in microseconds.

    Args:
        steps: S.
        bandwidth_cost: R/C.
        size_bytes: L, the buffer that C chunks make up.
        alpha_us: latency of a step.
        gb_per_s: 1/beta, bandwidth of one lane in 10^9 bytes per second.
    """
    return steps * alpha_us + float(bandwidth_cost) * size_bytes / (gb_per_s * 1e3)


def winners(
    costs: Sequence[tuple[int, Fraction]], alpha_us: float, gb_per_s: float
) -> list[SizeRange]:
    """Return the buffer sizes at which each of ``costs`` is the fastest, by ascending size.

    The lower envelope of the lines ``S*alpha + (R/C)*L*beta``. Points that never win are left out.

    Args:
        costs: (S, R/C) per algorithm.
        alpha_us: latency of a step.
        gb_per_s: bandwidth of one lane, 10^9 bytes per second.
    """
    order = sorted(range(len(costs)), key=lambda i: (costs[i], i))
    bytes_per_step = alpha_us * gb_per_s * 1e3  # alpha/beta: bytes a lane moves while a step starts
    hull: list[tuple[int, Fraction]] = []  # (index, size from which it wins, in alpha/beta units)
    for i in order:
        if hull and costs[i][1] >= costs[hull[-1][0]][1]:
            continue
        start = Fraction(0)
        while hull:
            last, since = hull[-1]
            start = (costs[i][0] - costs[last][0]) / (costs[last][1] - costs[i][1])
            if start > since:
                break
            hull.pop()  # i overtakes it no later than it began to win: it never wins
            start = Fraction(0)
        hull.append((i, start))
    ends = [float(start) * bytes_per_step for _, start in hull]
    return [
        SizeRange(i, ends[n], ends[n + 1] if n + 1 < len(ends) else None)
        for n, (i, _) in enumerate(hull)
        if n + 1 == len(ends) or ends[n + 1] > ends[n]
    ]
