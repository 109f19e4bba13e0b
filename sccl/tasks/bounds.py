"""Compute lower bounds and format them for people and scripts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.collectives import Spec, dual_of
from sccl.core.bounds import Bounds
from sccl.core.files.bounds import BoundsCertificateWire, BoundsWire, ProvedLimitWire
from sccl.core.files.fields import Count, FractionText, Part
from sccl.core.frontier import COMPOSED
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.prove.bounds import any_bounds, lower_bounds
from sccl.synth.allreduce.classes import SCOPES, has_classes
from sccl.synth.allreduce.every import proof_of_every
from sccl.synth.candidates import check_enough
from sccl.synth.direct import Attained, attained
from sccl.tasks.outputs import Output
from sccl.view.shown import Bounds as Shown
from sccl.view.text.reasons import in_words


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
    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificateWire
    classes: Annotated[
        tuple[ClassBoundsPart, ...] | UnsetType, Meta(description="For allreduce: its family.")
    ] = UNSET
    limit: Annotated[
        ProvedLimitWire | UnsetType, Meta(description="With --steps: the limit of R/C there.")
    ] = UNSET
    every: Annotated[
        ProvedLimitWire | UnsetType,
        Meta(
            description="With --steps, for allreduce: lower bound for every allreduce with that S."
        ),
    ] = UNSET
    attained: Annotated[
        AttainedPart | UnsetType, Meta(description="Where a construction is known.")
    ] = UNSET


def attained_of(topology: Topology, spec: Spec) -> Attained | None:
    """Return the costs attained in the fewest steps without search. None: nothing is known.

    For reductions these are the costs of their duals. An allreduce on one-way links has both
    phases, each on its own machine.
    """
    dual = dual_of(spec)
    unit = dual.spec.at(dual.spec.unit)
    found = [attained(phase.topology, unit) for phase in dual.solved_on(topology)]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    each = Fraction(dual.phases, len(known))  # phases that each machine stands for
    return replace(
        known[0],
        steps=int(sum(one.steps * each for one in known)),
        bandwidth=sum((dual.bandwidth(one.bandwidth) for one in known), Fraction(0)) / len(known),
    )


def attained_part(found: Attained) -> AttainedPart:
    """Return the JSON output of attained costs."""
    return AttainedPart(steps=found.steps, bandwidth=str(found.bandwidth), by=found.by)


def bound_of_every(topology: Topology, spec: Spec, bounds: Bounds, steps: int) -> StepLimit:
    """Return the lower bound for every allreduce of a number of steps, with its proof.

    Args:
        bounds: Lower bounds for every allreduce.

    Raises:
        ParameterError: No allreduce has so few steps.
    """
    check_enough(steps, spec, bounds, "steps")
    proof = proof_of_every(topology, spec, bounds, steps)
    return StepLimit(steps, proof.bound, None, (proof,))


def bounds_of(topology: Topology, spec: Spec) -> Shown:
    """Return lower bounds with reasons. For allreduce they include those of compositions.

    Raises:
        InputError: The collective does not fit the topology, or some rank cannot be reached.
    """
    if not has_classes(spec):
        return in_words(lower_bounds(topology, spec), spec)
    composed = Shown(*_bounds_of_halves(topology, spec), (), SCOPES[COMPOSED])
    return replace(in_words(any_bounds(topology, spec), spec), classes=(composed,))


def _bounds_of_halves(topology: Topology, spec: Spec) -> tuple[int, Fraction]:
    """Return the least S and R/C of a reducescatter and then an allgather."""
    dual = dual_of(spec)
    scatter, gather = (lower_bounds(topology, half) for half in (dual.scattered, dual.spec))
    return scatter.steps + gather.steps, scatter.bandwidth + gather.bandwidth / dual.chunk_factor
