"""Serial schedule generation, in compiled loops.

The scheme takes one ready motif after the other, the most urgent first. It places each in the first
gap in which its shares of all its resources stay free. A motif may start before one that was placed
earlier, and a resource may idle until a motif becomes ready.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sccl.compiled import compiled, compiled_in_place, number
from sccl.core.arrays import IntArray
from sccl.training.scheduling.step_problem import FULL_SHARE, StepArrays

NEVER = 2**62

_KINDS = 32
"""Number of hash classes of motifs, by length and share, for which failed searches are cached."""


@compiled
def tail_lengths(step: StepArrays, choice: IntArray, rest: IntArray) -> None:
    """Write the tail of each chosen motif: ticks from its start to the end of the step.

    Tails ignore contention. Entries of motifs that are not chosen stay unchanged.
    """
    ops = len(choice)
    after = np.zeros(ops, dtype=np.int64)  # from an op's end to the end of the step
    for op in range(ops - 1, -1, -1):
        option = step.option_first[op] + choice[op]
        first, last = step.motif_first[option], step.motif_first[option + 1]
        for motif in range(first, last):
            rest[motif] = after[op]
        longest = number(0)
        for motif in range(last - 1, first - 1, -1):
            rest[motif] += step.ticks[motif]
            longest = max(longest, rest[motif])
            for k in range(step.wait_first[motif], step.wait_first[motif + 1]):
                rest[step.wait[k]] = max(rest[step.wait[k]], rest[motif])
        for k in range(step.before_first[op], step.before_first[op + 1]):
            after[step.before[k]] = max(after[step.before[k]], longest)


class Workspace(NamedTuple):
    """Work arrays of serial generation.

    Attributes:
        busy: Intervals of constant use of each resource, in order. Shape (resources, 3, intervals),
            with rows begin, end, and used share.
        stretches: Number of intervals of each resource.
        full: Cache of failed searches, shape (resources, 4, kinds), with rows begin, end, minimal
            length, and minimal share. No motif with at least this length and share can start
            between begin and end. Entries stay valid, because no motif is removed.
        key: Priority of each motif, the smallest first.
        ready: End of the predecessors of each motif, in ticks.
        waits: Number of unfinished predecessors of each motif. All those of its op count as one.
        queue: Ready motifs, as a heap.
        op_waits: Number of unfinished predecessors of each op.
        op_ready: End of the predecessors of each op, in ticks.
        remaining: Number of unplaced motifs of each op.
        op_done: End of the last placed motif of each op, in ticks.
        tail: Longest path from the start of each motif to the end of the step, in ticks.
        base: Urgency of each motif in ticks, in addition to that of its op.
    """

    busy: IntArray
    stretches: IntArray
    full: IntArray
    key: IntArray
    ready: IntArray
    waits: IntArray
    queue: IntArray
    op_waits: IntArray
    op_ready: IntArray
    remaining: IntArray
    op_done: IntArray
    tail: IntArray
    base: IntArray


def allocate_workspace(step: StepArrays) -> Workspace:
    """Return work arrays for a step."""
    resources, motifs, ops = int(step.resources[0]), len(step.ticks), len(step.communicates)
    uses = np.bincount(step.use, minlength=resources)
    if (step.share < FULL_SHARE).any():
        uses = 2 * uses  # each start and each end of a motif may begin a new interval
    table = np.zeros((resources, 3, int(uses.max(initial=0)) + 1), dtype=np.int64)
    by_motif, by_op = np.zeros((6, motifs), dtype=np.int64), np.zeros((4, ops), dtype=np.int64)
    return Workspace(
        busy=table,
        stretches=np.zeros(resources, dtype=np.int64),
        full=np.zeros((resources, 4, _KINDS), dtype=np.int64),
        key=by_motif[0],
        ready=by_motif[1],
        waits=by_motif[2],
        queue=by_motif[3],
        tail=by_motif[4],
        base=by_motif[5],
        op_waits=by_op[0],
        op_ready=by_op[1],
        remaining=by_op[2],
        op_done=by_op[3],
    )


@compiled_in_place
def _first_gap(busy: IntArray, count: int, start: int, ticks: int, part: int) -> int:
    """Return the first tick at or after a start from which a share is free for some ticks."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if busy[1, middle] <= start:
            low = middle + 1
        else:
            high = middle
    while low < count and busy[0, low] < start + ticks:
        if busy[2, low] + part > FULL_SHARE:
            start = max(start, busy[1, low])
        low += 1
    return start


@compiled_in_place
def _cached_gap(workspace: Workspace, resource: int, start: int, ticks: int, part: int) -> int:
    """Return the start of the first gap of a resource, and cache the part without gaps."""
    full, kind = workspace.full[resource], (ticks + part) % _KINDS
    is_cached = full[0, kind] <= start < full[1, kind]
    if is_cached and full[2, kind] <= ticks and full[3, kind] <= part:
        at = _first_gap(
            workspace.busy[resource], workspace.stretches[resource], full[1, kind], ticks, part
        )
        if full[2, kind] == ticks and full[3, kind] == part:
            full[1, kind] = at
        return at
    at = _first_gap(workspace.busy[resource], workspace.stretches[resource], start, ticks, part)
    if at - start > full[1, kind] - full[0, kind]:
        full[0, kind], full[1, kind], full[2, kind], full[3, kind] = start, at, ticks, part
    return at


@compiled_in_place
def _insert_stretch(busy: IntArray, count: int, start: int, stop: int, part: int) -> int:
    """Insert a used interval where the resource is free. Return the number of intervals."""
    place = count
    while place > 0 and busy[0, place - 1] > start:
        for k in range(3):
            busy[k, place] = busy[k, place - 1]
        place -= 1
    busy[0, place], busy[1, place], busy[2, place] = start, stop, part
    return count + 1


@compiled_in_place
def _insert_exclusive(busy: IntArray, count: int, start: int, stop: int) -> int:
    """Insert an interval of full use where the resource is free. Return the number of intervals.

    Adjacent intervals are merged, so searches for gaps visit few of them.
    """
    place = count
    while place > 0 and busy[0, place - 1] > start:
        place -= 1
    before = place > 0 and busy[1, place - 1] == start and busy[2, place - 1] == FULL_SHARE
    after = place < count and busy[0, place] == stop and busy[2, place] == FULL_SHARE
    if before and after:
        busy[1, place - 1] = busy[1, place]
        for index in range(place, count - 1):
            for k in range(3):
                busy[k, index] = busy[k, index + 1]
        return count - 1
    if before:
        busy[1, place - 1] = stop
        return count
    if after:
        busy[0, place] = start
        return count
    return _insert_stretch(busy, count, start, stop, number(FULL_SHARE))


@compiled_in_place
def _insert_shared(busy: IntArray, count: int, start: int, stop: int, part: int) -> int:
    """Add a share to an interval that may be partly used. Return the number of intervals."""
    place = count
    while place > 0 and busy[1, place - 1] > start:
        place -= 1
    while start < stop:
        if place == count or busy[0, place] >= stop:
            return _insert_stretch(busy, count, start, stop, part)
        if busy[0, place] > start:  # free until then
            then = busy[0, place]
            count = _insert_stretch(busy, count, start, then, part)
        else:
            if busy[1, place] > stop:  # the interval in use continues without it
                count = _insert_stretch(busy, count, stop, busy[1, place], busy[2, place])
                busy[1, place] = stop
            then = busy[1, place]
            if busy[0, place] < start:  # the interval in use began before
                count = _insert_stretch(busy, count, start, then, busy[2, place])
                busy[1, place] = start
                place += 1
            busy[2, place] += part
        start = then
        place += 1
    return count


@compiled_in_place
def _place_motif(step: StepArrays, workspace: Workspace, motif: int, start: int) -> int:
    """Place a motif in the first common gap of its resources. Return its start."""
    ticks, moved = step.ticks[motif], True
    first, last = step.use_first[motif], step.use_first[motif + 1]
    while moved and ticks:
        moved = False
        for k in range(first, last):
            resource = step.use[k]
            at = _cached_gap(workspace, resource, start, ticks, step.share[k])
            if at > start:
                start, moved = at, True
    for k in range(first, last if ticks else first):
        resource, part, stop = step.use[k], step.share[k], start + ticks
        if part == FULL_SHARE:
            count = _insert_exclusive(
                workspace.busy[resource], workspace.stretches[resource], start, stop
            )
        else:
            count = _insert_shared(
                workspace.busy[resource], workspace.stretches[resource], start, stop, part
            )
        workspace.stretches[resource] = count
    return start


@compiled_in_place
def _precedes(workspace: Workspace, left: int, right: int) -> bool:
    """Return whether a motif has priority over another. Ties go to the smaller index."""
    return bool(
        workspace.key[left] < workspace.key[right]
        or (workspace.key[left] == workspace.key[right] and left < right)
    )


@compiled_in_place
def _push_motif(workspace: Workspace, count: int, motif: int) -> int:
    """Push a motif onto the heap of ready motifs. Return the size of the heap."""
    place = count
    while place > 0:
        above = (place - 1) // 2
        if not _precedes(workspace, motif, workspace.queue[above]):
            break
        workspace.queue[place] = workspace.queue[above]
        place = above
    workspace.queue[place] = motif
    return count + 1


@compiled_in_place
def _pop_motif(workspace: Workspace, count: int) -> int:
    """Remove the motif of highest priority from the heap, and return it."""
    first, last = workspace.queue[0], workspace.queue[count - 1]
    place, below = 0, 1
    while below < count - 1:
        if below + 1 < count - 1 and _precedes(
            workspace, workspace.queue[below + 1], workspace.queue[below]
        ):
            below += 1
        if not _precedes(workspace, workspace.queue[below], last):
            break
        workspace.queue[place] = workspace.queue[below]
        place, below = below, 2 * below + 1
    workspace.queue[place] = last
    return int(first)


@compiled
def _initialize(step: StepArrays, choice: IntArray, offset: IntArray, workspace: Workspace) -> int:
    """Reset the work arrays. Return the number of motifs that are ready at the start."""
    tail_lengths(step, choice, workspace.tail)
    workspace.stretches[:] = 0
    workspace.full[:] = 0
    workspace.op_ready[:] = 0
    workspace.op_done[:] = 0
    count = number(0)
    for op in range(len(choice)):
        workspace.op_waits[op] = step.before_first[op + 1] - step.before_first[op]
        option = step.option_first[op] + choice[op]
        first, last = step.motif_first[option], step.motif_first[option + 1]
        workspace.remaining[op] = last - first
        for motif in range(first, last):
            workspace.key[motif] = -workspace.tail[motif] - offset[op] - workspace.base[motif]
            workspace.ready[motif] = 0
            wait_count = step.wait_first[motif + 1] - step.wait_first[motif]
            workspace.waits[motif] = wait_count + (workspace.op_waits[op] > 0)
            if workspace.waits[motif] == 0:
                count = _push_motif(workspace, count, motif)
    return count


@compiled
def serial_schedule(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    choice: IntArray,
    offset: IntArray,
    starts: IntArray,
    workspace: Workspace,
    limit: int,
) -> int:
    """Place all motifs by serial generation: among ready motifs, the longest remaining path first.

    Args:
        offset: Additional urgency of each op, in ticks.
        starts: Start of each motif of a chosen option. Updated.
        workspace: Work arrays for the step.
        limit: Completion time in ticks above which placing gives up.

    Returns:
        Completion time in ticks. Larger than ``limit``: placing gave up.
    """
    count, finish = _initialize(step, choice, offset, workspace), 0
    while count:
        motif = _pop_motif(workspace, count)
        count -= 1
        op = step.op[motif]
        start = _place_motif(
            step, workspace, motif, max(workspace.ready[motif], workspace.op_ready[op])
        )
        if start + workspace.tail[motif] > limit:
            return limit + 1
        starts[motif] = start
        ended = start + step.ticks[motif]
        finish = max(finish, ended)
        for k in range(step.next_first[motif], step.next_first[motif + 1]):
            successor = step.next[k]
            workspace.ready[successor] = max(workspace.ready[successor], ended)
            workspace.waits[successor] -= 1
            if workspace.waits[successor] == 0:
                count = _push_motif(workspace, count, successor)
        workspace.op_done[op] = max(workspace.op_done[op], ended)
        workspace.remaining[op] -= 1
        if workspace.remaining[op] == 0:
            count = _release_successors(step, choice, workspace, op, count)
    return int(finish)


@compiled_in_place
def _release_successors(
    step: StepArrays, choice: IntArray, workspace: Workspace, op: int, count: int
) -> int:
    """Release the successors of an op that has ended. Return the number of ready motifs."""
    for k in range(step.later_first[op], step.later_first[op + 1]):
        successor = step.later[k]
        workspace.op_ready[successor] = max(workspace.op_ready[successor], workspace.op_done[op])
        workspace.op_waits[successor] -= 1
        if workspace.op_waits[successor] == 0:
            option = step.option_first[successor] + choice[successor]
            for motif in range(step.motif_first[option], step.motif_first[option + 1]):
                workspace.waits[motif] -= 1
                if workspace.waits[motif] == 0:
                    count = _push_motif(workspace, count, motif)
    return count
