"""Lower bounds of a problem, with their reasons, and their JSON output."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.collectives import Spec, dual_of
from sccl.core.files.bounds import BoundsCertificateWire, BoundsWire, ProvedLimitWire
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, FractionText, Part
from sccl.core.frontier import COMPOSED
from sccl.core.topology import Topology
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.families import SCOPES
from sccl.synth.constructions import ConstructionCost
from sccl.view.completeness import BoundSummary as Shown
from sccl.view.text.reasons import describe_bounds


class ClassBoundsPart(BoundsWire, frozen=True, kw_only=True):
    """Lower bounds for one family of algorithms among several."""

    name: str = msgspec.field(name="class")


class AttainedPart(Part, frozen=True, kw_only=True):
    """The costs that a construction without search attains in the fewest steps."""

    steps: Count
    bandwidth: FractionText
    by: Annotated[str, Meta(description="The construction: 'breadth first' or 'colouring'.")]


class BoundsOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl bounds'."""

    kind: Literal["bounds"] = "bounds"
    topology: str
    collective: str
    steps: Annotated[int, Meta(ge=0, description="Lower bound on S.")]
    bandwidth: Annotated[FractionText, Meta(description="Lower bound on R/C.")]
    scope: Annotated[
        str,
        Meta(description="Class of algorithms for which the bounds hold; empty: all algorithms."),
    ]
    certificate: BoundsCertificateWire
    classes: Annotated[
        tuple[ClassBoundsPart, ...] | UnsetType, Meta(description="For allreduce: its family.")
    ] = UNSET
    limit: Annotated[
        ProvedLimitWire | UnsetType, Meta(description="With --steps: the limit of R/C for that S.")
    ] = UNSET
    every: Annotated[
        ProvedLimitWire | UnsetType,
        Meta(
            description="With --steps, for allreduce: lower bound for every allreduce with that S."
        ),
    ] = UNSET
    attained: Annotated[
        AttainedPart | UnsetType, Meta(description="Present if a construction is known.")
    ] = UNSET


def attained_part(result: ConstructionCost) -> AttainedPart:
    """Return the JSON output of attained costs."""
    return build_output(AttainedPart, result, by=result.construction)


def compute_bounds(topology: Topology, spec: Spec) -> Shown:
    """Return lower bounds with reasons. For allreduce they include those of compositions.

    Raises:
        InputError: The collective does not fit the topology, or some rank cannot be reached.
    """
    if dual_of(spec).phases == 1:
        return describe_bounds(lower_bounds(topology, spec), spec)
    composed = Shown(*_composition_bounds(topology, spec), (), SCOPES[COMPOSED])
    return replace(describe_bounds(any_class_bounds(topology, spec), spec), classes=(composed,))


def _composition_bounds(topology: Topology, spec: Spec) -> tuple[int, Fraction]:
    """Return the least S and R/C of a reducescatter and then an allgather."""
    dual = dual_of(spec)
    scatter, gather = (lower_bounds(topology, half) for half in (dual.first_phase, dual.spec))
    return scatter.steps + gather.steps, scatter.bandwidth + gather.bandwidth / dual.chunk_factor
