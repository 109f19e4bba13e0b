"""Cheap timed trees, and lower bounds on their cost: compiled loops.

A timed tree is a Steiner arborescence in the network of (rank, time), where holding is free. So a
cut for a rank that wants a chunk is given by a time for each rank, until which it is inside. Sends
enter it to a rank that is inside from one that is not. Prices for entering cuts are a dual
solution, whose sum is a lower bound on the cost of every tree. It is raised cut by cut, each from
one rank's side, until an entering send has no reduced cost left (Wong, A dual ascent approach for
Steiner tree problems on a directed graph, Mathematical Programming 28, 1984).
"""

from __future__ import annotations

from typing import Any

from sccl.compiled import compiled
from sccl.synth.packing.by_steps.pricing.time_windows import INFINITE

_UNUSABLE = INFINITE


@compiled
def dual_ascent_bound(  # noqa: PLR0912, PLR0913, PLR0917 - compiled code works on arrays, and is one loop
    reduced: Any, src: Any, dst: Any, held: Any, wanted: Any, until: Any, size: Any, never: int
) -> tuple[int, int]:
    """Return a lower bound on the cost of trees, and the number of cuts in it.

    Args:
        reduced: costs of sends, by link and step. Out: the reduced costs.
        held: by rank, whether it holds the chunk before.
        wanted: by rank, whether it wants it and does not hold it.
        until: scratch, by rank.
        size: scratch, by rank.
        never: cost of a useless send.
    """
    links, steps = reduced.shape
    ranks = len(held)
    total, sets = 0, 0
    size[:] = 0
    while True:
        target = -1  # small sets first: they are entered by few
        for rank in range(ranks):
            if wanted[rank] and size[rank] >= 0 and (target < 0 or size[rank] < size[target]):
                target = rank
        if target < 0:
            return total, sets
        until[:] = -1
        until[target] = steps
        for step in range(steps - 1, -1, -1):
            for link in range(links):
                inside = until[dst[link]] > step and until[src[link]] < step
                if inside and reduced[link, step] == 0:
                    until[src[link]] = step
        inside = 0
        for rank in range(ranks):
            inside += until[rank] + 1
            if held[rank] and until[rank] >= 0:
                inside = -1
                break
        size[target] = inside
        if inside < 0:
            continue
        min_cost = never
        for link in range(links):
            for step in range(until[src[link]] + 1, until[dst[link]]):
                min_cost = min(min_cost, reduced[link, step])
        if min_cost >= never:
            return never, sets
        for link in range(links):
            for step in range(until[src[link]] + 1, until[dst[link]]):
                if reduced[link, step] < never:
                    reduced[link, step] -= min_cost
        total += min_cost
        sets += 1


@compiled
def grow_tree(  # noqa: PLR0912, PLR0913, PLR0917 - likewise
    weights: Any, src: Any, dst: Any, since: Any, into: Any, wanted: Any, far: Any, through: Any
) -> bool:
    """Reach the rank that is cheapest to reach, through time, until all are; return False if not.

    Args:
        weights: of sends, by link and step.
        since: by rank, 0: it holds the chunk before, else more than there are steps; out: from when
            on it does.
        into: out: by rank, the link by which it is reached. -1: by none.
        wanted: by rank, whether it is to be reached.
        far, through: scratch, by time and rank.
    """
    links, steps = weights.shape
    ranks = len(since)
    into[:] = -1
    while True:
        for time in range(steps + 1):
            for rank in range(ranks):
                kept = time > 0 and far[time - 1, rank] < _UNUSABLE
                far[time, rank] = far[time - 1, rank] if kept else _UNUSABLE
                if since[rank] == time:
                    far[time, rank] = 0
                through[time, rank] = -1
            if time > 0:
                for link in range(links):
                    if far[time - 1, src[link]] >= _UNUSABLE:
                        continue
                    arrival_cost = far[time - 1, src[link]] + weights[link, time - 1]
                    at = dst[link]
                    if arrival_cost < far[time, at] and since[at] != time:
                        far[time, at], through[time, at] = arrival_cost, link
        nearest = -1
        for rank in range(ranks):
            missing = wanted[rank] and since[rank] > steps
            if missing and (nearest < 0 or far[steps, rank] < far[steps, nearest]):
                nearest = rank
        if nearest < 0:
            return True
        if far[steps, nearest] >= _UNUSABLE:
            return False
        at, time = nearest, steps
        while since[at] > time:
            if through[time, at] >= 0:
                since[at], into[at] = time, through[time, at]
                at = src[through[time, at]]
            time -= 1
