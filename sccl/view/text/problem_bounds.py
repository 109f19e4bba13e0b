"""Lower bounds of a problem, with their reasons, and their JSON output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.collectives import Spec, dual_of
from sccl.core.bound import AlgorithmBounds
from sccl.core.files.bounds import (
    BoundsCertificateWire,
    BoundsWire,
    ProvedLimitWire,
    bounds_to_wire,
    proved_limit_to_wire,
)
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FractionText, NonNegative, Part
from sccl.core.frontier import COMPOSED
from sccl.core.step_limit import StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.any_family_bound import any_family_bound
from sccl.synth.allreduce.families import SCOPES
from sccl.synth.constructions import ConstructionCost, attained_cost
from sccl.synth.packing.by_steps.limits_by_steps import check_size, step_limit
from sccl.view.completeness import BoundSummary
from sccl.view.text.bounds_text import EQUAL_HALVES
from sccl.view.text.reasons import describe_bounds


class ClassBoundsPart(BoundsWire, frozen=True, kw_only=True):
    """Lower bounds for one family of algorithms among several."""

    name: str = msgspec.field(name="class")


class AttainedPart(Part, frozen=True, kw_only=True):
    """The costs that a construction without search attains in the fewest steps."""

    steps: NonNegative
    bandwidth: FractionText
    by: Annotated[str, "The construction: 'breadth first' or 'colouring'."]


class TimeBoundPart(Part, frozen=True, kw_only=True):
    """The lower bound on the completion time for a size."""

    size_bytes: Annotated[int, Meta(ge=1), "Buffer of a rank."]
    lower_bound_us: Annotated[
        float, Meta(ge=0), "For every schedule, if a chunk travels during alpha."
    ]


class BoundsOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl bound'."""

    kind: Literal["bounds"] = "bounds"
    topology: str
    collective: str
    steps: Annotated[NonNegative, "Lower bound on S."]
    bandwidth: Annotated[FractionText, "Lower bound on R/C."]
    scope: Annotated[str, "Class of algorithms for which the bounds hold; empty: all algorithms."]
    certificate: BoundsCertificateWire
    classes: Annotated[tuple[ClassBoundsPart, ...] | UnsetType, "For allreduce: its family."] = (
        UNSET
    )
    limit: Annotated[ProvedLimitWire | UnsetType, "With --steps: the limit of R/C for that S."] = (
        UNSET
    )
    every: Annotated[
        ProvedLimitWire | UnsetType,
        "With --steps, for allreduce: lower bound for every allreduce with that S.",
    ] = UNSET
    attained: Annotated[AttainedPart | UnsetType, "Present if a construction is known."] = UNSET
    times: Annotated[
        tuple[TimeBoundPart, ...] | UnsetType,
        "With --size: lower bounds on the completion time, by size.",
    ] = UNSET


@dataclass(frozen=True, slots=True)
class ProblemBounds:
    """Lower bounds of a problem with their proofs, and attained costs.

    Attributes:
        family: Bounds for all algorithms; for allreduce, for compositions of equal halves.
        overall: Bounds for every allreduce. None: another collective.
        attained: Costs that a construction attains. None: no construction is known.
        limit: Limit of R/C of the family for the requested S. None: not requested, or for
            allreduce, there is no composition with this S.
        overall_limit: Lower bound on R/C of every allreduce with this S. None: not requested, or
            another collective.
        times: Pairs of a buffer size in bytes and a lower bound on the completion time in
            microseconds.
    """

    topology: Topology
    spec: Spec
    family: AlgorithmBounds
    overall: AlgorithmBounds | None
    attained: ConstructionCost | None
    limit: StepLimit | None = None
    overall_limit: StepLimit | None = None
    times: tuple[tuple[int, float], ...] = ()

    def output(self) -> BoundsOutput:
        """Return the JSON output of 'sccl bound'."""
        family, limit, overall_limit = bounds_to_wire(self.family), self.limit, self.overall_limit
        classes = (build_output(ClassBoundsPart, family, name=EQUAL_HALVES),)
        costs = self.attained
        return build_output(
            BoundsOutput,
            family if self.overall is None else bounds_to_wire(self.overall),
            inputs=question_digests(self.topology, self.spec),
            topology=self.topology,
            collective=self.spec,
            classes=UNSET if self.overall is None else classes,
            limit=UNSET if limit is None else proved_limit_to_wire(limit),
            every=UNSET if overall_limit is None else proved_limit_to_wire(overall_limit),
            attained=build_output(AttainedPart, costs, by=costs.construction) if costs else UNSET,
            times=[TimeBoundPart(size_bytes=size, lower_bound_us=us) for size, us in self.times]
            or UNSET,
        )


def _time_bounds(
    topology: Topology, spec: Spec, sizes: Sequence[int]
) -> tuple[tuple[int, float], ...]:
    """Return pairs of a size and a lower bound on the completion time of every schedule."""
    if not sizes:
        return ()
    from sccl.synth.packing.by_time.time_bound import lower_bound_curve  # noqa: PLC0415 - loads NumPy

    curve = lower_bound_curve(topology, spec, sizes)
    return tuple((size, float(curve.us(size))) for size in sizes)


def prove_bounds(
    topology: Topology,
    spec: Spec,
    steps: int | None = None,
    timeout_s: float = inf,
    sizes: Sequence[int] = (),
) -> ProblemBounds:
    """Return lower bounds with their proofs, and the costs that a construction attains.

    Args:
        steps: S for which the limit of R/C is also computed. None: no limit.
        timeout_s: Time limit for this computation, in seconds.
        sizes: Buffer sizes in bytes, ascending, for which the completion time is bounded.

    Raises:
        InputError: The collective does not fit the topology, a rank cannot be reached, or the
            problem is too large for a limit.
    """
    if steps is not None:
        check_size(topology, spec, steps)
    bounds = ProblemBounds(
        topology,
        spec,
        family=lower_bounds(topology, spec),
        overall=any_class_bounds(topology, spec) if dual_of(spec).phases == 2 else None,
        attained=attained_cost(topology, spec),
        times=_time_bounds(topology, spec, sizes),
    )
    if steps is None:
        return bounds
    overall_limit = limit = None
    if bounds.overall is not None:
        overall_limit = any_family_bound(topology, spec, bounds.overall, steps)
    if bounds.overall is None or (steps % 2 == 0 and steps >= bounds.family.steps):
        limit = step_limit(topology, spec, steps, bounds.family, timeout_s).limit
        limit.require_consistent()
    return replace(bounds, limit=limit, overall_limit=overall_limit)


def compute_bounds(topology: Topology, spec: Spec) -> BoundSummary:
    """Return lower bounds with reasons. For allreduce, they include those of compositions.

    Raises:
        InputError: The collective does not fit the topology, or a rank cannot be reached.
    """
    if dual_of(spec).phases == 1:
        return describe_bounds(lower_bounds(topology, spec), spec)
    composed = BoundSummary(*_composition_bounds(topology, spec), (), SCOPES[COMPOSED])
    return replace(describe_bounds(any_class_bounds(topology, spec), spec), classes=(composed,))


def _composition_bounds(topology: Topology, spec: Spec) -> tuple[int, Fraction]:
    """Return lower bounds on S and R/C of a reducescatter followed by an allgather."""
    dual = dual_of(spec)
    scatter, gather = (lower_bounds(topology, half) for half in (dual.first_phase, dual.spec))
    return scatter.steps + gather.steps, scatter.bandwidth + gather.bandwidth / dual.chunk_factor
