"""Define measurements of links, and of PCIe connections.

A timing is the time of n chunks from one rank to another. TACCL (NSDI 2023), section 4.1: n chunks
of s bytes that are sent one after another take n * (alpha + beta * s), and sent all at once they
take alpha + n * beta * s. Both kinds determine alpha and beta.

TACCL (NSDI 2023), section 4.2: a virtual machine may hide its PCIe switches, but concurrent copies
of GPUs that share a switch get less bandwidth.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
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


MAX_GPUS = 64
_MAX_PCIE_US, _MAX_GB_PER_S = 1e9, 1e6


@dataclass(frozen=True, slots=True)
class PairedCopies:
    """Concurrent copies of two GPUs to the CPU.

    Attributes:
        gpus: The two GPUs, ascending.
        gb_per_s: Bandwidth of each of the two in each repetition, 10^9 bytes per second.
    """

    gpus: tuple[int, int]
    gb_per_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PcieMeasurements:
    """Measurements that reveal the PCIe switches of a machine (TACCL, section 4.2).

    Each measurement has one value per repetition.

    Attributes:
        loopback_us: Time of a loopback between each CPU and the NIC.
        pairs: Bandwidths of simultaneous copies, for each pair of GPUs.
        beside_nic: Bandwidth of each GPU to the CPU in 10^9 bytes/s, during a loopback between the
            NIC and its nearest CPU.
        alone: Bandwidth of each GPU to the CPU in 10^9 bytes/s without other traffic. May be empty.
    """

    name: str
    loopback_us: tuple[tuple[float, ...], ...]
    pairs: tuple[PairedCopies, ...]
    beside_nic: tuple[tuple[float, ...], ...]
    alone: tuple[tuple[float, ...], ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ParameterError("the measurements have no name: give them one")
        if not self.loopback_us:
            raise ParameterError("loopback_us is empty, expected a row for each CPU")
        if not 2 <= self.gpus <= MAX_GPUS:
            raise ParameterError(
                f"beside_nic has {self.gpus} rows, expected one for each GPU: 2 to {MAX_GPUS}"
            )
        if self.alone and len(self.alone) != self.gpus:
            raise ParameterError(
                f"alone has {len(self.alone)} rows, expected one for each of {self.gpus} GPUs, or "
                "none at all"
            )
        for cpu, us in enumerate(self.loopback_us):
            check_figures(us, f"loopback_us of CPU {cpu}", _MAX_PCIE_US)
        for name, figures in self.copies():
            check_figures(figures, f"bandwidth of {name}", _MAX_GB_PER_S)
        self._check_pairs()

    def _check_pairs(self) -> None:
        seen = set()
        for pair in self.pairs:
            a, b = pair.gpus
            if not 0 <= a < b < self.gpus:
                raise ParameterError(
                    f"pairs has GPUs {a} and {b}, expected two of 0 to {self.gpus - 1} in "
                    "ascending order, one for each row of beside_nic"
                )
            if pair.gpus in seen:
                raise ParameterError(f"pairs has GPUs {a} and {b} twice: put all into one row")
            seen.add(pair.gpus)
        missing = [(a, b) for b in range(self.gpus) for a in range(b) if (a, b) not in seen]
        if missing:
            a, b = min(missing)
            raise ParameterError(
                f"pairs lacks GPUs {a} and {b}: expected a measurement of every pair of "
                f"{self.gpus} GPUs"
            )

    @property
    def gpus(self) -> int:
        """Return the number of GPUs."""
        return len(self.beside_nic)

    def copies(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield every bandwidth to a CPU, after its name in messages."""
        for pair in self.pairs:
            yield paired_copies_name(pair.gpus), pair.gb_per_s
        for gpu, figures in enumerate(self.beside_nic):
            yield nic_copy_name(gpu), figures
        for gpu, figures in enumerate(self.alone):
            yield f"GPU {gpu} alone", figures


def paired_copies_name(gpus: tuple[int, int]) -> str:
    """Return the name of concurrent copies of two GPUs in messages."""
    return f"GPUs {gpus[0]} and {gpus[1]} at once"


def nic_copy_name(gpu: int) -> str:
    """Return the name of a GPU's copy during the loopback of a NIC in messages."""
    return f"GPU {gpu} at the same time as the NIC"


@dataclass(frozen=True, slots=True)
class PcieHierarchy:
    """The GPUs that share PCIe switches, and the place of the NIC.

    Attributes:
        near_cpu: The CPU nearest to the NIC.
        switches: GPUs of each PCIe switch, ascending: a partition of all GPUs.
        nic_switch: Index of the switch with the NIC. None: none of them.
    """

    near_cpu: int
    switches: tuple[tuple[int, ...], ...]
    nic_switch: int | None

    @property
    def near_gpus(self) -> tuple[int, ...]:
        """Return the GPUs that share a switch with the NIC."""
        return () if self.nic_switch is None else self.switches[self.nic_switch]
