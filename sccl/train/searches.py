"""Search plans of a step: our search, the published one, and the default order of frameworks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from sccl.train.annealing import Annealed, anneal, chain
from sccl.train.listing import by_list, in_order
from sccl.train.placing import NEVER, PlacingRoom, rests, room_of, serially
from sccl.train.problem import StepPlan, StepProblem, Whole

_SLICE = 500_000
"""Motifs of options that are taken, times proposals, between which Ctrl-C is heard."""

_RUNS = 4
"""From which the search starts again: each cools down by itself."""

_HEAT, _WARM = 0.02, 250
"""By how much annealing may get worse at first, if it has so many proposals for each op: with fewer
it would not come back from there."""

MOST_RECIPES, MOST_OF_MANY, MANY_MOTIFS = 24, 6, 5000
"""Recipes that are tried for all ops alike, and of steps of so many motifs, where each takes a
while."""

_MOST_CHOICES = 500
"""Options of all ops together that are tried each."""

Told = Callable[[int], None]
"""Function that receives the best completion time, in ticks."""

Kept = Callable[[StepPlan], bool]
"""Is given the best by then, now and then and where the user interrupts: is it enough?"""


def fastest(problem: StepProblem) -> Whole:
    """Return of each op the option that is over first, alone."""
    return np.array([own.index(min(own)) for own in problem.alone], dtype=np.int64)


def first_in_first_out(problem: StepProblem) -> StepPlan:
    """Return the plan in the order of submission, with the fastest option of each op."""
    choice, starts = fastest(problem), np.zeros(len(problem.arrays.ticks), dtype=np.int64)
    in_order(problem.arrays, choice, starts)
    return problem.plan_of(choice, starts)


def published(
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    beta: float = 0.0,
    kept: Kept = lambda _: False,
) -> StepPlan:
    """Return the best plan of SYNDICATE's search.

    Source: SYNDICATE (NSDI 2023) section 4 and its appendix: Metropolis over options, each
    evaluated by a greedy list schedule.

    Args:
        beta: Inverse temperature per tick. 0: ln 2 over a thousandth of the first completion time,
            because the paper gives none.
        kept: Function that receives better plans, also on interrupts.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    step, choice = problem.arrays, fastest(problem)
    starts = np.zeros(len(step.ticks), dtype=np.int64)
    finish = by_list(step, choice, starts, NEVER)
    best = choice.copy()
    state = np.array([seed, finish, finish], dtype=np.int64)
    beta = beta or math.log(2) / max(finish / 1000, 1.0)
    stride, shown = _stride(problem, _SLICE // 8), finish + 1
    try:
        for first in range(0, proposals, stride):
            if state[2] < shown and kept(problem.plan_of(best, starts)):
                break
            shown = int(state[2])
            chain(step, choice, best, starts, state, beta, first, min(first + stride, proposals))
    except KeyboardInterrupt:
        kept(problem.plan_of(best, starts))
        raise
    return problem.plan_of(best, starts)


def serial(  # noqa: PLR0913, PLR0917 - what is told, and when
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    enough: int = 0,
    told: Told = lambda _: None,
    kept: Kept = lambda _: False,
) -> StepPlan:
    """Return the best plan of annealing over options and urgencies, by serial generation.

    It begins with the results of rules for all ops alike (:func:`openings`).

    Args:
        enough: Lower bound in ticks, at which it stops.
        told: Function that receives each improvement.
        kept: Function that receives better plans, more rarely in longer runs, also on interrupts.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    step, alike = problem.arrays, _alike(problem)
    room = room_of(step)
    begun = _placed(problem, room)
    found, _, choice, offset, starts, best_base = begun[0]
    told(found)
    best = Annealed(
        *(choice.copy(), offset.copy(), choice.copy(), offset.copy(), starts),
        np.zeros(3, dtype=np.int64),
    )
    run = -(-proposals // _RUNS)
    stride = _stride(problem, _SLICE)
    heat, shown = _HEAT * min(1.0, run / (_WARM * len(problem.ops))) ** 2, found + 1
    try:
        for number in range(_RUNS):
            own = begun[number % len(begun)] if number % 2 else None
            best.choice[:] = best.best_choice if own is None else own[2]
            best.offset[:] = best.best_offset if own is None else own[3]
            room.base[:] = best_base if own is None else own[5]
            mixed = (seed * _RUNS + number) * 0x632BE59BD9B4E019 % 2**63
            best.state[:] = mixed, found if own is None else own[0], found
            done = rounds = 0
            while done < run:
                if found < shown and not rounds & (rounds - 1):
                    if kept(problem.plan_of(best.best_choice, best.best_starts)):
                        return problem.plan_of(best.best_choice, best.best_starts)
                    shown = found
                rounds += 1
                last = min(done + stride, run)
                done = anneal(step, alike, best, room, done, last, run, heat, enough)
                if best.state[2] < found:
                    found, best_base = int(best.state[2]), room.base.copy()
                    told(found)
    except KeyboardInterrupt:
        kept(problem.plan_of(best.best_choice, best.best_starts))
        raise
    return problem.plan_of(best.best_choice, best.best_starts)


def _placed(
    problem: StepProblem, room: PlacingRoom
) -> list[tuple[int, int, Whole, Whole, Whole, Whole]]:
    """Return warm starts, the shortest first: ticks, number, options, urgencies, and starts."""
    begun = []
    for number, (choice, offset, base) in enumerate(openings(problem)):
        starts = np.zeros(len(problem.arrays.ticks), dtype=np.int64)
        room.base[:] = base
        finish = serially(problem.arrays, choice, offset, starts, room, NEVER)
        begun.append((finish, number, choice, offset, starts, base))
    return sorted(begun, key=lambda one: one[:2])


def _stride(problem: StepProblem, placed: int) -> int:
    """Return how many proposals are made at a time. Fewer where each takes more than its motifs."""
    motifs = sum(len(op.options[0].motifs) for op in problem.ops)
    return max(1, placed // (motifs + motifs**2 // 2000 + 1))


def _alike(problem: StepProblem) -> Whole:
    """Return of each op a number that those have in common that have the same options."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(id(op.options), len(numbers)) for op in problem.ops])


def openings(problem: StepProblem) -> Iterator[tuple[Whole, Whole, Whole]]:
    """Yield warm starts: options and urgencies from rules for all ops alike.

    Options: the fastest, those with the smallest load of a resource, and those of one recipe. With
    few collectives all choices, because annealing may not reach one from another. Orders: the
    longest remaining path, the last submission first (as for gradients), and the order of a list
    schedule.
    """
    none = np.zeros(len(problem.ops), dtype=np.int64)
    step, room = problem.arrays, room_of(problem.arrays)
    plain = np.zeros(len(step.ticks), dtype=np.int64)
    for choice in itertools.chain(uniform(problem), all_choices(problem)):
        yield choice, none, plain
        rests(step, choice, room.rest)
        first = step.motif_first[step.option_first[:-1] + choice]
        most = int(room.rest[first].max(initial=0))
        place = np.arange(len(problem.ops), dtype=np.int64) * most // max(len(problem.ops), 1)
        yield choice, np.where(step.communicates == 1, place - room.rest[first], 0), plain
        starts = np.full(len(step.ticks), -1, dtype=np.int64)
        finish = by_list(step, choice, starts, NEVER)
        rests(step, choice, room.rest)
        urgent = finish - starts - room.rest
        yield choice, none, np.where(starts >= 0, urgent, urgent[first][step.op])


def all_choices(problem: StepProblem) -> Iterator[Whole]:
    """Yield all options of all ops, if there are not many of them, or none."""
    counts = [len(op.options) for op in problem.ops]
    if math.prod(counts) <= _MOST_CHOICES:
        for taken in itertools.product(*map(range, counts)):
            yield np.array(taken, dtype=np.int64)


def uniform(problem: StepProblem) -> Iterator[Whole]:
    """Yield options by one rule for all ops: the fastest, the least loads, or those of a recipe.

    First the fastest as they run alone. Then those that would be if their motifs were not in each
    other's way: between other collectives' motifs they may be.
    """
    base = fastest(problem)
    yield base
    free = [[option.length for option in op.options] for op in problem.ops]
    yield np.array([own.index(min(own)) for own in free], dtype=np.int64)
    loads = [
        [max(option.busy().values(), default=0) for option in op.options] for op in problem.ops
    ]
    yield np.array([own.index(min(own)) for own in loads], dtype=np.int64)
    recipes = {option.name: None for op in problem.ops if op.communicates for option in op.options}
    motifs = sum(
        len(op.options[k].motifs) for op, k in zip(problem.ops, base.tolist(), strict=True)
    )
    most = MOST_RECIPES if motifs < MANY_MOTIFS else MOST_OF_MANY
    for recipe in list(recipes)[:most]:
        choice = base.copy()
        for number, op in enumerate(problem.ops):
            taken = zip(op.options, problem.alone[number], strict=True)
            rows = [(ticks, k) for k, (o, ticks) in enumerate(taken) if o.name == recipe]
            if rows:
                choice[number] = min(rows)[1]
        yield choice
