"""Ranks in groups, each of which a tree enters once: by chassis, by rails, or as rows of grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.synth.packing.schedules.flow_problem import FlowProblem

MAX_RANKS = 10
"""To be reached, of which all sets are looked at without a word; of more, if chassis part them."""


def rank_partitions(problem: FlowProblem) -> Iterator[list[list[int]]]:
    """Yield all ranks in groups: by chassis, or, if there are none, as rows and columns of grids.

    The trees of each leave out others, so it is good to have several.
    """
    topology, ranks = problem.topology, problem.topology.ranks
    if len(topology.chassis) > 1:
        apart = {rank for inside in topology.chassis for rank in inside}
        singletons = [[rank] for rank in range(ranks) if rank not in apart]
        chassis = [sorted(inside) for inside in topology.chassis]
        yield chassis + singletons
        large = max(map(len, chassis))
        rails = [list(rail) for rail in zip(*chassis, strict=False)]
        if all(len(inside) == large for inside in chassis) and _is_connected(problem, rails):
            yield rails + singletons
        for size in range(large // 2, 1, -1) if large > MAX_RANKS else ():
            if all(len(inside) % size == 0 for inside in chassis):
                for rows in (True, False):
                    parts = [
                        part for inside in chassis for part in _split_ranks(inside, size, rows=rows)
                    ]
                    if _is_connected(problem, parts):
                        yield parts + singletons
        return
    for size in range(2, ranks // 2 + 1):
        if ranks % size == 0:
            both = (_split_ranks(range(ranks), size, rows=rows) for rows in (True, False))
            yield from (groups for groups in both if _is_connected(problem, groups))


def _split_ranks(ranks: Sequence[int], size: int, *, rows: bool) -> list[list[int]]:
    """Return ranks in groups of a size: rows of a grid, or columns of another."""
    count = len(ranks) // size
    if rows:
        return [list(ranks[at * size : (at + 1) * size]) for at in range(count)]
    return [list(ranks[at::count]) for at in range(count)]


def _is_connected(problem: FlowProblem, groups: list[list[int]]) -> bool:
    """Return whether in each group all are reached from the first by links within it."""
    successors: dict[int, list[int]] = {}
    for u, v in problem.edges:
        successors.setdefault(u, []).append(v)
    for inside in groups:
        reached = [inside[0]]
        for rank in reached:  # grows while it is walked
            reached += [n for n in successors.get(rank, ()) if n in inside and n not in reached]
        if len(reached) < len(inside):
            return False
    return True
