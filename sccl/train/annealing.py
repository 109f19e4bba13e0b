"""Annealing over options and urgencies, and the published Markov chain, in compiled loops.

Random numbers are our own (SplitMix64), so that the same seed gives the same plan everywhere.
"""

from __future__ import annotations

import numpy as np

from sccl.compiled import compiled
from sccl.train.listing import by_list
from sccl.train.placing import PlacingRoom, serially
from sccl.train.problem import StepArrays, Whole

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@compiled
def _drawn(state: Whole) -> float:
    """Return a number of 0 up to 1, and go on to the next."""
    whole = np.uint64(state[0]) + _GOLDEN
    state[0] = np.int64(whole)
    mixed = (whole ^ (whole >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return float(mixed >> np.uint64(11)) / 9007199254740992.0


@compiled
def anneal(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    choice: Whole,
    offset: Whole,
    best_choice: Whole,
    best_starts: Whole,
    state: Whole,
    room: PlacingRoom,
    first: int,
    last: int,
    of: int,
    enough: int,
) -> int:
    """Make proposals: another option of an op, or another urgency; keep the best.

    Args:
        choice: of each op: its option, which is changed.
        offset: of each op: ticks by which it is more urgent than its rest says; changed.
        best_choice: of the best; written.
        best_starts: of each motif in the best; written.
        state: of the random numbers, what the present and the best take.
        room: for placing.
        first: proposal of this call.
        last: proposal before which it ends.
        of: proposals of the whole run, over which it cools down.
        enough: ticks with which it ends.

    Returns:
        The proposal that is next.
    """
    ops = len(choice)
    starts = np.zeros_like(best_starts)
    movable = np.flatnonzero(step.communicates == 1)
    if len(movable) == 0:
        return of
    for proposal in range(first, last):
        if state[2] <= enough:
            return of
        op = movable[min(int(_drawn(state) * len(movable)), len(movable) - 1)]
        options = step.option_first[op + 1] - step.option_first[op]
        old_choice, old_offset = choice[op], offset[op]
        if options > 1 and _drawn(state) < 0.5:
            choice[op] = (old_choice + 1 + int(_drawn(state) * (options - 1))) % options
        else:
            offset[op] = int((_drawn(state) - 0.5) * state[1] / 2) if _drawn(state) < 0.8 else 0
        warm = 0.02 * state[2] * (0.01 ** (proposal / of))
        most = state[1] - warm * np.log(max(_drawn(state), 1e-300))
        finish = serially(step, choice, offset, starts, room, int(most))
        if finish > most:
            choice[op], offset[op] = old_choice, old_offset
            continue
        state[1] = finish
        if finish < state[2]:
            state[2] = finish
            for k in range(ops):
                best_choice[k] = choice[k]
            best_starts[:] = starts
    return last


@compiled
def chain(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    choice: Whole,
    best_choice: Whole,
    best_starts: Whole,
    state: Whole,
    beta: float,
    first: int,
    last: int,
) -> int:
    """Make proposals as SYNDICATE publishes it: a random option of a random op, then its lists.

    It is accepted with min(1, exp(beta (C - C'))); here the random number is drawn first, so that
    a list can be given up as soon as it is beyond what would be accepted. The published search
    returns what it accepted last; this one keeps the best.
    """
    starts = np.zeros_like(best_starts)
    movable = np.flatnonzero(step.option_first[1:] - step.option_first[:-1] > 1)
    if len(movable) == 0:
        return last
    for _ in range(first, last):
        op = movable[min(int(_drawn(state) * len(movable)), len(movable) - 1)]
        options = step.option_first[op + 1] - step.option_first[op]
        old = choice[op]
        choice[op] = min(int(_drawn(state) * options), options - 1)
        most = state[1] - np.log(max(_drawn(state), 1e-300)) / beta
        finish = by_list(step, choice, starts, int(min(most, 2.0**61)))
        if finish > most:
            choice[op] = old
            continue
        state[1] = finish
        if finish < state[2]:
            state[2] = finish
            best_choice[:] = choice
            best_starts[:] = starts
    return last
