"""The search for plans of a small step that repeats, by CP-SAT alone.

First it looks for the least period over all starts, any iterations ahead
(:mod:`sccl.train.exact_periods`); half of the effort is for that. Then for the best plan of each
window that a step has (:mod:`sccl.train.exact`), the shortest first: with what is left, each its
part of it. What it proves, it proves of plans that repeat after each window, so a plan is the best
of all only where the bound of all plans says so.
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
        seconds: how much is searched, about: the same everywhere.
        enough: ticks, with which it ends.
        nearing: is told ticks that no window of a plan takes more than, which comes.

    Raises:
        ParameterError: there are more motifs than it can hold.
        KeyboardInterrupt: the user interrupted; what was found by then has been told.
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
    """Refuse what CP-SAT alone finds nothing for.

    Raises:
        ParameterError: there are more motifs than it can hold.
    """
    motifs = sum(len(option.motifs) for op in problem.step.ops for option in op.options)
    if motifs > MOST_ALONE:
        raise ParameterError(
            f"search 'exact' is for at most {MOST_ALONE} motifs of all options, and there are "
            f"{motifs}: take 'sgs', which solves small steps exactly, or lower --max-motifs"
        )
