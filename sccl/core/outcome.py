"""Outcome: the result of a synthesizer for a request, for any method.

It is a :class:`Solution`, :class:`Infeasible`, or :class:`Inconclusive`.

:data:`sccl.core.answer.Answer` is narrower: it is about one SYNCOLL instance, i.e. whether an
algorithm with given chunks, steps and rounds exists. A k-synchronous synthesizer solves many
instances and makes one outcome of them. Others solve none. In both cases giving up proves nothing.
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
"""A lower bound of a plan. Without proofs it is elementary, such as the bandwidth bound, or they
were not kept.
"""


@dataclass(frozen=True, slots=True)
class Solution:
    """A plan, its objective, and a lower bound on the objective.

    Attributes:
        plan: The plan.
        objective: Its value in the measure of the bound.
        bound: Lower bound for all plans of a class.
        found_by: Method that made the plan, where a synthesizer has several, such as ``"packing"``.
    """

    plan: Plan
    objective: Fraction
    bound: PlanBound
    found_by: str = ""

    @property
    def is_optimal(self) -> bool:
        """Return whether it is the best of the class of its bound."""
        return self.objective == self.bound.value

    @property
    def gap(self) -> Fraction | None:
        """Return the relative gap to the bound. None: the bound is 0."""
        return self.objective / self.bound.value - 1 if self.bound.value else None

    def require_consistent(self) -> Solution:
        """Return it, if the plan is not better than the lower bound.

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
        """Return the relative gap of the best solution to its bound. None: unknown."""
        return self.best.gap if self.best else None


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
