"""What 'sccl pareto', 'sccl limits' and 'sccl bounds' print with '--json'.

Frontiers and bounds are built where they are known, and a test holds them to these shapes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.files.bounds import BoundsCertificateWire, BoundsWire, ProvedLimitWire
from sccl.core.files.fields import FractionText
from sccl.core.files.frontier_shapes import FrontierWire
from sccl.tasks.outputs import Inputs, Output


class ClassBoundsPart(BoundsWire, frozen=True, kw_only=True):
    """What no algorithm of one class of several can beat."""

    name: str = msgspec.field(name="class")


class FrontierOutput(FrontierWire, frozen=True, kw_only=True):
    """What 'sccl pareto' found, printed or kept in the folder of '--out'."""

    schema: Annotated[Literal[1], Meta(description="Version of this shape.")] = 1
    kind: Literal["frontier"] = "frontier"
    sccl: Annotated[str, Meta(description="The version of sccl.")]
    inputs: Inputs


class BoundsOutput(Output, frozen=True, kw_only=True):
    """What 'sccl bounds' computed."""

    kind: Literal["bounds"] = "bounds"
    topology: str
    collective: str
    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificateWire
    classes: Annotated[
        tuple[ClassBoundsPart, ...] | UnsetType, Meta(description="Of allreduce: of a class.")
    ] = UNSET
    limit: Annotated[
        ProvedLimitWire | UnsetType, Meta(description="With --steps: the limit of R/C there.")
    ] = UNSET
