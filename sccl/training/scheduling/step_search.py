"""The search for plans of a step: annealing by serial generation, then CP-SAT where it is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sccl.core.bound import Bound, Measure
from sccl.solvers.effort import Effort
from sccl.training.bounds.step_bounds import FinishBound, FinishProof, finish_lower_bound
from sccl.training.scheduling.search_strategies import PlanFilter, search_by_annealing
from sccl.training.scheduling.step_cpsat import solve_step
from sccl.training.scheduling.step_problem import StepPlan, StepProblem

MAX_CPSAT_MOTIFS = 500
"""Largest number of motifs of all options for CP-SAT. It proves all of 1,000 random steps with up
to 11 collectives, each in some hundredths of a second. With 200 collectives and 8,220 motifs, it
finds no plan in 80 s.
"""

EFFORT_UNITS = 1.0
"""Largest budget for CP-SAT."""

GapCallback = Callable[[int, int], None]
"""Function that receives the best completion time and the lower bound, in ticks."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A plan, and a lower bound.

    Attributes:
        finish: Completion time of the plan, in ticks.
        bound: Lower bound in ticks. If CP-SAT proves optimality, it equals that of the plan.
    """

    plan: StepPlan
    finish: int
    bound: FinishBound

    @property
    def proved(self) -> bool:
        """Return whether nothing takes less."""
        return self.finish <= self.bound.value


def search_step_plan(  # noqa: PLR0913, PLR0917 - independent inputs
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    notify: GapCallback = lambda _finish, _bound: None,
    kept: PlanFilter = lambda _: False,
    units: float = EFFORT_UNITS,
) -> PlannedStep:
    """Return the best plan of the search.

    Args:
        proposals: Number of proposals of annealing.
        notify: Function that receives each improvement.
        kept: Function that receives better plans from time to time, and on interrupts.
        units: Budget of CP-SAT.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    bound = finish_lower_bound(problem)
    plan = search_by_annealing(
        problem, proposals, seed, bound.value, lambda ticks: notify(ticks, bound.value), kept
    )
    finish = plan.finish(problem)
    motifs = sum(len(option.motifs) for op in problem.ops for option in op.options)
    if finish > bound.value and motifs <= MAX_CPSAT_MOTIFS and not kept(plan):
        result = solve_step(problem, Effort(seed=seed, units=units), plan)
        if result.plan is not None:
            plan, finish = result.plan, result.plan.finish(problem)
        if result.proved:
            bound = Bound(Measure.TICKS, finish, FinishProof("search"))
        notify(finish, bound.value)
    return PlannedStep(plan, finish, bound)
