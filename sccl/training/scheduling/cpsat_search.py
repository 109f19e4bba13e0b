"""Search plans of a small step that repeats, with CP-SAT only.

The search first minimizes the period over all starts, any iterations ahead
(:mod:`sccl.training.scheduling.period_cpsat`), with half of the budget. Then it finds the best plan
of each window of the step (:mod:`sccl.training.scheduling.step_cpsat`), the shortest first, with
equal parts of the rest. Its proofs cover plans that repeat after each window, so a plan is optimal
among all only if the bound for all plans confirms it.
"""

from __future__ import annotations

from collections.abc import Callable

from sccl.errors import ParameterError
from sccl.solvers.effort import UNIT_S, Effort, EffortMeter
from sccl.training.scheduling.cyclic_problem import CyclicProblem
from sccl.training.scheduling.cyclic_search import BestPlan, PlanCallback, initial_plans
from sccl.training.scheduling.period_cpsat import solve_period
from sccl.training.scheduling.step_cpsat import solve_step
from sccl.training.scheduling.step_search import MAX_CPSAT_MOTIFS

MAX_CPSAT_ONLY_MOTIFS = 4 * MAX_CPSAT_MOTIFS
"""Motifs of all options, up to which CP-SAT is asked and nothing else is tried beside it."""


def search_by_cpsat(  # noqa: PLR0913, PLR0917 - as of the search by annealing
    problem: CyclicProblem,
    seconds: float,
    seed: int,
    target: int,
    on_plan: PlanCallback,
    nearing: Callable[[int], None] = lambda _: None,
) -> None:
    """Search for plans.

    Args:
        seconds: Approximate budget, which does not depend on the machine.
        target: Period in ticks at which it stops.
        nearing: Function that receives an upper bound on the windows of the next plan, in ticks.

    Raises:
        ParameterError: There are too many motifs for the model.
        KeyboardInterrupt: The user interrupted. Plans so far were reported.
    """
    refuse_large_problem(problem)
    best, begun = BestPlan(problem, on_plan), initial_plans(problem, seed)
    for _, _, window, plan in begun:
        best.record_plan(window.to_cyclic_plan(plan))
    spending = EffortMeter(Effort(seed=seed, units=seconds / UNIT_S))
    if best.period > target and not spending.is_exhausted():
        shortest = solve_period(problem, Effort(seed=seed, units=seconds / UNIT_S / 2), target)
        spending.units += seconds / UNIT_S / 2
        best.record_plan(shortest.to_cyclic_plan(problem))
    for tried, (_, _, window, plan) in enumerate(begun):
        left = spending.remaining()
        if best.period <= target or left is None or not left.units:
            return
        part = left.units / (len(begun) - tried)
        nearing(plan.finish(window.step))
        result = solve_step(window.step, Effort(seed=seed, units=part), plan)
        spending.units += part
        if result.plan is not None:
            best.record_plan(window.to_cyclic_plan(result.plan))


def refuse_large_problem(problem: CyclicProblem) -> None:
    """Refuse problems that are too large for CP-SAT alone.

    Raises:
        ParameterError: There are too many motifs for the model.
    """
    motifs = sum(len(option.motifs) for op in problem.step.ops for option in op.options)
    if motifs > MAX_CPSAT_ONLY_MOTIFS:
        raise ParameterError(
            f"search 'exact' supports at most {MAX_CPSAT_ONLY_MOTIFS} motifs of all options, and "
            f"there are {motifs}: use 'sgs', which solves small steps exactly, or lower "
            "--max-motifs"
        )
