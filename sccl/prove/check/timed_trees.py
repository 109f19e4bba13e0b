"""Compute the cheapest timed tree at given prices exactly, in plain integers, without a solver.

A timed tree is a set of (link, step) pairs by which a chunk reaches all its destinations. No code
is shared with :mod:`sccl.synth.packing.by_steps`, which finds the prices.

A state is the set of ranks that hold the chunk before a step, as bits. Holding more never hurts, so
links of cost 0 are always used. The search is A*: states are ordered by their cost plus a lower
bound on the remaining cost. Each destination w without the chunk is entered once, by one link, and
not before the step that its distance from the holders allows. This costs at least the cheapest link
into w from that step on. The sum of these never decreases by more than the cost of a step, so the
first expanded state that serves all ranks has a cheapest tree (Hart, Nilsson, Raphael 1968).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from sccl.core.ids import Edge

StepCosts = Sequence[Mapping[Edge, int]]
"""Nonnegative cost of a send over each link, by step from 0."""

Spend = Callable[[int], None]
"""Callback with the number of operations of a task, which raises an error to refuse it."""


_MOVE_OPERATIONS = 20  # cost of a state in operations


def cheapest_tree(  # noqa: PLR0913 - the problem and a cutoff
    costs: StepCosts,
    ranks: int,
    holders: int,
    wanted: int,
    spend: Spend,
    *,
    cutoff: int | None = None,
) -> int | None:
    """Return the cost of a cheapest timed tree, or None if there is none.

    Args:
        holders: Initial holders of the chunk, as bits.
        wanted: Destinations of the chunk, as bits.
        cutoff: Value to return as soon as the cost is known to be at least this.
    """
    steps = len(costs)
    into = [_incoming_links(of_step, ranks) for of_step in costs]
    cheapest_into = _cheapest_incoming(into, ranks)
    targets = [w for w in range(ranks) if wanted >> w & 1]
    near = {w: _near_sets(costs, w) for w in targets}
    spend((steps + len(targets)) * (len(costs[0]) + ranks))

    def ahead(step: int, held: int) -> int | None:
        """Return a lower bound on the remaining cost of serving all destinations."""
        total = 0
        for w in targets:
            if not held >> w & 1:
                at = step - 1
                for within in near[w]:
                    if within & held:
                        break
                    at += 1
                else:
                    return None
                if at >= steps or (more := cheapest_into[at][w]) is None:
                    return None
                total += more
        return total

    first = ahead(0, holders)
    if first is None:
        return None
    number = count()  # ties: the latest state first, since it is deeper
    queue = [(first, 0, 0, 0, holders)]
    done: set[tuple[int, int]] = set()
    while queue:
        estimate, _, cost, step, held = heapq.heappop(queue)
        if cutoff is not None and estimate >= cutoff:
            return cutoff
        if not wanted & ~held:
            return cost
        if step == steps or (step, held) in done:
            continue
        done.add((step, held))
        for more, then in _step_moves(into[step], held, ranks, spend):
            rest = ahead(step + 1, then)
            if rest is not None and (step + 1, then) not in done:
                state = (cost + more + rest, -next(number), cost + more, step + 1, then)
                heapq.heappush(queue, state)
    return None


def cheapest_paths(costs: StepCosts, ranks: int, holders: int, spend: Spend) -> list[int | None]:
    """Return the cost of a cheapest timed path to each rank, or None without a path.

    The tree of a chunk with one destination is a path.
    """
    far: list[int | None] = [0 if holders >> r & 1 else None for r in range(ranks)]
    for of_step in costs:
        spend(len(of_step) + ranks)
        then = list(far)
        for (u, v), cost in of_step.items():
            source_cost, target_cost = far[u], then[v]
            if source_cost is not None and (
                target_cost is None or source_cost + cost < target_cost
            ):
                then[v] = source_cost + cost
        far = then
    return far


def cheapest_tree_pair(costs: StepCosts, ranks: int, wanted: int, spend: Spend) -> int | None:
    """Return a lower bound on the cost of an allreduce chunk by trees, None if there are none.

    It covers every root and every step in which the broadcast begins, and every pair of roots that
    exchange their sums in a step. A reduction tree, reversed in direction and time, is a broadcast
    tree.

    Args:
        wanted: Ranks that reduce the chunk, as bits. Others may forward it.
    """
    back = [{(v, u): cost for (u, v), cost in of_step.items()} for of_step in reversed(costs)]
    best: int | None = None
    for roots, links in _root_choices(costs[0], ranks):
        ends = (ranks, roots, wanted, spend)
        for turn in range(len(costs) + 1 - bool(links)):
            paid = sum(costs[turn][edge] for edge in links)
            down = _cheapest_within(costs[turn + bool(links) :], *ends, cutoff=best)
            if down is None or (best is not None and paid + down >= best):
                continue
            left = None if best is None else best - paid - down
            up = _cheapest_within(back[len(costs) - turn :], *ends, cutoff=left)
            if up is not None and (best is None or paid + up + down < best):
                best = paid + up + down
    return best


def _root_choices(edges: Mapping[Edge, int], ranks: int) -> Iterator[tuple[int, tuple[Edge, ...]]]:
    """Yield roots as bits with their exchange links: single ranks, and ends of two-way links."""
    for root in range(ranks):
        yield 1 << root, ()
    for u, v in sorted(edges):
        if u < v and (v, u) in edges:
            yield 1 << u | 1 << v, ((u, v), (v, u))


def _cheapest_within(  # noqa: PLR0913 - as of cheapest_tree
    costs: StepCosts,
    ranks: int,
    holders: int,
    wanted: int,
    spend: Spend,
    *,
    cutoff: int | None,
) -> int | None:
    """Return the result of :func:`cheapest_tree`, also for zero steps."""
    if not costs:
        return None if wanted & ~holders else 0
    return cheapest_tree(costs, ranks, holders, wanted, spend, cutoff=cutoff)


def _incoming_links(of_step: Mapping[Edge, int], ranks: int) -> list[list[tuple[int, int]]]:
    """Return the incoming links of each rank as (cost, bit of the source), the cheapest first."""
    by_rank: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for (u, v), cost in of_step.items():
        by_rank[v].append((cost, 1 << u))
    return [sorted(links) for links in by_rank]


def _cheapest_incoming(
    into: list[list[list[tuple[int, int]]]], ranks: int
) -> list[list[int | None]]:
    """Return the cost of the cheapest link into each rank from each step on."""
    later: list[int | None] = [None] * ranks
    by_step = []
    for of_step in reversed(into):
        now = [links[0][0] if links else None for links in of_step]
        later = [
            b if a is None else a if b is None else min(a, b)
            for a, b in zip(now, later, strict=True)
        ]
        by_step.append(later)
    return by_step[::-1]


def _near_sets(costs: StepCosts, target: int) -> list[int]:
    """Return the ranks within each distance (from 0) of a rank, as bits."""
    balls, before = [1 << target], 0
    while balls[-1] != before and len(balls) <= len(costs):
        before = balls[-1]
        more = before
        for u, v in costs[0]:
            if before >> v & 1:
                more |= 1 << u
        balls.append(more)
    return balls


def _step_moves(
    into: list[list[tuple[int, int]]], held: int, ranks: int, spend: Spend
) -> list[tuple[int, int]]:
    """Return the (cost, holders) results of a step. Free links are always used."""
    moves = [(0, held)]
    for rank in range(ranks):
        if not held >> rank & 1:
            cost = next((cost for cost, source in into[rank] if source & held), None)
            if cost is None:
                continue
            bit = 1 << rank
            spend(_MOVE_OPERATIONS * len(moves))
            if cost:
                moves += [(before + cost, then | bit) for before, then in moves]
            else:
                moves = [(before, then | bit) for before, then in moves]
    return moves
