"""Outcome: the result of a synthesiser for a request, for any method.

:data:`sccl.core.answer.Answer` is narrower: it is about one SYNCOLL instance, i.e. whether an
algorithm with given chunks, steps and rounds exists. A k-synchronous synthesiser solves many
instances and makes one outcome of them. Others solve none. In both cases giving up proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from sccl.core.bound import DistanceProof
from sccl.core.bound_consistency import require_at_least_bound
from sccl.core.candidate import Candidate
from sccl.core.step_limit import LimitProof
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason

if TYPE_CHECKING:
    from sccl.core.algorithm import Algorithm
    from sccl.core.packed_schedule import PackedSchedule
    from sccl.core.schedule import Schedule
    from sccl.core.symmetric import SymmetricAlgorithm

Plan: TypeAlias = "Algorithm | SymmetricAlgorithm | Schedule | PackedSchedule"
"""A plan for moving data: by steps or by times. Functions that return one have verified it."""


class Measure(StrEnum):
    """The measure of a plan."""

    COST = "R/C"
    """Rounds by chunks, for a number of steps."""
    TIME_US = "us"
    """Microseconds at the size of the request."""
    WEIGHTED_US = "weighted us"
    """The mean of when each of several collectives has finished, by their priorities."""


_MEASURE_TEXTS = {
    Measure.COST: ("the R/C", ""),
    Measure.TIME_US: ("the completion time", "us"),
    Measure.WEIGHTED_US: ("the weighted mean of completion times", "us"),
}
"""The name and the unit of each measure in a sentence."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The measured value of a plan, and a lower bound.

    Attributes:
        objective: value of the plan.
        lower_bound: proved lower bound for all plans of ``scope``. None: unknown.
        scope: the class of plans that ``lower_bound`` is about. Empty: all for the topology.
        proofs: proofs of ``lower_bound``. Empty: elementary, such as the bandwidth bound.
    """

    measure: Measure
    objective: Fraction
    lower_bound: Fraction | None = None
    scope: str = ""
    proofs: tuple[LimitProof, ...] = ()

    def require_holds(self) -> None:
        """Check that the plan does not take less than ``least``.

        Raises:
            ContradictionError: It does.
        """
        quantity, unit = _MEASURE_TEXTS[self.measure]
        require_at_least_bound(
            self.objective,
            self.lower_bound,
            result=f"{quantity} of a plan",
            limit=f"the lower bound on {quantity}{f' ({self.scope})' if self.scope else ''}",
            unit=unit,
        )

    @property
    def gap(self) -> Fraction | None:
        """Return by which part of the bound the plan is above it. None: there is no bound."""
        if not self.lower_bound:
            return None
        return self.objective / self.lower_bound - 1


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan."""

    plan: Plan
    bound: Bound

    @property
    def is_optimal(self) -> bool:
        """Return whether it is the best of its class."""
        return self.bound.objective == self.bound.lower_bound


@dataclass(frozen=True, slots=True)
class DistanceRefutation:
    """A chunk has farther to go than the steps that were asked for.

    Attributes:
        steps: that were asked for.
    """

    steps: int
    distance: DistanceProof


@dataclass(frozen=True, slots=True)
class SolverRefutation:
    """A solver says that a candidate has no algorithm.

    Attributes:
        reason: why that may be believed, in words.
    """

    candidate: Candidate
    solver: str
    reason: str


Evidence = DistanceRefutation | SolverRefutation


@dataclass(frozen=True, slots=True)
class Infeasible:
    """There is no such plan, and this is why."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """The search ended at a limit of effort or time. Nothing is proved.

    Attributes:
        reason: why it ended.
        best: the best plan so far. None: there is none.
    """

    reason: StopReason
    best: Solution | None = None

    @property
    def gap(self) -> Fraction | None:
        """Return by which part of its bound the best is above it. None: that is not known."""
        return self.best.bound.gap if self.best else None


Outcome = Solution | Infeasible | Inconclusive


def best_plan(outcome: Outcome) -> tuple[Solution | None, StopReason]:
    """Return the best plan, None if there is none, and why the search ended early, if it did."""
    match outcome:
        case Solution():
            return outcome, NOT_STOPPED
        case Inconclusive(reason=reason, best=best):
            return best, reason
        case Infeasible():
            return None, StopReason(StopKind.INFEASIBLE)
