"""Lower bounds with their proofs, as values.

:class:`Bound` is one bound on one measure. :class:`AlgorithmBounds` is the pair on S and R/C with
which a sweep begins. Two more values contain lower bounds: :class:`sccl.core.step_limit.StepLimit`,
the interval of the least R/C for S steps, and
:class:`sccl.prove.bounds.time_cuts.CompletionTimeBound`, the bound on time by size.

Every result that is reported with a lower bound is checked: none may be below it.
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
    """The measure of a plan that a bound is about."""

    COST = "R/C"
    """Rounds by chunks, for a number of steps."""
    TIME_US = "us"
    """Microseconds at the size of the request."""
    WEIGHTED_US = "weighted us"
    """The mean of when each of several collectives has finished, by their priorities."""
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
        collective: the bounded collective: the requested one, or its dual.
        on_reversed: whether the bound is on the reversed topology.
        sources: the ranks that hold the chunk before.
        rank: a rank that wants it.
        steps: links on a shortest path to it.
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
        ranks: the set, ascending.
        weight: its share in the proof.
        chunks: how many chunks start outside and are wanted inside.
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
        prices: (name of a constraint, price), where there is a price.
        cuts: cuts that bound the cost of the demand. Empty: by shortest paths.
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
    """The number of sends that each chunk of an allreduce of any class needs.

    Attributes:
        sends: minimum for each chunk, into ``ranks``, or between ``groups``.
        chunks_per_round: maximum number of such sends in a round.
        ranks: Ranks of a cut. Empty: the bound is by groups.
        groups: Groups that together contain all ranks. Empty too: each rank is a group by itself.
        is_asymptotic: whether allreduces of more and more steps come arbitrarily close to the
            bound.
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
        distance: Proof of the bound on S. None: not in an older file.
        evidence: Proof of the bound on R/C. None: not in an older file.
    """

    steps: int
    bandwidth: Fraction
    scope: str = ""
    distance: DistanceProof | None = None
    evidence: PriceProof | CountProof | None = None

    def bounds_met(self, steps: int, cost: Fraction) -> tuple[str, ...]:
        """Return which of the two an algorithm meets, of ``"latency"`` and ``"bandwidth"``."""
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
        bound: Exact value of the lower bound. None: none is known.
        result: Name of the result, such as ``"the completion time of the schedule"``.
        limit: Name of the lower bound.
        unit: Unit of both. Empty: they have none.

    Raises:
        ContradictionError: The result is below the bound.
    """
    if bound is not None and attained < bound:
        low, high = _distinct_texts(Fraction(attained), Fraction(bound))
        of = f" {unit}" if unit else ""
        raise ContradictionError(f"{result} is {low}{of}, and {limit} is {high}{of}")


def _distinct_texts(low: Fraction, high: Fraction) -> tuple[str, str]:
    """Return two different numbers as texts that differ: decimals, or fractions if these agree."""
    decimals = f"{float(low):.10g}", f"{float(high):.10g}"
    return decimals if decimals[0] != decimals[1] else (str(low), str(high))
