"""Convert bounds and limits, with their proofs, to the shapes of files, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.bound import AlgorithmBounds, CountProof, Cut, DistanceProof, PriceProof
from sccl.core.files.shapes import (
    FractionText,
    NonNegative,
    Part,
    check_steps,
    cost_from_text,
    fraction_from_text,
)
from sccl.core.formatting import describe_dual
from sccl.core.step_limit import StepLimit
from sccl.core.topology import constraint_name

# --- bounds --------------------------------------------------------------------------------------


class CutWire(Part, frozen=True, kw_only=True):
    """Ranks into which so many chunks must come, at a weight."""

    ranks: tuple[int, ...]
    weight: FractionText
    entering_chunks: NonNegative


class DistanceWire(Part, frozen=True, kw_only=True):
    """A chunk that has so far to go, which bounds S."""

    problem: str
    chunk: NonNegative
    sources: Annotated[tuple[int, ...], "Ranks that hold it."] = msgspec.field(name="from")
    rank: int = msgspec.field(name="to")
    distance: NonNegative


class BoundsCertificateWire(Part, frozen=True, kw_only=True):
    """Why the bounds hold: prices of links and budgets, cuts, and a chunk with far to go."""

    problem: Annotated[str, "The bounded collective: the requested one or its dual."]
    chunks: Annotated[int | UnsetType, "The C at which chunks are counted."] = UNSET
    rounds_at_least: FractionText | UnsetType = UNSET
    kind: str
    prices: dict[str, FractionText] | UnsetType = UNSET
    cuts: tuple[CutWire, ...] | UnsetType = UNSET
    ranks: Annotated[
        tuple[int, ...] | UnsetType, "For bounds on every allreduce: the ranks of a cut."
    ] = UNSET
    groups: Annotated[
        tuple[tuple[int, ...], ...] | UnsetType,
        "For bounds on every allreduce: groups of ranks that sends connect.",
    ] = UNSET
    sends_per_chunk: Annotated[
        int | UnsetType, "For bounds on every allreduce: smallest number of sends per chunk."
    ] = UNSET
    chunks_per_round: Annotated[
        int | UnsetType, "For bounds on every allreduce: capacity of a round, in chunks."
    ] = UNSET
    approached: Annotated[
        bool | UnsetType,
        "For bounds on every allreduce: whether more steps approach the bound arbitrarily closely.",
    ] = UNSET
    steps: DistanceWire


class BoundsWire(Part, frozen=True, kw_only=True):
    """Lower bounds for all algorithms of a class."""

    steps: Annotated[NonNegative, "Lower bound on S."]
    bandwidth: Annotated[FractionText, "Lower bound on R/C."]
    scope: Annotated[str, "Class of algorithms for which the bounds hold; empty: all algorithms."]
    certificate: BoundsCertificateWire


def bounds_to_wire(bounds: AlgorithmBounds) -> BoundsWire:
    """Return the file shape of bounds, which must have their proofs."""
    assert bounds.evidence is not None
    return BoundsWire(
        steps=bounds.steps,
        bandwidth=str(bounds.bandwidth),
        scope=bounds.scope,
        certificate=_evidence_to_wire(bounds.evidence, _distance_to_wire(bounds.distance)),
    )


def _evidence_to_wire(
    evidence: PriceProof | CountProof, steps: DistanceWire
) -> BoundsCertificateWire:
    match evidence:
        case PriceProof():
            return BoundsCertificateWire(
                problem=evidence.problem,
                chunks=evidence.chunks,
                rounds_at_least=str(evidence.rounds),
                kind=evidence.kind,
                prices={name: str(price) for name, price in evidence.prices},
                cuts=tuple(
                    CutWire(ranks=cut.ranks, weight=str(cut.weight), entering_chunks=cut.chunks)
                    for cut in evidence.cuts
                ),
                steps=steps,
            )
        case CountProof():
            return BoundsCertificateWire(
                problem=evidence.collective,
                kind=evidence.kind,
                ranks=evidence.ranks,
                groups=evidence.groups or UNSET,
                sends_per_chunk=evidence.sends,
                chunks_per_round=evidence.chunks_per_round,
                approached=evidence.is_asymptotic,
                steps=steps,
            )


def _distance_to_wire(distance: DistanceProof | None) -> DistanceWire:
    assert distance is not None
    return DistanceWire(
        problem=distance.problem,
        chunk=distance.chunk,
        sources=distance.sources,
        rank=distance.rank,
        distance=distance.steps,
    )


def bounds_from_wire(wire: BoundsWire) -> AlgorithmBounds:
    """Return the bounds of a file, without proofs if it has none.

    Raises:
        ParameterError: a number is out of range.
    """
    of, steps = wire.certificate, wire.certificate.steps
    distance = DistanceProof(
        *_parse_problem(steps.problem), steps.chunk, steps.sources, steps.rank, steps.distance
    )
    return AlgorithmBounds(
        check_steps(wire.steps),
        cost_from_text(wire.bandwidth),
        wire.scope,
        distance if of.kind else None,
        _evidence_from_wire(of),
    )


def _evidence_from_wire(wire: BoundsCertificateWire) -> PriceProof | CountProof | None:
    if not wire.kind:
        return None
    if wire.sends_per_chunk is not UNSET:
        return CountProof(
            wire.problem,
            wire.sends_per_chunk,
            wire.chunks_per_round or 1,
            wire.ranks or (),
            wire.groups or (),
            is_asymptotic=wire.approached is True,
        )
    return PriceProof(
        *_parse_problem(wire.problem),
        wire.chunks or 1,
        fraction_from_text(wire.rounds_at_least or "0"),
        tuple((name, fraction_from_text(price)) for name, price in (wire.prices or {}).items()),
        tuple(
            Cut(c.ranks, fraction_from_text(c.weight), c.entering_chunks) for c in wire.cuts or ()
        ),
    )


def _parse_problem(problem: str) -> tuple[str, bool]:
    """Split the text of a problem into the collective, and whether the topology is reversed."""
    reversed_ = describe_dual("", on_reversed=True)
    return problem.removesuffix(reversed_), problem.endswith(reversed_)


# --- limits --------------------------------------------------------------------------------------


class LimitWire(Part, frozen=True, kw_only=True):
    """The infimum of R/C for a number of steps, over all k and C: between two bounds."""

    steps: NonNegative
    lower: FractionText
    upper: Annotated[
        FractionText | UnsetType,
        Meta(description="R/C of the best algorithm or packing; absent: none."),
    ] = UNSET


class TimedCutWire(Part, frozen=True, kw_only=True):
    """A weighted cut through time: chunks inside at first and wanted outside must cross it."""

    labels: Annotated[
        tuple[int, ...], "By rank: the step from which on it is inside, 0 to S; S+1: never."
    ]
    weight: FractionText


class LimitProofWire(Part, frozen=True, kw_only=True):
    """Why a limit holds on a machine."""

    problem: str
    topology: str
    bound: FractionText
    prices: Annotated[
        tuple[tuple[str, int, FractionText], ...] | str,
        "[constraint, step, price]; or 'bandwidth bound', if that proves the limit.",
    ]
    cuts: Annotated[
        tuple[TimedCutWire, ...] | UnsetType,
        "Cuts through time that prove the limit; prices then refer to shared budgets.",
    ] = UNSET
    root: Annotated[
        int | UnsetType,
        "For allreduce: the proof follows the contribution of this rank as a broadcast.",
    ] = UNSET
    roots: Annotated[
        tuple[int, ...] | UnsetType, "For process groups: one such rank per group."
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


def limits_from_wire(wires: Iterable[LimitWire]) -> tuple[StepLimit, ...]:
    """Return the limits of a file, which does not contain their proofs.

    Raises:
        ParameterError: a number is out of range.
    """
    return tuple(
        StepLimit(
            check_steps(x.steps),
            cost_from_text(x.lower),
            None if x.upper is UNSET else cost_from_text(x.upper),
        )
        for x in wires
    )
