"""Searches for plans of a step: ours, the published one, and what frameworks do by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from sccl.train.annealing import anneal, chain
from sccl.train.listing import by_list, in_order
from sccl.train.placing import NEVER, room_of, serially
from sccl.train.problem import StepPlan, StepProblem, Whole

_SLICE = 256
"""Proposals between which Ctrl-C is heard."""

_RUNS = 4
"""From which the search starts anew: each cools down by itself."""

Told = Callable[[int], None]
"""Is told what the best takes, in ticks."""


def fastest(problem: StepProblem) -> Whole:
    """Return of each op the option that is over first, alone."""
    lengths = [[option.length for option in op.options] for op in problem.ops]
    return np.array([own.index(min(own)) for own in lengths], dtype=np.int64)


def first_in_first_out(problem: StepProblem) -> StepPlan:
    """Return what runs in the order of submission, each op by its fastest option."""
    choice, starts = fastest(problem), np.zeros(len(problem.arrays.ticks), dtype=np.int64)
    in_order(problem.arrays, choice, starts)
    return problem.plan_of(choice, starts)


def published(problem: StepProblem, proposals: int, seed: int = 0, beta: float = 0.0) -> StepPlan:
    """Return the best plan of SYNDICATE's search.

    Source: SYNDICATE (NSDI 2023) section 4 and its appendix: Metropolis over options, each judged
    by a greedy list schedule.

    Args:
        beta: of the acceptance, per tick; 0: ln 2 over a thousandth of what the first takes, as
            the paper gives none.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    step, choice = problem.arrays, fastest(problem)
    starts = np.zeros(len(step.ticks), dtype=np.int64)
    finish = by_list(step, choice, starts, NEVER)
    best = choice.copy()
    state = np.array([seed, finish, finish], dtype=np.int64)
    beta = beta or math.log(2) / max(finish / 1000, 1.0)
    for first in range(0, proposals, _SLICE):
        chain(step, choice, best, starts, state, beta, first, min(first + _SLICE, proposals))
    return problem.plan_of(best, starts)


def serial(
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    enough: int = 0,
    told: Told = lambda _: None,
) -> StepPlan:
    """Return the best plan of annealing over options and urgencies, by serial generation.

    Args:
        enough: ticks: a lower bound, with which nothing better is looked for.
        told: whenever there is something better.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    step = problem.arrays
    room = room_of(step)
    best, starts = fastest(problem), np.zeros(len(step.ticks), dtype=np.int64)
    found = NEVER
    for choice, offset in _begun(problem):
        again = np.zeros_like(starts)
        finish = serially(step, choice, offset, again, room, NEVER)
        if finish < found:
            found, best, starts = finish, choice, again
    told(found)
    run = -(-proposals // _RUNS)
    for number in range(_RUNS):
        choice, offset = best.copy(), np.zeros_like(best)
        mixed = (seed * _RUNS + number) * 0x632BE59BD9B4E019 % 2**63
        begun = serially(step, choice, offset, starts.copy(), room, NEVER)
        state = np.array([mixed, begun, found], dtype=np.int64)
        best = best.copy()
        done = 0
        while done < run:
            last = min(done + _SLICE, run)
            done = anneal(step, choice, offset, best, starts, state, room, done, last, run, enough)
            if state[2] < found:
                found = int(state[2])
                told(found)
    return problem.plan_of(best, starts)


def _begun(problem: StepProblem) -> Iterator[tuple[Whole, Whole]]:
    """Yield where to begin: the fastest options, and those that are the least on any resource."""
    none = np.zeros(len(problem.ops), dtype=np.int64)
    yield fastest(problem), none
    loads = [
        [max(option.busy().values(), default=0) for option in op.options] for op in problem.ops
    ]
    yield np.array([own.index(min(own)) for own in loads], dtype=np.int64), none
