"""Parse the names and rates of the lab's channels, and build the environment of ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sccl.errors import ParameterError

MOST_RANKS = 250
"""Hosts of a subnet of 256 addresses."""

MOST_CHANNELS = 16
PORT = 29500
"""That rank 0 listens at, as torchrun has it. In namespaces nobody else does."""

_UNITS = {"kb": 1_000, "Mb": 1_000_000, "Gb": 1_000_000_000}
_CHANNEL = re.compile(r"([a-z][a-z0-9-]{0,9})=([0-9]{1,7}(?:\.[0-9]{1,3})?)([A-Za-z/]*)")
_LEAST, _MOST = 8_000, 100_000_000_000  # bits/s: below, a packet takes seconds
_TAKEN = frozenset({"all", "default", "lo"})  # as interfaces they are something else


@dataclass(frozen=True, slots=True)
class LabChannel:
    """A network of the lab.

    Attributes:
        name: of the channel. Ranks have an interface of that name in it.
        bits_per_s: that an interface sends at the most, and as much that it receives.
    """

    name: str
    bits_per_s: int


def channels_of(text: str) -> tuple[LabChannel, ...]:
    """Return the channels of a text such as ``"fast=100Mb,slow=50Mb"``.

    Raises:
        ParameterError: it is of another form, a name comes twice, or a rate is out of range.
    """
    found: dict[str, LabChannel] = {}
    for part in text.split(","):
        match = _CHANNEL.fullmatch(part.strip())
        if match is None or match[3] not in _UNITS:
            raise ParameterError(
                f"channels has {part.strip()!r}, expected a name of small letters and bits per "
                "second in kb, Mb or Gb, such as fast=100Mb"
            )
        name, rate = match[1], round(float(match[2]) * _UNITS[match[3]])
        if not _LEAST <= rate <= _MOST:
            raise ParameterError(f"channel {name!r} has {rate} bits/s, expected 8kb to 100Gb")
        if name in found or name in _TAKEN:
            why = "comes twice" if name in found else "is the name of something else on systems"
            raise ParameterError(f"channel {name!r} {why}: give it another name")
        found[name] = LabChannel(name, rate)
    if len(found) > MOST_CHANNELS:
        raise ParameterError(f"there are {len(found)} channels, expected at most {MOST_CHANNELS}")
    return tuple(found.values())


def address(channel: int, rank: int) -> str:
    """Return the address of a rank in a channel, both by number."""
    return f"10.77.{channel}.{rank + 1}"


def environment_of(
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
    interfaces = {one.name: "lo" if bucket else one.name for one in channels}
    found = {
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank if bucket else 0),
        "LOCAL_WORLD_SIZE": str(ranks if bucket else 1),
        "GROUP_RANK": str(0 if bucket else rank),
        "GROUP_WORLD_SIZE": str(1 if bucket else ranks),
        "MASTER_ADDR": "127.0.0.1" if bucket else address(0, 0),
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": interfaces[channels[0].name],
        "SCCL_CHANNELS": ",".join(f"{name}={where}" for name, where in interfaces.items()),
        "SCCL_BUNDLES": "0",
    }
    if bucket:
        rates = ",".join(f"{one.name}={one.bits_per_s}" for one in channels)
        found["SCCL_CHANNEL_RATES"] = rates
    return found
