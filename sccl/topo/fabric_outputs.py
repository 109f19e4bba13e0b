"""Define the JSON output for fabrics."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.fabric import Fabric
from sccl.core.files.fabrics import fabric_to_wire
from sccl.core.files.json_text import digest
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, FileText, Part
from sccl.topo.fabrics import FABRIC_NAMES
from sccl.topo.fabrics import resolve_fabric


class FabricChannelPart(Part, frozen=True, kw_only=True):
    """A channel of a fabric."""

    name: str
    topology: str
    links: Count
    streams: Annotated[int, Meta(ge=1)]
    launch_us: Annotated[float, Meta(ge=0)]


class FabricPart(Part, frozen=True, kw_only=True):
    """A fabric."""

    name: str
    ranks: Annotated[int, Meta(ge=1)]
    channels: tuple[FabricChannelPart, ...]
    shared: Annotated[Count, Meta(description="Budgets that links of several channels share.")]
    source: str


class FabricListOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl fabric list'."""

    kind: Literal["fabric-list"] = "fabric-list"
    fabrics: tuple[FabricPart, ...]


class FabricCheckOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl fabric check'."""

    kind: Literal["fabric-check"] = "fabric-check"
    file: FileText
    fabric: FabricPart


def list_output() -> FabricListOutput:
    """Return the fabrics of the catalogue."""
    return FabricListOutput(
        inputs={}, fabrics=tuple(_fabric_part(resolve_fabric(name)) for name in FABRIC_NAMES)
    )


def check_output(file: str, fabric: Fabric) -> FabricCheckOutput:
    """Return the JSON output for a valid fabric file."""
    digests = {"fabric": digest(fabric_to_wire(fabric))}
    return FabricCheckOutput(inputs=digests, file=file, fabric=_fabric_part(fabric))


def _fabric_part(fabric: Fabric) -> FabricPart:
    channels = [
        build_output(FabricChannelPart, channel, links=len(channel.topology.links))
        for channel in fabric.channels
    ]
    return build_output(FabricPart, fabric, channels=channels, shared=len(fabric.shared))
