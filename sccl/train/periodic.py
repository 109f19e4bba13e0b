"""The search for plans of a step that repeats: of the best windows, the best of annealing."""

from __future__ import annotations

from collections.abc import Callable

from sccl.train.cyclic import CyclicPlan, CyclicProblem
from sccl.train.joint import planned
from sccl.train.problem import StepProblem
from sccl.train.searches import fastest, serial
from sccl.train.turning import windows_of
from sccl.train.windows import Repeated, repeated

MOST_WINDOWS = 3
"""That are searched, the best of all by their first plans."""

PLACED_A_SECOND, LISTED_A_SECOND = 5_000_000, 300_000
"""Motifs that serial generation places in a second, and that lists do, about."""

ToldPlan = Callable[[CyclicPlan, Repeated], None]
"""Is told a plan that is better than those before, and what it comes to."""


def proposals_of(step: StepProblem, seconds: float, rate: int = PLACED_A_SECOND) -> int:
    """Return how many proposals are made in about so many seconds: as many on any machine.

    Args:
        rate: motifs that are placed in a second, about.
    """
    taken = zip(step.ops, fastest(step).tolist(), strict=True)
    motifs = sum(len(op.options[choice].motifs) for op, choice in taken)
    return int(seconds * rate / max(motifs, 1))


def periodic(
    problem: CyclicProblem, seconds: float, seed: int, enough: int, told: ToldPlan
) -> None:
    """Search for plans.

    Args:
        seconds: how much is searched, about.
        enough: ticks, with which it ends.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    best: list[int] = []

    def tell(plan: CyclicPlan) -> int:
        found = repeated(problem, plan)
        if not best or found.period < best[0]:
            best[:] = [found.period]
            told(plan, found)
        return found.period

    begun = []
    for number, window in enumerate(windows_of(problem)):
        period = tell(window.cyclic(serial(window.step, 0, seed)))
        begun.append((period, number, window))
    chosen = [window for _, _, window in sorted(begun, key=lambda row: row[:2])[:MOST_WINDOWS]]
    for window in chosen:
        if best[0] <= enough:
            return
        proposals = proposals_of(window.step, seconds / len(chosen))
        tell(window.cyclic(planned(window.step, proposals, seed).plan))
