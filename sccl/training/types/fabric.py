"""Fabric: the channels over which the ranks of a job move data, and their shared budgets.

Source: SYNDICATE (NSDI 2023) section 4.2: a physical plan assigns a motif to an interconnect
(NVLink and GPUDirect, or PCIe and TCP). Motifs on different interconnects may run concurrently.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from sccl.core.ids import Edge
from sccl.core.topology import Topology, link_name
from sccl.errors import TopologyError

MAX_CHANNELS = 16
MAX_STREAMS = 64
MAX_LAUNCH_US = 1e6
MAX_SLOWDOWN = 1.0


@dataclass(frozen=True, slots=True)
class Incast:
    """The reduced bandwidth of a channel if many ranks send to one rank at once.

    Attributes:
        senders: Minimum number of senders.
        from_bytes: Minimum total number of bytes to one rank.
        efficiency: Remaining fraction of the bandwidth, above 0 and up to 1.
    """

    senders: int
    from_bytes: int
    efficiency: float


@dataclass(frozen=True, slots=True)
class Channel:
    """Links with separate streams for issuing motifs.

    Attributes:
        topology: the machine with the links of this channel between its ranks.
        streams: maximum number of concurrent motifs.
        launch_us: Time that each motif takes in addition to its links' time, microseconds.
        slowdown: relative slowdown of computations while the channel is busy, as communication
            kernels use cores and memory bandwidth.
        incast: reduced bandwidth for many senders to one rank. Empty: none.
    """

    name: str
    topology: Topology
    streams: int = 1
    launch_us: float = 0.0
    slowdown: float = 0.0
    incast: tuple[Incast, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedBudget:
    """A bandwidth that links of several channels share, such as that of a NIC or of PCIe.

    Attributes:
        links: Pairs of a channel's name and an edge.
        gb_per_s: Total bandwidth of the links, 10^9 bytes per second.
    """

    name: str
    links: tuple[tuple[str, Edge], ...]
    gb_per_s: float


@dataclass(frozen=True, slots=True)
class Fabric:
    """Channels over the same ranks.

    Attributes:
        channels: the channels, with different names.
        shared: budgets that links of several channels share.
        source: source of the numbers.

    Raises:
        TopologyError: Channels have different ranks or share a name, or numbers are invalid.
    """

    name: str
    channels: tuple[Channel, ...]
    shared: tuple[SharedBudget, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        where = f"fabric {self.name!r}"
        if not 1 <= len(self.channels) <= MAX_CHANNELS:
            raise TopologyError(
                f"{where} has {len(self.channels)} channels, expected 1 to {MAX_CHANNELS}"
            )
        names = [channel.name for channel in self.channels]
        for name in names:
            if not name.strip() or names.count(name) > 1:
                raise TopologyError(
                    f"{where} has several channels named {', '.join(map(repr, names))}: give each "
                    "a different name"
                )
        for channel in self.channels:
            self._check_channel(f"{where}, channel {channel.name!r}", channel)
        for budget in self.shared:
            self._check_shared(f"{where}, shared {budget.name!r}", budget)

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.channels[0].topology.ranks

    def channel(self, name: str) -> Channel:
        """Return a channel.

        Raises:
            TopologyError: No channel has this name.
        """
        for channel in self.channels:
            if channel.name == name:
                return channel
        names = ", ".join(channel.name for channel in self.channels)
        raise TopologyError(f"fabric {self.name!r} has no channel {name!r}: it has {names}")

    def _check_channel(self, where: str, channel: Channel) -> None:
        if channel.topology.ranks != self.ranks:
            first = self.channels[0]
            raise TopologyError(
                f"{where} joins {channel.topology.ranks} ranks, and {first.name!r} {self.ranks}: "
                "expected the same ranks for all"
            )
        if not 1 <= channel.streams <= MAX_STREAMS:
            raise TopologyError(
                f"{where}: streams is {channel.streams}, expected 1 to {MAX_STREAMS}"
            )
        _check_range(f"{where}: launch_us", channel.launch_us, MAX_LAUNCH_US)
        _check_range(f"{where}: slowdown", channel.slowdown, MAX_SLOWDOWN)
        for row in channel.incast:
            if row.senders < 2 or row.from_bytes < 0 or not 0 < row.efficiency <= 1:
                raise TopologyError(
                    f"{where}: incast of {row.senders} senders from {row.from_bytes} bytes on "
                    f"leaves {row.efficiency:g}, expected 2 senders or more, bytes of 0 or more, "
                    "and a part above 0 and up to 1"
                )

    def _check_shared(self, where: str, budget: SharedBudget) -> None:
        if not isfinite(budget.gb_per_s) or budget.gb_per_s <= 0:
            raise TopologyError(f"{where}: gb_per_s is {budget.gb_per_s:g}, expected more than 0")
        if len(budget.links) < 2 or len(set(budget.links)) < len(budget.links):
            raise TopologyError(
                f"{where} has {len(budget.links)} different links, expected 2 or more"
            )
        for name, edge in budget.links:
            if edge not in self.channel(name).topology.edges:
                raise TopologyError(
                    f"{where}: {link_name(edge)} is none of channel {name!r}: give links that it "
                    "has"
                )


def _check_range(label: str, value: float, limit: float) -> None:
    if not isfinite(value) or not 0 <= value <= limit:
        raise TopologyError(f"{label} is {value:g}, expected 0 to {limit:g}")
