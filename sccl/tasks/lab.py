"""The lab: a job on this machine behind networks of known rates."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.fields import Count, Part
from sccl.runtime.lab import Lab, LabEnd
from sccl.tasks.outputs import Output


class LabChannelPart(Part, frozen=True, kw_only=True):
    """A channel of the lab."""

    name: str
    bits_per_s: Annotated[int, Meta(ge=1, description="That each rank sends, and receives.")]


class LabOutput(Output, frozen=True, kw_only=True):
    """How a command ended on the ranks of 'sccl lab'."""

    kind: Literal["lab"] = "lab"
    channels: tuple[LabChannelPart, ...]
    ranks: Count
    limiter: Annotated[
        Literal["namespaces", "bucket"],
        Meta(description="Interfaces are limited; or what keeps to a token bucket, alone."),
    ]
    exit_codes: Annotated[
        tuple[int | None, ...],
        Meta(description="By rank; 128 and the signal; null: ended after another had failed."),
    ]
    failed_first: Annotated[int | None, Meta(description="A rank; null: none failed.")]


def lab_output(lab: Lab, end: LabEnd) -> LabOutput:
    """Return what is said of a lab that has ended."""
    return LabOutput(
        inputs={},
        channels=tuple(
            LabChannelPart(name=one.name, bits_per_s=one.bits_per_s) for one in lab.channels
        ),
        ranks=lab.ranks,
        limiter=lab.ways.limiter.value,
        exit_codes=end.codes,
        failed_first=end.first,
    )
