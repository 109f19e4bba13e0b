"""Grow initial routes for step 1: trees along the least loaded links.

Not in TACCL (NSDI 2023), whose solver starts without routes. A chunk with one destination takes a
path of small load. A chunk with several destinations spreads from rank to rank. The next route is
the one with the smallest load, or the one that arrives first if links carry their whole load
before. Each route adds its load and that of its images under the symmetries at once, so branches of
one tree avoid each other. The result is the set of trees with the smallest relaxed time. It is the
warm start of the routing model, and replaces the model if that is too large.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from enum import Enum, auto

from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.taccl.route_trees import arrival_depth

ChunkRoutes = dict[int, tuple[int, ...]]
"""By first chunk of an orbit: the routes of its tree, in no order."""


class GrowthRule(Enum):
    """The rule that selects the next route of a tree."""

    NEAREST = auto()
    """A path to the nearest destination, with loads as distances."""
    LEAST_LOADED = auto()
    """The route whose maximum load is smallest."""
    SOONEST = auto()
    """The route with the earliest arrival, if its links carry their current load first."""


def find_greedy_routes(
    problem: SchedulingProblem, action: SymmetryAction, allowed: Mapping[int, frozenset[int]]
) -> ChunkRoutes:
    """Return a tree for one chunk of each orbit, from its holder to all its destinations.

    Args:
        problem: The problem.
        action: Symmetries of the routes.
        allowed: Allowed routes of each representative chunk, which reach all its destinations.
    """
    is_multicast = any(len(problem.wanted[chunk]) > 1 for chunk in action.representatives)
    candidates: list[tuple[int, int, ChunkRoutes]] = []
    for rule in GrowthRule if is_multicast else (GrowthRule.NEAREST,):
        grower = _TreeGrower(problem, action)
        paths = {
            chunk: grower.grow_tree(chunk, allowed[chunk], rule) for chunk in action.representatives
        }
        candidates.append((relaxed_makespan(problem, action, paths), len(candidates), paths))
    return min(candidates)[2]


class _TreeGrower:
    """Grows trees one after the other, with the loads of all earlier trees and branches."""

    def __init__(self, problem: SchedulingProblem, action: SymmetryAction) -> None:
        self.problem, self.action = problem, action
        self.loads = [0] * len(problem.capacity)
        self.route_loads = [
            [
                (
                    h.resource,
                    -(-h.busy * h.demand // problem.capacity[h.resource]),
                    h.multicast_group,
                )
                for h in hops
            ]
            for hops in problem.route_uses
        ]
        self.is_multicast, self.used_groups = problem.is_multicast, set[int]()

    def grow_tree(self, chunk: int, allowed: frozenset[int], rule: GrowthRule) -> tuple[int, ...]:
        """Return the routes of a chunk's tree, and add their loads."""
        self.used_groups.clear()
        out: dict[int, list[int]] = {}
        for path in sorted(allowed):
            out.setdefault(self.problem.src[path], []).append(path)
        if rule is GrowthRule.NEAREST:
            reached_by = self._grow_by_paths(chunk, out)
        else:
            reached_by = self._grow_by_routes(chunk, out, soonest=rule is GrowthRule.SOONEST)
        return tuple(sorted(reached_by.values()))

    def _add_load(self, path: int, times: int = 1) -> None:
        """Add the loads of a route and its images, or remove them (-1 times)."""
        route_loads = self.route_loads[path]
        new_hops = [
            hop for hop, (_, _, group) in enumerate(route_loads) if group not in self.used_groups
        ]
        for path_images in self.action.routes:
            image_loads = self.route_loads[path_images[path]]
            for hop in new_hops:
                resource, load, _ = image_loads[hop]
                self.loads[resource] += times * load
        if self.is_multicast:  # a switch copies the chunk: its routes share the link to the switch
            self.used_groups.update(group for _, _, group in route_loads)

    def _max_load(self, path: int) -> int:
        """Return the maximum load on a route, after its own load is added."""
        loads, used_groups = self.loads, self.used_groups
        return max(
            loads[resource] + (0 if group in used_groups else load)
            for resource, load, group in self.route_loads[path]
        )

    def _grow_by_routes(
        self, chunk: int, out: Mapping[int, list[int]], *, soonest: bool
    ) -> dict[int, int]:
        """Return the route into each rank of a tree that grows by one route at a time."""
        problem, costs = self.problem, self.problem.costs_of_chunk(chunk)
        wanted, arrival = set(problem.wanted[chunk]), dict.fromkeys(problem.holders[chunk], 0)
        route_into: dict[int, int] = {}

        def route_key(path: int) -> tuple[int, int, int]:
            start = arrival[problem.src[path]]
            if soonest:
                load = max(self.loads[resource] for resource, _, _ in self.route_loads[path])
                return max(start, load) + costs[path], start + costs[path], path
            return self._max_load(path), start + costs[path], path

        heap = [route_key(path) for rank in sorted(arrival) for path in out.get(rank, ())]
        heapq.heapify(heap)
        while wanted:
            old_key = heapq.heappop(heap)
            path = old_key[2]
            rank = problem.dst[path]
            if rank in arrival:
                continue
            new_key = route_key(path)
            if new_key > old_key:  # loads have grown since
                heapq.heappush(heap, new_key)
                continue
            arrival[rank], route_into[rank] = new_key[0] if soonest else new_key[1], path
            self._add_load(path)
            wanted.discard(rank)
            for next_path in out.get(rank, ()):
                if problem.dst[next_path] not in arrival:
                    heapq.heappush(heap, route_key(next_path))
        return self._prune(chunk, route_into)

    def _prune(self, chunk: int, route_into: dict[int, int]) -> dict[int, int]:
        """Return the routes on paths to destinations, and remove the loads of the others."""
        useful = self.problem.useful_routes(chunk, route_into)
        if not self.is_multicast:
            for path in set(route_into.values()) - useful:
                self._add_load(path, -1)
        return {rank: path for rank, path in route_into.items() if path in useful}

    def _grow_by_paths(self, chunk: int, out: Mapping[int, list[int]]) -> dict[int, int]:
        """Return the route into each rank of a tree that grows by the path to a destination."""
        problem = self.problem
        wanted, in_tree = set(problem.wanted[chunk]), set(problem.holders[chunk])
        distance: dict[int, int] = dict.fromkeys(in_tree, 0)
        shortest_route_into: dict[int, int] = {}
        heap = [(0, rank) for rank in sorted(in_tree)]
        reached_by: dict[int, int] = {}
        while wanted:
            rank_distance, rank = heapq.heappop(heap)
            if rank_distance > distance[rank]:
                continue
            if rank in wanted:  # its path joins the tree, and its ranks become sources
                joining = rank
                while joining not in in_tree:
                    in_tree.add(joining)
                    reached_by[joining] = shortest_route_into[joining]
                    distance[joining] = 0
                    heapq.heappush(heap, (0, joining))
                    joining = problem.src[shortest_route_into[joining]]
                wanted.discard(rank)
                if rank_distance:
                    continue
            for path in out.get(rank, ()):
                neighbor = problem.dst[path]
                if neighbor in in_tree:
                    continue
                new_distance = rank_distance + self._max_load(path) + 1
                if new_distance < distance.get(neighbor, new_distance + 1):
                    distance[neighbor], shortest_route_into[neighbor] = new_distance, path
                    heapq.heappush(heap, (new_distance, neighbor))
        for path in reached_by.values():
            self._add_load(path)
        return reached_by


def relaxed_makespan(
    problem: SchedulingProblem, action: SymmetryAction, paths: Mapping[int, tuple[int, ...]]
) -> int:
    """Return the relaxed time of routes (equations (1) to (8)): maximum of loads and path times."""
    loads = [0] * len(problem.capacity)
    latest = 0
    for chunk, chunk_paths in paths.items():
        costs = problem.costs_of_chunk(chunk)
        tree = {problem.dst[path]: path for path in chunk_paths}
        latest = max([latest, *(arrival_depth(problem, tree, costs, rank) for rank in tree)])
        for images in action.routes:
            counted_groups = set()
            for path in chunk_paths:
                for hop in problem.route_uses[images[path]]:
                    if hop.multicast_group not in counted_groups:
                        counted_groups.add(hop.multicast_group)
                        loads[hop.resource] += hop.busy * hop.demand
    pairs = zip(loads, problem.capacity, strict=True)
    return max(latest, *(-(-load // capacity) for load, capacity in pairs))
