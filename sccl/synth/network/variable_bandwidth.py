"""Bandwidth that varies over time: intervals in which links have a fraction of their bandwidth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.ids import Edge
from sccl.core.topology import Topology, link_name
from sccl.errors import ParameterError, TopologyError

MAX_US = 10**12
"""Maximum time: 11 days, as a guard against typing errors."""

StepFunction = tuple[tuple[Fraction, Fraction], ...]
"""(from, value): each value holds until the next one begins, and the last one forever."""

_FULL_BANDWIDTH = Fraction(1)
"""The fraction outside all intervals."""


@dataclass(frozen=True, slots=True)
class BandwidthInterval:
    """An interval in which links have reduced bandwidth.

    Attributes:
        links: Affected links. Empty: all.
        from_us: Begin, microseconds.
        to_us: End, microseconds. None: never.
        fraction: Fraction of the machine's bandwidth. 0: nothing passes.

    Raises:
        ParameterError: The times are invalid, or the fraction is not from 0 to 1.
    """

    links: tuple[Edge, ...]
    from_us: Fraction
    to_us: Fraction | None
    fraction: Fraction

    def __post_init__(self) -> None:
        if self.fraction > 1:
            raise ParameterError(
                f"fraction is {float(self.fraction):g}, expected 0 to 1: verification uses the "
                "machine's bandwidth as the maximum; give the machine its highest bandwidth, and "
                "here the fraction that is left"
            )
        if self.fraction < 0:
            raise ParameterError(f"fraction is {float(self.fraction):g}, expected 0 to 1")
        end = self.from_us + 1 if self.to_us is None else self.to_us
        if not 0 <= self.from_us < end <= MAX_US:
            raise ParameterError(
                f"it lasts from {float(self.from_us):g} to {float(end):g} us, expected a begin of "
                f"at least 0, and a later end of at most {MAX_US:g}"
            )


@dataclass(frozen=True, slots=True)
class VariableBandwidth:
    """The bandwidth of links over time: full bandwidth outside the intervals.

    Attributes:
        intervals: Intervals. The smallest fraction counts if several overlap on a link.
        name: Name for messages, such as the file.
    """

    intervals: tuple[BandwidthInterval, ...]
    name: str = "bandwidth"

    def check_fits(self, topology: Topology) -> None:
        """Check that a machine has all links of the intervals.

        Raises:
            TopologyError: It does not.
        """
        for number, interval in enumerate(self.intervals):
            if missing := sorted(set(interval.links) - topology.edges):
                raise TopologyError(
                    f"{self.name}, interval {number}: {link_name(missing[0])} is not a link of "
                    f"topology {topology.name!r}: give links as [src, dst], as its file has them"
                )

    def link_fractions(self, edge: Edge) -> StepFunction:
        """Return a link's fraction of its bandwidth over time in microseconds, from 0 on."""
        link_intervals = [
            interval for interval in self.intervals if not interval.links or edge in interval.links
        ]
        ends = {interval.to_us for interval in link_intervals if interval.to_us is not None}
        steps: list[tuple[Fraction, Fraction]] = []
        for at in sorted({Fraction(0), *ends, *(interval.from_us for interval in link_intervals)}):
            value = _min_fraction(
                interval.fraction for interval in link_intervals if _is_active(interval, at)
            )
            if not steps or steps[-1][1] != value:
                steps.append((at, value))
        return tuple(steps)

    def mean_fraction(self, edge: Edge, until_us: Fraction) -> Fraction:
        """Return a link's average fraction of its bandwidth from 0 to a time in microseconds."""
        steps = [step for step in self.link_fractions(edge) if step[0] < until_us]
        ends = [at for at, _ in steps[1:]] + [until_us]
        return (
            sum(
                (value * (end - at) for (at, value), end in zip(steps, ends, strict=True)),
                Fraction(0),
            )
            / until_us
        )


def _is_active(interval: BandwidthInterval, at: Fraction) -> bool:
    return interval.from_us <= at and (interval.to_us is None or at < interval.to_us)


def _min_fraction(fractions: Iterable[Fraction]) -> Fraction:
    return min(fractions, default=_FULL_BANDWIDTH)
