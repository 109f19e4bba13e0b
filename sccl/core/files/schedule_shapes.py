"""The shapes of files of schedules, and of bandwidth that varies while they run."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import CollectiveWire, Positive, TopologyWire

_Version = Annotated[Literal[1], Meta(description="Version of this format.")]
_Digest = Annotated[
    str,
    Meta(description="sha256 of the content without this field; optional in files made by hand."),
]
_Index = Annotated[int, Meta(ge=0)]
_Tick = Annotated[int, Meta(ge=0, lt=2**62)]
_Number = Annotated[int, Meta(ge=0, lt=2**31)]
_EdgeWire = Annotated[tuple[_Index, _Index], Meta(description="A directed edge as [src, dst].")]


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ScheduleWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Transfers with their times, with the topology and the collective."""

    schema: _Version = 1
    kind: Literal["schedule"] = "schedule"
    digest: _Digest | None = None
    collective: CollectiveWire
    topology: TopologyWire
    alpha: Annotated[
        Literal["travels", "occupies"],
        "travels: a link is busy for size * beta, and the chunk arrives alpha later; occupies: it "
        "is busy for alpha + size * beta.",
    ]
    tick_ps: Annotated[int, Meta(ge=1), "Picoseconds of a tick."]
    chunk_bytes: Annotated[
        Positive | tuple[Positive, ...],
        "Bytes of every chunk, or a list with the bytes of each chunk.",
    ]
    sends: Annotated[
        tuple[tuple[_Tick, _Tick, _Number, _Number, _Number, Literal[0, 1]], ...],
        "Rows [start, end, chunk, src, dst, reduce], sorted by start, chunk, src, and dst. The "
        "link is busy from tick start to tick end. Rows of one link with the same start and end "
        "are one transfer of several chunks: it takes one alpha plus beta for their total size, "
        "and all its chunks arrive together.",
    ]
    messages: Annotated[
        tuple[_Number, ...],
        "Message of each send, if chunks pass through nodes without storage; empty: each send is a "
        "message.",
    ] = ()


class PackedScheduleWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The head of a packed schedule's file. Its rounds and chunks follow as plain numbers."""

    schema: _Version = 1
    kind: Literal["packed-schedule"] = "packed-schedule"
    digest: _Digest | None = None
    collective: CollectiveWire
    topology: TopologyWire
    alpha: Literal["travels", "occupies"]
    tick_ps: Annotated[int, Meta(ge=1), "Picoseconds of a tick."]
    chunk_bytes: Annotated[int, Meta(ge=1), "Bytes of every chunk."]
    passes: Annotated[
        tuple[Literal["stores", "reduces"], ...],
        Meta(min_length=1, max_length=2),
        "Order of the rounds: 'stores' forward, 'reduces' backward with reductions.",
    ]
    rounds: Annotated[int, Meta(ge=0, lt=2**40), "Rounds of the log."]
    sends: Annotated[int, Meta(ge=0, lt=2**40), "Chunks of the log."]
    chunk_bits: Annotated[Literal[16, 32], "Bits of a chunk number in the log."]
    finish: Annotated[_Tick, "Tick at which the last chunk arrives."]


class BandwidthIntervalWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A time in which links have less than the bandwidth that the machine states."""

    links: Annotated[
        tuple[_EdgeWire, ...],
        "Ranks or switch nodes, as the topology numbers them; empty: all links.",
    ] = ()
    from_us: Annotated[float, "Start of the interval, in microseconds."]
    to_us: Annotated[float | None, "End of the interval, in microseconds; null: no end."] = None
    fraction: Annotated[float, "Available fraction of the bandwidth: 0 (an outage) to 1."]


class VariableBandwidthWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Bandwidth that varies over time. Outside of the intervals a link has its full bandwidth."""

    schema: _Version = 1
    kind: Literal["bandwidth"] = "bandwidth"
    digest: _Digest | None = None
    name: Annotated[str, "Name in messages; empty: the file's name."] = ""
    intervals: Annotated[
        tuple[BandwidthIntervalWire, ...],
        Meta(min_length=1),
        "If several intervals cover a link at the same time, the smallest fraction counts.",
    ]
