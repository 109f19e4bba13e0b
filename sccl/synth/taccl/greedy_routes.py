"""Initial routes: trees that grow along the least loaded links.

A chunk that one rank wants takes a path with little use of links with low loads. A chunk that many
want spreads from rank to rank, along the way that is least loaded, or that brings it soonest if
links first carry all of their load. Each way counts at once, with its images by the symmetries, so
that branches of one tree avoid each other. The routes with the smallest relaxed time are taken. The
model of routes begins with them, and if it is too large they are the routes.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from enum import Enum, auto

from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import SchedulingProblem

ChunkRoutes = dict[int, tuple[int, ...]]
"""For each first chunk the ways of its tree, in no order."""


class GrowthRule(Enum):
    """Along which way a tree grows next."""

    NEAREST = auto()
    """Along a path to the nearest rank that wants the chunk, with loads as distances."""
    LEAST_LOADED = auto()
    """Along the way whose fullest link carries the least then."""
    SOONEST = auto()
    """Along the way that brings the chunk the soonest, after all that its links carry so far."""


def find_greedy_routes(
    problem: SchedulingProblem, action: SymmetryAction, chosen: Mapping[int, frozenset[int]]
) -> ChunkRoutes:
    """Return for each first chunk the ways of a tree from its holder to all ranks that want it.

    Args:
        chosen: for each first chunk the allowed ways, which lead to all ranks that want it.
    """
    copied = any(len(problem.wanted[chunk]) > 1 for chunk in action.representatives)
    candidates: list[tuple[int, int, ChunkRoutes]] = []
    for by in GrowthRule if copied else (GrowthRule.NEAREST,):
        growing = _TreeGrower(problem, action)
        paths = {
            chunk: growing.grow_tree(chunk, chosen[chunk], by) for chunk in action.representatives
        }
        candidates.append((relaxed_makespan(problem, action, paths), len(candidates), paths))
    return min(candidates)[2]


class _TreeGrower:
    """Trees, with the loads of links by all earlier trees and branches."""

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

    def grow_tree(self, chunk: int, chosen: frozenset[int], by: GrowthRule) -> tuple[int, ...]:
        """Return the ways of a chunk's tree, which count from now on."""
        self.used_groups.clear()
        out: dict[int, list[int]] = {}
        for path in sorted(chosen):
            out.setdefault(self.problem.src[path], []).append(path)
        if by is GrowthRule.NEAREST:
            reached_by = self._grow_by_paths(chunk, out)
        else:
            reached_by = self._grow_by_routes(chunk, out, soonest=by is GrowthRule.SOONEST)
        return tuple(sorted(reached_by.values()))

    def _add_load(self, path: int, times: int = 1) -> None:
        """Count a way, and its images. Times -1: it is taken back."""
        path_shares = self.route_loads[path]
        fresh = [
            place for place, (_, _, stem) in enumerate(path_shares) if stem not in self.used_groups
        ]
        for path_images in self.action.routes:
            image = self.route_loads[path_images[path]]
            for place in fresh:
                thing, share, _ = image[place]
                self.loads[thing] += times * share
        if self.is_multicast:  # routes that part at a switch share the link to it
            self.used_groups.update(stem for _, _, stem in path_shares)

    def _max_load(self, path: int) -> int:
        """Return the maximum load on a way, if it were taken."""
        loads, stems = self.loads, self.used_groups
        return max(
            loads[t] + (0 if stem in stems else share) for t, share, stem in self.route_loads[path]
        )

    def _grow_by_routes(
        self, chunk: int, out: Mapping[int, list[int]], *, soonest: bool
    ) -> dict[int, int]:
        """Return by which way each rank is reached, ways being taken one after the other."""
        problem, costs = self.problem, self.problem.costs_of_chunk(chunk)
        wanted, at = set(problem.wanted[chunk]), dict.fromkeys(problem.holders[chunk], 0)
        by: dict[int, int] = {}

        def key(path: int) -> tuple[int, int, int]:
            arrives = at[problem.src[path]] + costs[path]
            if soonest:
                loads = max(self.loads[thing] for thing, _, _ in self.route_loads[path])
                return max(at[problem.src[path]], loads) + costs[path], arrives, path
            return self._max_load(path), arrives, path

        heap = [key(path) for rank in sorted(at) for path in out.get(rank, ())]
        heapq.heapify(heap)
        while wanted:
            before = heapq.heappop(heap)
            path = before[2]
            rank = problem.dst[path]
            if rank in at:
                continue
            now = key(path)
            if now > before:  # its links carry more by now
                heapq.heappush(heap, now)
                continue
            at[rank], by[rank] = now[0] if soonest else now[1], path
            self._add_load(path)
            wanted.discard(rank)
            for then in out.get(rank, ()):
                if problem.dst[then] not in at:
                    heapq.heappush(heap, key(then))
        return self._prune(chunk, by)

    def _prune(self, chunk: int, by: dict[int, int]) -> dict[int, int]:
        """Return ways without those that lead to nobody who wants the chunk."""
        problem = self.problem
        served = set()
        for rank in problem.wanted[chunk]:
            at = rank
            while at in by and at not in served:
                served.add(at)
                at = problem.src[by[at]]
        if not self.is_multicast:
            for rank in sorted(set(by) - served):
                self._add_load(by[rank], -1)
        return {rank: path for rank, path in by.items() if rank in served}

    def _grow_by_paths(self, chunk: int, out: Mapping[int, list[int]]) -> dict[int, int]:
        """Return by which way each rank is reached, the nearest who wants it being the next."""
        problem = self.problem
        wanted, inside = set(problem.wanted[chunk]), set(problem.holders[chunk])
        best: dict[int, int] = dict.fromkeys(inside, 0)
        by: dict[int, int] = {}
        heap = [(0, rank) for rank in sorted(inside)]
        reached_by: dict[int, int] = {}
        while wanted:
            far, rank = heapq.heappop(heap)
            if far > best[rank]:
                continue
            if rank in wanted:  # it is taken in, with all on the way there, and begins anew
                at = rank
                while at not in inside:
                    inside.add(at)
                    reached_by[at] = by[at]
                    best[at] = 0
                    heapq.heappush(heap, (0, at))
                    at = problem.src[by[at]]
                wanted.discard(rank)
                if far:
                    continue
            for path in out.get(rank, ()):
                target = problem.dst[path]
                if target in inside:
                    continue
                longer = far + self._max_load(path) + 1
                if longer < best.get(target, longer + 1):
                    best[target], by[target] = longer, path
                    heapq.heappush(heap, (longer, target))
        for path in reached_by.values():
            self._add_load(path)
        return reached_by


def relaxed_makespan(
    problem: SchedulingProblem, action: SymmetryAction, paths: Mapping[int, tuple[int, ...]]
) -> int:
    """Return the relaxed time of routes: of the fullest link, or the longest way."""
    loads = [0] * len(problem.capacity)
    latest = 0
    for chunk, chunk_paths in paths.items():
        costs = problem.costs_of_chunk(chunk)
        far = dict.fromkeys(problem.holders[chunk], 0)
        by = {problem.dst[path]: path for path in chunk_paths}
        for rank in by:
            route = []
            at = rank
            while at not in far:
                route.append(by[at])
                at = problem.src[by[at]]
            for path in reversed(route):
                far[problem.dst[path]] = far[problem.src[path]] + costs[path]
        latest = max(latest, *far.values())
        for images in action.routes:
            stems = set()
            for path in chunk_paths:
                for hop in problem.route_uses[images[path]]:
                    if hop.multicast_group not in stems:
                        stems.add(hop.multicast_group)
                        loads[hop.resource] += hop.busy * hop.demand
    full = max(-(-load // room) for load, room in zip(loads, problem.capacity, strict=True))
    return max(full, latest)
