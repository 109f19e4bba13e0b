"""Cheapest timed trees by branch and bound: the dual solution bounds, the greedy tree branches.

The lower bound is mostly equal, or close, to the cost of a greedy tree. Few branches decide the
rest: the most expensive send of the tree is the only one into its rank, or is not taken. Either way
sends are left out, so the next dual solution is larger.
"""

from __future__ import annotations

from typing import Any

from sccl.compiled import compiled
from sccl.synth.packing.by_steps.pricing.dual_ascent import dual_ascent_bound, grow_tree


@compiled
def solve_branch_and_bound(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    left: Any, src: Any, dst: Any, held: Any, wanted: Any, below: int, never: int, max_nodes: int,
    scratch: Any, rank_scratch: Any, through: Any, best: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Return the minimum weight of a tree below a limit, the number of cuts, and of nodes.

    The weight is ``below`` itself if no tree is below, and the nodes are -1 if there were too many:
    then a tree of less weight may exist.

    Args:
        left: shape (nodes that wait, links, steps): the first has the weights of sends.
        held: by rank, whether it holds the chunk before.
        wanted: by rank, whether it wants it and does not hold it.
        never: weight of a useless send.
        max_nodes: limit on nodes.
        scratch: shape (2, links, steps).
        rank_scratch: scratch, shape (4, ranks).
        through: scratch, shape (2, steps + 1, ranks).
        best: shape (2, ranks). Out: by rank of the tree the link by which it is reached, or -1, and
            the time.
    """
    reduced, doubled, far = scratch[0], scratch[1], through[0]
    until, size, since, into = rank_scratch[0], rank_scratch[1], rank_scratch[2], rank_scratch[3]
    waiting, nodes, paid = 1, 0, 0
    while waiting > 0:
        if nodes == max_nodes or waiting == len(left):
            return below, paid, -1
        nodes, waiting = nodes + 1, waiting - 1
        weights = left[waiting]
        reduced[:] = weights
        bound, sets = dual_ascent_bound(reduced, src, dst, held, wanted, until, size, never)
        paid += sets + 1
        if bound >= below:
            continue
        _exclude_sends(weights, reduced, below - bound, never, doubled)
        since[:] = len(far)
        for rank in range(len(held)):
            if held[rank]:
                since[rank] = 0
        if not grow_tree(doubled, src, dst, since, into, wanted, far, through[1]):
            continue
        cost = 0
        for rank in range(len(held)):
            cost += weights[into[rank], since[rank] - 1] if into[rank] >= 0 else 0
        if cost < below:
            below = cost
            best[0], best[1] = into, since
        rank = _most_expensive_rank(weights, dst, into, since, never) if bound < below else -1
        if rank >= 0:
            link, step = into[rank], since[rank] - 1
            left[waiting + 1] = weights
            for other_link in range(len(dst)):
                if dst[other_link] == rank:
                    left[waiting + 1, other_link] = never
            left[waiting + 1, link, step] = weights[link, step]
            weights[link, step] = never
            waiting += 2
    return below, paid, nodes


@compiled
def _exclude_sends(weights: Any, reduced: Any, room: int, never: int, doubled: Any) -> None:
    """Leave out sends that no tree has which is cheap enough; double those not wholly paid for."""
    links, steps = weights.shape
    for link in range(links):
        for step in range(steps):
            if reduced[link, step] >= room:
                weights[link, step] = never
            dear = reduced[link, step] > 0 and weights[link, step] < never
            doubled[link, step] = weights[link, step] * (2 if dear else 1)


@compiled
def _most_expensive_rank(weights: Any, dst: Any, into: Any, since: Any, never: int) -> int:
    """Return the rank that a tree's dearest send reaches, of those with others into them, or -1."""
    choices = [0] * len(into)
    links, steps = weights.shape
    for link in range(links):
        for step in range(steps):
            if weights[link, step] < never:
                choices[dst[link]] += 1
    dearest, max_weight = -1, -1
    for rank in range(len(into)):
        if into[rank] >= 0 and choices[rank] > 1:
            weight = weights[into[rank], since[rank] - 1]
            if weight > max_weight:
                dearest, max_weight = rank, weight
    return dearest
