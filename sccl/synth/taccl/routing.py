"""Step 1, routing: select the routes of each chunk, without an order of the chunks on a link.

Source: Shah et al., TACCL (NSDI 2023), section 5.1 and appendix B.1, equations (1) to (15). Chunks
may pass a link at the same time. The objective is the maximum of all loads (of links, budgets, and
switches) and of all path times.

Differences from the paper: the number of connections of a hyperedge is not a weighted term of the
objective (11). A second model selects, among routes of the minimum time, those with the most or
fewest connections, and among these the ones with the smallest sum of arrivals. Images under a
symmetry share their variables, instead of the equations (12) to (14). Equation (15) has no
constraint of its own, because an exactly-one constraint on the entering routes implies it. Units
are integers, and CP-SAT takes indicator constraints directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sccl.core.graphs import UNREACHED, distances
from sccl.errors import UnreachableError
from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.limits import INFINITE, MAX_LOAD, MAX_SMALL_MODEL, MAX_VARIABLES
from sccl.synth.scheduling.intervals_cpsat import SymmetryAction
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.sketches.sketch import HyperedgePolicy
from sccl.synth.taccl.greedy_routes import ChunkRoutes, find_greedy_routes, relaxed_makespan
from sccl.synth.taccl.route_trees import arrival_depth

STRATEGY = cpsat.Strategy(conflicts=4000)

_TIME_SHARE = 0.7
"""Fraction of the budget for the minimum time. The rest chooses among routes of that time."""


@dataclass(frozen=True, slots=True)
class RoutingResult:
    """The result of routing.

    Attributes:
        routes: Routes of each representative chunk, in no order.
        relaxed_time: The paper's ``time``, units: a lower bound on the completion time with these
            routes.
        lower_bound: Lower bound on the relaxed time of all routes of this sketch.
        effort_units: Effort spent.
    """

    routes: dict[int, tuple[int, ...]]
    relaxed_time: int
    lower_bound: int
    effort_units: float

    def all_routes(self, action: SymmetryAction) -> list[tuple[int, int]]:
        """Return the pairs (chunk, route) of all chunks, including images."""
        return [
            (chunks[chunk], path_images[path])
            for chunk, chunk_paths in self.routes.items()
            for path in chunk_paths
            for chunks, path_images in zip(action.chunks, action.routes, strict=True)
        ]


def shortest_routes(problem: SchedulingProblem, chunk: int) -> frozenset[int]:
    """Return the routes of a chunk on shortest paths to its destinations.

    In section 5.1 chunks pass only ranks on shortest paths. A path is shortest if it has the fewest
    routes.
    """
    source_distance, distances_to = _hop_distances(problem, chunk)
    wanted, shortest = problem.wanted[chunk], set()
    for path in sorted(allowed_routes(problem, chunk)):
        src, dst = problem.src[path], problem.dst[path]
        if any(
            source_distance[src] + 1 + distances_to[rank][dst] == source_distance[rank]
            for rank in wanted
        ):
            shortest.add(path)
    return frozenset(shortest)


def allowed_routes(problem: SchedulingProblem, chunk: int) -> frozenset[int]:
    """Return the routes that the sketch allows for a chunk."""
    forbidden, holders = problem.forbidden_for(chunk), problem.holders[chunk]
    return frozenset(
        path
        for path in range(len(problem.src))
        if path not in forbidden and problem.dst[path] not in holders
    )


def _hop_distances(
    problem: SchedulingProblem, chunk: int
) -> tuple[list[int], dict[int, list[int]]]:
    """Return the hops to each rank from a chunk's sources, and from each rank to destinations."""
    predecessors: dict[int, list[int]] = {}
    for path in sorted(allowed_routes(problem, chunk)):
        predecessors.setdefault(problem.dst[path], []).append(problem.src[path])
    distances_to = {
        rank: _bfs_distances(predecessors, [rank], problem.ranks)
        for rank in sorted(problem.wanted[chunk])
    }
    return _source_distances(problem, chunk), distances_to


def _source_distances(problem: SchedulingProblem, chunk: int) -> list[int]:
    """Return the number of hops from a chunk's sources to each rank."""
    successors: dict[int, list[int]] = {}
    for path in sorted(allowed_routes(problem, chunk)):
        successors.setdefault(problem.src[path], []).append(problem.dst[path])
    return _bfs_distances(successors, sorted(problem.holders[chunk]), problem.ranks)


def _bfs_distances(onward: dict[int, list[int]], begin: Iterable[int], ranks: int) -> list[int]:
    far = distances([onward.get(rank, ()) for rank in range(ranks)], begin)
    return [INFINITE if links == UNREACHED else links for links in far]


def check_reachable(problem: SchedulingProblem, where: str) -> None:
    """Check that the allowed routes lead each chunk to all its destinations.

    Args:
        problem: The problem.
        where: Start of the error message.

    Raises:
        UnreachableError: Some destination is not reachable.
    """
    distance_cache: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for chunk, wanted in enumerate(problem.wanted):
        forbidden = problem.forbidden_for(chunk)
        key = (problem.holders[chunk], forbidden)
        if key not in distance_cache:
            distance_cache[key] = (
                _source_distances(problem, chunk)
                if forbidden
                else problem.earliest_arrival[chunk].tolist()
            )
        distance = distance_cache[key]
        for rank in sorted(wanted):
            if distance[rank] >= INFINITE:
                raise UnreachableError(
                    f"{where}: chunk {chunk} of rank {min(problem.holders[chunk])} cannot reach "
                    f"rank {rank} over the routes of the sketch: assign another sender"
                )


class _RoutingModel:
    """The model of appendix B.1, for one chunk of each orbit.

    Attributes:
        is_sent: The paper's ``is_sent``, by (chunk, route).
        arrival: The paper's ``start``, by (chunk, rank).
        makespan: The paper's ``time``.
    """

    def __init__(
        self,
        problem: SchedulingProblem,
        action: SymmetryAction,
        allowed: dict[int, frozenset[int]],
    ) -> None:
        self.problem, self.action, self.model = problem, action, CpModel()
        self.is_sent: dict[tuple[int, int], IntVar] = {}
        self.arrival: dict[tuple[int, int], IntVar] = {}
        self.horizon = self._horizon()
        self.makespan = self.model.new_int_var(0, self.horizon, "")
        for chunk in action.representatives:
            self._add_chunk(chunk, allowed[chunk])
        self._add_loads()

    def _horizon(self) -> int:
        """Return an upper bound on the relaxed time of any routes, units."""
        earliest_arrival = self.problem.earliest_arrival
        latest = int(earliest_arrival[earliest_arrival < INFINITE].max(initial=1))
        busy = max(hop.busy for hops in self.problem.route_uses for hop in hops)
        return max(latest * self.problem.ranks, busy * self.problem.chunks * 2)

    def _add_chunk(self, chunk: int, allowed: frozenset[int]) -> None:
        """Add equations (2) to (5) for a chunk, and one entering route for each rank."""
        problem, model = self.problem, self.model
        holders, wanted = problem.holders[chunk], problem.wanted[chunk]
        costs = problem.costs_of_chunk(chunk)
        entering: dict[int, list[IntVar]] = {}
        leaving: dict[int, list[IntVar]] = {}
        for rank in {problem.dst[path] for path in allowed}:
            self.arrival[chunk, rank] = model.new_int_var(0, self.horizon, "")
        for path in sorted(allowed):
            src, dst = problem.src[path], problem.dst[path]
            if src not in holders and (chunk, src) not in self.arrival:
                continue
            sent = self.is_sent[chunk, path] = model.new_bool_var("")
            entering.setdefault(dst, []).append(sent)
            # Equations (3), (4), and (5). A chunk is sent as soon as it arrives.
            departure = 0 if src in holders else self.arrival[chunk, src]
            model.add(self.arrival[chunk, dst] == departure + costs[path]).only_enforce_if(sent)
            if src not in holders:
                leaving.setdefault(src, []).append(sent)
        for rank in sorted({rank for other_chunk, rank in self.arrival if other_chunk == chunk}):
            incoming = entering.get(rank, [])
            if rank in wanted:
                model.add_exactly_one(incoming)
                model.add(self.makespan >= self.arrival[chunk, rank])  # equation (2)
            else:
                model.add_at_most_one(incoming)
                for sent in leaving.get(rank, []):
                    model.add(sum(incoming) >= sent)

    def _add_loads(self) -> None:
        """Add equations (6) to (8): the load of each resource bounds the time.

        The links of an orbit under the symmetries have the same load, so the first one suffices.
        """
        problem, action, links = self.problem, self.action, len(self.problem.topology.links)
        first_links = {min(images) for images in zip(*action.links, strict=True)}
        loads: dict[int, dict[int, tuple[IntVar, int]]] = {}
        is_group_used: dict[tuple[int, int, int], IntVar] = {}
        for (chunk, path), sent in self.is_sent.items():
            for image, path_images in enumerate(action.routes):
                for hop in problem.route_uses[path_images[path]]:
                    if hop.resource < links and hop.resource not in first_links:
                        continue
                    amount, load = hop.busy * hop.demand, loads.setdefault(hop.resource, {})
                    if len(problem.multicast_groups[hop.multicast_group]) == 1:
                        amount += load.get(sent.index, (sent, 0))[1]  # each image adds a load
                        load[sent.index] = (sent, amount)
                        continue
                    key = (chunk, image, hop.multicast_group)  # a switch copies the chunk
                    if key not in is_group_used:
                        is_group_used[key] = self.model.new_bool_var("")
                    self.model.add_implication(sent, is_group_used[key])
                    load[is_group_used[key].index] = (is_group_used[key], amount)
        for resource, load in sorted(loads.items()):
            # Loads are rounded down to limited numbers, which relaxes the constraint.
            capacity = problem.capacity[resource]
            max_load = max(capacity * self.horizon, sum(amount for _, amount in load.values()))
            scale = max(1, -(-max_load // MAX_LOAD))
            total = sum(amount // scale * var for var, amount in load.values())
            self.model.add(total <= -(-capacity // scale) * self.makespan)

    def add_hints(self, routes: dict[int, tuple[int, ...]]) -> None:
        problem = self.problem
        for (chunk, path), sent in self.is_sent.items():
            self.model.add_hint(sent, path in routes[chunk])
        for chunk, chunk_paths in routes.items():
            route_into = {problem.dst[path]: path for path in chunk_paths}
            costs = problem.costs_of_chunk(chunk)
            for rank in route_into:
                arrival = arrival_depth(problem, route_into, costs, rank)
                self.model.add_hint(self.arrival[chunk, rank], arrival)

    def connection_terms(
        self, edges: Iterable[tuple[HyperedgePolicy, list[int]]]
    ) -> list[IntVar | int]:
        """Return the terms to minimize for the policies of hyperedges (equations (9) to (11)).

        Args:
            edges: The policy of each hyperedge, and its routes.
        """
        sends_by_route: dict[int, list[IntVar]] = {}
        for (_, path), sent in self.is_sent.items():
            for path_images in self.action.routes:
                sends_by_route.setdefault(path_images[path], []).append(sent)
        terms: list[IntVar | int] = []
        for policy, edge_paths in edges:
            if policy is HyperedgePolicy.FREE:
                continue
            for path in edge_paths:
                term = self.model.new_bool_var("")
                sends = sends_by_route.get(path, [])
                if policy is HyperedgePolicy.MIN:  # equation (9): the term is is_util
                    for sent in sends:
                        self.model.add_implication(sent, term)
                else:  # equation (10): the term is not is_util
                    self.model.add_bool_or([*sends, term])
                terms.append(term)
        return terms


def solve_routing(  # noqa: PLR0913, PLR0917 - independent inputs
    problem: SchedulingProblem,
    action: SymmetryAction,
    allowed: dict[int, frozenset[int]],
    edges: Iterable[tuple[HyperedgePolicy, list[int]]],
    effort: Effort,
    lower_bound: int = 0,
    warm_start: ChunkRoutes | None = None,
) -> RoutingResult:
    """Select the routes of one chunk of each orbit.

    If there are too many routes for a model, the result is the warm start.

    Args:
        problem: The problem.
        action: Symmetries of the routes.
        allowed: Allowed routes of each representative chunk.
        edges: The policy of each hyperedge, and its routes.
        effort: Limits of the solver.
        lower_bound: Lower bound on the completion time, units.
        warm_start: Initial routes. None: greedy trees.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    units = effort.units or 1.0
    if warm_start is None:
        warm_start = find_greedy_routes(problem, action, allowed)
    time, spent, routes = relaxed_makespan(problem, action, warm_start), 0.0, warm_start
    size = sum(map(len, allowed.values()))
    attains_bound = time <= lower_bound
    if size > MAX_SMALL_MODEL or (attains_bound and size * len(action.routes) > 2 * MAX_VARIABLES):
        return RoutingResult(routes, time, 0, spent)
    proved_time = 0
    if not attains_bound:  # equation (1): minimize the time
        time_model = _RoutingModel(problem, action, allowed)
        time_model.add_hints(warm_start)
        time_model.model.minimize(time_model.makespan)
        time_effort = Effort(effort.timeout_s, effort.seed, units * _TIME_SHARE)
        result = cpsat.solve(time_model.model, time_effort, STRATEGY)
        spent = result.units
        if result.has_solution and result.value(time_model.makespan) < time:
            time, routes = result.value(time_model.makespan), _useful_routes(time_model, result)
        if result.is_optimal:
            proved_time = time
    # The second term of equation (11) at this time, and then the sum of arrivals.
    preference_model = _RoutingModel(problem, action, allowed)
    preference_model.model.add(preference_model.makespan <= time)
    connections = preference_model.connection_terms(edges)
    preference_model.add_hints(routes)
    arrivals = sum(preference_model.arrival.values())
    weight = len(preference_model.arrival) * preference_model.horizon + 1
    objective = weight * sum(connections) + arrivals if connections else arrivals
    preference_model.model.minimize(objective)
    preference_effort = Effort(effort.timeout_s, effort.seed, units * (1 - _TIME_SHARE))
    preferred = cpsat.solve(preference_model.model, preference_effort, STRATEGY)
    spent += preferred.units
    if preferred.has_solution:
        routes = _useful_routes(preference_model, preferred)
    return RoutingResult(routes, time, proved_time, spent)


def _useful_routes(model: _RoutingModel, result: cpsat.Result) -> dict[int, tuple[int, ...]]:
    """Return the routes of each chunk that lie on a path to a destination."""
    problem = model.problem
    routes: dict[int, tuple[int, ...]] = {}
    for chunk in model.action.representatives:
        route_into = {
            problem.dst[path]: path
            for (sent_chunk, path), sent in model.is_sent.items()
            if sent_chunk == chunk and result.value(sent)
        }
        routes[chunk] = tuple(sorted(problem.useful_routes(chunk, route_into)))
    return routes
