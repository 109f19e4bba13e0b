"""Describe a lab as a fabric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.lab import LabChannel
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.topo import resolve_topology
from sccl.training.files.fabrics import fabric_to_wire
from sccl.training.types.fabric import Channel, Fabric

_USABLE_SHARE = 0.97
"""Usable fraction of a channel's rate. Headers and acknowledgements take the rest."""

_ALPHA_US, _LAUNCH_US = 100.0, 200.0
"""Times in which a Python thread of the job starts a message, and launches a motif."""


def build_lab_fabric(channels: Sequence[LabChannel], ranks: int) -> Fabric:
    """Return the fabric of a lab, in which each rank sends and receives at a channel's rate."""
    fabric_channels = []
    for channel in channels:
        speed = channel.bits_per_s / 8e9 * _USABLE_SHARE
        machine = resolve_topology(f"switch:{ranks}")
        links = tuple(replace(link, alpha_us=_ALPHA_US, gb_per_s=speed) for link in machine.links)
        channel_machine = replace(
            machine, name=channel.name, source="", gb_per_s=speed, links=links
        )
        fabric_channels.append(Channel(channel.name, channel_machine, launch_us=_LAUNCH_US))
    rates = ", ".join(f"{channel.name} {channel.bits_per_s / 1e6:g} Mb/s" for channel in channels)
    source = (
        f"benchmarks.lab: {rates}, usable fraction {_USABLE_SHARE:g}; {_ALPHA_US:g} us per message "
        f"and {_LAUNCH_US:g} us per motif"
    )
    return Fabric("lab", tuple(fabric_channels), source=source)


def write_fabric(channels: Sequence[LabChannel], ranks: int, path: Path) -> None:
    """Write the fabric of a lab to a file."""
    write_atomically(path, to_text(fabric_to_wire(build_lab_fabric(channels, ranks))))
