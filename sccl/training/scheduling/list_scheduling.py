"""Schedule motifs by list scheduling in compiled loops: in an order, or as soon as possible.

List schedules are non-delay: no resource idles while a ready motif could use it, whatever the
priorities. Motifs start in order of time, so for each resource only the ends of its current users
are stored. Schedules that benefit from waiting need serial generation
(:mod:`sccl.training.scheduling.serial_generation`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled, compiled_in_place, number
from sccl.core.arrays import IntArray
from sccl.training.scheduling.serial_generation import NEVER, tail_lengths
from sccl.training.scheduling.step_problem import FULL_SHARE, StepArrays


class ResourceProfile(NamedTuple):
    """The current users of resources.

    Attributes:
        ends: Ends of the users of each resource in ticks, shape (resources, users).
        parts: Their shares in units of 1/:data:`FULL_SHARE`, shape (resources, users).
        holder_count: Number of users of each resource.
        last_start: Start of the latest user of each resource, in ticks.
    """

    ends: NDArray[np.int64]
    parts: NDArray[np.int64]
    holder_count: IntArray
    last_start: IntArray


@compiled
def empty_profile(resources: int, shares: IntArray) -> ResourceProfile:
    """Return a profile without users.

    Args:
        shares: Shares of all motifs. The smallest one limits the number of users at once.
    """
    smallest_share = number(FULL_SHARE)
    for share in shares:
        smallest_share = min(smallest_share, share)
    capacity = FULL_SHARE // smallest_share + 1
    return ResourceProfile(
        np.empty((resources, capacity), dtype=np.int64),
        np.empty((resources, capacity), dtype=np.int64),
        np.zeros(resources, dtype=np.int64),
        np.zeros(resources, dtype=np.int64),
    )


@compiled_in_place
def _first_free(profile: ResourceProfile, resource: int, start: int, part: int) -> int:
    """Return the first tick at or after a start at which a share of a resource is free."""
    while True:
        used, soonest = 0, start
        for k in range(profile.holder_count[resource]):
            end = profile.ends[resource, k]
            if end > start:
                used += profile.parts[resource, k]
                if soonest == start or end < soonest:
                    soonest = end
        if used + part <= FULL_SHARE:
            return start
        start = soonest


@compiled_in_place
def earliest_fit(  # noqa: PLR0913, PLR0917 - loops
    profile: ResourceProfile, use: IntArray, share: IntArray, first: int, last: int, at: int
) -> int:
    """Return the first tick at or after ``at`` at which all shares of a motif are free.

    Args:
        use: Used resources of all motifs. Those of the motif have indices ``first`` to ``last -
            1``.
        share: Share of each used resource, in units of 1/:data:`FULL_SHARE`.
    """
    for k in range(first, last):
        at = max(at, profile.last_start[use[k]])
    moved = True
    while moved:
        moved = False
        for k in range(first, last):
            then = _first_free(profile, use[k], at, share[k])
            if then > at:
                at, moved = then, True
    return at


@compiled_in_place
def reserve(  # noqa: PLR0913, PLR0917 - loops
    profile: ResourceProfile,
    use: IntArray,
    share: IntArray,
    first: int,
    last: int,
    start: int,
    end: int,
) -> None:
    """Record the shares of a motif, and drop users that have ended."""
    for k in range(first, last):
        resource, kept = use[k], 0
        for slot in range(profile.holder_count[resource]):
            if profile.ends[resource, slot] > start:
                profile.ends[resource, kept] = profile.ends[resource, slot]
                profile.parts[resource, kept] = profile.parts[resource, slot]
                kept += 1
        profile.ends[resource, kept], profile.parts[resource, kept] = end, share[k]
        profile.holder_count[resource] = kept + 1
        profile.last_start[resource] = start


@compiled
def schedule_in_order(step: StepArrays, choice: IntArray, starts: IntArray) -> int:
    """Start motifs in the order of submission, and return the completion time in ticks.

    Communication starts no earlier than all communication before it. Computations keep the order of
    their stream.
    """
    ops = len(choice)
    profile = empty_profile(step.resources[0], step.share)
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
                at = earliest_fit(profile, step.use, step.share, low, high, int(start))
                reserve(profile, step.use, step.share, low, high, at, at + step.ticks[motif])
                start = number(at)
            if step.communicates[op]:
                issued = start
            starts[motif] = start
            ended[op] = max(ended[op], start + step.ticks[motif])
        finish = max(finish, ended[op])
    return int(finish)


class ListWorkspace(NamedTuple):
    """Work arrays of list scheduling.

    Attributes:
        shared: Use of resources.
        ready: End of the predecessors of each op in ticks. NEVER: unknown.
        waits: Number of predecessors of each op that have not started completely.
        remaining: Number of motifs of each op that have not started.
        op_ends: End of the last started motif of each op, in ticks.
        blocked: Tick before which no motif of a class of equal use fits.
    """

    shared: ResourceProfile
    ready: IntArray
    waits: IntArray
    remaining: IntArray
    op_ends: IntArray
    blocked: IntArray


@compiled
def _order_by_urgency(step: StepArrays, choice: IntArray) -> IntArray:
    """Return the ops, those with the longest remaining path first."""
    rest = np.zeros(len(step.ticks), dtype=np.int64)
    tail_lengths(step, choice, rest)
    longest = np.zeros(len(choice), dtype=np.int64)
    for op in range(len(choice)):
        option = step.option_first[op] + choice[op]
        for motif in range(step.motif_first[option], step.motif_first[option + 1]):
            longest[op] = max(longest[op], rest[motif])
    order, buffer = np.arange(len(choice)), np.empty(len(choice), dtype=np.int64)
    width = number(1)  # bottom-up merge sort: NumPy's sorts take a second to compile
    while width < len(choice):
        for low in range(0, len(choice), 2 * width):
            _merge_sorted_rows(longest, order, buffer, low, width)
        order, buffer = buffer, order
        width *= 2
    return order


@compiled_in_place
def _merge_sorted_rows(
    longest: IntArray, order: IntArray, buffer: IntArray, low: int, width: int
) -> None:
    """Merge two adjacent sorted runs of ops, the longest remaining path first."""
    left, right = low, min(low + width, len(order))
    middle, end = right, min(right + width, len(order))
    for place in range(low, end):
        if right == end or (left < middle and longest[order[left]] >= longest[order[right]]):
            buffer[place] = order[left]
            left += 1
        else:
            buffer[place] = order[right]
            right += 1


@compiled_in_place
def _earliest_start(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays, workspace: ListWorkspace, starts: IntArray, op: int, motif: int, now: int
) -> int:
    """Return the first tick at which a motif could start, given the started ones."""
    at = workspace.ready[op]
    for k in range(step.wait_first[motif], step.wait_first[motif + 1]):
        earlier = step.wait[k]
        at = max(at, NEVER if starts[earlier] == NEVER else starts[earlier] + step.ticks[earlier])
    if at > now or step.ticks[motif] == 0:
        return int(at)
    # later starts only take more capacity, so the cached tick remains a lower bound
    motif_class = step.motif_class[motif]
    if workspace.blocked[motif_class] <= now:
        low, high = step.use_first[motif], step.use_first[motif + 1]
        workspace.blocked[motif_class] = earliest_fit(
            workspace.shared, step.use, step.share, low, high, now
        )
    return int(max(at, workspace.blocked[motif_class]))


@compiled_in_place
def _start_motifs(  # noqa: PLR0913, PLR0917 - loops
    step: StepArrays,
    choice: IntArray,
    workspace: ListWorkspace,
    starts: IntArray,
    op: int,
    now: int,
) -> int:
    """Start all motifs of an op that can start now. Return the earliest tick of the others."""
    option, soonest = step.option_first[op] + choice[op], NEVER
    for motif in range(step.motif_first[option], step.motif_first[option + 1]):
        if starts[motif] < NEVER:
            continue
        at = _earliest_start(step, workspace, starts, op, motif, now)
        if at > now:
            soonest = min(soonest, at)
            continue
        starts[motif] = now
        end = now + step.ticks[motif]
        if end > now:
            low, high = step.use_first[motif], step.use_first[motif + 1]
            reserve(workspace.shared, step.use, step.share, low, high, now, end)
        workspace.op_ends[op] = max(workspace.op_ends[op], end)
        workspace.remaining[op] -= 1
    return soonest


@compiled_in_place
def _release_successors(step: StepArrays, workspace: ListWorkspace, op: int) -> int:
    """Release the successors of a started op. Return when the first of them becomes ready."""
    soonest = NEVER
    for k in range(step.later_first[op], step.later_first[op + 1]):
        successor = step.later[k]
        workspace.waits[successor] -= 1
        if workspace.waits[successor] == 0:
            workspace.ready[successor] = 0
            for j in range(step.before_first[successor], step.before_first[successor + 1]):
                workspace.ready[successor] = max(
                    workspace.ready[successor], workspace.op_ends[step.before[j]]
                )
            soonest = min(soonest, workspace.ready[successor])
    return soonest


@compiled
def list_schedule_by_urgency(
    step: StepArrays, choice: IntArray, starts: IntArray, limit: int
) -> int:
    """Start motifs by list scheduling, the longest remaining path first.

    This is SYNDICATE's optSched, with the outer loop that its listing lacks. Computations keep
    their order, and communication is ordered by critical path.

    Args:
        limit: Completion time in ticks above which scheduling gives up.

    Returns:
        Completion time in ticks. Larger than ``limit``: scheduling gave up.
    """
    return list_schedule(step, choice, _order_by_urgency(step, choice), starts, limit)


@compiled
def list_schedule(
    step: StepArrays, choice: IntArray, order: IntArray, starts: IntArray, limit: int
) -> int:
    """Start motifs by list scheduling, with ops in a given priority order.

    Args:
        order: Ops, the first with the highest priority.
        limit: Completion time in ticks above which scheduling gives up.

    Returns:
        Completion time in ticks. Larger than ``limit``: scheduling gave up.
    """
    ops = len(choice)
    workspace = ListWorkspace(
        empty_profile(step.resources[0], step.share),
        np.full(ops, NEVER, dtype=np.int64),
        np.zeros(ops, dtype=np.int64),
        np.zeros(ops, dtype=np.int64),
        np.zeros(ops, dtype=np.int64),
        np.zeros(len(step.motif_class) + 1, dtype=np.int64),
    )
    for op in range(ops):
        option = step.option_first[op] + choice[op]
        workspace.waits[op] = step.before_first[op + 1] - step.before_first[op]
        workspace.remaining[op] = step.motif_first[option + 1] - step.motif_first[option]
        for motif in range(step.motif_first[option], step.motif_first[option + 1]):
            starts[motif] = NEVER
        if workspace.waits[op] == 0:
            workspace.ready[op] = 0
    now, undone, finish = number(0), ops, number(0)
    waiting, count = order.copy(), ops
    while undone and finish <= limit:
        soonest, total = NEVER, count
        count = 0
        for place in range(total):
            op = waiting[place]
            if workspace.ready[op] == NEVER:
                waiting[count] = op
                count += 1
                continue
            soonest = min(soonest, _start_motifs(step, choice, workspace, starts, op, now))
            if workspace.remaining[op] == 0:
                undone -= 1
                finish = max(finish, workspace.op_ends[op])
                soonest = min(soonest, _release_successors(step, workspace, op))
            else:
                waiting[count] = op
                count += 1
        now = max(soonest, now)
    return finish if not undone else limit + 1
