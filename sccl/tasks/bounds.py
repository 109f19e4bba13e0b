"""Compute lower bounds and format them for people and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds
from sccl.core.files.bounds import BoundsCertificateWire, BoundsWire, ProvedLimitWire
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, FractionText, Part
from sccl.core.frontier import COMPOSED
from sccl.core.step_limit import StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.any_family_bound import any_family_proof
from sccl.synth.allreduce.families import SCOPES
from sccl.synth.common.candidates import check_min_steps
from sccl.synth.constructions import ConstructionCost, cost_without_search
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


class TimeBoundPart(Part, frozen=True, kw_only=True):
    """The lower bound on the completion time for a size."""

    size_bytes: Annotated[int, Meta(ge=1, description="Buffer of a rank.")]
    lower_bound_us: Annotated[
        float, Meta(ge=0, description="For every schedule, if a chunk travels during alpha.")
    ]


class BoundsOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl bound'."""

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
    times: Annotated[
        tuple[TimeBoundPart, ...] | UnsetType,
        Meta(description="With --size: lower bounds on the completion time, by size."),
    ] = UNSET


def attained_cost(topology: Topology, spec: Spec) -> ConstructionCost | None:
    """Return the costs attained in the fewest steps without search. None: nothing is known.

    For reductions these are the costs of their duals. An allreduce on one-way links has both
    phases, each on its own machine.
    """
    dual = dual_of(spec)
    unit = dual.spec.at(dual.spec.unit)
    per_phase = [cost_without_search(phase.topology, unit) for phase in dual.phases_on(topology)]
    results = [result for result in per_phase if result is not None]
    if len(results) < len(per_phase):
        return None
    each = Fraction(dual.phases, len(results))  # phases that each machine stands for
    return replace(
        results[0],
        steps=int(sum(result.steps * each for result in results)),
        bandwidth=sum((dual.bandwidth(result.bandwidth) for result in results), Fraction(0))
        / len(results),
    )


def attained_part(result: ConstructionCost) -> AttainedPart:
    """Return the JSON output of attained costs."""
    return build_output(AttainedPart, result, by=result.construction)


def time_bounds(topology: Topology, spec: Spec, sizes: Sequence[int]) -> tuple[TimeBoundPart, ...]:
    """Return lower bounds on the completion time of any schedule, by size.

    Args:
        sizes: Bytes of a rank's buffer, ascending.

    Raises:
        InputError: Some destination cannot be reached, or there are too many ranks.
    """
    from sccl.synth.packing.by_time.time_bound import lower_bound_curve  # noqa: PLC0415 - loads NumPy

    curve = lower_bound_curve(topology, spec, sizes)
    return tuple(
        TimeBoundPart(size_bytes=size, lower_bound_us=float(curve.us(size))) for size in sizes
    )


def any_family_bound(
    topology: Topology, spec: Spec, bounds: AlgorithmBounds, steps: int
) -> StepLimit:
    """Return the lower bound for every allreduce of a number of steps, with its proof.

    Args:
        bounds: Lower bounds for every allreduce.

    Raises:
        ParameterError: No allreduce has so few steps.
    """
    check_min_steps(steps, spec, bounds, "steps")
    proof = any_family_proof(topology, spec, bounds, steps)
    return StepLimit(steps, proof.bound, None, (proof,))


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
