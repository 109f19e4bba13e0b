"""A cheap timed tree, made in no time: who is nearest is joined next, by the cheapest way.

That is Takahashi and Matsuyama's rule (1980) on a network expanded in time, begun with each rank in
turn. Then each rank is joined again, with all that it serves, where that is cheaper. The tree need
not be the cheapest.
"""

from __future__ import annotations

import numpy as np

from sccl.compiled import compiled
from sccl.core.arrays import IntArray
from sccl.synth.packing.price_sets import INFINITE


@compiled
def insert_targets(  # noqa: PLR0913, PLR0917 - independent inputs
    src: IntArray,
    dst: IntArray,
    cost: IntArray,
    arrive: IntArray,
    since: IntArray,
    wanted: IntArray,
    begun: IntArray,
    tree: IntArray,
) -> int:
    """Write the (link, slot)s of a cheap tree into ``tree``. Return their number, or -1 if none.

    Args:
        src: source of each link.
        dst: destination of each link.
        cost: shape (links, slots): cost of a send, 1 or more.
        arrive: shape (links, slots): slot from which on a send has arrived. -1: it is not sent.
        since: by rank: 0 if it has the chunk from the start. Otherwise -1.
        wanted: whether each rank wants it.
        begun: whether to begin a tree with each rank. The cheapest is kept.
        tree: shape (most, 2).
    """
    slots, ranks = cost.shape[1], len(since)
    best, many = INFINITE, -1
    by, have = np.empty((ranks, 2), np.int64), np.empty(ranks, np.int64)
    far, via = np.empty((slots + 1, ranks), np.int64), np.empty((slots + 1, ranks), np.int64)
    for first in range(ranks):
        if wanted[first] and begun[first] and since[first] != 0:
            by[:], have[:] = -1, np.where(since == 0, 0, slots + 1)
            turn = first
            while turn >= 0:
                _arrival_costs(src, dst, cost, arrive, have, by, -1, far, via)
                if far[slots, turn] >= INFINITE:
                    break
                _attach_target(src, arrive, have, by, turn, slots, via)
                turn = _nearest_target(far[slots], wanted, have, slots)
            if turn >= 0:
                continue
            better = True
            while better:
                better = False
                for v in range(ranks):
                    if by[v, 0] >= 0:
                        better |= _reattach_target(
                            src, dst, cost, arrive, have, by, wanted, v, far, via
                        )
            total = _prune_and_price(src, cost, by, wanted)
            if total < best:
                best, many = total, 0
                for v in range(ranks):
                    if by[v, 0] >= 0:
                        tree[many] = by[v]
                        many += 1
    return many


@compiled
def _arrival_costs(  # noqa: PLR0912, PLR0913, PLR0917
    src: IntArray,
    dst: IntArray,
    cost: IntArray,
    arrive: IntArray,
    have: IntArray,
    by: IntArray,
    below: int,
    far: IntArray,
    via: IntArray,
) -> None:
    """Fill in the cost of having the chunk at each rank by each slot, from its holders.

    Args:
        have: slot since which each rank has it.
        by: link and slot by which each rank has it.
        below: a rank that does not have it, nor the ranks served from there. -1: none.
        via: the link by which it arrives first in a slot. -1: from the slot before. -2: it is there
            anyway.
    """
    slots, ranks = cost.shape[1], len(have)
    out = np.zeros(ranks, np.int64)
    if below >= 0:
        for v in range(ranks):
            u = v
            while u != below and by[u, 0] >= 0:
                u = src[by[u, 0]]
            out[v] = u == below
    for k in range(slots + 1):
        for v in range(ranks):
            arrived = have[v] <= k and not out[v]
            far[k, v] = 0 if arrived else INFINITE
            via[k, v] = -2
    for k in range(slots + 1):
        if k > 0:
            for v in range(ranks):
                if far[k - 1, v] < far[k, v]:
                    far[k, v], via[k, v] = far[k - 1, v], -1
        again = k < slots
        while again:  # forwards within the slot
            again = False
            for link in range(len(src)):
                arrived, u, v = arrive[link, k], src[link], dst[link]
                if arrived < 0 or far[k, u] >= INFINITE or (out[v] and v != below):
                    continue
                if far[k, u] + cost[link, k] < far[arrived, v]:
                    far[arrived, v], via[arrived, v] = far[k, u] + cost[link, k], link * slots + k
                    again = again or arrived == k


@compiled
def _nearest_target(far: IntArray, wanted: IntArray, have: IntArray, slots: int) -> int:
    """Return who wants the chunk, has not got it, and is the nearest. -1: nobody."""
    nearest = -1
    for v in range(len(have)):
        if wanted[v] and have[v] > slots and (nearest < 0 or far[v] < far[nearest]):
            nearest = v
    return nearest


@compiled
def _attach_target(  # noqa: PLR0913, PLR0917
    src: IntArray,
    arrive: IntArray,
    have: IntArray,
    by: IntArray,
    rank: int,
    slot: int,
    via: IntArray,
) -> None:
    """Join a rank by the cheapest way to it by a slot, and all who are on that way."""
    slots = arrive.shape[1]
    while via[slot, rank] != -2:
        if via[slot, rank] == -1:
            slot -= 1
            continue
        link, slot = divmod(via[slot, rank], slots)
        by[rank, 0], by[rank, 1], have[rank] = link, slot, arrive[link, slot]
        rank = src[link]


@compiled
def _reattach_target(  # noqa: PLR0913, PLR0917
    src: IntArray,
    dst: IntArray,
    cost: IntArray,
    arrive: IntArray,
    have: IntArray,
    by: IntArray,
    wanted: IntArray,
    rank: int,
    far: IntArray,
    via: IntArray,
) -> bool:
    """Join a rank again by when it is needed, if that is cheaper; return whether it was."""
    need = cost.shape[1]
    serves = False
    for v in range(len(have)):
        if by[v, 0] >= 0 and src[by[v, 0]] == rank:
            need, serves = min(need, by[v, 1]), True
    old = cost[by[rank, 0], by[rank, 1]]
    if not serves and not wanted[rank]:
        by[rank], have[rank] = -1, cost.shape[1] + 1
        return True
    _arrival_costs(src, dst, cost, arrive, have, by, rank, far, via)
    if far[need, rank] >= old:
        return False
    _attach_target(src, arrive, have, by, rank, need, via)
    return True


@compiled
def _prune_and_price(src: IntArray, cost: IntArray, by: IntArray, wanted: IntArray) -> int:
    """Remove ranks that neither want the chunk nor serve others. Return the cost of the rest."""
    again = True
    while again:
        again = False
        for v in range(len(by)):
            if by[v, 0] >= 0 and not wanted[v]:
                serves = False
                for w in range(len(by)):
                    serves |= by[w, 0] >= 0 and src[by[w, 0]] == v
                if not serves:
                    by[v] = -1
                    again = True
    total = 0
    for v in range(len(by)):
        if by[v, 0] >= 0:
            total += cost[by[v, 0], by[v, 1]]
    return total
