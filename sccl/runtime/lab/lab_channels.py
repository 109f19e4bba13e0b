"""Parse the names and rates of the lab's channels, and build the environment of ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sccl.errors import ParameterError

MAX_RANKS = 250
"""Hosts of a subnet of 256 addresses."""

MAX_CHANNELS = 16
PORT = 29500
"""That rank 0 listens at, as torchrun has it. In namespaces nobody else does."""

_UNITS = {"kb": 1_000, "Mb": 1_000_000, "Gb": 1_000_000_000}
_CHANNEL = re.compile(r"([a-z][a-z0-9-]{0,9})=([0-9]{1,7}(?:\.[0-9]{1,3})?)([A-Za-z/]*)")
_MIN_RATE, _MAX_RATE = 8_000, 100_000_000_000  # bits/s: below, a packet takes seconds
_RESERVED_NAMES = frozenset({"all", "default", "lo"})  # as interfaces they are something else


@dataclass(frozen=True, slots=True)
class LabChannel:
    """A network of the lab.

    Attributes:
        name: of the channel. Ranks have an interface of that name in it.
        bits_per_s: that an interface sends at the most, and as much that it receives.
    """

    name: str
    bits_per_s: int


def parse_channels(text: str) -> tuple[LabChannel, ...]:
    """Return the channels of a text such as ``"fast=100Mb,slow=50Mb"``.

    Raises:
        ParameterError: it is of another form, a name comes twice, or a rate is out of range.
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
    """Return the address of a rank in a channel, both by number."""
    return f"10.77.{channel}.{rank + 1}"


def rank_environment(
    rank: int, ranks: int, channels: Sequence[LabChannel], port: int, *, bucket: bool
) -> dict[str, str]:
    """Return the environment of a rank: that of torchrun, and the interface of each channel.

    ``SCCL_CHANNELS`` has ``name=interface`` for each channel. ``SCCL_CHANNEL_RATES`` is present
    only if no interface is limited, so that senders must limit themselves (:mod:`.bucket`). gloo
    uses the first channel by default. Ranks represent machines, so no bundle uses shared memory
    between them.

    Args:
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
