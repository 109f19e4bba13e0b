"""The search for plans of a step: annealing by serial generation, then CP-SAT where it is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sccl.solvers.effort import Effort
from sccl.train.bounds import StepBound, least_finish
from sccl.train.exact import exact
from sccl.train.problem import StepPlan, StepProblem
from sccl.train.searches import Kept, serial

MOST_EXACT = 500
"""Motifs of all options, up to which CP-SAT is asked for the best plan. Of 1,000 random steps with
11 collectives at the most it proves all, each in some hundredths of a second; of 200 collectives,
with 8,220 motifs, it finds nothing in 80 s."""

UNITS = 1.0
"""Of effort, at the most, for that."""

Told = Callable[[int, int], None]
"""Is told what the best takes, and what no plan takes less than, in ticks."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A plan, and what no plan takes less than.

    Attributes:
        finish: of the plan, ticks.
        bound: ticks; where CP-SAT proves that nothing is better, those of the plan.
    """

    plan: StepPlan
    finish: int
    bound: StepBound

    @property
    def proved(self) -> bool:
        """Return whether nothing takes less."""
        return self.finish <= self.bound.ticks


def planned(  # noqa: PLR0913, PLR0917 - how far, and what is told when
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    told: Told = lambda _finish, _bound: None,
    kept: Kept = lambda _: False,
    units: float = UNITS,
) -> PlannedStep:
    """Return the best plan that is found.

    Args:
        proposals: of annealing.
        told: whenever there is something better.
        kept: is given what is better now and then, and where the user interrupts.
        units: of effort, for CP-SAT.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    bound = least_finish(problem)
    plan = serial(
        problem, proposals, seed, bound.ticks, lambda ticks: told(ticks, bound.ticks), kept
    )
    finish = plan.finish(problem)
    motifs = sum(len(option.motifs) for op in problem.ops for option in op.options)
    if finish > bound.ticks and motifs <= MOST_EXACT and not kept(plan):
        found = exact(problem, Effort(seed=seed, units=units), plan)
        if found.plan is not None:
            plan, finish = found.plan, found.plan.finish(problem)
        if found.proved:
            bound = StepBound(finish, "search")
        told(finish, bound.ticks)
    return PlannedStep(plan, finish, bound)
