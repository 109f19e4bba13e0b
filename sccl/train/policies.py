"""Implement the rules of frameworks and other systems.

Each rule takes one iteration, from its first computation to its last, and applies list scheduling
with its own order. Every window then repeats the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sccl.train.cyclic import MAX_LAG, CyclicPlan, CyclicProblem
from sccl.train.listing import by_list, in_order, listed
from sccl.train.periodic import ToldPlan, listed_in, placed_in
from sccl.train.placing import NEVER
from sccl.train.problem import StepPlan, StepProblem, Whole
from sccl.train.searches import fastest, published, serial, uniform
from sccl.train.turning import StepWindow, window_as_it_is
from sccl.train.windows import repeated


@dataclass(frozen=True, slots=True)
class PolicyEffort:
    """How much a policy that searches may do.

    Attributes:
        seconds: about.
        enough: ticks of a period, with which it ends.
    """

    seconds: float
    seed: int
    enough: int = 0


Run = Callable[[CyclicProblem, PolicyEffort, ToldPlan], None]


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule.

    Attributes:
        about: Description and source.
        run: Function that reports its plans.
    """

    about: str
    run: Run


def as_submitted(problem: CyclicProblem) -> CyclicPlan:
    """Return the plan in the order of submission, with the fastest option of each op."""
    window = window_as_it_is(problem)
    choice, starts = fastest(window.step), _room(window.step)
    in_order(window.step.arrays, choice, starts)
    return _issued(window, choice, starts)


def _issued(window: StepWindow, choice: Whole, starts: Whole) -> CyclicPlan:
    """Return the plan that issues ops in the order of a step, ignoring starts of motifs."""
    plan = window.step.plan_of(choice, starts)
    rows = tuple((own, k) for n, own in enumerate(window.ops) for k in range(len(plan.starts[n])))
    return replace(window.cyclic(plan), order=rows, shifts=(0,) * len(rows))


def _fifo(problem: CyclicProblem, _effort: PolicyEffort, told: ToldPlan) -> None:
    _tell(problem, as_submitted(problem), told)


def _by_order(keys: Callable[[StepWindow], Sequence[tuple[float, ...]]], *, cut: bool) -> Run:
    """Return a policy that goes by keys of ops, the least first.

    Args:
        cut: whether collectives are cut, all alike, as is best. Otherwise each takes the option
            that is over first.
    """

    def run(problem: CyclicProblem, _effort: PolicyEffort, told: ToldPlan) -> None:
        window = window_as_it_is(problem)
        told_keys = keys(window)
        order = np.array(sorted(range(len(window.ops)), key=lambda k: (told_keys[k], k)))
        for choice in uniform(window.step) if cut else (fastest(window.step),):
            starts = _room(window.step)
            listed(window.step.arrays, choice, order, starts, NEVER)
            _tell(problem, window.cyclic(window.step.plan_of(choice, starts)), told)

    return run


def _last_first(window: StepWindow) -> list[tuple[float, ...]]:
    """Return keys that put the last submission first."""
    return [(-own,) for own in window.ops]


def _needed_first(window: StepWindow) -> list[tuple[float, ...]]:
    """Return keys that put inputs of the next computations first.

    For parameters this is the first layer of the next iteration.
    """
    return [(*user,) for user in _first_users(window)]


def _unlocking(window: StepWindow) -> list[tuple[float, ...]]:
    """Return keys that put the ops first that enable the most computation."""
    ops = window.step.ops
    unlocked = [0] * len(ops)
    for op in ops:
        for k in () if op.communicates else op.after:
            unlocked[k] += op.options[0].length if ops[k].communicates else 0
    return [
        (lag, -float(ticks), float(number))
        for number, ((lag, _), ticks) in enumerate(zip(_first_users(window), unlocked, strict=True))
    ]


def _first_users(window: StepWindow) -> list[tuple[float, float]]:
    """Return in how many iterations, and at which place, something first waits for each op."""
    first = [(float(MAX_LAG), float(len(window.ops)))] * len(window.ops)
    for before, after, lag in window.waits:
        if before != after:
            first[before] = min(first[before], (float(lag), float(after)))
    return [first[own] for own in window.ops]


def _critical(problem: CyclicProblem, _effort: PolicyEffort, told: ToldPlan) -> None:
    """Order by critical path, collectives cut alike."""
    window = window_as_it_is(problem)
    for choice in uniform(window.step):
        starts = _room(window.step)
        by_list(window.step.arrays, choice, starts, NEVER)
        _tell(problem, window.cyclic(window.step.plan_of(choice, starts)), told)


def _options_alone(problem: CyclicProblem, effort: PolicyEffort, told: ToldPlan) -> None:
    """Anneal options, with ops in the order of submission."""
    window = window_as_it_is(problem)
    step, rng = window.step, np.random.default_rng(effort.seed)
    movable = [k for k, op in enumerate(step.ops) if len(op.options) > 1]
    choice, starts = fastest(step), _room(step)
    now = best = in_order(step.arrays, choice, starts)
    period = _tell(problem, _issued(window, choice, starts), told)
    proposals = placed_in(step, effort.seconds) if movable else 0
    for number in range(proposals):
        if period <= effort.enough:
            return
        k = movable[int(rng.integers(len(movable)))]
        old, choice[k] = choice[k], rng.integers(len(step.ops[k].options))
        finish = in_order(step.arrays, choice, starts)
        warm = 0.02 * best * 0.01 ** (number / proposals)
        if finish - now > -warm * np.log(max(rng.random(), 1e-300)):
            choice[k] = old
            continue
        now = finish
        if finish < best:
            best = finish
            period = min(period, _tell(problem, _issued(window, choice, starts), told))


def _order_alone(problem: CyclicProblem, effort: PolicyEffort, told: ToldPlan) -> None:
    """Anneal the order, each op by its fastest option."""
    window = window_as_it_is(problem)
    choice = fastest(window.step)
    ops = tuple(
        replace(op, options=(op.options[k],))
        for op, k in zip(window.step.ops, choice.tolist(), strict=True)
    )
    step = replace(window.step, ops=ops)
    proposals = placed_in(step, effort.seconds)

    def tell(plan: StepPlan) -> bool:
        whole = window.cyclic(replace(plan, options=tuple(choice.tolist())))
        return _tell(problem, whole, told) <= effort.enough

    if not tell(serial(step, 0)):
        tell(serial(step, proposals, effort.seed, kept=tell))


def _published(problem: CyclicProblem, effort: PolicyEffort, told: ToldPlan) -> None:
    window = window_as_it_is(problem)
    proposals = listed_in(window.step, effort.seconds)

    def tell(plan: StepPlan) -> bool:
        return _tell(problem, window.cyclic(plan), told) <= effort.enough

    tell(published(window.step, proposals, effort.seed, kept=tell))


def _tell(problem: CyclicProblem, plan: CyclicPlan, told: ToldPlan) -> int:
    """Tell a plan; return its period."""
    found = repeated(problem, plan)
    told(plan, found)
    return found.period


def _room(step: StepProblem) -> Whole:
    return np.zeros(len(step.arrays.ticks), dtype=np.int64)


POLICIES: dict[str, Policy] = {
    "fifo": Policy("in the order of submission, as PyTorch does", _fifo),
    "lifo": Policy(
        "the last submission goes first, divided equally for all, as in ByteScheduler (BS+ of "
        "SYNDICATE's evaluation)",
        _by_order(_last_first, cut=True),
    ),
    "p3": Policy(
        "the collective that the next iteration needs first goes first (P3: priority by layer)",
        _by_order(_needed_first, cut=True),
    ),
    "tictac": Policy(
        "the collective that enables most computation goes first (after TicTac's rule)",
        _by_order(_unlocking, cut=False),
    ),
    "ho": Policy(
        "by critical path, divided equally for all (hand-ordered, of SYNDICATE's evaluation)",
        _critical,
    ),
    "s-exec": Policy("options are searched, the order is that of submission", _options_alone),
    "s-sched": Policy("the order is searched, options are the fastest", _order_alone),
    "mcmc": Policy("SYNDICATE's search as published, of one iteration", _published),
}

RULES = ("fifo", "lifo", "p3", "tictac", "ho")
"""Policies that search for nothing."""
