"""The cheapest timed tree at given prices, exactly, in plain integers, independent of the solver.

A timed tree is a set of (link, step) pairs by which a chunk reaches all ranks that want it. Nothing
here is shared with :mod:`sccl.synth.limit`, which finds the prices.

A state is the set of ranks that hold the chunk before a step, as bits. Holding more never hurts, so
links that cost nothing are always taken. The search is A*: states are ordered by their cost plus a
lower bound on the remaining cost. Each rank w that wants the chunk and does not have it is entered
once, by one link, in no earlier step than its distance from the holders allows: this costs at least
the cheapest link into w from that step on. The sum of these never decreases by more than the cost
of a step, so the first expanded state that serves all ranks has a cheapest tree (Hart, Nilsson,
Raphael 1968).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from sccl.core.ids import Edge

StepCosts = Sequence[Mapping[Edge, int]]
"""By step, from 0: the cost of a send over each link, 0 or more."""

Spend = Callable[[int], None]
"""Is told how many operations something takes; may refuse by raising."""


_MOVE = 20  # what a state takes, in operations


def cheapest_tree(  # noqa: PLR0913 - a question, and what of its answer is of interest
    costs: StepCosts,
    ranks: int,
    holders: int,
    wanted: int,
    spend: Spend,
    *,
    enough: int | None = None,
) -> int | None:
    """Return the cost of a cheapest timed tree; None if there is none.

    Args:
        holders: the ranks that hold the chunk before, as bits.
        wanted: the ranks that must hold it after, as bits.
        enough: return this as soon as the cost is known to be at least this.
    """
    steps = len(costs)
    into = [_into(of_step, ranks) for of_step in costs]
    least = _least_entering(into, ranks)
    targets = [w for w in range(ranks) if wanted >> w & 1]
    near = {w: _near(costs, w) for w in targets}
    spend((steps + len(targets)) * (len(costs[0]) + ranks))

    def ahead(step: int, held: int) -> int | None:
        """Return a lower bound on the remaining cost of serving all ranks that want the chunk."""
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
                if at >= steps or (more := least[at][w]) is None:
                    return None
                total += more
        return total

    first = ahead(0, holders)
    if first is None:
        return None
    number = count()  # of equal bounds, the state that came last goes first: it is deeper
    queue = [(first, 0, 0, 0, holders)]
    done: set[tuple[int, int]] = set()
    while queue:
        whole, _, cost, step, held = heapq.heappop(queue)
        if enough is not None and whole >= enough:
            return enough
        if not wanted & ~held:
            return cost
        if step == steps or (step, held) in done:
            continue
        done.add((step, held))
        for more, then in _moves(into[step], held, ranks, spend):
            rest = ahead(step + 1, then)
            if rest is not None and (step + 1, then) not in done:
                state = (cost + more + rest, -next(number), cost + more, step + 1, then)
                heapq.heappush(queue, state)
    return None


def cheapest_paths(costs: StepCosts, ranks: int, holders: int, spend: Spend) -> list[int | None]:
    """Return, for each rank, the cost of a cheapest way to it through time; None if there is none.

    For chunks with one destination: the whole tree is a path.
    """
    far: list[int | None] = [0 if holders >> r & 1 else None for r in range(ranks)]
    for of_step in costs:
        spend(len(of_step) + ranks)
        then = list(far)
        for (u, v), cost in of_step.items():
            here, there = far[u], then[v]
            if here is not None and (there is None or here + cost < there):
                then[v] = here + cost
        far = then
    return far


def cheapest_up_and_down(costs: StepCosts, ranks: int, wanted: int, spend: Spend) -> int | None:
    """Return a lower bound on the cost of an allreduce chunk by trees up and down. None: none.

    It covers every turning rank and step, and every pair of ranks that exchange their sums in a
    step. Trees up, reversed in place and time, are trees down.

    Args:
        wanted: the ranks that reduce the chunk, as bits. Others may forward it.
    """
    back = [{(v, u): cost for (u, v), cost in of_step.items()} for of_step in reversed(costs)]
    best: int | None = None
    for roots, links in _turns(costs[0], ranks):
        ends = (ranks, roots, wanted, spend)
        for turn in range(len(costs) + 1 - bool(links)):
            paid = sum(costs[turn][edge] for edge in links)
            down = _within(costs[turn + bool(links) :], *ends, enough=best)
            if down is None or (best is not None and paid + down >= best):
                continue
            left = None if best is None else best - paid - down
            up = _within(back[len(costs) - turn :], *ends, enough=left)
            if up is not None and (best is None or paid + up + down < best):
                best = paid + up + down
    return best


def _turns(edges: Mapping[Edge, int], ranks: int) -> Iterator[tuple[int, tuple[Edge, ...]]]:
    """Yield each rank, and the ends of each link that has one back, as bits, with these links."""
    for root in range(ranks):
        yield 1 << root, ()
    for u, v in sorted(edges):
        if u < v and (v, u) in edges:
            yield 1 << u | 1 << v, ((u, v), (v, u))


def _within(  # noqa: PLR0913 - as of cheapest_tree
    costs: StepCosts,
    ranks: int,
    holders: int,
    wanted: int,
    spend: Spend,
    *,
    enough: int | None,
) -> int | None:
    """Return the result of :func:`cheapest_tree`, also for zero steps."""
    if not costs:
        return None if wanted & ~holders else 0
    return cheapest_tree(costs, ranks, holders, wanted, spend, enough=enough)


def _into(of_step: Mapping[Edge, int], ranks: int) -> list[list[tuple[int, int]]]:
    """Return, for each rank, its links as (cost, bit of where from), the cheapest first."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for (u, v), cost in of_step.items():
        found[v].append((cost, 1 << u))
    return [sorted(links) for links in found]


def _least_entering(into: list[list[list[tuple[int, int]]]], ranks: int) -> list[list[int | None]]:
    """Return, by step and rank, the cost of the cheapest link into the rank from that step on."""
    later: list[int | None] = [None] * ranks
    found = []
    for of_step in reversed(into):
        now = [links[0][0] if links else None for links in of_step]
        later = [
            b if a is None else a if b is None else min(a, b)
            for a, b in zip(now, later, strict=True)
        ]
        found.append(later)
    return found[::-1]


def _near(costs: StepCosts, target: int) -> list[int]:
    """Return, by distance from 0, which ranks are no farther than that from a rank, as bits."""
    found, before = [1 << target], 0
    while found[-1] != before and len(found) <= len(costs):
        before = found[-1]
        more = before
        for u, v in costs[0]:
            if before >> v & 1:
                more |= 1 << u
        found.append(more)
    return found


def _moves(
    into: list[list[tuple[int, int]]], held: int, ranks: int, spend: Spend
) -> list[tuple[int, int]]:
    """Return the (cost, set) results of a step from a set of holders. It takes free links."""
    found = [(0, held)]
    for rank in range(ranks):
        if not held >> rank & 1:
            cost = next((cost for cost, source in into[rank] if source & held), None)
            if cost is None:
                continue
            bit = 1 << rank
            spend(_MOVE * len(found))
            if cost:
                found += [(before + cost, then | bit) for before, then in found]
            else:
                found = [(before, then | bit) for before, then in found]
    return found
