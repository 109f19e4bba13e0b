"""Cheapest timed trees by branch and bound: the dual solution bounds, the greedy tree branches.

The lower bound is mostly equal, or close, to the cost of a greedy tree. Few branches decide the
rest: the most expensive send of the tree is the only one into its rank, or is not taken. Either way
sends are left out, so the next dual solution is larger.
"""

from __future__ import annotations

from typing import Any

from sccl.compiled import compiled
from sccl.synth.limit.ascent import grown, raised


@compiled
def branched(  # noqa: PLR0913, PLR0917 - compiled code works on arrays
    left: Any, src: Any, dst: Any, held: Any, wanted: Any, below: int, never: int, most: int,
    scratch: Any, ways: Any, through: Any, best: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Return the minimum weight of a tree below a limit, the number of cuts, and of nodes.

    The weight is ``below`` itself if no tree is below, and the nodes are -1 if there were too many:
    then a tree of less weight may exist.

    Args:
        left: shape (nodes that wait, links, steps): the first has the weights of sends.
        held: by rank, whether it holds the chunk before.
        wanted: by rank, whether it wants it and does not hold it.
        never: weight of a useless send.
        most: limit on nodes.
        scratch: shape (2, links, steps).
        ways: scratch, shape (4, ranks).
        through: scratch, shape (2, steps + 1, ranks).
        best: shape (2, ranks). Out: by rank of the tree the link by which it is reached, or -1, and
            the time.
    """
    reduced, doubled, far = scratch[0], scratch[1], through[0]
    until, size, since, into = ways[0], ways[1], ways[2], ways[3]
    waiting, nodes, paid = 1, 0, 0
    while waiting > 0:
        if nodes == most or waiting == len(left):
            return below, paid, -1
        nodes, waiting = nodes + 1, waiting - 1
        weights = left[waiting]
        reduced[:] = weights
        bound, sets = raised(reduced, src, dst, held, wanted, until, size, never)
        paid += sets + 1
        if bound >= below:
            continue
        _left_out(weights, reduced, below - bound, never, doubled)
        since[:] = len(far)
        for rank in range(len(held)):
            if held[rank]:
                since[rank] = 0
        if not grown(doubled, src, dst, since, into, wanted, far, through[1]):
            continue
        cost = 0
        for rank in range(len(held)):
            cost += weights[into[rank], since[rank] - 1] if into[rank] >= 0 else 0
        if cost < below:
            below = cost
            best[0], best[1] = into, since
        rank = _dearest(weights, dst, into, since, never) if bound < below else -1
        if rank >= 0:
            link, step = into[rank], since[rank] - 1
            left[waiting + 1] = weights
            for other in range(len(dst)):
                if dst[other] == rank:
                    left[waiting + 1, other] = never
            left[waiting + 1, link, step] = weights[link, step]
            weights[link, step] = never
            waiting += 2
    return below, paid, nodes


@compiled
def _left_out(weights: Any, reduced: Any, room: int, never: int, doubled: Any) -> None:
    """Leave out sends that no tree has which is cheap enough; double those not wholly paid for."""
    links, steps = weights.shape
    for link in range(links):
        for step in range(steps):
            if reduced[link, step] >= room:
                weights[link, step] = never
            dear = reduced[link, step] > 0 and weights[link, step] < never
            doubled[link, step] = weights[link, step] * (2 if dear else 1)


@compiled
def _dearest(weights: Any, dst: Any, into: Any, since: Any, never: int) -> int:
    """Return the rank that a tree's dearest send reaches, of those with others into them, or -1."""
    ways = [0] * len(into)
    links, steps = weights.shape
    for link in range(links):
        for step in range(steps):
            if weights[link, step] < never:
                ways[dst[link]] += 1
    found, most = -1, -1
    for rank in range(len(into)):
        if into[rank] >= 0 and ways[rank] > 1:
            weight = weights[into[rank], since[rank] - 1]
            if weight > most:
                found, most = rank, weight
    return found
