"""Convert bounds and limits, with their proofs, to the shapes of files, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.bounds import Bounds, Counted, Cut, Distance, Priced
from sccl.core.files.fields import (
    Count,
    FractionText,
    Part,
    checked_steps,
    cost_of_text,
    fraction_of_text,
)
from sccl.core.limit import StepLimit
from sccl.core.topology import constraint_name
from sccl.core.words import solved_as

# --- bounds --------------------------------------------------------------------------------------


class CutWire(Part, frozen=True, kw_only=True):
    """Ranks into which so many chunks must come, at a weight."""

    ranks: tuple[int, ...]
    weight: FractionText
    entering_chunks: Count


class DistanceWire(Part, frozen=True, kw_only=True):
    """A chunk that has so far to go, which bounds S."""

    problem: str
    chunk: Count
    sources: Annotated[tuple[int, ...], Meta(description="The ranks that hold it.")] = (
        msgspec.field(name="from")
    )
    rank: int = msgspec.field(name="to")
    distance: Count


class BoundsCertificateWire(Part, frozen=True, kw_only=True):
    """Why the bounds hold: prices of links and budgets, cuts, and a chunk with far to go."""

    problem: Annotated[
        str, Meta(description="The bounded collective: the requested one or its dual.")
    ]
    chunks: Annotated[int | UnsetType, Meta(description="The C at which chunks are counted.")] = (
        UNSET
    )
    rounds_at_least: FractionText | UnsetType = UNSET
    kind: str
    prices: dict[str, FractionText] | UnsetType = UNSET
    cuts: tuple[CutWire, ...] | UnsetType = UNSET
    ranks: Annotated[
        tuple[int, ...] | UnsetType,
        Meta(description="For bounds on every allreduce: the ranks of a cut."),
    ] = UNSET
    groups: Annotated[
        tuple[tuple[int, ...], ...] | UnsetType,
        Meta(description="For bounds on every allreduce: groups of ranks that sends connect."),
    ] = UNSET
    sends_per_chunk: Annotated[
        int | UnsetType,
        Meta(description="For bounds on every allreduce: smallest number of sends per chunk."),
    ] = UNSET
    chunks_per_round: Annotated[
        int | UnsetType,
        Meta(description="For bounds on every allreduce: capacity of a round, in chunks."),
    ] = UNSET
    approached: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "For bounds on every allreduce: whether more steps approach the bound arbitrarily "
                "closely."
            )
        ),
    ] = UNSET
    steps: DistanceWire


class BoundsWire(Part, frozen=True, kw_only=True):
    """Lower bounds for all algorithms of a class."""

    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificateWire


def bounds_to_wire(bounds: Bounds) -> BoundsWire:
    """Return the file shape of bounds, which must have their proofs."""
    assert bounds.evidence is not None
    return BoundsWire(
        steps=bounds.steps,
        bandwidth=str(bounds.bandwidth),
        scope=bounds.scope,
        certificate=_evidence_to_wire(bounds.evidence, _distance_to_wire(bounds.distance)),
    )


def _evidence_to_wire(found: Priced | Counted, steps: DistanceWire) -> BoundsCertificateWire:
    match found:
        case Priced():
            return BoundsCertificateWire(
                problem=found.problem,
                chunks=found.chunks,
                rounds_at_least=str(found.rounds),
                kind=found.kind,
                prices={name: str(price) for name, price in found.prices},
                cuts=tuple(
                    CutWire(ranks=cut.ranks, weight=str(cut.weight), entering_chunks=cut.chunks)
                    for cut in found.cuts
                ),
                steps=steps,
            )
        case Counted():
            return BoundsCertificateWire(
                problem=found.collective,
                kind=found.kind,
                ranks=found.ranks,
                groups=found.groups or UNSET,
                sends_per_chunk=found.sends,
                chunks_per_round=found.chunks_per_round,
                approached=found.approached,
                steps=steps,
            )


def _distance_to_wire(found: Distance | None) -> DistanceWire:
    assert found is not None
    return DistanceWire(
        problem=found.problem,
        chunk=found.chunk,
        sources=found.sources,
        rank=found.rank,
        distance=found.steps,
    )


def bounds_of_wire(wire: BoundsWire) -> Bounds:
    """Return the bounds of a file, without proofs if it has none.

    Raises:
        ParameterError: a number is out of range.
    """
    of, steps = wire.certificate, wire.certificate.steps
    distance = Distance(
        *_solved_of_text(steps.problem), steps.chunk, steps.sources, steps.rank, steps.distance
    )
    return Bounds(
        checked_steps(wire.steps),
        cost_of_text(wire.bandwidth),
        wire.scope,
        distance if of.kind else None,
        _evidence_of_wire(of),
    )


def _evidence_of_wire(wire: BoundsCertificateWire) -> Priced | Counted | None:
    if not wire.kind:
        return None
    if wire.sends_per_chunk is not UNSET:
        return Counted(
            wire.problem,
            wire.sends_per_chunk,
            wire.chunks_per_round or 1,
            wire.ranks or (),
            wire.groups or (),
            approached=wire.approached is True,
        )
    return Priced(
        *_solved_of_text(wire.problem),
        wire.chunks or 1,
        fraction_of_text(wire.rounds_at_least or "0"),
        tuple((name, fraction_of_text(price)) for name, price in (wire.prices or {}).items()),
        tuple(Cut(c.ranks, fraction_of_text(c.weight), c.entering_chunks) for c in wire.cuts or ()),
    )


def _solved_of_text(problem: str) -> tuple[str, bool]:
    """Return a collective, and whether it was solved on the reversed topology."""
    reversed_ = solved_as("", on_reversed=True)
    return problem.removesuffix(reversed_), problem.endswith(reversed_)


# --- limits --------------------------------------------------------------------------------------


class LimitWire(Part, frozen=True, kw_only=True):
    """The infimum of R/C for a number of steps, over all k and C: between two bounds."""

    steps: Count
    lower: FractionText
    upper: Annotated[
        FractionText | UnsetType,
        Meta(description="R/C of the best algorithm or packing; absent: none."),
    ] = UNSET


class TimedCutWire(Part, frozen=True, kw_only=True):
    """A weighted cut through time: chunks inside at first and wanted outside must cross it."""

    labels: Annotated[
        tuple[int, ...],
        Meta(description="By rank: the time from 0 on which it is inside from; S+1: never."),
    ]
    weight: FractionText


class LimitProofWire(Part, frozen=True, kw_only=True):
    """Why a limit holds on a machine."""

    problem: str
    topology: str
    bound: FractionText
    prices: Annotated[
        tuple[tuple[str, int, FractionText], ...] | str,
        Meta(
            description="[constraint, step, price]; or 'bandwidth bound', if that proves the limit."
        ),
    ]
    cuts: Annotated[
        tuple[TimedCutWire, ...] | UnsetType,
        Meta(description="Through time, which prove it; prices are then of shared budgets."),
    ] = UNSET
    root: Annotated[
        int | UnsetType,
        Meta(
            description="For allreduce: the rank whose contribution is followed, as in a broadcast."
        ),
    ] = UNSET
    roots: Annotated[
        tuple[int, ...] | UnsetType,
        Meta(description="In process groups: such a rank of each group."),
    ] = UNSET


class ProvedLimitWire(LimitWire, frozen=True, kw_only=True):
    """A limit with its proofs."""

    certificates: tuple[LimitProofWire, ...]


def proved_limit_to_wire(limit: StepLimit) -> ProvedLimitWire:
    """Return the shape of a limit and its proofs."""
    return ProvedLimitWire(
        steps=limit.steps,
        lower=str(limit.lower),
        upper=_upper(limit),
        certificates=tuple(
            LimitProofWire(
                problem=proof.problem,
                topology=proof.topology,
                bound=str(proof.bound),
                prices=tuple(
                    (constraint_name(key), step, str(price)) for key, step, price in proof.prices
                )
                or (() if proof.cuts else "bandwidth bound"),
                cuts=tuple(
                    TimedCutWire(labels=cut.labels, weight=str(cut.weight)) for cut in proof.cuts
                )
                or UNSET,
                root=proof.roots[0] if len(proof.roots) == 1 else UNSET,
                roots=proof.roots if len(proof.roots) > 1 else UNSET,
            )
            for proof in limit.proofs
        ),
    )


def limits_to_wire(limits: Iterable[StepLimit]) -> tuple[LimitWire, ...]:
    """Return the shapes of limits, without their proofs."""
    return tuple(LimitWire(steps=x.steps, lower=str(x.lower), upper=_upper(x)) for x in limits)


def _upper(limit: StepLimit) -> str | UnsetType:
    return UNSET if limit.upper is None else str(limit.upper)


def limits_of_wire(wires: Iterable[LimitWire]) -> tuple[StepLimit, ...]:
    """Return the limits of a file, whose proofs are not kept.

    Raises:
        ParameterError: a number is out of range.
    """
    return tuple(
        StepLimit(
            checked_steps(x.steps),
            cost_of_text(x.lower),
            None if x.upper is UNSET else cost_of_text(x.upper),
        )
        for x in wires
    )
