"""The shape of files of sketches: that of TACCL's published ones, with features of its paper."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_Number = Annotated[
    str,
    Meta(
        description="A rank within its node, by its number.",
        extra_json_schema={"pattern": "^(0|[1-9][0-9]{0,4})$"},
    ),
]
_Index = Annotated[int, Meta(ge=0, le=65_535)]
_Indices = Annotated[tuple[_Index, ...], Meta(max_length=65_536)]
_Conn = dict[_Number, _Indices]


class _SketchPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class IntranodeWire(_SketchPart, frozen=True, kw_only=True, omit_defaults=True):
    """How links within a node are used."""

    strategy: Annotated[
        Literal["none", "switch"],
        "none: all links are used; switch: switches are hyperedges with a policy.",
    ]
    switches: Annotated[
        tuple[_Indices, ...],
        Meta(max_length=4096),
        "For each switch, the ranks of a node that it joins.",
    ] = ()
    switch_hyperedge_strategy: Annotated[
        tuple[Literal["uc-max", "uc-min", "free"], ...],
        Meta(max_length=4096),
        "Number of used connections of each switch: as many as possible, as few as possible, or "
        "any.",
    ] = ()
    intranode_conn: Annotated[
        _Conn | None, "Receivers of each rank within its node; null: all links."
    ] = None


class InternodeWire(_SketchPart, frozen=True, kw_only=True, omit_defaults=True):
    """The way chunks leave a node."""

    strategy: Literal["relay"]
    internode_conn: Annotated[
        Literal["fully-connected", "direct-map"] | _Conn,
        "Receivers of each sender in other nodes; or fully-connected (all to all), or direct-map "
        "(ranks with the same number).",
    ]
    gpus_to_sender_rev_map: Annotated[
        _Conn | None, "For each sender, the ranks of its node for which it sends; null: any."
    ] = None
    chunk_to_relay_map: Annotated[
        tuple[int, int] | None,
        "[r1, r2]: rank r // r1 * r1 + r2 sends the chunks of rank r to other nodes.",
    ] = None
    beta_split: Annotated[
        dict[_Number, int] | None, "n: a sender has 1/n of the bandwidth between nodes; null: all."
    ] = None
    enforce_ordering: Annotated[
        bool, "Whether a sender sends its own chunks before forwarded ones."
    ] = False


class HyperparametersWire(_SketchPart, frozen=True, kw_only=True, omit_defaults=True):
    """The number of chunks, and the size of buffers."""

    input_chunkup: Annotated[int, "Chunks per part of a rank's input or output."] = 1
    input_size: Annotated[
        str | int | None,
        "Bytes of a rank's buffer: a number, or text such as 1M, 64KB or 1GiB (K, M and G are "
        "powers of 10); null: set by an option.",
    ] = None


class SketchWire(_SketchPart, frozen=True, kw_only=True, omit_defaults=True):
    """A communication sketch (TACCL, NSDI 2023, appendix A)."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["sketch"] = "sketch"
    digest: Annotated[str | None, "sha256 of the content without this field; or null."] = None
    name: Annotated[str, "Name in messages; empty: the file's name."] = ""
    nnodes: Annotated[int, "Number of equal nodes of the machine."]
    intranode_sketch: IntranodeWire
    internode_sketch: InternodeWire | None = None
    symmetry_offsets: Annotated[
        tuple[tuple[int, int], ...],
        Meta(max_length=64),
        "[offset, size]: in each group of 'size' ranks, a shift by the offset is a symmetry.",
    ] = ()
    hyperparameters: HyperparametersWire = HyperparametersWire()
