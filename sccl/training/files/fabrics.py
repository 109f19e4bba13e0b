"""Convert fabrics to files and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.core.files.outputs import build_output, copy_fields
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.training.files.fabric_shapes import (
    ChannelLinkWire,
    ChannelWire,
    FabricWire,
    SharedBudgetWire,
)
from sccl.training.types.fabric import Channel, Fabric, Incast, SharedBudget

TopologyResolver = Callable[[str], Topology]
"""Function that returns the machine of a name."""


def load_fabric(path: Path, named: TopologyResolver) -> Fabric:
    """Return the fabric in a file.

    Args:
        named: Function from a name to a machine, for channels given by name.

    Raises:
        InputError: The file cannot be read, is no fabric, or is inconsistent.
    """
    where = str(path)
    return fabric_from_wire(parse(read_text(path), FabricWire, where), where, named)


def fabric_from_wire(wire: FabricWire, where: str, named: TopologyResolver) -> Fabric:
    """Return the fabric of a file shape.

    Raises:
        FormatError: it contradicts itself.
    """
    try:
        channels = [_channel(c, f"{where}, channel {c.name!r}", named) for c in wire.channels]
        return copy_fields(
            Fabric,
            wire,
            channels=tuple(channels),
            shared=tuple(
                SharedBudget(
                    b.name, tuple((k.channel, (k.src, k.dst)) for k in b.links), b.gb_per_s
                )
                for b in wire.shared
            ),
        )
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error


def _channel(wire: ChannelWire, where: str, named: TopologyResolver) -> Channel:
    machine = wire.topology
    topology = named(machine) if isinstance(machine, str) else topology_from_wire(machine, where)
    incast = tuple(copy_fields(Incast, row) for row in wire.incast)
    return copy_fields(Channel, wire, topology=topology, incast=incast)


def fabric_to_wire(fabric: Fabric) -> FabricWire:
    """Return the file shape of a fabric, with its machines."""
    channels = (
        build_output(ChannelWire, channel, topology=topology_to_wire(channel.topology))
        for channel in fabric.channels
    )
    shared = (
        build_output(
            SharedBudgetWire,
            budget,
            links=(ChannelLinkWire(channel=n, src=u, dst=v) for n, (u, v) in budget.links),
        )
        for budget in fabric.shared
    )
    return build_output(FabricWire, fabric, channels=channels, shared=shared)
