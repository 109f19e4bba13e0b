"""Channels of the lab: names, rates, and two ways to limit rates.

Networks are set up by command batches for ``ip`` and ``tc`` (iproute2), with a limit on each
interface. If no interface can be limited, senders limit themselves with a token bucket.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sccl.errors import ParameterError

MAX_RANKS = 250
"""Maximum number of ranks: each has an address in a subnet of 256."""

MAX_CHANNELS = 16
PORT = 29500
"""Port of rank 0, the default of torchrun. In a network namespace, it is always free."""

_UNITS = {"kb": 1_000, "Mb": 1_000_000, "Gb": 1_000_000_000}
_CHANNEL = re.compile(r"([a-z][a-z0-9-]{0,9})=([0-9]{1,7}(?:\.[0-9]{1,3})?)([A-Za-z/]*)")
_MIN_RATE, _MAX_RATE = 8_000, 100_000_000_000  # bits/s. Below the minimum, a packet takes seconds
_RESERVED_NAMES = frozenset({"all", "default", "lo"})  # Linux interfaces with a special meaning


@dataclass(frozen=True, slots=True)
class LabChannel:
    """A network of the lab.

    Attributes:
        name: Name of the channel, and of the ranks' interfaces in it.
        bits_per_s: Maximum rate at which an interface sends, and at which it receives.
    """

    name: str
    bits_per_s: int


def parse_channels(text: str) -> tuple[LabChannel, ...]:
    """Parse channels, such as ``"fast=100Mb,slow=50Mb"``.

    Raises:
        ParameterError: The text has another form, a name occurs twice or is reserved, a rate is out
            of range, or there are too many channels.
    """
    by_name: dict[str, LabChannel] = {}
    for part in text.split(","):
        match = _CHANNEL.fullmatch(part.strip())
        if match is None or match[3] not in _UNITS:
            raise ParameterError(
                f"channels has {part.strip()!r}, expected a name of small letters and bits per "
                "second in kb, Mb or Gb, such as fast=100Mb"
            )
        name, rate = match[1], round(float(match[2]) * _UNITS[match[3]])
        if not _MIN_RATE <= rate <= _MAX_RATE:
            raise ParameterError(f"channel {name!r} has {rate} bits/s, expected 8kb to 100Gb")
        if name in by_name or name in _RESERVED_NAMES:
            why = "comes twice" if name in by_name else "is the name of something else on systems"
            raise ParameterError(f"channel {name!r} {why}: give it another name")
        by_name[name] = LabChannel(name, rate)
    if len(by_name) > MAX_CHANNELS:
        raise ParameterError(f"there are {len(by_name)} channels, expected at most {MAX_CHANNELS}")
    return tuple(by_name.values())


def rank_address(channel: int, rank: int) -> str:
    """Return the IP address of a rank in a channel, given both numbers."""
    return f"10.77.{channel}.{rank + 1}"


def rank_environment(
    rank: int, ranks: int, channels: Sequence[LabChannel], port: int, *, bucket: bool
) -> dict[str, str]:
    """Return the environment of a rank: the variables of torchrun, and those of the channels.

    ``SCCL_CHANNELS`` has ``name=interface`` for each channel. ``SCCL_CHANNEL_RATES`` is set only if
    no interface is limited, so that senders must limit themselves (:class:`TokenBucket`). gloo uses
    the first channel by default. Each rank represents a machine, so ``SCCL_BUNDLES`` disables
    bundles, which would use shared memory between ranks.

    Args:
        rank: Number of the rank.
        ranks: Number of ranks.
        channels: Channels of the lab.
        port: Port of rank 0's store.
        bucket: Whether ranks share one network without limits.
    """
    interfaces = {channel.name: "lo" if bucket else channel.name for channel in channels}
    environment = {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank if bucket else 0),
        "LOCAL_WORLD_SIZE": str(ranks if bucket else 1),
        "GROUP_RANK": str(0 if bucket else rank),
        "GROUP_WORLD_SIZE": str(1 if bucket else ranks),
        "MASTER_ADDR": "127.0.0.1" if bucket else rank_address(0, 0),
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": interfaces[channels[0].name],
        "SCCL_CHANNELS": ",".join(f"{name}={where}" for name, where in interfaces.items()),
        "SCCL_BUNDLES": "0",
    }
    if bucket:
        rates = ",".join(f"{channel.name}={channel.bits_per_s}" for channel in channels)
        environment["SCCL_CHANNEL_RATES"] = rates
    return environment


_MTU = 9000  # bytes. Headers take 1 % of the rate, with an MTU of 1500 they would take 5 %
_BURST_S = 0.001  # seconds' worth of data that an interface may send at once after a pause
_QUEUE_BYTES = 4_000_000  # large enough to drop no packet when all ranks send to one


def bridges(channels: Sequence[LabChannel]) -> str:
    """Return the batch for ``ip`` that creates a bridge for each channel."""
    lines = [
        f"link add name b{k} address 02:4d:00:{k:02x}:ff:ff type bridge"
        for k in _channel_numbers(channels)
    ]
    lines += [f"link set b{k} mtu {_MTU} addrgenmode none up" for k in _channel_numbers(channels)]
    return _join_lines(lines)


def links(channels: Sequence[LabChannel], pids: Sequence[str]) -> str:
    """Return the batch for ``ip`` that connects each rank to each bridge.

    Args:
        channels: Channels of the lab.
        pids: Process id of a process in the network namespace of each rank.
    """
    lines = []
    for k, channel in enumerate(channels):
        for rank, pid in enumerate(pids):
            port, peer = f"b{k}r{rank}", f"name {channel.name} netns {pid}"
            lines.append(f"link add name {port} mtu {_MTU} type veth peer {peer} mtu {_MTU}")
            lines.append(f"link set {port} master b{k} addrgenmode none up")
    return _join_lines(lines)


def bridge_limits(channels: Sequence[LabChannel], ranks: int) -> str:
    """Return the batch for ``tc`` that limits the rate at which ranks receive."""
    return _join_lines(
        [
            _limit_line(f"b{k}r{rank}", channel)
            for k, channel in enumerate(channels)
            for rank in range(ranks)
        ]
    )


def rank_addresses(channels: Sequence[LabChannel], rank: int) -> str:
    """Return the batch for ``ip`` that sets the addresses of a rank, run in its namespace."""
    lines = ["link set lo up"]
    for k, channel in enumerate(channels):
        lines.append(f"address add {rank_address(k, rank)}/24 dev {channel.name}")
        lines.append(f"link set {channel.name} addrgenmode none up")
    return _join_lines(lines)


def rank_limits(channels: Sequence[LabChannel]) -> str:
    """Return the batch for ``tc`` that limits the rate at which a rank sends, in its namespace."""
    return _join_lines([_limit_line(channel.name, channel) for channel in channels])


def _channel_numbers(channels: Sequence[LabChannel]) -> range:
    return range(len(channels))


def _limit_line(interface: str, channel: LabChannel) -> str:
    burst = max(2 * _MTU, round(channel.bits_per_s / 8 * _BURST_S))
    return (
        f"qdisc add dev {interface} root tbf rate {channel.bits_per_s}bit burst {burst} "
        f"limit {_QUEUE_BYTES + burst}"
    )


def _join_lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


BURST_S = 0.002
"""Largest burst, in seconds at the configured rate."""

_MAX_LATENESS_S = 0.25


class TokenBucket:
    """A token bucket of bytes that threads share.

    A caller that takes more bytes than are available waits until the bucket has earned them. So the
    bytes of one call need not fit into the bucket, and concurrent callers are served one after the
    other. Time by which a caller wakes up too late, on a busy machine, is credited to the next
    callers. Otherwise the rate would not be reached.

    Args:
        bits_per_s: Rate.
        now: Function that returns the seconds of a monotonic clock.
        sleep: Function that waits for seconds.
    """

    def __init__(
        self,
        bits_per_s: int,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_s = bits_per_s / 8
        self._now, self._sleep = now, sleep
        self._paid = now()
        self._lateness = 0.0
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> None:
        """Take bytes from the bucket, and wait until the rate permits having sent them."""
        with self._lock:
            now = self._now()
            earliest = now - BURST_S - self._lateness
            until = self._paid = max(self._paid, earliest) + size_bytes / self._bytes_per_s
            if until > now:
                self._lateness = 0.0  # the credit is used up
        if until > now:
            self._sleep(until - now)
            with self._lock:
                delay = min(self._now() - until, _MAX_LATENESS_S)
                self._lateness = max(self._lateness, delay)


def bucket_rates(environment: Mapping[str, str]) -> dict[str, int]:
    """Return the rate in bits/s to which senders must limit each channel. Empty: no limits.

    Raises:
        ParameterError: ``SCCL_CHANNEL_RATES`` is not ``name=bits_per_s,...``.
    """
    text = environment.get("SCCL_CHANNEL_RATES", "")
    rates: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, rate = part.partition("=")
        if not (name and rate.isascii() and rate.isdigit() and 0 < len(rate) < 16 and int(rate)):
            raise ParameterError(
                f"SCCL_CHANNEL_RATES has {part!r}, expected a channel and bits per second, such "
                "as fast=100000000"
            )
        rates[name] = int(rate)
    return rates
