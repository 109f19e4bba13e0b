"""The shape of files of fabrics."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import NonNegative, TopologyWire


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class IncastWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The reduced bandwidth if many ranks send to one rank at once."""

    senders: Annotated[int, Meta(ge=2), "Smallest number of senders to which the entry applies."]
    from_bytes: Annotated[
        NonNegative, "Smallest total size of their messages to one rank, in bytes."
    ] = 0
    efficiency: Annotated[float, Meta(gt=0, le=1), "Fraction of the bandwidth that is left."]


class ChannelWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Links that are issued to by streams of their own."""

    name: Annotated[str, Meta(min_length=1, max_length=60)]
    topology: Annotated[
        str | TopologyWire, "Topology of the channel: a machine, or its name ('sccl topo list')."
    ]
    streams: Annotated[
        int, Meta(ge=1), "Number of motifs that may run at the same time, in the order of issue."
    ] = 1
    launch_us: Annotated[
        float, Meta(ge=0), "Overhead of each motif in addition to its links, microseconds."
    ] = 0.0
    slowdown: Annotated[
        float,
        Meta(ge=0),
        "Relative slowdown of computation while the channel is busy (0.1: 10 % longer).",
    ] = 0.0
    incast: tuple[IncastWire, ...] = ()


class ChannelLinkWire(_Wire, frozen=True, kw_only=True):
    """A link of a channel."""

    channel: str
    src: NonNegative
    dst: NonNegative


class SharedBudgetWire(_Wire, frozen=True, kw_only=True):
    """A bandwidth that links of several channels share, such as that of a NIC."""

    name: Annotated[str, Meta(min_length=1)]
    links: Annotated[tuple[ChannelLinkWire, ...], Meta(min_length=2)]
    gb_per_s: Annotated[
        float, Meta(gt=0), "Shared bandwidth of all these links, 10^9 bytes per second."
    ]


class FabricWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The channels over which the ranks of a job move data, and their shared budgets."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["fabric"] = "fabric"
    digest: Annotated[
        str | None, "sha256 of the content without this field; optional in files made by hand."
    ] = None
    name: Annotated[str, Meta(min_length=1)]
    source: Annotated[str, "Origin of the numbers."] = ""
    channels: Annotated[tuple[ChannelWire, ...], Meta(min_length=1)]
    shared: tuple[SharedBudgetWire, ...] = ()
