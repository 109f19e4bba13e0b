"""Schedule motifs by list scheduling in compiled loops: in an order, or as soon as possible.

No resource is idle while something could use it, for any priorities. Schedules that benefit from
waiting need serial generation (:mod:`sccl.train.placing`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, compiled_in_place, number
from sccl.train.placing import NEVER, rests
from sccl.train.problem import StepArrays, Whole
from sccl.train.sharing import SharedUse, free_for, nobody_has, take


@compiled
def in_order(step: StepArrays, choice: Whole, starts: Whole) -> int:
    """Start motifs in the order of submission, each no earlier than all before it.

    This holds for communication. Computations keep the order of their stream.
    """
    ops = len(choice)
    room = nobody_has(step.resources[0], step.share)
    ended = np.zeros(ops, dtype=np.int64)
    issued, finish = number(0), number(0)
    for op in range(ops):
        ready = number(0)
        for k in range(step.before_first[op], step.before_first[op + 1]):
            ready = max(ready, ended[step.before[k]])
        option = step.option_first[op] + choice[op]
        for motif in range(step.motif_first[option], step.motif_first[option + 1]):
            start = max(ready, issued) if step.communicates[op] else ready
            for k in range(step.wait_first[motif], step.wait_first[motif + 1]):
                start = max(start, starts[step.wait[k]] + step.ticks[step.wait[k]])
            if step.ticks[motif]:
                low, high = step.use_first[motif], step.use_first[motif + 1]
                at = free_for(room, step.use, step.share, low, high, int(start))
                take(room, step.use, step.share, low, high, at, at + step.ticks[motif])
                start = number(at)
            if step.communicates[op]:
                issued = start
            starts[motif] = start
            ended[op] = max(ended[op], start + step.ticks[motif])
        finish = max(finish, ended[op])
    return int(finish)


class ListRoom(NamedTuple):
    """Work space of list scheduling.

    Attributes:
        shared: Use of resources.
        ready: For each op, end of its dependencies. NEVER: unknown.
        waits: For each op: number of unfinished dependencies.
        left: For each op: number of motifs that have not started.
        ended: For each op: end of the last of its started motifs.
        blocked: For motifs with the same use: tick before which their resources are full.
    """

    shared: SharedUse
    ready: Whole
    waits: Whole
    left: Whole
    ended: Whole
    blocked: Whole


@compiled
def _urgent_first(step: StepArrays, choice: Whole) -> Whole:
    """Return the ops, those with the longest rest first."""
    rest = np.zeros(len(step.ticks), dtype=np.int64)
    rests(step, choice, rest)
    longest = np.zeros(len(choice), dtype=np.int64)
    for op in range(len(choice)):
        option = step.option_first[op] + choice[op]
        for motif in range(step.motif_first[option], step.motif_first[option + 1]):
            longest[op] = max(longest[op], rest[motif])
    order, other = np.arange(len(choice)), np.empty(len(choice), dtype=np.int64)
    width = number(1)  # sorted by halves, from below: NumPy's own sorts take a second to compile
    while width < len(choice):
        for low in range(0, len(choice), 2 * width):
            _merged(longest, order, other, low, width)
        order, other = other, order
        width *= 2
    return order


@compiled_in_place
def _merged(longest: Whole, order: Whole, other: Whole, low: int, width: int) -> None:
    """Write two rows of ops of some width, one after the other, as one: the longest first."""
    one, two = low, min(low + width, len(order))
    middle, end = two, min(two + width, len(order))
    for place in range(low, end):
        if two == end or (one < middle and longest[order[one]] >= longest[order[two]]):
            other[place] = order[one]
            one += 1
        else:
            other[place] = order[two]
            two += 1


@compiled_in_place
def _could_start(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays, room: ListRoom, starts: Whole, op: int, motif: int, now: int
) -> int:
    """Return the first tick at which a motif could start after those that have started."""
    at = room.ready[op]
    for k in range(step.wait_first[motif], step.wait_first[motif + 1]):
        other = step.wait[k]
        at = max(at, NEVER if starts[other] == NEVER else starts[other] + step.ticks[other])
    if at > now or step.ticks[motif] == 0:
        return int(at)
    # what has started since has left no more room: most motifs need not be looked at again
    sort = step.sort[motif]
    if room.blocked[sort] <= now:
        low, high = step.use_first[motif], step.use_first[motif + 1]
        room.blocked[sort] = free_for(room.shared, step.use, step.share, low, high, now)
    return int(max(at, room.blocked[sort]))


@compiled_in_place
def _started(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays, choice: Whole, room: ListRoom, starts: Whole, op: int, now: int
) -> int:
    """Start the motifs of an op that can; return when the first of the others could."""
    option, soonest = step.option_first[op] + choice[op], NEVER
    for motif in range(step.motif_first[option], step.motif_first[option + 1]):
        if starts[motif] < NEVER:
            continue
        at = _could_start(step, room, starts, op, motif, now)
        if at > now:
            soonest = min(soonest, at)
            continue
        starts[motif] = now
        end = now + step.ticks[motif]
        if end > now:
            low, high = step.use_first[motif], step.use_first[motif + 1]
            take(room.shared, step.use, step.share, low, high, now, end)
        room.ended[op] = max(room.ended[op], end)
        room.left[op] -= 1
    return soonest


@compiled_in_place
def _let_go(step: StepArrays, room: ListRoom, op: int) -> int:
    """Note that all motifs of an op have started; return when the first that waits could."""
    soonest = NEVER
    for k in range(step.later_first[op], step.later_first[op + 1]):
        other = step.later[k]
        room.waits[other] -= 1
        if room.waits[other] == 0:
            room.ready[other] = 0
            for j in range(step.before_first[other], step.before_first[other + 1]):
                room.ready[other] = max(room.ready[other], room.ended[step.before[j]])
            soonest = min(soonest, room.ready[other])
    return soonest


@compiled
def by_list(step: StepArrays, choice: Whole, starts: Whole, most: int) -> int:
    """Start motifs by list scheduling, the longest remaining path first.

    This is SYNDICATE's optSched, with the outer loop that its listing lacks: computations in their
    order, communication by critical path.

    Args:
        most: Ticks at which it gives up.
    """
    return listed(step, choice, _urgent_first(step, choice), starts, most)


@compiled
def listed(step: StepArrays, choice: Whole, order: Whole, starts: Whole, most: int) -> int:
    """Start motifs by list scheduling, with ops in a given priority order.

    Args:
        order: Ops, the first with the highest priority.
        most: Ticks at which it gives up.
    """
    ops = len(choice)
    room = ListRoom(
        nobody_has(step.resources[0], step.share),
        np.full(ops, NEVER, dtype=np.int64),
        np.zeros(ops, dtype=np.int64),
        np.zeros(ops, dtype=np.int64),
        np.zeros(ops, dtype=np.int64),
        np.zeros(len(step.sort) + 1, dtype=np.int64),
    )
    for op in range(ops):
        option = step.option_first[op] + choice[op]
        room.waits[op] = step.before_first[op + 1] - step.before_first[op]
        room.left[op] = step.motif_first[option + 1] - step.motif_first[option]
        for motif in range(step.motif_first[option], step.motif_first[option + 1]):
            starts[motif] = NEVER
        if room.waits[op] == 0:
            room.ready[op] = 0
    now, undone, finish = number(0), ops, number(0)
    waiting, count = order.copy(), ops
    while undone and finish <= most:
        soonest, every = NEVER, count
        count = 0
        for place in range(every):
            op = waiting[place]
            if room.ready[op] == NEVER:
                waiting[count] = op
                count += 1
                continue
            soonest = min(soonest, _started(step, choice, room, starts, op, now))
            if room.left[op] == 0:
                undone -= 1
                finish = max(finish, room.ended[op])
                soonest = min(soonest, _let_go(step, room, op))
            else:
                waiting[count] = op
                count += 1
        now = max(soonest, now)
    return finish if not undone else most + 1
