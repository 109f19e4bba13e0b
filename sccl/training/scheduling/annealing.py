"""Annealing over options and urgencies, and the published Markov chain, in compiled loops.

Random numbers are our own (SplitMix64), so that the same seed gives the same plan everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, compiled_in_place
from sccl.core.arrays import IntArray
from sccl.training.scheduling.list_scheduling import list_schedule_by_urgency
from sccl.training.scheduling.serial_generation import Workspace, serial_schedule
from sccl.training.scheduling.step_problem import StepArrays

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@compiled
def _draw_uniform(state: IntArray) -> float:
    """Return a number of 0 up to 1, and go on to the next."""
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
    room: Workspace,
    first: int,
    last: int,
    of: int,
    heat: float,
    target: int,
) -> int:
    """Make proposals: another option of an op, or of all that are alike, or another urgency.

    Args:
        alike: of each op, a number that those have in common that have the same options.
        row: where it is, and the best; changed.
        room: for placing.
        first: proposal of this call.
        last: proposal before which it ends.
        of: proposals of the whole run, over which it cools down.
        heat: of the best: about how much worse is accepted at first. At last, a hundredth of that.
        target: ticks with which it ends.

    Returns:
        The proposal that is next.
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
        finish = serial_schedule(step, row.choice, row.offset, starts, room, int(limit))
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
    """Change something: an option, or an urgency."""
    state, choice, offset = row.state, row.choice, row.offset
    op = movable[min(int(_draw_uniform(state) * len(movable)), len(movable) - 1)]
    options = step.option_first[op + 1] - step.option_first[op]
    kind = _draw_uniform(state)
    if options > 1 and kind < 0.5:
        choice[op] = (choice[op] + 1 + int(_draw_uniform(state) * (options - 1))) % options
        if kind < 0.1:  # and with it those that are alike, from some one on to some other
            begin = movable[min(int(_draw_uniform(state) * len(movable)), len(movable) - 1)]
            for other_op in range(min(begin, op), max(begin, op)):
                if alike[other_op] == alike[op]:
                    choice[other_op] = choice[op]
        return
    if kind < 0.6:  # as urgent as another is, or a little more or less
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
