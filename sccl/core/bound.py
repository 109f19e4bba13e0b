"""Lower bounds with their proofs, as values.

:class:`Bound` is one bound on one measure. :class:`AlgorithmBounds` is the pair of bounds on S and
R/C with which a sweep begins. Two more classes contain lower bounds:
:class:`sccl.core.step_limit.StepLimit`, an interval for the minimum R/C in S steps, and
:class:`sccl.prove.bounds.time_cuts.CompletionTimeBound`, the bound on time by size.

Every reported result is checked against its lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Generic, TypeVar

from sccl.core.formatting import describe_dual
from sccl.errors import ContradictionError

ValueT = TypeVar("ValueT", int, Fraction)
ProofT_co = TypeVar("ProofT_co", covariant=True)


class Measure(StrEnum):
    """The bounded measure of a plan."""

    COST = "R/C"
    """Rounds divided by chunks, for a number of steps."""
    TIME_US = "us"
    """Microseconds at the size of the request."""
    WEIGHTED_US = "weighted us"
    """The mean of the completion times of concurrent collectives, weighted by their priorities."""
    TICKS = "ticks"
    """Ticks of a clock."""


@dataclass(frozen=True, slots=True)
class Bound(Generic[ValueT, ProofT_co]):
    """A proved lower bound for all plans of a class.

    Attributes:
        measure: The bounded quantity.
        value: The bound.
        proof: Proof of the bound, as values that can be verified or as text.
        scope: The class of plans. Empty: all plans for the topology.
    """

    measure: Measure
    value: ValueT
    proof: ProofT_co
    scope: str = ""


@dataclass(frozen=True, slots=True)
class DistanceProof:
    """A chunk with a long path, which proves the lower bound on steps.

    Attributes:
        collective: The bounded collective: the requested one, or its dual.
        on_reversed: Whether the bound is on the reversed topology.
        sources: The ranks that hold the chunk initially.
        rank: A destination of the chunk.
        steps: Number of links on a shortest path to it.
    """

    collective: str
    on_reversed: bool
    chunk: int
    sources: tuple[int, ...]
    rank: int
    steps: int

    @property
    def problem(self) -> str:
        """Return the bounded problem as text."""
        return describe_dual(self.collective, on_reversed=self.on_reversed)


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of ranks that chunks have to enter.

    Attributes:
        ranks: The set, ascending.
        weight: Its weight in the proof.
        chunks: Number of chunks that start outside and have a destination inside.
    """

    ranks: tuple[int, ...]
    weight: Fraction
    chunks: int


@dataclass(frozen=True, slots=True)
class PriceProof:
    """Prices of links and budgets that prove a lower bound on the rounds.

    Attributes:
        collective: the bounded collective: the requested one, or its dual.
        on_reversed: whether the bound is on the reversed topology.
        chunks: C for which the bound is stated.
        rounds: Lower bound on R for this C.
        prices: (name of a constraint, price) of constraints with a price.
        cuts: Cuts that bound the cost of the demand. Empty: shortest paths bound it.
    """

    collective: str
    on_reversed: bool
    chunks: int
    rounds: Fraction
    prices: tuple[tuple[str, Fraction], ...]
    cuts: tuple[Cut, ...]

    @property
    def problem(self) -> str:
        """Return the bounded problem as text."""
        return describe_dual(self.collective, on_reversed=self.on_reversed)

    @property
    def kind(self) -> str:
        """Return ``"cut"``, ``"cuts"`` (weighted) or ``"lengths"``."""
        return {0: "lengths", 1: "cut"}.get(len(self.cuts), "cuts")


@dataclass(frozen=True, slots=True)
class CountProof:
    """A minimum number of sends per chunk, which bounds every allreduce.

    Attributes:
        sends: Minimum number of sends per chunk into ``ranks``, or between ``groups``.
        chunks_per_round: Maximum number of such sends in a round.
        ranks: Ranks of a cut. Empty: the bound is by groups.
        groups: Groups that together contain all ranks. If it is empty, too, each rank is a group.
        is_asymptotic: Whether allreduces with increasing numbers of steps approach the bound
            arbitrarily.
    """

    collective: str
    sends: int
    chunks_per_round: int
    ranks: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    is_asymptotic: bool = False

    @property
    def bandwidth(self) -> Fraction:
        """Return the lower bound on R/C."""
        return Fraction(self.sends, self.chunks_per_round)

    @property
    def kind(self) -> str:
        """Return ``"cut"``, ``"groups"`` or ``"sends"``."""
        return "cut" if self.ranks else "groups" if self.groups else "sends"


@dataclass(frozen=True, slots=True)
class AlgorithmBounds:
    """Lower bounds for all algorithms of a class.

    Attributes:
        steps: Lower bound on S.
        bandwidth: Lower bound on R/C.
        scope: The class, as text. Empty: all algorithms.
        distance: Proof of the bound on S. None: missing in an older file.
        evidence: Proof of the bound on R/C. None: missing in an older file.
    """

    steps: int
    bandwidth: Fraction
    scope: str = ""
    distance: DistanceProof | None = None
    evidence: PriceProof | CountProof | None = None

    def bounds_met(self, steps: int, cost: Fraction) -> tuple[str, ...]:
        """Return the bounds that an algorithm attains: ``"latency"``, ``"bandwidth"``."""
        met = (("latency", steps == self.steps), ("bandwidth", cost == self.bandwidth))
        return tuple(label for label, is_met in met if is_met)


def require_at_least_bound(
    attained: Fraction | int,
    bound: Fraction | int | None,
    *,
    result: str,
    limit: str,
    unit: str = "",
) -> None:
    """Check that a result is not below a lower bound that is proved for it.

    Args:
        attained: Exact value of the result.
        bound: Exact value of the lower bound. None: unknown.
        result: Name of the result, such as ``"the completion time of the schedule"``.
        limit: Name of the lower bound.
        unit: Unit of both. Empty: no unit.

    Raises:
        ContradictionError: The result is below the bound.
    """
    if bound is not None and attained < bound:
        low, high = _distinct_texts(Fraction(attained), Fraction(bound))
        unit_text = f" {unit}" if unit else ""
        raise ContradictionError(f"{result} is {low}{unit_text}, and {limit} is {high}{unit_text}")


def _distinct_texts(low: Fraction, high: Fraction) -> tuple[str, str]:
    """Return two different numbers as texts that differ: decimals, or fractions if these agree."""
    decimals = f"{float(low):.10g}", f"{float(high):.10g}"
    return decimals if decimals[0] != decimals[1] else (str(low), str(high))
