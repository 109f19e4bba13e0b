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


def normalize_bus_id(text: str) -> str:
    """Return a bus id as ``0000:0a:00.0``, empty where it is none."""
    match = _BUS_ID.fullmatch(text.lower())
    if match is None:
        return ""
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def check_bus_ids(bus_ids: BusIds, ranks: int, where: str) -> BusIds:
    """Return the bus ids of ranks, each normalised to ``0000:0a:00.0``.

    Args:
        where: the beginning of the message.

    Raises:
        TopologyError: one is invalid, or there is not one for each rank.
    """
    if not isinstance(bus_ids, tuple) or not bus_ids:
        return bus_ids
    if len(bus_ids) != ranks:
        raise TopologyError(
            f"{where}: {len(bus_ids)} pci_bus_ids for {ranks} ranks, expected one per rank (or "
            f"{ASCENDING!r}, or none at all)"
        )
    rank_by_id: dict[str, int] = {}
    for rank, text in enumerate(bus_ids):
        plain = normalize_bus_id(text)
        if not plain:
            raise TopologyError(
                f"{where}: pci_bus_ids has {text!r} for rank {rank}, expected hexadecimal "
                "[domain:]bus:device.function, such as 0000:0a:00.0"
            )
        peer = rank_by_id.setdefault(plain, rank)
        if peer != rank:
            raise TopologyError(
                f"{where}: pci_bus_ids has {text} for ranks {peer} and {rank}, expected a GPU for "
                "each; leave them out for a machine of several hosts"
            )
    return tuple(rank_by_id)


def is_ascending(bus_ids: tuple[str, ...]) -> bool:
    """Return whether checked bus ids ascend."""
    ordered = sorted(bus_ids, key=lambda text: (len(text), text))  # the domain alone may be longer
    return list(bus_ids) == ordered
