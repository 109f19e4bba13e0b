"""Represent the routes of each chunk as a tree, and define the priority of transfers.

Source: Shah et al., TACCL (NSDI 2023), section 5.1 (step 2) and appendix B.2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse


class Priority(StrEnum):
    """The priority among candidate transfers."""

    FARTHEST = "farthest"
    """The longest remaining path first, then the shortest path so far, as in the paper."""
    SOONEST = "soonest"
    """The earliest available chunk first, then the longest remaining path."""


class Direction(StrEnum):
    """The side from which links are filled: from the start, or from the end."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class LinkOrder:
    """A heuristic of step 2.

    Attributes:
        direction: Whether links are filled from the start or from the end.
        priority: The priority among candidates.
        own_first: Whether a rank's own chunks come before chunks that it forwards.
    """

    direction: Direction
    priority: Priority
    own_first: bool = False

    def __str__(self) -> str:
        """Return the name of the heuristic, as in options."""
        return f"{self.priority}-{self.direction}"


DependencyCounts = dict[tuple[int, int], int]
"""By (chunk, route): number of predecessors."""
Successors = dict[tuple[int, int], list[tuple[int, int]]]
"""By (chunk, route): the transfers that depend on it."""


@dataclass(frozen=True)
class RouteTrees:
    """The tree of each chunk.

    Attributes:
        routes: Route that enters each rank, by chunk and rank.
        remaining_time: Units from a transfer's start to the last arrival of its subtree, by (chunk,
            route).
        elapsed_time: Units of the routes from the source to a transfer's start, by (chunk, route).
    """

    routes: dict[int, dict[int, int]]
    remaining_time: dict[tuple[int, int], int]
    elapsed_time: dict[tuple[int, int], int]

    @classmethod
    def of(cls, problem: SchedulingProblem, routes: Collection[tuple[int, int]]) -> RouteTrees:
        """Return the trees of pairs (chunk, route)."""
        trees: dict[int, dict[int, int]] = {}
        for chunk, path in sorted(routes):
            trees.setdefault(chunk, {})[problem.dst[path]] = path
        remaining_time: dict[tuple[int, int], int] = {}
        elapsed_time: dict[tuple[int, int], int] = {}
        for chunk, tree in trees.items():
            cost = problem.costs_of_chunk(chunk)
            depth = {rank: arrival_depth(problem, tree, cost, rank) for rank in tree}
            for rank in sorted(tree, key=lambda r: (-depth[r], r)):  # leaves first
                path = tree[rank]
                elapsed_time[chunk, path] = depth[rank] - cost[path]
                time = max(remaining_time.get((chunk, path), 0), cost[path])
                remaining_time[chunk, path] = time
                parent = tree.get(problem.src[path])
                if parent is not None:
                    parent_time = remaining_time.get((chunk, parent), 0)
                    remaining_time[chunk, parent] = max(parent_time, time + cost[parent])
        return cls(trees, remaining_time, elapsed_time)

    def dependencies(
        self, problem: SchedulingProblem, *, backwards: bool
    ) -> tuple[DependencyCounts, Successors]:
        """Return the number of predecessors of each transfer, and its successors.

        Args:
            problem: The problem.
            backwards: Whether time is reversed, so that a tree is scheduled from its leaves.
        """
        num_predecessors: DependencyCounts = {}
        successors: Successors = {}
        for chunk, tree in self.routes.items():
            for path in tree.values():
                parent = tree.get(problem.src[path])
                if parent is None:
                    continue
                first, second = ((chunk, parent), (chunk, path))[:: -1 if backwards else 1]
                successors.setdefault(first, []).append(second)
                num_predecessors[second] = num_predecessors.get(second, 0) + 1
        return num_predecessors, successors


def arrival_depth(
    problem: SchedulingProblem, tree: dict[int, int], cost: tuple[int, ...], rank: int
) -> int:
    """Return the time of the routes from the source of a tree to a rank, units.

    Args:
        problem: The problem.
        tree: Route that enters each rank.
        cost: Cost of each route.
        rank: The rank.
    """
    total = 0
    while rank in tree:
        total += cost[tree[rank]]
        rank = problem.src[tree[rank]]
    return total


def priority_key(
    problem: SchedulingProblem,
    trees: RouteTrees,
    order: LinkOrder,
    key: tuple[int, int],
    start: int,
) -> tuple[int, ...]:
    """Return the sort key of a candidate transfer: the smallest key comes first.

    Args:
        problem: The problem.
        trees: The trees of all chunks.
        order: The heuristic.
        key: The transfer, a (chunk, route).
        start: Earliest time of the transfer by its predecessors, units.
    """
    chunk, path = key
    ahead, behind = trees.remaining_time[key], trees.elapsed_time[key]
    if order.direction is Direction.END:  # time is reversed
        ahead, behind = behind, ahead
    is_forwarded = int(order.own_first and problem.src[path] not in problem.holders[chunk])
    if order.priority is Priority.FARTHEST:
        return (is_forwarded, -ahead, behind, start)
    return (is_forwarded, start, -ahead, behind)


def directed_uses(
    hops: Sequence[ResourceUse], cost: int, *, backwards: bool
) -> Sequence[ResourceUse]:
    """Return the uses of a route that takes ``cost`` units, in the direction of time."""
    return [h.reversed(cost) for h in hops] if backwards else hops
