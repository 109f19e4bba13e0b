"""Implement scheduling policies of frameworks and other systems.

Each policy schedules one iteration, from its first computation to its last, by list scheduling
with its own order. Every window then repeats the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sccl.core.arrays import IntArray
from sccl.training.scheduling.list_scheduling import (
    list_schedule,
    list_schedule_by_urgency,
    schedule_in_order,
)
from sccl.training.scheduling.plan_search import (
    PlanCallback,
    list_proposals_in,
    serial_proposals_in,
)
from sccl.training.scheduling.search_strategies import (
    fastest_options,
    search_by_annealing,
    search_by_markov_chain,
    uniform_choices,
)
from sccl.training.scheduling.serial_generation import NEVER
from sccl.training.scheduling.steady_state import StepWindow, find_steady_state, identity_window
from sccl.training.scheduling.step_problem import (
    MAX_LAG,
    CyclicPlan,
    CyclicProblem,
    StepPlan,
    StepProblem,
)


@dataclass(frozen=True, slots=True)
class PolicyEffort:
    """The budget of a policy that searches.

    Attributes:
        seconds: Approximate time.
        target: Period in ticks at which the search stops.
    """

    seconds: float
    seed: int
    target: int = 0


PolicySearch = Callable[[CyclicProblem, PolicyEffort, PlanCallback], None]


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduling policy.

    Attributes:
        about: Description and source.
        run: Function that runs the policy and reports its plans.
    """

    about: str
    run: PolicySearch


def plan_in_submission_order(problem: CyclicProblem) -> CyclicPlan:
    """Return the plan in the order of submission, with the fastest option of each op."""
    window = identity_window(problem)
    choice, starts = fastest_options(window.step), _allocate_starts(window.step)
    schedule_in_order(window.step.arrays, choice, starts)
    return _plan_in_op_order(window, choice, starts)


def _plan_in_op_order(window: StepWindow, choice: IntArray, starts: IntArray) -> CyclicPlan:
    """Return the plan that issues ops in the window's order, ignoring starts of motifs."""
    plan = window.step.plan_of(choice, starts)
    rows = tuple((op, k) for n, op in enumerate(window.ops) for k in range(len(plan.starts[n])))
    return replace(window.to_cyclic_plan(plan), order=rows, shifts=(0,) * len(rows))


def _fifo(problem: CyclicProblem, _effort: PolicyEffort, on_plan: PlanCallback) -> None:
    _report_plan(problem, plan_in_submission_order(problem), on_plan)


def _priority_policy(
    keys: Callable[[StepWindow], Sequence[tuple[float, ...]]], *, cut: bool
) -> PolicySearch:
    """Return a policy that orders ops by keys, the smallest first.

    Args:
        cut: Whether to report a plan for each of the uniform choices of options, including those
            that split collectives. Otherwise each collective has its fastest option.
    """

    def run(problem: CyclicProblem, _effort: PolicyEffort, on_plan: PlanCallback) -> None:
        window = identity_window(problem)
        told_keys = keys(window)
        order = np.array(sorted(range(len(window.ops)), key=lambda k: (told_keys[k], k)))
        for choice in uniform_choices(window.step) if cut else (fastest_options(window.step),):
            starts = _allocate_starts(window.step)
            list_schedule(window.step.arrays, choice, order, starts, NEVER)
            _report_plan(
                problem, window.to_cyclic_plan(window.step.plan_of(choice, starts)), on_plan
            )

    return run


def _lifo_keys(window: StepWindow) -> list[tuple[float, ...]]:
    """Return keys that put the last submission first."""
    return [(-op,) for op in window.ops]


def _next_need_keys(window: StepWindow) -> list[tuple[float, ...]]:
    """Return keys that put inputs of the next computations first.

    Parameters are first needed by the first layer of the next iteration.
    """
    return [(*user,) for user in _first_use_keys(window)]


def _unlocked_compute_keys(window: StepWindow) -> list[tuple[float, ...]]:
    """Return keys that put first the ops that enable the most computation."""
    ops = window.step.ops
    unlocked = [0] * len(ops)
    for op in ops:
        for k in () if op.communicates else op.after:
            unlocked[k] += op.options[0].critical_path_ticks if ops[k].communicates else 0
    return [
        (lag, -float(ticks), float(number))
        for number, ((lag, _), ticks) in enumerate(
            zip(_first_use_keys(window), unlocked, strict=True)
        )
    ]


def _first_use_keys(window: StepWindow) -> list[tuple[float, float]]:
    """Return the lag in iterations and the place of the first successor of each op."""
    first = [(float(MAX_LAG), float(len(window.ops)))] * len(window.ops)
    for before, after, lag in window.waits:
        if before != after:
            first[before] = min(first[before], (float(lag), float(after)))
    return [first[op] for op in window.ops]


def _critical_path(problem: CyclicProblem, _effort: PolicyEffort, on_plan: PlanCallback) -> None:
    """Order ops by critical path, for each of the uniform choices of options."""
    window = identity_window(problem)
    for choice in uniform_choices(window.step):
        starts = _allocate_starts(window.step)
        list_schedule_by_urgency(window.step.arrays, choice, starts, NEVER)
        _report_plan(problem, window.to_cyclic_plan(window.step.plan_of(choice, starts)), on_plan)


def _anneal_options(problem: CyclicProblem, effort: PolicyEffort, on_plan: PlanCallback) -> None:
    """Anneal options, and keep ops in the order of submission."""
    window = identity_window(problem)
    step, rng = window.step, np.random.default_rng(effort.seed)
    movable = [k for k, op in enumerate(step.ops) if len(op.options) > 1]
    choice, starts = fastest_options(step), _allocate_starts(step)
    now = best = schedule_in_order(step.arrays, choice, starts)
    period = _report_plan(problem, _plan_in_op_order(window, choice, starts), on_plan)
    proposals = serial_proposals_in(step, effort.seconds) if movable else 0
    for number in range(proposals):
        if period <= effort.target:
            return
        k = movable[int(rng.integers(len(movable)))]
        old, choice[k] = choice[k], rng.integers(len(step.ops[k].options))
        finish = schedule_in_order(step.arrays, choice, starts)
        warm = 0.02 * best * 0.01 ** (number / proposals)
        if finish - now > -warm * np.log(max(rng.random(), 1e-300)):
            choice[k] = old
            continue
        now = finish
        if finish < best:
            best = finish
            period = min(
                period, _report_plan(problem, _plan_in_op_order(window, choice, starts), on_plan)
            )


def _anneal_order(problem: CyclicProblem, effort: PolicyEffort, on_plan: PlanCallback) -> None:
    """Anneal the order, with the fastest option of each op."""
    window = identity_window(problem)
    choice = fastest_options(window.step)
    ops = tuple(
        replace(op, options=(op.options[k],))
        for op, k in zip(window.step.ops, choice.tolist(), strict=True)
    )
    step = replace(window.step, ops=ops)
    proposals = serial_proposals_in(step, effort.seconds)

    def tell(plan: StepPlan) -> bool:
        cyclic = window.to_cyclic_plan(replace(plan, options=tuple(choice.tolist())))
        return _report_plan(problem, cyclic, on_plan) <= effort.target

    if not tell(search_by_annealing(step, 0)):
        tell(search_by_annealing(step, proposals, effort.seed, kept=tell))


def _syndicate_chain(problem: CyclicProblem, effort: PolicyEffort, on_plan: PlanCallback) -> None:
    window = identity_window(problem)
    proposals = list_proposals_in(window.step, effort.seconds)

    def tell(plan: StepPlan) -> bool:
        return _report_plan(problem, window.to_cyclic_plan(plan), on_plan) <= effort.target

    tell(search_by_markov_chain(window.step, proposals, effort.seed, kept=tell))


def _report_plan(problem: CyclicProblem, plan: CyclicPlan, on_plan: PlanCallback) -> int:
    """Report a plan, and return its period."""
    repetition = find_steady_state(problem, plan)
    on_plan(plan, repetition)
    return repetition.period


def _allocate_starts(step: StepProblem) -> IntArray:
    return np.zeros(len(step.arrays.ticks), dtype=np.int64)


POLICIES: dict[str, Policy] = {
    "fifo": Policy("order of submission, as in PyTorch", _fifo),
    "lifo": Policy(
        "last submission first, in equal parts, as in ByteScheduler (BS+ in SYNDICATE's "
        "evaluation)",
        _priority_policy(_lifo_keys, cut=True),
    ),
    "p3": Policy(
        "by first use in the next iteration (P3: priority by layer)",
        _priority_policy(_next_need_keys, cut=True),
    ),
    "tictac": Policy(
        "by the amount of computation that a collective enables (after TicTac's rule)",
        _priority_policy(_unlocked_compute_keys, cut=False),
    ),
    "ho": Policy(
        "by critical path, divided equally for all (hand-ordered, of SYNDICATE's evaluation)",
        _critical_path,
    ),
    "s-exec": Policy("options are searched, in the order of submission", _anneal_options),
    "s-sched": Policy("the order is searched, options are the fastest", _anneal_order),
    "mcmc": Policy("SYNDICATE's search as published, of one iteration", _syndicate_chain),
}

RULE_POLICIES = ("fifo", "lifo", "p3", "tictac", "ho")
"""Policies without search."""
