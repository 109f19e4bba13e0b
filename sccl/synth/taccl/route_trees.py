"""Routes as trees, and which transfer goes before another (TACCL, NSDI 2023, appendix B.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse


class Priority(StrEnum):
    """Which of the transfers that could be next is."""

    FARTHEST = "farthest"
    SOONEST = "soonest"


class Direction(StrEnum):
    """Whether links are filled from the start, or from the end."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class LinkOrder:
    """A heuristic of this step."""

    direction: Direction
    priority: Priority
    own_first: bool = False

    def __str__(self) -> str:
        """Return it as users spell it."""
        return f"{self.priority}-{self.direction}"


DependencyCounts = dict[tuple[int, int], int]
Successors = dict[tuple[int, int], list[tuple[int, int]]]


@dataclass(frozen=True)
class RouteTrees:
    """Routes as trees: the successors and predecessors of each way of a chunk.

    Attributes:
        routes: for each routed chunk, by destination rank.
        remaining_time: for a (chunk, way): units from its start to the last arrival after it.
        elapsed_time: units of the ways before it.
    """

    routes: dict[int, dict[int, int]]
    remaining_time: dict[tuple[int, int], int]
    elapsed_time: dict[tuple[int, int], int]

    @classmethod
    def of(cls, problem: SchedulingProblem, routes: Collection[tuple[int, int]]) -> RouteTrees:
        """Return routes, which are (chunk, way), as trees."""
        trees: dict[int, dict[int, int]] = {}
        for chunk, path in sorted(routes):
            trees.setdefault(chunk, {})[problem.dst[path]] = path
        to_go: dict[tuple[int, int], int] = {}
        come: dict[tuple[int, int], int] = {}
        for chunk, tree in trees.items():
            cost = problem.costs_of_chunk(chunk)
            depth = {rank: _arrival_depth(problem, tree, cost, rank) for rank in tree}
            for rank in sorted(tree, key=lambda r: (-depth[r], r)):  # from the leaves on
                path = tree[rank]
                come[chunk, path] = depth[rank] - cost[path]
                mine = max(to_go.get((chunk, path), 0), cost[path])
                to_go[chunk, path] = mine
                before = tree.get(problem.src[path])
                if before is not None:
                    after = mine + cost[before]
                    to_go[chunk, before] = max(to_go.get((chunk, before), 0), after)
        return cls(trees, to_go, come)

    def dependencies(
        self, problem: SchedulingProblem, *, backwards: bool
    ) -> tuple[DependencyCounts, Successors]:
        """Return the number of predecessors of each transfer, and its successors.

        Args:
            backwards: whether time is reversed, so that successors come first.
        """
        waits: DependencyCounts = {}
        after: Successors = {}
        for chunk, tree in self.routes.items():
            for path in tree.values():
                before = tree.get(problem.src[path])
                if before is None:
                    continue
                first, then = ((chunk, before), (chunk, path))[:: -1 if backwards else 1]
                after.setdefault(first, []).append(then)
                waits[then] = waits.get(then, 0) + 1
        return waits, after


def _arrival_depth(
    problem: SchedulingProblem, tree: dict[int, int], cost: tuple[int, ...], rank: int
) -> int:
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
    """Return the sort key of a transfer: the smallest goes first."""
    chunk, path = key
    backwards = order.direction is Direction.END
    to_go, come = trees.remaining_time[key], trees.elapsed_time[key]
    far, near = (come, to_go) if backwards else (to_go, come)
    others = int(order.own_first and problem.src[path] not in problem.holders[chunk])
    if order.priority is Priority.FARTHEST:
        return (others, -far, near, start)
    return (others, start, -far, near)


class DirectedUses:
    """The resources that a chunk holds on a way, from its arrival on if time is reversed."""

    def __init__(self, problem: SchedulingProblem, *, backwards: bool) -> None:
        self.problem, self.backwards = problem, backwards

    def of_route(self, chunk: int, path: int) -> list[ResourceUse]:
        """Return the resources that a chunk holds on a way."""
        path_hops = self.problem.uses_of_chunk(chunk)[path]
        return self.in_direction(path_hops, self.problem.costs_of_chunk(chunk)[path])

    def in_direction(self, hops: Iterable[ResourceUse], cost: int) -> list[ResourceUse]:
        """Return the held resources, relative to the arrival if time is reversed."""
        if not self.backwards:
            return list(hops)
        return [
            ResourceUse(h.resource, cost - h.offset - h.busy, h.busy, h.demand, h.multicast_group)
            for h in hops
        ]
