"""The search for plans of a step that repeats: of the best windows, the best of annealing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sccl.train.cyclic import CyclicPlan, CyclicProblem
from sccl.train.joint import planned
from sccl.train.problem import StepPlan, StepProblem
from sccl.train.searches import fastest, serial
from sccl.train.turning import StepWindow, windows_of
from sccl.train.windows import Repeated, repeated

MOST_WINDOWS = 3
"""That are searched, the best of all by their first plans."""

ToldPlan = Callable[[CyclicPlan, Repeated], None]
"""Is told a plan that is better than those before, and what it comes to."""


def placed_in(step: StepProblem, seconds: float) -> int:
    """Return how many plans serial generation makes in about so many seconds: the same anywhere."""
    motifs = _motifs(step)
    return int(seconds / (2e-6 + motifs / 2e7 + motifs**2 / 1.3e10))


def listed_in(step: StepProblem, seconds: float) -> int:
    """Return how many lists are made in about so many seconds, likewise."""
    return int(seconds / (4e-6 + _motifs(step) ** 2 / 1.8e8))


def _motifs(step: StepProblem) -> int:
    taken = zip(step.ops, fastest(step).tolist(), strict=True)
    return sum(len(op.options[choice].motifs) for op, choice in taken)


def periodic(  # noqa: PLR0913, PLR0917 - what is told, and when
    problem: CyclicProblem,
    seconds: float,
    seed: int,
    enough: int,
    told: ToldPlan,
    nearing: Callable[[int], None] = lambda _: None,
) -> None:
    """Search for plans.

    Args:
        seconds: how much is searched, about.
        enough: ticks, with which it ends.
        nearing: is told ticks that no window of a plan takes more than, which comes.

    Raises:
        KeyboardInterrupt: the user interrupted; what was found by then has been told.
    """
    best: list[int] = []

    def tell(plan: CyclicPlan) -> None:
        found = repeated(problem, plan)
        if not best or found.period < best[0]:
            best[:] = [found.period]
            told(plan, found)

    begun = []
    for number, window in enumerate(windows_of(problem)):
        plan = serial(window.step, 0, seed)
        begun.append((plan.finish(window.step), number, window, plan))
    begun.sort(key=lambda row: row[:2])
    for _, _, window, plan in begun[: 2 * MOST_WINDOWS]:
        tell(window.cyclic(plan))
    for _, _, window, _ in begun[:MOST_WINDOWS]:
        if best[0] <= enough:
            return
        proposals = placed_in(window.step, seconds / min(MOST_WINDOWS, len(begun)))
        kept = partial(_kept, tell, window)
        found = planned(window.step, proposals, seed, lambda ticks, _: nearing(ticks), kept)
        tell(window.cyclic(found.plan))


def _kept(tell: Callable[[CyclicPlan], None], window: StepWindow, plan: StepPlan) -> None:
    tell(window.cyclic(plan))
