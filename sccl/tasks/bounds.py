"""Bounds: what no algorithm for a question can beat, as people and scripts read it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.collectives import Spec, named
from sccl.core.files.bounds import BoundsCertificateWire, BoundsWire, ProvedLimitWire
from sccl.core.files.fields import FractionText
from sccl.core.frontier import COMPOSED
from sccl.core.topology import Topology
from sccl.prove.bounds import any_bounds, lower_bounds
from sccl.synth.allreduce.classes import SCOPES, has_classes
from sccl.tasks.outputs import Output
from sccl.view.shown import Bounds
from sccl.view.text.reasons import in_words


class ClassBoundsPart(BoundsWire, frozen=True, kw_only=True):
    """What no algorithm of one class of several can beat."""

    name: str = msgspec.field(name="class")


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


def bounds_of(topology: Topology, spec: Spec) -> Bounds:
    """Return what no algorithm can beat, and why; of allreduce, also of compositions.

    Raises:
        InputError: the collective does not fit the topology, or some rank cannot be reached.
    """
    if not has_classes(spec):
        return in_words(lower_bounds(topology, spec), spec)
    composed = Bounds(*_bounds_of_halves(topology), (), SCOPES[COMPOSED])
    return replace(in_words(any_bounds(topology), spec), classes=(composed,))


def _bounds_of_halves(topology: Topology) -> tuple[int, Fraction]:
    """Return the least S and R/C of a reducescatter and then an allgather."""
    scatter, gather = (
        lower_bounds(topology, named(name, topology.ranks))
        for name in ("reducescatter", "allgather")
    )
    return scatter.steps + gather.steps, scatter.bandwidth + gather.bandwidth / topology.ranks
