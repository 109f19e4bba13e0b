"""Define measurements of links.

A timing is the time of n chunks from one rank to another. TACCL (NSDI 2023), section 4.1: n chunks
of s bytes that are sent one after another take n * (alpha + beta * s), and sent all at once they
take alpha + n * beta * s. Both kinds determine alpha and beta.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sccl.core.ids import Edge
from sccl.core.topology import link_name
from sccl.errors import ParameterError

MAX_PROFILED = 64
"""Maximum number of ranks, which are measured in pairs."""

MAX_CHUNK_BYTES = 2**40
MAX_SENT = 2**20
_MAX_US = 1e12

MIN_FIGURE = 1e-6
"""Smallest accepted value, in microseconds (a picosecond) or GB/s. Squares of much smaller values
underflow, and no fit is possible.
"""


class Pacing(StrEnum):
    """Time at which each chunk after the first is sent."""

    IN_TURN = "in-turn"
    """After the previous chunk has arrived."""
    AT_ONCE = "at-once"
    """Together with all others."""


class RepetitionStatistic(StrEnum):
    """Statistic of repetitions."""

    MIN = "least"
    """The fastest repetition, since other load on a machine only increases a link's time."""
    MEDIAN = "median"
    """The median, for errors in both directions, or if other load is part of the result."""

    def select(self, us: Sequence[float]) -> float:
        """Return the statistic of the repetitions."""
        return min(us) if self is RepetitionStatistic.MIN else statistics.median(us)


@dataclass(frozen=True, slots=True)
class LinkTiming:
    """The time of chunks over one link, from the first sent byte to the last arrived byte.

    Attributes:
        chunks: Number of chunks.
        chunk_bytes: Size of each chunk.
        us: Total time of each repetition, microseconds.
    """

    src: int
    dst: int
    pacing: Pacing
    chunks: int
    chunk_bytes: int
    us: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.src == self.dst:
            raise ParameterError(f"{self.description}: a link joins two different ranks")
        if not 1 <= self.chunks <= MAX_SENT:
            raise ParameterError(
                f"{self.description}: chunks is {self.chunks}, expected 1 to {MAX_SENT}"
            )
        if not 0 <= self.chunk_bytes <= MAX_CHUNK_BYTES:
            raise ParameterError(
                f"{self.description}: chunk_bytes is {self.chunk_bytes}, expected 0 to "
                f"{MAX_CHUNK_BYTES}"
            )
        check_figures(self.us, f"{self.description}: us", _MAX_US)

    @property
    def edge(self) -> Edge:
        """Return ``(src, dst)``."""
        return (self.src, self.dst)

    @property
    def description(self) -> str:
        """Return its name in messages."""
        return f"{link_name(self.edge)}, {self.chunks} x {self.chunk_bytes} B {self.pacing}"

    @property
    def latency_count(self) -> int:
        """Return the number of alphas in its time."""
        return self.chunks if self.pacing is Pacing.IN_TURN else 1

    @property
    def size_bytes(self) -> int:
        """Return the total size of its chunks."""
        return self.chunks * self.chunk_bytes


@dataclass(frozen=True, slots=True)
class Measurements:
    """Timings of the links between some ranks.

    Attributes:
        name: name of the measured machine.
        timings: Timings of links, in the order of measurement.
        source: method and tools of the measurement.
    """

    name: str
    ranks: int
    timings: tuple[LinkTiming, ...]
    source: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ParameterError("the measurements have no name: give them one")
        if not 2 <= self.ranks <= MAX_PROFILED:
            raise ParameterError(f"ranks is {self.ranks}, expected 2 to {MAX_PROFILED}")
        if not self.timings:
            raise ParameterError("there are no timings: give timings of at least one link")
        seen: set[tuple[object, ...]] = set()
        for timing in self.timings:
            if not all(0 <= rank < self.ranks for rank in timing.edge):
                raise ParameterError(
                    f"{timing.description}: there are {self.ranks} ranks, expected 0 to "
                    f"{self.ranks - 1}"
                )
            key = (timing.edge, timing.pacing, timing.chunks, timing.chunk_bytes)
            if key in seen:
                raise ParameterError(
                    f"{timing.description} is there twice: give all its us in one row"
                )
            seen.add(key)

    def by_link(self) -> dict[Edge, list[LinkTiming]]:
        """Return the timings of each link, links in ascending order."""
        by_edge: dict[Edge, list[LinkTiming]] = {}
        for timing in sorted(self.timings, key=lambda t: t.edge):
            by_edge.setdefault(timing.edge, []).append(timing)
        return by_edge


def check_figures(figures: Sequence[float], label: str, limit: float) -> None:
    """Check that there are measured values, and that they are plausible.

    Args:
        label: Beginning of the message.
        limit: Largest accepted value.

    Raises:
        ParameterError: There are none, or one is implausible.
    """
    if not figures:
        raise ParameterError(f"{label} is empty, expected a figure for each repetition")
    for figure in figures:
        if not MIN_FIGURE <= figure <= limit:
            raise ParameterError(
                f"{label} has {figure:g}, expected numbers from {MIN_FIGURE:g} to {limit:g}"
            )
