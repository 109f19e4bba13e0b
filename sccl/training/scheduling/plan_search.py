"""Search plans of a step, once or repeated: by annealing, and by CP-SAT if it is small.

For a step that repeats, the search selects the windows with the best warm starts, and anneals a
plan of each with serial generation.

The search with CP-SAT alone spends half of its budget on the period over all starts, with motifs
any number of iterations ahead. Then it solves the step of each window, the shortest first, with
equal parts of the rest (:mod:`sccl.training.scheduling.cpsat_models`). Its proofs cover plans that
repeat after each window. So a plan is optimal among all plans only if the bound for all plans
confirms it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sccl.errors import ParameterError
from sccl.solvers.effort import UNIT_S, Effort, EffortMeter
from sccl.training.bounds.step_bounds import finish_lower_bound
from sccl.training.scheduling.cpsat_models import solve_period, solve_period_by_choice, solve_step
from sccl.training.scheduling.search_strategies import (
    FinishCallback,
    PlanFilter,
    all_choices,
    fastest_options,
    search_by_annealing,
)
from sccl.training.scheduling.serial_generation import NEVER
from sccl.training.scheduling.steady_state import (
    SteadyState,
    StepWindow,
    find_steady_state,
    iterate_windows,
)
from sccl.training.scheduling.step_problem import CyclicPlan, CyclicProblem, StepPlan, StepProblem

MAX_WINDOWS = 3
"""Number of searched windows, those with the best warm starts."""

_ORDER_SHARE = 0.5
"""Share of the budget for the order of motifs with the options of the best window. Small steps use
CP-SAT instead."""

_CPSAT_SHARE = 0.25
"""Share of the budget for CP-SAT over all starts, with motifs of a collective in different
windows."""

PlanCallback = Callable[[CyclicPlan, SteadyState], None]
"""Function that receives each better plan and its steady state."""


def serial_proposals_in(step: StepProblem, seconds: float) -> int:
    """Return the number of serial schedules for about this time, equal on all machines."""
    motifs = _motif_count(step)
    return int(seconds / (2e-6 + motifs / 2e7 + motifs**2 / 1.3e10))


def list_proposals_in(step: StepProblem, seconds: float) -> int:
    """Return the number of list schedules for about this time, equal on all machines."""
    return int(seconds / (4e-6 + _motif_count(step) ** 2 / 2.5e9))


def _motif_count(step: StepProblem) -> int:
    taken = zip(step.ops, fastest_options(step).tolist(), strict=True)
    return sum(len(op.options[choice].motifs) for op, choice in taken)


def search_cyclic_plans(  # noqa: PLR0913, PLR0917 - independent inputs
    problem: CyclicProblem,
    seconds: float,
    seed: int,
    target: int,
    on_plan: PlanCallback,
    nearing: Callable[[int], None] = lambda _: None,
) -> None:
    """Search for plans by annealing, and by CP-SAT if the step is small.

    Args:
        seconds: Approximate budget.
        target: Period in ticks at which it stops.
        nearing: Function that receives an upper bound on the windows of the next plan, in ticks.

    Raises:
        KeyboardInterrupt: The user interrupted. Plans so far were reported.
    """
    best, begun, left = BestPlan(problem, on_plan), initial_plans(problem, seed), seconds
    if (
        small := sum(len(o.motifs) for op in problem.step.ops for o in op.options)
        <= MAX_CPSAT_MOTIFS
    ):
        left *= 1 - _CPSAT_SHARE
    for _, _, window, plan in begun[: 2 * MAX_WINDOWS]:
        best.record_plan(window.to_cyclic_plan(plan))
    if not small:
        left *= 1 - _ORDER_SHARE
    ended = []
    for _, number, window, _ in begun[:MAX_WINDOWS]:
        if best.period <= target:
            return
        each = left / min(MAX_WINDOWS, len(begun))
        proposals, units = serial_proposals_in(window.step, each), min(EFFORT_UNITS, each / UNIT_S)
        kept = partial(_record_window_plan, best, window, target)
        plan = search_step_plan(window.step, proposals, seed, nearing, kept, units)
        period = best.record_plan(window.to_cyclic_plan(plan))
        ended.append((period, number, window, plan.options))
    if not small and best.period > target:
        _, _, window, options = min(ended, key=lambda row: row[:2])
        _search_order(best, window, options, _ORDER_SHARE * seconds, seed, target)
    if small and best.period > target:
        effort = Effort(seed=seed, units=_CPSAT_SHARE * seconds / UNIT_S)
        few = next(all_choices(problem.step), None) is not None
        shortest = (solve_period_by_choice if few else solve_period)(
            problem, effort, target, best.period
        )
        if shortest.options:
            best.record_plan(shortest.to_cyclic_plan(problem))


class BestPlan:
    """The best plan so far.

    Attributes:
        period: Its period in ticks. :data:`NEVER`: there is no plan.
    """

    def __init__(self, problem: CyclicProblem, on_plan: PlanCallback) -> None:
        self._problem, self._on_plan = problem, on_plan
        self.period = NEVER

    def record_plan(self, plan: CyclicPlan) -> int:
        """Report a plan if it is better than those before. Return its period."""
        repetition = find_steady_state(self._problem, plan)
        if repetition.period < self.period:
            self.period = repetition.period
            self._on_plan(plan, repetition)
        return repetition.period


def initial_plans(problem: CyclicProblem, seed: int) -> list[tuple[int, int, StepWindow, StepPlan]]:
    """Return all windows with their warm starts, the shortest first.

    Each one has its completion time in ticks, its number, its window, and its plan.
    """
    begun = []
    for number, window in enumerate(iterate_windows(problem)):
        plan = search_by_annealing(window.step, 0, seed)
        begun.append((plan.finish(window.step), number, window, plan))
    return sorted(begun, key=lambda row: row[:2])


def _search_order(  # noqa: PLR0913, PLR0917 - independent inputs
    best: BestPlan,
    window: StepWindow,
    options: tuple[int, ...],
    seconds: float,
    seed: int,
    target: int,
) -> None:
    """Search the order alone, with fixed options. Each proposal then places fewer motifs."""
    ops = zip(window.step.ops, options, strict=True)
    step = replace(window.step, ops=tuple(replace(op, options=(op.options[k],)) for op, k in ops))

    def kept(plan: StepPlan) -> bool:
        best.record_plan(window.to_cyclic_plan(replace(plan, options=options)))
        return best.period <= target

    kept(search_by_annealing(step, serial_proposals_in(step, seconds), seed, kept=kept))


def _record_window_plan(best: BestPlan, window: StepWindow, target: int, plan: StepPlan) -> bool:
    best.record_plan(window.to_cyclic_plan(plan))
    return best.period <= target


MAX_CPSAT_MOTIFS = 500
"""Largest number of motifs of all options for CP-SAT. It proves all of 1,000 random steps with up
to 11 collectives, each in some hundredths of a second. With 200 collectives and 8,220 motifs, it
finds no plan in 80 s.
"""

EFFORT_UNITS = 1.0
"""Largest budget for CP-SAT."""


def search_step_plan(  # noqa: PLR0913, PLR0917 - independent inputs
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    on_progress: FinishCallback = lambda _: None,
    kept: PlanFilter = lambda _: False,
    units: float = EFFORT_UNITS,
) -> StepPlan:
    """Return the best plan by annealing, then by CP-SAT if the step is small.

    Args:
        proposals: Number of proposals of annealing.
        on_progress: Function that receives the best completion time, in ticks.
        kept: Function that receives better plans, from time to time and on interrupts, and returns
            whether to stop.
        units: Budget of CP-SAT.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    bound = finish_lower_bound(problem).value
    plan = search_by_annealing(problem, proposals, seed, bound, on_progress, kept)
    motifs = sum(len(option.motifs) for op in problem.ops for option in op.options)
    if plan.finish(problem) > bound and motifs <= MAX_CPSAT_MOTIFS and not kept(plan):
        plan = solve_step(problem, Effort(seed=seed, units=units), plan).plan or plan
        on_progress(plan.finish(problem))
    return plan


MAX_CPSAT_ONLY_MOTIFS = 4 * MAX_CPSAT_MOTIFS
"""Largest number of motifs of all options for the search by CP-SAT alone."""


def search_by_cpsat(  # noqa: PLR0913, PLR0917 - same inputs as search_cyclic_plans
    problem: CyclicProblem,
    seconds: float,
    seed: int,
    target: int,
    on_plan: PlanCallback,
    nearing: Callable[[int], None] = lambda _: None,
) -> None:
    """Search for plans by CP-SAT alone.

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
    """Check that a problem is small enough for CP-SAT alone.

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
