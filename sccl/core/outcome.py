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

from sccl.core.bounds import Distance
from sccl.core.candidate import Candidate
from sccl.core.contradictions import require_not_below
from sccl.core.limit import LimitProof

if TYPE_CHECKING:
    from sccl.core.algorithm import Algorithm
    from sccl.core.packed import PackedSchedule
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


_MEASURED = {
    Measure.COST: ("the R/C", ""),
    Measure.TIME_US: ("the completion time", "us"),
    Measure.WEIGHTED_US: ("the weighted mean of completion times", "us"),
}
"""The name and the unit of each measure in a sentence."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The measured value of a plan, and a lower bound.

    Attributes:
        attained: value of the plan.
        least: proved lower bound for all plans of ``scope``. None: unknown.
        scope: the class of plans that ``least`` is about. Empty: all for the topology.
        proofs: proofs of ``least``. Empty: elementary, such as the bandwidth bound.
    """

    measure: Measure
    attained: Fraction
    least: Fraction | None = None
    scope: str = ""
    proofs: tuple[LimitProof, ...] = ()

    def require_holds(self) -> None:
        """Check that the plan does not take less than ``least``.

        Raises:
            ContradictionError: It does.
        """
        what, unit = _MEASURED[self.measure]
        require_not_below(
            self.attained,
            self.least,
            result=f"{what} of a plan",
            limit=f"the lower bound on {what}{f' ({self.scope})' if self.scope else ''}",
            unit=unit,
        )

    @property
    def gap(self) -> Fraction | None:
        """Return by which part of the bound the plan is above it. None: there is no bound."""
        if not self.least:
            return None
        return self.attained / self.least - 1


@dataclass(frozen=True, slots=True)
class Found:
    """A plan."""

    plan: Plan
    bound: Bound

    @property
    def proved(self) -> bool:
        """Return whether it is the best of its class."""
        return self.bound.attained == self.bound.least


@dataclass(frozen=True, slots=True)
class TooFar:
    """A chunk has farther to go than the steps that were asked for.

    Attributes:
        steps: that were asked for.
    """

    steps: int
    distance: Distance


@dataclass(frozen=True, slots=True)
class Refutation:
    """A solver says that a candidate has no algorithm.

    Attributes:
        reason: why that may be believed, in words.
    """

    candidate: Candidate
    solver: str
    reason: str


Evidence = TooFar | Refutation


@dataclass(frozen=True, slots=True)
class Impossible:
    """There is no such plan, and this is why."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The search ended at a limit of effort or time. Nothing is proved.

    Attributes:
        reason: reason, as text.
        best: the best plan so far. None: there is none.
    """

    reason: str
    best: Found | None = None

    @property
    def gap(self) -> Fraction | None:
        """Return by which part of its bound the best is above it. None: that is not known."""
        return self.best.bound.gap if self.best else None


Outcome = Found | Impossible | GaveUp
