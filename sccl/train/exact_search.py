"""Search plans of a small step that repeats, with CP-SAT only.

The search first minimizes the period over all starts, any iterations ahead
(:mod:`sccl.train.exact_periods`), with half of the budget. Then it finds the best plan of each
window of the step (:mod:`sccl.train.exact`), the shortest first, with equal parts of the rest. Its
proofs cover plans that repeat after each window, so a plan is optimal among all only if the bound
for all plans confirms it.
"""

from __future__ import annotations

from collections.abc import Callable

from sccl.errors import ParameterError
from sccl.solvers.effort import UNIT_S, Effort, Spending
from sccl.train.cyclic import CyclicProblem
from sccl.train.exact import exact
from sccl.train.exact_periods import exact_period
from sccl.train.joint import MOST_EXACT
from sccl.train.periodic import BestPlan, ToldPlan, openings_of

MOST_ALONE = 4 * MOST_EXACT
"""Motifs of all options, up to which CP-SAT is asked and nothing else is tried beside it."""


def exactly(  # noqa: PLR0913, PLR0917 - as of the search by annealing
    problem: CyclicProblem,
    seconds: float,
    seed: int,
    enough: int,
    told: ToldPlan,
    nearing: Callable[[int], None] = lambda _: None,
) -> None:
    """Search for plans.

    Args:
        seconds: Approximate budget, which does not depend on the machine.
        enough: Period in ticks at which it stops.
        nearing: Function that receives an upper bound on the windows of the next plan, in ticks.

    Raises:
        ParameterError: There are too many motifs for the model.
        KeyboardInterrupt: The user interrupted. Plans so far were reported.
    """
    refuse_many(problem)
    best, begun = BestPlan(problem, told), openings_of(problem, seed)
    for _, _, window, plan in begun:
        best.tell(window.cyclic(plan))
    spending = Spending(Effort(seed=seed, units=seconds / UNIT_S))
    if best.period > enough and not spending.used_up():
        least = exact_period(problem, Effort(seed=seed, units=seconds / UNIT_S / 2), enough)
        spending.units += seconds / UNIT_S / 2
        best.tell(least.plan(problem))
    for tried, (_, _, window, plan) in enumerate(begun):
        left = spending.left()
        if best.period <= enough or left is None or not left.units:
            return
        part = left.units / (len(begun) - tried)
        nearing(plan.finish(window.step))
        found = exact(window.step, Effort(seed=seed, units=part), plan)
        spending.units += part
        if found.plan is not None:
            best.tell(window.cyclic(found.plan))


def refuse_many(problem: CyclicProblem) -> None:
    """Refuse problems that are too large for CP-SAT alone.

    Raises:
        ParameterError: There are too many motifs for the model.
    """
    motifs = sum(len(option.motifs) for op in problem.step.ops for option in op.options)
    if motifs > MOST_ALONE:
        raise ParameterError(
            f"search 'exact' is for at most {MOST_ALONE} motifs of all options, and there are "
            f"{motifs}: take 'sgs', which solves small steps exactly, or lower --max-motifs"
        )
