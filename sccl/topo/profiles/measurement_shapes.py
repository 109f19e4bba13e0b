"""The shapes of files of measurements of links."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import NonNegative

_Version = Annotated[Literal[1], Meta(description="Version of this format.")]
_Digest = Annotated[
    str | None, Meta(description="sha256 of the content without this field; or null.")
]
_Figures = Annotated[tuple[float, ...], Meta(min_length=1, max_length=100_000)]
_Named = Annotated[str, Meta(min_length=1)]
_Source = Annotated[str, Meta(description="Tool and method of the measurements.")]


class _MeasuredPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class LinkTimingWire(_MeasuredPart, frozen=True, kw_only=True):
    """How long chunks took over one link."""

    src: Annotated[NonNegative, "Rank that sent."]
    dst: Annotated[NonNegative, "Rank that received."]
    pacing: Annotated[
        Literal["in-turn", "at-once"],
        "in-turn: each chunk after the previous one arrived; at-once: all chunks concurrently.",
    ]
    chunks: Annotated[int, Meta(ge=1), "Number of sent chunks."]
    chunk_bytes: Annotated[NonNegative, "Of each."]
    us: Annotated[_Figures, "Microseconds until the last chunk arrived, by repetition."]


class MeasurementsWire(_MeasuredPart, frozen=True, kw_only=True, omit_defaults=True):
    """Timings of links, from which alpha and beta are fitted (TACCL, section 4.1)."""

    schema: _Version = 1
    kind: Literal["measurement"] = "measurement"
    digest: _Digest = None
    name: _Named
    source: _Source = ""
    ranks: Annotated[int, Meta(ge=2)]
    timings: Annotated[tuple[LinkTimingWire, ...], Meta(min_length=1)]
