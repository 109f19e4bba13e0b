"""The search for plans of a step that repeats: of the best windows, the best of annealing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sccl.solvers.effort import UNIT_S, Effort
from sccl.train.cyclic import CyclicPlan, CyclicProblem
from sccl.train.exact_periods import exact_by_choice, exact_period
from sccl.train.joint import MOST_EXACT, UNITS, planned
from sccl.train.placing import NEVER
from sccl.train.problem import StepPlan, StepProblem
from sccl.train.searches import all_choices, fastest, serial
from sccl.train.turning import StepWindow, windows_of
from sccl.train.windows import Repeated, repeated

MOST_WINDOWS = 3
"""That are searched, the best of all by their first plans."""

_ORDER = 0.5
"""The part of the seconds for the order of the options that the best window came to; of small steps
CP-SAT searches that."""

_OVER_ALL = 0.25
"""The part of the effort for all starts, motifs of a collective in different windows, by CP-SAT."""

ToldPlan = Callable[[CyclicPlan, Repeated], None]
"""Function that receives each better plan, and its period."""


def placed_in(step: StepProblem, seconds: float) -> int:
    """Return how many plans serial generation makes in about so many seconds: the same anywhere."""
    motifs = _motifs(step)
    return int(seconds / (2e-6 + motifs / 2e7 + motifs**2 / 1.3e10))


def listed_in(step: StepProblem, seconds: float) -> int:
    """Return how many lists are made in about so many seconds, likewise."""
    return int(seconds / (4e-6 + _motifs(step) ** 2 / 2.5e9))


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
        seconds: Approximate budget.
        enough: Period in ticks at which it stops.
        nearing: Function that receives an upper bound on the windows of the next plan, in ticks.

    Raises:
        KeyboardInterrupt: The user interrupted. Plans so far were reported.
    """
    best, begun, left = BestPlan(problem, told), openings_of(problem, seed), seconds
    if small := sum(len(o.motifs) for op in problem.step.ops for o in op.options) <= MOST_EXACT:
        left *= 1 - _OVER_ALL
    for _, _, window, plan in begun[: 2 * MOST_WINDOWS]:
        best.tell(window.cyclic(plan))
    if not small:
        left *= 1 - _ORDER
    ended = []
    for _, number, window, _ in begun[:MOST_WINDOWS]:
        if best.period <= enough:
            return
        each = left / min(MOST_WINDOWS, len(begun))
        proposals, units = placed_in(window.step, each), min(UNITS, each / UNIT_S)
        kept = partial(_kept, best, window, enough)
        found = planned(window.step, proposals, seed, lambda ticks, _: nearing(ticks), kept, units)
        ended.append((best.tell(window.cyclic(found.plan)), number, window, found.plan.options))
    if not small and best.period > enough:
        _, _, window, options = min(ended, key=lambda row: row[:2])
        _order(best, window, options, _ORDER * seconds, seed, enough)
    if small and best.period > enough:
        effort = Effort(seed=seed, units=_OVER_ALL * seconds / UNIT_S)
        few = next(all_choices(problem.step), None) is not None
        least = (exact_by_choice if few else exact_period)(problem, effort, enough, best.period)
        if least.options:
            best.tell(least.plan(problem))


class BestPlan:
    """The best plan of those that were found.

    Attributes:
        period: of it, in ticks. None is as long: nothing was found.
    """

    def __init__(self, problem: CyclicProblem, told: ToldPlan) -> None:
        self._problem, self._told = problem, told
        self.period = NEVER

    def tell(self, plan: CyclicPlan) -> int:
        """Tell a plan, if it is better than those before; return its period."""
        found = repeated(self._problem, plan)
        if found.period < self.period:
            self.period = found.period
            self._told(plan, found)
        return found.period


def openings_of(problem: CyclicProblem, seed: int) -> list[tuple[int, int, StepWindow, StepPlan]]:
    """Return windows with their first plans, the shortest first: ticks, and their numbers."""
    begun = []
    for number, window in enumerate(windows_of(problem)):
        plan = serial(window.step, 0, seed)
        begun.append((plan.finish(window.step), number, window, plan))
    return sorted(begun, key=lambda row: row[:2])


def _order(  # noqa: PLR0913, PLR0917 - a window, and how long
    best: BestPlan,
    window: StepWindow,
    options: tuple[int, ...],
    seconds: float,
    seed: int,
    enough: int,
) -> None:
    """Search the order alone, of options as they are: with few motifs, many more are tried."""
    ops = zip(window.step.ops, options, strict=True)
    step = replace(window.step, ops=tuple(replace(op, options=(op.options[k],)) for op, k in ops))

    def kept(plan: StepPlan) -> bool:
        best.tell(window.cyclic(replace(plan, options=options)))
        return best.period <= enough

    kept(serial(step, placed_in(step, seconds), seed, kept=kept))


def _kept(best: BestPlan, window: StepWindow, enough: int, plan: StepPlan) -> bool:
    best.tell(window.cyclic(plan))
    return best.period <= enough
