"""The search for plans of a step that repeats: of the best windows, the best of annealing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sccl.solvers.effort import UNIT_S, Effort
from sccl.training.scheduling.cyclic_problem import CyclicPlan, CyclicProblem
from sccl.training.scheduling.period_cpsat import solve_period, solve_period_by_choice
from sccl.training.scheduling.search_strategies import (
    all_choices,
    fastest_options,
    search_by_annealing,
)
from sccl.training.scheduling.serial_generation import NEVER
from sccl.training.scheduling.steady_state import SteadyState, find_steady_state
from sccl.training.scheduling.step_problem import StepPlan, StepProblem
from sccl.training.scheduling.step_search import EFFORT_UNITS, MAX_CPSAT_MOTIFS, search_step_plan
from sccl.training.scheduling.windows import StepWindow, iterate_windows

MAX_WINDOWS = 3
"""That are searched, the best of all by their first plans."""

_ORDER_SHARE = 0.5
"""The part of the seconds for the order of the options that the best window came to; of small steps
CP-SAT searches that."""

_CPSAT_SHARE = 0.25
"""The part of the effort for all starts, motifs of a collective in different windows, by CP-SAT."""

PlanCallback = Callable[[CyclicPlan, SteadyState], None]
"""Function that receives each better plan, and its period."""


def serial_proposals_in(step: StepProblem, seconds: float) -> int:
    """Return how many plans serial generation makes in about so many seconds: the same anywhere."""
    motifs = _motif_count(step)
    return int(seconds / (2e-6 + motifs / 2e7 + motifs**2 / 1.3e10))


def list_proposals_in(step: StepProblem, seconds: float) -> int:
    """Return how many lists are made in about so many seconds, likewise."""
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
    """Search for plans.

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
        result = search_step_plan(
            window.step, proposals, seed, lambda ticks, _: nearing(ticks), kept, units
        )
        ended.append(
            (
                best.record_plan(window.to_cyclic_plan(result.plan)),
                number,
                window,
                result.plan.options,
            )
        )
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
    """The best plan of those that were found.

    Attributes:
        period: of it, in ticks. None is as long: nothing was found.
    """

    def __init__(self, problem: CyclicProblem, on_plan: PlanCallback) -> None:
        self._problem, self._on_plan = problem, on_plan
        self.period = NEVER

    def record_plan(self, plan: CyclicPlan) -> int:
        """Tell a plan, if it is better than those before; return its period."""
        repetition = find_steady_state(self._problem, plan)
        if repetition.period < self.period:
            self.period = repetition.period
            self._on_plan(plan, repetition)
        return repetition.period


def initial_plans(problem: CyclicProblem, seed: int) -> list[tuple[int, int, StepWindow, StepPlan]]:
    """Return windows with their first plans, the shortest first: ticks, and their numbers."""
    begun = []
    for number, window in enumerate(iterate_windows(problem)):
        plan = search_by_annealing(window.step, 0, seed)
        begun.append((plan.finish(window.step), number, window, plan))
    return sorted(begun, key=lambda row: row[:2])


def _search_order(  # noqa: PLR0913, PLR0917 - a window, and how long
    best: BestPlan,
    window: StepWindow,
    options: tuple[int, ...],
    seconds: float,
    seed: int,
    target: int,
) -> None:
    """Search the order alone, of options as they are: with few motifs, many more are tried."""
    ops = zip(window.step.ops, options, strict=True)
    step = replace(window.step, ops=tuple(replace(op, options=(op.options[k],)) for op, k in ops))

    def kept(plan: StepPlan) -> bool:
        best.record_plan(window.to_cyclic_plan(replace(plan, options=options)))
        return best.period <= target

    kept(search_by_annealing(step, serial_proposals_in(step, seconds), seed, kept=kept))


def _record_window_plan(best: BestPlan, window: StepWindow, target: int, plan: StepPlan) -> bool:
    best.record_plan(window.to_cyclic_plan(plan))
    return best.period <= target
