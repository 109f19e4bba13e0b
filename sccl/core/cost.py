"""The alpha-beta cost model of SCCL section 3.6, and the fastest algorithm for each buffer size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sccl.core.ids import Edge
from sccl.core.topology import Topology, check_cost, link_name
from sccl.errors import ParameterError

SLOWEST_LINK_NOTE = (
    "Links differ in cost, and a step costs as much as on the slowest link: times are upper "
    "bounds, and the choice of the fastest is an estimate."
)
"""Note to print with all times of such a machine."""


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Buffer sizes at which one of several algorithms is the fastest.

    Attributes:
        index: Index of the algorithm.
        from_bytes: Smallest size at which it is the fastest.
        to_bytes: Size from which the next algorithm is the fastest. None: no end.
    """

    index: int
    from_bytes: float
    to_bytes: float | None


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a step and of a byte.

    Attributes:
        alpha_us: latency of a step, microseconds.
        gb_per_s: bandwidth of a lane, 10^9 bytes per second.
        slowest_link: Whether these are the costs of the slowest link, and other links are faster
            (:data:`SLOWEST_LINK_NOTE`).
    """

    alpha_us: float
    gb_per_s: float
    slowest_link: bool = False

    def __post_init__(self) -> None:
        names = ("alpha-us", "gb-per-s")
        check_cost("", self.alpha_us, self.gb_per_s, error=ParameterError, names=names)
        if not math.isfinite(self.alpha_us * self.gb_per_s * 1e3):
            raise ParameterError(
                f"alpha-us is {self.alpha_us} and gb-per-s {self.gb_per_s}, which are too large "
                "together; give smaller ones"
            )

    @classmethod
    def from_topology(
        cls, topology: Topology, alpha_us: float | None = None, gb_per_s: float | None = None
    ) -> Costs:
        """Return the costs of a machine's slowest link and lane, since a step waits for them.

        Args:
            topology: The machine.
            alpha_us: Latency that replaces the machine's, microseconds.
            gb_per_s: Bandwidth of a lane that replaces the machine's, 10^9 bytes per second.
        """
        alphas = {link.alpha_us for link in topology.links} if alpha_us is None else {alpha_us}
        speeds = {link.gb_per_s for link in topology.links} if gb_per_s is None else {gb_per_s}
        return cls(max(alphas), min(speeds), len(alphas) > 1 or len(speeds) > 1)

    @classmethod
    def from_machine(cls, topology: Topology, machine: Topology) -> Costs:
        """Return the costs of a topology, with the link costs of another machine.

        Each link has the cost of the machine's link, and its lanes share the bandwidth of all lanes
        of the machine's link. The topology's own costs are ignored.

        Raises:
            ParameterError: the machine has other ranks, or lacks a link.
        """
        return cls.from_links(topology.lanes(), machine, topology.name, topology.ranks)

    @classmethod
    def from_links(
        cls, lanes: Mapping[Edge, int], machine: Topology, name: str, ranks: int
    ) -> Costs:
        """Return the costs of links with their lanes on a machine. See :meth:`from_machine`.

        Args:
            lanes: Lanes of each link.
            machine: Machine with the link costs.
            name: Name of the topology of the links, for messages.
            ranks: Number of ranks of the topology.

        Raises:
            ParameterError: the machine has other ranks, or lacks a link.
        """
        if ranks != machine.ranks:
            raise ParameterError(
                f"topology {machine.name!r} has {machine.ranks} ranks, an algorithm for {name!r} "
                f"needs {ranks}: give a machine with this number of ranks"
            )
        by_edge = {link.edge: link for link in machine.links}
        if lacking := sorted(lanes.keys() - by_edge.keys()):
            raise ParameterError(
                f"topology {machine.name!r} has no {link_name(lacking[0])}, which an algorithm for "
                f"{name!r} may use: give a machine that has all links of that"
            )
        used_links = [(by_edge[edge], n) for edge, n in lanes.items()]
        alphas = {link.alpha_us for link, _ in used_links}
        speeds = {link.lanes * link.gb_per_s / n for link, n in used_links}
        return cls(max(alphas), min(speeds), len(alphas) > 1 or len(speeds) > 1)

    @property
    def note(self) -> str:
        """Return a note to print with times, or an empty string."""
        return SLOWEST_LINK_NOTE if self.slowest_link else ""

    def time_us(self, steps: int, bandwidth_cost: Fraction, size_bytes: float) -> float:
        """Return ``S * alpha + R/C * L * beta`` in microseconds.

        Args:
            steps: S.
            bandwidth_cost: R/C.
            size_bytes: L, the size of C chunks, bytes.
        """
        return steps * self.alpha_us + float(bandwidth_cost) * size_bytes / (self.gb_per_s * 1e3)


_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def format_bytes(size_bytes: float) -> str:
    """Format a number of bytes with a unit: three digits and a binary unit, or a decimal unit.

    Multiples of 1000 are usually specified in decimal units (1GB), so they are formatted exactly in
    these.
    """
    if isinstance(size_bytes, int) and size_bytes and not size_bytes % 1000:
        power = min((len(str(size_bytes)) - 1) // 3, len(_DECIMAL_UNITS) - 1)
        return f"{Decimal(size_bytes).scaleb(-3 * power).normalize():f} {_DECIMAL_UNITS[power]}"
    value, unit = float(size_bytes), 0
    while value >= 1023.5 and unit + 1 < len(_BINARY_UNITS):
        value, unit = value / 1024, unit + 1
    return (
        f"{value:.3g} {_BINARY_UNITS[unit]}"
        if value < 999.5
        else f"{value:.0f} {_BINARY_UNITS[unit]}"
    )


def format_us(us: float) -> str:
    """Format a time with six digits: microseconds, or seconds from one second on."""
    return f"{us:.6g} us" if us < 10**6 else f"{us / 10**6:.6g} s"


def format_duration(us: float) -> str:
    """Format the duration of a training step: microseconds, milliseconds or seconds."""
    return format_us(us) if us < 10**4 or us >= 10**7 else f"{us / 10**3:.6g} ms"


def fastest_by_size(
    points: Sequence[tuple[int | Fraction, Fraction]], costs: Costs
) -> list[SizeRange]:
    """Return the buffer sizes at which each of ``points`` is the fastest, by ascending size.

    The ranges are the lower envelope of the lines ``S*alpha + (R/C)*L*beta``. Points that are never
    the fastest are omitted.

    Args:
        points: (S, R/C) of each algorithm.
        costs: Cost of a step and of a byte.
    """
    order = sorted(range(len(points)), key=lambda i: (points[i], i))
    # alpha/beta: bytes a lane moves while a step starts
    bytes_per_step = costs.alpha_us * costs.gb_per_s * 1e3
    hull: list[tuple[int, Fraction]] = []  # (index, first size in alpha/beta units)
    for i in order:
        if hull and points[i][1] >= points[hull[-1][0]][1]:
            continue
        start = Fraction(0)
        while hull:
            last, since = hull[-1]
            start = (points[i][0] - points[last][0]) / (points[last][1] - points[i][1])
            if start > since:
                break
            hull.pop()  # it is never the fastest, since i overtakes it earlier
            start = Fraction(0)
        hull.append((i, start))
    ends = [float(start) * bytes_per_step for _, start in hull]
    return [
        SizeRange(i, ends[n], ends[n + 1] if n + 1 < len(ends) else None)
        for n, (i, _) in enumerate(hull)
        if n + 1 == len(ends) or ends[n + 1] > ends[n]
    ]
