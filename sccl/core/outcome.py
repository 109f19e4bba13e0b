"""Outcome: the result of a synthesizer for a request, for any method.

It is a :class:`Solution`, :class:`Infeasible`, or :class:`Inconclusive`.

:data:`sccl.core.answer.Answer` is narrower: it concerns one SYNCOLL instance, i.e. whether an
algorithm with given chunks, steps and rounds exists. A k-synchronous synthesizer solves many
instances and combines them into one outcome. Other synthesizers solve none. In both cases an
inconclusive result proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from sccl.core.bound import Bound, DistanceProof, Measure, require_at_least_bound
from sccl.core.instance import Candidate
from sccl.core.step_limit import LimitProof
from sccl.core.stop import NOT_STOPPED, StopKind, StopReason

if TYPE_CHECKING:
    from sccl.core.algorithm import Algorithm
    from sccl.core.packed_schedule import PackedSchedule
    from sccl.core.schedule import Schedule
    from sccl.core.symmetric import SymmetricAlgorithm

Plan: TypeAlias = "Algorithm | SymmetricAlgorithm | Schedule | PackedSchedule"
"""A plan for moving data: by steps or by times. Functions that return one have verified it."""


_MEASURE_TEXTS = {
    Measure.COST: ("the R/C", ""),
    Measure.TIME_US: ("the completion time", "us"),
    Measure.WEIGHTED_US: ("the weighted mean of completion times", "us"),
}
"""The name and the unit of each measure of a plan in a sentence."""


PlanBound: TypeAlias = Bound[Fraction, tuple[LimitProof, ...]]
"""A lower bound for a plan. Without proofs, it is elementary (such as the bandwidth bound), or its
proofs were not stored.
"""


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan, its objective, and a lower bound on the objective.

    Attributes:
        plan: The plan.
        objective: Its value in the measure of the bound.
        bound: Lower bound for all plans of a class.
        found_by: Method that generated the plan, if a synthesizer has several, such as
            ``"packing"``.
    """

    plan: Plan
    objective: Fraction
    bound: PlanBound
    found_by: str = ""

    @property
    def is_optimal(self) -> bool:
        """Return whether the plan is optimal within the class of its bound."""
        return self.objective == self.bound.value

    @property
    def gap(self) -> Fraction | None:
        """Return the relative gap to the bound. None: the bound is 0."""
        return self.objective / self.bound.value - 1 if self.bound.value else None

    def require_consistent(self) -> Solution:
        """Return the solution after checking that it is not better than its lower bound.

        Raises:
            ContradictionError: It is.
        """
        quantity, unit = _MEASURE_TEXTS[self.bound.measure]
        scope = f" ({self.bound.scope})" if self.bound.scope else ""
        require_at_least_bound(
            self.objective,
            self.bound.value,
            result=f"{quantity} of a plan",
            limit=f"the lower bound on {quantity}{scope}",
            unit=unit,
        )
        return self


@dataclass(frozen=True, slots=True)
class DistanceRefutation:
    """The distance of a chunk exceeds the requested number of steps.

    Attributes:
        steps: Requested number of steps.
    """

    steps: int
    distance: DistanceProof


@dataclass(frozen=True, slots=True)
class SolverRefutation:
    """A solver refuted a candidate.

    Attributes:
        reason: Evidence of the refutation, in words.
    """

    candidate: Candidate
    solver: str
    reason: str


Evidence = DistanceRefutation | SolverRefutation


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No such plan exists, for the given evidence."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """The search ended at a limit of budget or time. Nothing is proved.

    Attributes:
        reason: Reason why it ended.
        best: The best plan so far. None: there is none.
    """

    reason: StopReason
    best: Solution | None = None

    @property
    def gap(self) -> Fraction | None:
        """Return the relative gap of the best solution to its bound. None: unknown."""
        return self.best.gap if self.best else None


Outcome = Solution | Infeasible | Inconclusive


def best_plan(outcome: Outcome) -> tuple[Solution | None, StopReason]:
    """Return the best plan (None: there is none), and the reason if the search ended early."""
    match outcome:
        case Solution():
            return outcome, NOT_STOPPED
        case Inconclusive(reason=reason, best=best):
            return best, reason
        case Infeasible():
            return None, StopReason(StopKind.INFEASIBLE)
