"""Grow a timed tree by cheapest paths: compiled loops."""

from __future__ import annotations

from typing import Any

from sccl.compiled import compiled
from sccl.synth.limits import INFINITE


@compiled
def price_links(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    of_start: Any, of: Any, load: Any, room: Any, past: Any, sharp: float, cost: Any
) -> None:
    """Compute the cost of a send over each link in each step. Overloads are expensive.

    Args:
        of_start: Index of each link's first entry of ``of``, and the total.
        of: Constraints by link.
        load: Load of each constraint, shape (constraints, steps).
        room: Capacity of each constraint, shape (constraints, steps).
        past: Weighted overloads of earlier passes, shape (constraints, steps).
        sharp: Weight of the current overload.
        cost: Output: shape (links, steps).
    """
    for link in range(cost.shape[0]):
        for step in range(cost.shape[1]):
            total = 0.0
            for i in range(of_start[link], of_start[link + 1]):
                over = load[of[i], step] + 1 - room[of[i], step]
                each = 1.0 + past[of[i], step]
                total += each * (1.0 + sharp * over) if over > 0 else each
            cost[link, step] = total


@compiled
def add_tree_load(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    in_link: Any, since: Any, of_start: Any, of: Any, load: Any, times: int
) -> None:
    """Add a tree ``times`` times to the loads of constraints."""
    for rank in range(len(in_link)):
        link = in_link[rank]
        if link >= 0:
            for i in range(of_start[link], of_start[link + 1]):
                load[of[i], since[rank] - 1] += times


@compiled
def grow_tree(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    order: Any,
    out_start: Any,
    out_link: Any,
    src: Any,
    dst: Any,
    cost: Any,
    far: Any,
    through: Any,
    fresh: Any,
    in_link: Any,
    since: Any,
) -> bool:
    """Grow a tree until it contains all ranks of ``order``. Return False if one is out of reach.

    Each rank in turn is attached by the cheapest path through time from the tree so far.

    Args:
        order: Ranks to attach.
        out_start: Index of each rank's first entry of ``out_link``, and the total.
        out_link: Links by source.
        src: Source of each link.
        dst: Destination of each link.
        cost: Cost of a send, shape (links, steps).
        far, through, fresh: Work space, shape (steps + 1, ranks).
        in_link: Output: link by which the tree enters each rank. -1: a holder, or not in the tree.
        since: Time from which each rank has the chunk, 0 for holders. Updated for the others.
    """
    steps = cost.shape[1]
    far[:, :] = INFINITE
    through[:, :] = -2
    fresh[:, :] = False
    in_link[:] = -1
    for rank in range(len(since)):
        if since[rank] != 0:
            since[rank] = steps + 1
        else:
            far[0, rank] = 0.0
            fresh[0, rank] = True
    _propagate(0, out_start, out_link, dst, cost, far, through, fresh)
    for target in order:
        time, at, first = steps, target, steps
        while since[at] > time:
            link = through[time, at]
            if link == -2:
                return False
            if link >= 0:
                since[at], in_link[at] = time, link
                far[time, at], through[time, at], fresh[time, at] = 0.0, -1, True
                first = time
                at = src[link]
            time -= 1
        _propagate(first, out_start, out_link, dst, cost, far, through, fresh)
    return True


@compiled
def _propagate(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    first: int,
    out_start: Any,
    out_link: Any,
    dst: Any,
    cost: Any,
    far: Any,
    through: Any,
    fresh: Any,
) -> None:
    """Propagate lower costs from a time on. A ``through`` of -1 means that the chunk waited."""
    steps, ranks = cost.shape[1], far.shape[1]
    for time in range(first, steps):
        for rank in range(ranks):
            if not fresh[time, rank]:
                continue
            fresh[time, rank] = False
            source_cost = far[time, rank]
            if source_cost < far[time + 1, rank]:
                far[time + 1, rank], through[time + 1, rank] = source_cost, -1
                fresh[time + 1, rank] = True
            for i in range(out_start[rank], out_start[rank + 1]):
                link = out_link[i]
                target_cost = source_cost + cost[link, time]
                if target_cost < far[time + 1, dst[link]]:
                    far[time + 1, dst[link]], through[time + 1, dst[link]] = target_cost, link
                    fresh[time + 1, dst[link]] = True
    fresh[steps, :] = False
