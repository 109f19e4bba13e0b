"""Step 1, routing: the ways of each chunk, before any ordering on links.

TACCL (NSDI 2023), section 5.1 and appendix B.1. Chunks may pass a link at once. The objective is
the maximum of the total loads of links, budgets and switches, and of each chunk's path time
(equations 1 to 8). CP-SAT takes implications directly, so there are no large constants, and
equation 15 (data for another node leave their node) follows from the ways that lead there. Among
routes of minimum time, those are taken that use as many or as few connections as the sketch
requires (9 to 11), and among these the ones with the earliest total arrivals. Images by a symmetry
are one (12 to 14).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sccl.core.sketch import HyperedgePolicy
from sccl.errors import UnreachableError
from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.network.shortest_paths import UNREACHABLE
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.taccl.greedy_routes import ChunkRoutes, find_greedy_routes, relaxed_makespan

MAX_ROUTES = 60_000
"""Ways of first chunks that a model is made of."""

MAX_IMAGES = 4_000_000
"""Limit on routes and their images for a model of routes that attain the bound."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_TIME_SHARE, _PREFERENCE_SHARE = 0.7, 0.3
"""Fractions of the effort for the minimum time, and for the choice among routes that attain it."""


@dataclass(frozen=True, slots=True)
class RoutingResult:
    """The ways of chunks.

    Attributes:
        routes: for each first chunk of an orbit, in no order.
        relaxed_time: the relaxed time: a lower bound for any order of these routes.
        lower_bound: lower bound on the relaxed time for all routes of this sketch.
        effort_units: effort spent.
    """

    routes: dict[int, tuple[int, ...]]
    relaxed_time: int
    lower_bound: int
    effort_units: float

    def all_routes(self, action: SymmetryAction) -> list[tuple[int, int]]:
        """Return (chunk, way) of all chunks."""
        return [
            (chunks[chunk], path_images[path])
            for chunk, chunk_paths in self.routes.items()
            for path in chunk_paths
            for chunks, path_images in zip(action.chunks, action.routes, strict=True)
        ]


def shortest_routes(problem: SchedulingProblem, chunk: int) -> frozenset[int]:
    """Return the ways on which a chunk is no farther from its source than it need be.

    Section 5.1: chunks go through ranks on shortest paths, which are those of the fewest ways.
    """
    far, reach = _hop_distances(problem, chunk)
    wanted, shortest = problem.wanted[chunk], set()
    for path in sorted(allowed_routes(problem, chunk)):
        src, dst = problem.src[path], problem.dst[path]
        if any(far[src] + 1 + reach[rank][dst] == far[rank] for rank in wanted):
            shortest.add(path)
    return frozenset(shortest)


def allowed_routes(problem: SchedulingProblem, chunk: int) -> frozenset[int]:
    """Return the ways that a chunk may go."""
    barred, holders = problem.forbidden_for(chunk), problem.holders[chunk]
    return frozenset(
        path
        for path in range(len(problem.src))
        if path not in barred and problem.dst[path] not in holders
    )


def _hop_distances(
    problem: SchedulingProblem, chunk: int
) -> tuple[list[int], dict[int, list[int]]]:
    """Return how many ways each rank is from a chunk's source, and from each to who wants it."""
    into: dict[int, list[int]] = {}
    for path in sorted(allowed_routes(problem, chunk)):
        into.setdefault(problem.dst[path], []).append(problem.src[path])
    reach = {
        rank: _bfs_distances(into, [rank], problem.ranks) for rank in sorted(problem.wanted[chunk])
    }
    return _source_distances(problem, chunk), reach


def _source_distances(problem: SchedulingProblem, chunk: int) -> list[int]:
    """Return how many ways each rank is from a chunk's source."""
    out: dict[int, list[int]] = {}
    for path in sorted(allowed_routes(problem, chunk)):
        out.setdefault(problem.src[path], []).append(problem.dst[path])
    return _bfs_distances(out, sorted(problem.holders[chunk]), problem.ranks)


def _bfs_distances(onward: dict[int, list[int]], begin: Iterable[int], ranks: int) -> list[int]:
    far = [int(UNREACHABLE)] * ranks
    front = list(begin)
    for rank in front:
        far[rank] = 0
    while front:
        fresh = []
        for rank in front:
            for target in onward.get(rank, ()):
                if far[target] > far[rank] + 1:
                    far[target] = far[rank] + 1
                    fresh.append(target)
        front = fresh
    return far


def check_reachable(problem: SchedulingProblem, where: str) -> None:
    """Check that each chunk comes to where it is wanted over ways that it may go.

    Raises:
        UnreachableError: one does not.
    """
    distance_cache: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for chunk, wanted in enumerate(problem.wanted):
        barred = problem.forbidden_for(chunk)
        kind = (problem.holders[chunk], barred)
        if kind not in distance_cache:
            distance_cache[kind] = (
                _source_distances(problem, chunk)
                if barred
                else problem.earliest_arrival[chunk].tolist()
            )
        far = distance_cache[kind]
        for rank in sorted(wanted):
            if far[rank] >= UNREACHABLE:
                raise UnreachableError(
                    f"{where}: chunk {chunk} of rank {min(problem.holders[chunk])} cannot come to "
                    f"rank {rank} over the ways that it leaves: let it out by another sender"
                )


_MAX_LOAD = 2**40


class _RoutingModel:
    def __init__(
        self, problem: SchedulingProblem, action: SymmetryAction, chosen: dict[int, frozenset[int]]
    ) -> None:
        self.problem, self.action, self.model = problem, action, CpModel()
        self.is_sent: dict[tuple[int, int], IntVar] = {}
        self.arrival: dict[tuple[int, int], IntVar] = {}
        self.horizon = self._horizon()
        self.makespan = self.model.new_int_var(0, self.horizon, "")
        for chunk in action.representatives:
            self._add_chunk(chunk, chosen[chunk])
        self._add_loads()

    def _horizon(self) -> int:
        """Return units that are enough for any routes, if one thing had to carry all."""
        far = int(
            self.problem.earliest_arrival[self.problem.earliest_arrival < UNREACHABLE].max(
                initial=1
            )
        )
        busy = max(h.busy for path_hops in self.problem.route_uses for h in path_hops)
        return max(far * self.problem.ranks, busy * self.problem.chunks * 2)

    def _add_chunk(self, chunk: int, chosen: frozenset[int]) -> None:
        problem, model = self.problem, self.model
        holders, wanted, costs = (
            problem.holders[chunk],
            problem.wanted[chunk],
            problem.costs_of_chunk(chunk),
        )
        entering: dict[int, list[IntVar]] = {}
        leaving: dict[int, list[IntVar]] = {}
        for rank in {problem.dst[path] for path in chosen}:
            self.arrival[chunk, rank] = model.new_int_var(0, self.horizon, "")
        for path in sorted(chosen):
            src, dst = problem.src[path], problem.dst[path]
            if src not in holders and (chunk, src) not in self.arrival:
                continue
            sent = self.is_sent[chunk, path] = model.new_bool_var("")
            entering.setdefault(dst, []).append(sent)
            before = 0 if src in holders else self.arrival[chunk, src]
            model.add(self.arrival[chunk, dst] == before + costs[path]).only_enforce_if(sent)
            if src not in holders:
                leaving.setdefault(src, []).append(sent)
        for rank in sorted({rank for other_chunk, rank in self.arrival if other_chunk == chunk}):
            incoming = entering.get(rank, [])
            if rank in wanted:
                model.add_exactly_one(incoming)
                model.add(self.makespan >= self.arrival[chunk, rank])
            else:
                model.add_at_most_one(incoming)
                for sent in leaving.get(rank, []):
                    model.add(sum(incoming) >= sent)

    def _add_loads(self) -> None:
        """Bound the time by the load of each resource. Links of an orbit have the first's load."""
        problem, action, links = self.problem, self.action, len(self.problem.topology.links)
        firsts = {min(images) for images in zip(*action.links, strict=True)}
        loads: dict[int, dict[int, tuple[IntVar, int]]] = {}
        stems: dict[tuple[int, int, int], IntVar] = {}
        for (chunk, path), sent in self.is_sent.items():
            for which, path_images in enumerate(action.routes):
                for hop in problem.route_uses[path_images[path]]:
                    if hop.resource < links and hop.resource not in firsts:
                        continue
                    amount, load = hop.busy * hop.demand, loads.setdefault(hop.resource, {})
                    if (
                        len(problem.multicast_groups[hop.multicast_group]) == 1
                    ):  # each image is a load of its own
                        amount += load.get(sent.index, (sent, 0))[1]
                        load[sent.index] = (sent, amount)
                        continue
                    key = (chunk, which, hop.multicast_group)  # ways of one chunk share it
                    if key not in stems:
                        stems[key] = self.model.new_bool_var("")
                    self.model.add_implication(sent, stems[key])
                    load[stems[key].index] = (stems[key], amount)
        for thing, load in sorted(loads.items()):
            # 64-bit numbers: loads are rounded down, so that routes are no less free
            max_load = max(
                problem.capacity[thing] * self.horizon, sum(amount for _, amount in load.values())
            )
            scale = max(1, -(-max_load // _MAX_LOAD))
            total = sum(amount // scale * var for var, amount in load.values())
            self.model.add(total <= -(-problem.capacity[thing] // scale) * self.makespan)

    def add_hints(self, routes: dict[int, tuple[int, ...]]) -> None:
        problem = self.problem
        for (chunk, path), sent in self.is_sent.items():
            self.model.add_hint(sent, path in routes[chunk])
        for chunk, chunk_paths in routes.items():
            brings = {problem.dst[path]: path for path in chunk_paths}
            costs = problem.costs_of_chunk(chunk)
            for rank in brings:
                at, far = rank, 0
                while at in brings:
                    far += costs[brings[at]]
                    at = problem.src[brings[at]]
                self.model.add_hint(self.arrival[chunk, rank], far)

    def connection_terms(
        self, edges: Iterable[tuple[HyperedgePolicy, list[int]]]
    ) -> list[IntVar | int]:
        """Return terms to minimise for policies of hyperedges: connections, or lacking ones."""
        images: dict[int, list[IntVar]] = {}
        for (_, path), sent in self.is_sent.items():
            for path_images in self.action.routes:
                images.setdefault(path_images[path], []).append(sent)
        terms: list[IntVar | int] = []
        for policy, edge_paths in edges:
            if policy is HyperedgePolicy.FREE:
                continue
            for path in edge_paths:
                used = self.model.new_bool_var("")
                sents = images.get(path, [])
                if policy is HyperedgePolicy.MIN:
                    for sent in sents:
                        self.model.add_implication(sent, used)
                    terms.append(used)
                else:  # one that is not used counts
                    self.model.add_bool_or([*sents, used])
                    terms.append(used)
        return terms


def solve_routing(  # noqa: PLR0913, PLR0917 - independent inputs
    problem: SchedulingProblem,
    action: SymmetryAction,
    chosen: dict[int, frozenset[int]],
    edges: Iterable[tuple[HyperedgePolicy, list[int]]],
    effort: Effort,
    lower_bound: int = 0,
    begun: ChunkRoutes | None = None,
) -> RoutingResult:
    """Return routes of the first chunks.

    If they are too many for a model, they are the trees that it would begin from.

    Args:
        chosen: for each first chunk the allowed ways.
        edges: the ways of each hyperedge, and its policy on their number.
        lower_bound: lower bound for schedules, units.
        begun: routes to begin from. None: grown trees.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    units = effort.units or 1.0
    if begun is None:
        begun = find_greedy_routes(problem, action, chosen)
    time, spent, routes = relaxed_makespan(problem, action, begun), 0.0, begun
    size = sum(map(len, chosen.values()))
    met = time <= lower_bound
    if size > MAX_ROUTES or (met and size * len(action.routes) > MAX_IMAGES):
        return RoutingResult(routes, time, 0, spent)
    proved = 0
    if not met:
        first = _RoutingModel(problem, action, chosen)
        first.add_hints(begun)
        first.model.minimize(first.makespan)
        left = Effort(effort.timeout_s, effort.seed, units * _TIME_SHARE)
        result = cpsat.solve(first.model, left, STRATEGY)
        spent = result.units
        if result.has_solution and result.value(first.makespan) < time:
            time, routes = result.value(first.makespan), _useful_routes(first, result)
        if result.is_optimal:
            proved = time
    again = _RoutingModel(problem, action, chosen)
    again.model.add(again.makespan <= time)
    taste = again.connection_terms(edges)
    again.add_hints(routes)
    soon = sum(again.arrival.values())
    weight = len(again.arrival) * again.horizon + 1
    again.model.minimize(weight * sum(taste) + soon if taste else soon)
    left = Effort(effort.timeout_s, effort.seed, units * _PREFERENCE_SHARE)
    better = cpsat.solve(again.model, left, STRATEGY)
    spent += better.units
    if better.has_solution:
        routes = _useful_routes(again, better)
    return RoutingResult(routes, time, proved, spent)


def _useful_routes(model: _RoutingModel, result: cpsat.Result) -> dict[int, tuple[int, ...]]:
    """Return the ways of each chunk that serve somebody."""
    problem = model.problem
    routes: dict[int, tuple[int, ...]] = {}
    for chunk in model.action.representatives:
        brings = {
            problem.dst[path]: path
            for (sent_chunk, path), sent in model.is_sent.items()
            if sent_chunk == chunk and result.value(sent)
        }
        used: set[int] = set()
        for rank in problem.wanted[chunk]:
            at = rank
            while at not in problem.holders[chunk] and brings[at] not in used:
                used.add(brings[at])
                at = problem.src[brings[at]]
        routes[chunk] = tuple(sorted(used))
    return routes


def resource_loads(
    problem: SchedulingProblem, routes: Iterable[tuple[int, int]]
) -> NDArray[np.int64]:
    """Return of each thing the units that routes keep it busy, were it all of its room."""
    loads = np.zeros(len(problem.capacity), dtype=np.float64)
    stems: set[tuple[int, int]] = set()
    for chunk, path in routes:
        for hop in problem.uses_of_chunk(chunk)[path]:
            if (chunk, hop.multicast_group) not in stems:
                stems.add((chunk, hop.multicast_group))
                loads[hop.resource] += hop.busy * hop.demand / problem.capacity[hop.resource]
    return np.ceil(loads).astype(np.int64)
