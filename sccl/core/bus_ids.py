"""Which GPU each rank is: by PCI bus ids, or by the order of these."""

from __future__ import annotations

import re
from typing import Final, Literal

from sccl.errors import TopologyError

ASCENDING: Final = "ascending"
"""Rank i is the GPU with the i-th lowest bus id: ``nvidia-smi`` numbers so, CUDA need not."""

BusIds = Literal["ascending"] | tuple[str, ...]
"""The bus id of every rank's GPU, or :data:`ASCENDING`. Empty: not stated."""

_BUS_ID = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])")


def plain_bus_id(text: str) -> str:
    """Return a bus id as ``0000:0a:00.0``, empty where it is none."""
    found = _BUS_ID.fullmatch(text.lower())
    if found is None:
        return ""
    domain, bus, device, function = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def checked_bus_ids(given: BusIds, ranks: int, where: str) -> BusIds:
    """Return the bus ids of ranks, each normalised to ``0000:0a:00.0``.

    Args:
        where: the beginning of the message.

    Raises:
        TopologyError: one is invalid, or there is not one for each rank.
    """
    if not isinstance(given, tuple) or not given:
        return given
    if len(given) != ranks:
        raise TopologyError(
            f"{where}: {len(given)} pci_bus_ids for {ranks} ranks, expected one per rank (or "
            f"{ASCENDING!r}, or none at all)"
        )
    known: dict[str, int] = {}
    for rank, text in enumerate(given):
        plain = plain_bus_id(text)
        if not plain:
            raise TopologyError(
                f"{where}: pci_bus_ids has {text!r} for rank {rank}, expected hexadecimal "
                "[domain:]bus:device.function, such as 0000:0a:00.0"
            )
        other = known.setdefault(plain, rank)
        if other != rank:
            raise TopologyError(
                f"{where}: pci_bus_ids has {text} for ranks {other} and {rank}, expected a GPU for "
                "each; leave them out for a machine of several hosts"
            )
    return tuple(known)


def ascend(bus_ids: tuple[str, ...]) -> bool:
    """Return whether checked bus ids ascend."""
    ordered = sorted(bus_ids, key=lambda text: (len(text), text))  # the domain alone may be longer
    return list(bus_ids) == ordered
