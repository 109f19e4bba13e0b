"""Search plans of a step: annealing, SYNDICATE's Markov chain, and the order of frameworks.

Annealing changes options and urgencies in compiled loops. A built-in random generator (SplitMix64)
ensures that the same seed gives the same plan everywhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, compiled_in_place
from sccl.core.arrays import IntArray
from sccl.training.scheduling.list_scheduling import list_schedule_by_urgency, schedule_in_order
from sccl.training.scheduling.serial_generation import (
    NEVER,
    Workspace,
    allocate_workspace,
    serial_schedule,
    tail_lengths,
)
from sccl.training.scheduling.step_problem import StepArrays, StepPlan, StepProblem

_SLICE = 500_000
"""Number of motifs that proposals place between two checks for Ctrl-C."""

_RUNS = 4
"""Number of annealing runs. Each run cools down separately."""

_TEMPERATURE, _COOLING_LENGTH = 0.02, 250
"""First temperature relative to the best completion time, for runs with at least this number of
proposals per op. Shorter runs start colder, because they would not recover."""

MAX_RECIPES, MAX_RECIPES_LARGE, LARGE_MOTIF_COUNT = 24, 6, 5000
"""Largest number of recipes that are tried for all ops alike: for small steps, and for steps with
at least so many motifs, where each trial is slow."""

_MAX_CHOICES = 500
"""Largest number of combinations of options that are enumerated."""

FinishCallback = Callable[[int], None]
"""Function that receives the best completion time, in ticks."""

PlanFilter = Callable[[StepPlan], bool]
"""Function that receives the best plan, from time to time and on interrupts, and returns whether to
stop."""


def fastest_options(problem: StepProblem) -> IntArray:
    """Return the option with the shortest isolated duration for each op."""
    return np.array(
        [times.index(min(times)) for times in problem.isolated_durations], dtype=np.int64
    )


def build_fifo_plan(problem: StepProblem) -> StepPlan:
    """Return the plan in the order of submission, with the fastest option of each op."""
    choice, starts = fastest_options(problem), np.zeros(len(problem.arrays.ticks), dtype=np.int64)
    schedule_in_order(problem.arrays, choice, starts)
    return problem.plan_of(choice, starts)


def search_by_markov_chain(
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    kept: PlanFilter = lambda _: False,
) -> StepPlan:
    """Return the best plan of SYNDICATE's search.

    Source: SYNDICATE (NSDI 2023) section 4 and its appendix: Metropolis over options, each
    evaluated by a greedy list schedule.

    Args:
        kept: Function that receives better plans, also on interrupts, and returns whether to stop.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    step, choice = problem.arrays, fastest_options(problem)
    starts = np.zeros(len(step.ticks), dtype=np.int64)
    finish = list_schedule_by_urgency(step, choice, starts, NEVER)
    best = choice.copy()
    state = np.array([seed, finish, finish], dtype=np.int64)
    # The inverse temperature per tick, because the paper gives none.
    beta = math.log(2) / max(finish / 1000, 1.0)
    stride, shown = _proposals_per_slice(problem, _SLICE // 8), finish + 1
    try:
        for first in range(0, proposals, stride):
            if state[2] < shown and kept(problem.plan_of(best, starts)):
                break
            shown = int(state[2])
            run_markov_chain(
                step, choice, best, starts, state, beta, first, min(first + stride, proposals)
            )
    except KeyboardInterrupt:
        kept(problem.plan_of(best, starts))
        raise
    return problem.plan_of(best, starts)


def search_by_annealing(  # noqa: PLR0913, PLR0917 - independent inputs
    problem: StepProblem,
    proposals: int,
    seed: int = 0,
    target: int = 0,
    on_progress: FinishCallback = lambda _: None,
    kept: PlanFilter = lambda _: False,
) -> StepPlan:
    """Return the best plan of annealing over options and urgencies, by serial generation.

    Warm starts are the plans by rules that treat all ops alike (:func:`initial_choices`).

    Args:
        target: Completion time in ticks at which the search stops.
        on_progress: Function that receives each improvement.
        kept: Function that receives better plans, at growing intervals and on interrupts, and
            returns whether to stop.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    step, alike = problem.arrays, _option_classes(problem)
    workspace = allocate_workspace(step)
    begun = _place_openings(problem, workspace)
    best_ticks, _, choice, offset, starts, best_base = begun[0]
    on_progress(best_ticks)
    best = AnnealingState(
        *(choice.copy(), offset.copy(), choice.copy(), offset.copy(), starts),
        np.zeros(3, dtype=np.int64),
    )
    run = -(-proposals // _RUNS)
    stride = _proposals_per_slice(problem, _SLICE)
    heat, shown = (
        _TEMPERATURE * min(1.0, run / (_COOLING_LENGTH * len(problem.ops))) ** 2,
        best_ticks + 1,
    )
    try:
        for number in range(_RUNS):
            opening = begun[number % len(begun)] if number % 2 else None
            best.choice[:] = best.best_choice if opening is None else opening[2]
            best.offset[:] = best.best_offset if opening is None else opening[3]
            workspace.base[:] = best_base if opening is None else opening[5]
            mixed = (seed * _RUNS + number) * 0x632BE59BD9B4E019 % 2**63
            best.state[:] = mixed, best_ticks if opening is None else opening[0], best_ticks
            done = rounds = 0
            while done < run:
                if best_ticks < shown and not rounds & (rounds - 1):
                    if kept(problem.plan_of(best.best_choice, best.best_starts)):
                        return problem.plan_of(best.best_choice, best.best_starts)
                    shown = best_ticks
                rounds += 1
                last = min(done + stride, run)
                done = anneal(step, alike, best, workspace, done, last, run, heat, target)
                if best.state[2] < best_ticks:
                    best_ticks, best_base = int(best.state[2]), workspace.base.copy()
                    on_progress(best_ticks)
    except KeyboardInterrupt:
        kept(problem.plan_of(best.best_choice, best.best_starts))
        raise
    return problem.plan_of(best.best_choice, best.best_starts)


def _place_openings(
    problem: StepProblem, workspace: Workspace
) -> list[tuple[int, int, IntArray, IntArray, IntArray, IntArray]]:
    """Return warm starts, the shortest first.

    Each one has its completion time in ticks, its number, options and urgencies of ops, starts and
    urgencies of motifs.
    """
    begun = []
    for number, (choice, offset, base) in enumerate(initial_choices(problem)):
        starts = np.zeros(len(problem.arrays.ticks), dtype=np.int64)
        workspace.base[:] = base
        finish = serial_schedule(problem.arrays, choice, offset, starts, workspace, NEVER)
        begun.append((finish, number, choice, offset, starts, base))
    return sorted(begun, key=lambda row: row[:2])


def _proposals_per_slice(problem: StepProblem, placed: int) -> int:
    """Return the number of proposals between two checks, fewer for large steps.

    The time of a proposal grows faster than the number of motifs.
    """
    motifs = sum(len(op.options[0].motifs) for op in problem.ops)
    return max(1, placed // (motifs + motifs**2 // 2000 + 1))


def _option_classes(problem: StepProblem) -> IntArray:
    """Return the class of each op. Ops with the same options have the same class."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(id(op.options), len(numbers)) for op in problem.ops])


def initial_choices(problem: StepProblem) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield warm starts from rules for all ops alike: options, urgencies of ops, and of motifs.

    Options are those of :func:`uniform_choices`. If there are few collectives, all choices of
    options follow, because annealing may not reach one from another. Each choice has three orders:
    the longest remaining path first, the last submission first (as for gradients), and the order of
    a list schedule.
    """
    zeros = np.zeros(len(problem.ops), dtype=np.int64)
    step, workspace = problem.arrays, allocate_workspace(problem.arrays)
    plain = np.zeros(len(step.ticks), dtype=np.int64)
    for choice in itertools.chain(uniform_choices(problem), all_choices(problem)):
        yield choice, zeros, plain
        tail_lengths(step, choice, workspace.tail)
        first = step.motif_first[step.option_first[:-1] + choice]
        longest_rest = int(workspace.tail[first].max(initial=0))
        place = (
            np.arange(len(problem.ops), dtype=np.int64) * longest_rest // max(len(problem.ops), 1)
        )
        yield choice, np.where(step.communicates == 1, place - workspace.tail[first], 0), plain
        starts = np.full(len(step.ticks), -1, dtype=np.int64)
        finish = list_schedule_by_urgency(step, choice, starts, NEVER)
        tail_lengths(step, choice, workspace.tail)
        urgent = finish - starts - workspace.tail
        yield choice, zeros, np.where(starts >= 0, urgent, urgent[first][step.op])


def all_choices(problem: StepProblem) -> Iterator[IntArray]:
    """Yield all combinations of options, or none if there are too many."""
    counts = [len(op.options) for op in problem.ops]
    if math.prod(counts) <= _MAX_CHOICES:
        for taken in itertools.product(*map(range, counts)):
            yield np.array(taken, dtype=np.int64)


def uniform_choices(problem: StepProblem) -> Iterator[IntArray]:
    """Yield choices of options by one rule for all ops.

    The rules are: the shortest isolated duration, the shortest critical path, the smallest load of
    a resource, and each recipe. The critical path ignores contention between the motifs of one
    option, which may vanish when motifs of other collectives run in between.
    """
    base = fastest_options(problem)
    yield base
    free = [[option.critical_path_ticks for option in op.options] for op in problem.ops]
    yield np.array([values.index(min(values)) for values in free], dtype=np.int64)
    loads = [
        [max(option.resource_ticks().values(), default=0) for option in op.options]
        for op in problem.ops
    ]
    yield np.array([values.index(min(values)) for values in loads], dtype=np.int64)
    recipes = {option.name: None for op in problem.ops if op.communicates for option in op.options}
    motifs = sum(
        len(op.options[k].motifs) for op, k in zip(problem.ops, base.tolist(), strict=True)
    )
    max_recipes = MAX_RECIPES if motifs < LARGE_MOTIF_COUNT else MAX_RECIPES_LARGE
    for recipe in list(recipes)[:max_recipes]:
        choice = base.copy()
        for number, op in enumerate(problem.ops):
            taken = zip(op.options, problem.isolated_durations[number], strict=True)
            rows = [(ticks, k) for k, (o, ticks) in enumerate(taken) if o.name == recipe]
            if rows:
                choice[number] = min(rows)[1]
        yield choice


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@compiled
def _draw_uniform(state: IntArray) -> float:
    """Return a random number in [0, 1), and advance the generator (SplitMix64)."""
    word = np.uint64(state[0]) + _GOLDEN
    state[0] = np.int64(word)
    mixed = (word ^ (word >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return float(mixed >> np.uint64(11)) / 9007199254740992.0


@compiled_in_place
def _copy_row(row: IntArray, into: IntArray) -> None:
    """Copy numbers. A NumPy assignment with rows of different lengths takes a second to compile."""
    for k in range(len(row)):
        into[k] = row[k]


class AnnealingState(NamedTuple):
    """The state of annealing.

    Attributes:
        choice: Option of each op.
        offset: Urgency offset of each op, in ticks.
        best_choice: Options of the best plan.
        best_offset: Offsets of the best plan.
        best_starts: Start of each motif in the best plan.
        state: Random state, current value, and best value.
    """

    choice: IntArray
    offset: IntArray
    best_choice: IntArray
    best_offset: IntArray
    best_starts: IntArray
    state: IntArray


@compiled
def anneal(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    alike: IntArray,
    row: AnnealingState,
    workspace: Workspace,
    first: int,
    last: int,
    of: int,
    heat: float,
    target: int,
) -> int:
    """Make proposals: another option of an op, or of ops with the same options, or another urgency.

    Args:
        alike: Class of each op. Ops with the same options have the same class.
        row: Current and best state. Updated.
        workspace: Work arrays for placing.
        first: Number of the first proposal of this call.
        last: Number of the proposal before which the call ends.
        of: Number of proposals of the whole run.
        heat: First temperature, relative to the best completion time. It falls to a hundredth
            during the run.
        target: Completion time in ticks at which the run stops.

    Returns:
        Number of the next proposal.
    """
    starts, state = np.zeros_like(row.best_starts), row.state
    movable = np.flatnonzero(step.communicates == 1)
    if len(movable) == 0:
        return of
    old_choice, old_offset = row.choice.copy(), row.offset.copy()
    for proposal in range(first, last):
        if state[2] <= target:
            return of
        _propose_move(step, alike, row, movable)
        warm = heat * state[2] * (0.01 ** (proposal / of))
        limit = state[1] - warm * np.log(max(_draw_uniform(state), 1e-300))
        finish = serial_schedule(step, row.choice, row.offset, starts, workspace, int(limit))
        if finish > limit:
            _copy_row(old_choice, row.choice)
            _copy_row(old_offset, row.offset)
            continue
        state[1] = finish
        _copy_row(row.choice, old_choice)
        _copy_row(row.offset, old_offset)
        if finish < state[2]:
            state[2] = finish
            _copy_row(row.choice, row.best_choice)
            _copy_row(row.offset, row.best_offset)
            _copy_row(starts, row.best_starts)
    return last


@compiled
def _propose_move(
    step: StepArrays, alike: IntArray, row: AnnealingState, movable: IntArray
) -> None:
    """Change options, or the urgency of an op."""
    state, choice, offset = row.state, row.choice, row.offset
    op = movable[min(int(_draw_uniform(state) * len(movable)), len(movable) - 1)]
    options = step.option_first[op + 1] - step.option_first[op]
    kind = _draw_uniform(state)
    if options > 1 and kind < 0.5:
        choice[op] = (choice[op] + 1 + int(_draw_uniform(state) * (options - 1))) % options
        if kind < 0.1:  # also ops of its class between it and a random op
            begin = movable[min(int(_draw_uniform(state) * len(movable)), len(movable) - 1)]
            for other_op in range(min(begin, op), max(begin, op)):
                if alike[other_op] == alike[op]:
                    choice[other_op] = choice[op]
        return
    if kind < 0.6:  # as urgent as a random op
        offset[op] = offset[
            movable[min(int(_draw_uniform(state) * len(movable)), len(movable) - 1)]
        ]
    elif kind < 0.95:
        reach = state[1] / 2 if kind < 0.8 else state[1] / 32
        base = 0 if kind < 0.8 else offset[op]
        offset[op] = base + int((_draw_uniform(state) - 0.5) * reach)
    else:
        offset[op] = 0


@compiled
def run_markov_chain(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    choice: IntArray,
    best_choice: IntArray,
    best_starts: IntArray,
    state: IntArray,
    beta: float,
    first: int,
    last: int,
) -> int:
    """Make proposals as in SYNDICATE: a random option of a random op, then its list schedule.

    A proposal is accepted with min(1, exp(beta (C - C'))). The random number is drawn first, so
    that a list schedule can stop as soon as it exceeds the threshold. The published search returns
    the last accepted plan. This one keeps the best.
    """
    starts = np.zeros_like(best_starts)
    movable = np.flatnonzero(step.option_first[1:] - step.option_first[:-1] > 1)
    if len(movable) == 0:
        return last
    for _ in range(first, last):
        op = movable[min(int(_draw_uniform(state) * len(movable)), len(movable) - 1)]
        options = step.option_first[op + 1] - step.option_first[op]
        old = choice[op]
        choice[op] = min(int(_draw_uniform(state) * options), options - 1)
        limit = state[1] - np.log(max(_draw_uniform(state), 1e-300)) / beta
        finish = list_schedule_by_urgency(step, choice, starts, int(min(limit, 2.0**61)))
        if finish > limit:
            choice[op] = old
            continue
        state[1] = finish
        if finish < state[2]:
            state[2] = finish
            _copy_row(choice, best_choice)
            _copy_row(starts, best_starts)
    return last
