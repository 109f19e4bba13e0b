"""The continuous-time model: an optional interval for each chunk and route, and no epochs.

An interval is present if the chunk is sent over the route. A link serves chunks one after the other
(no overlap). The load of a budget is at most its capacity (cumulative). Each chunk arrives once at
each destination, and leaves a rank only after its arrival there. So the size of the model depends
only on machine and chunks, and not on the ratio of alpha to a chunk's time.

Images of a chunk under a symmetry of machine and collective share its variables, so a solution for
one chunk is a solution for all. (This excludes schedules that are not symmetric.)

Some of the chunks may be fixed. The others are then scheduled around them. This is a neighborhood
of a known schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.serial import prune_sends
from sccl.topo.symmetry.permutations import Permutation


@dataclass(frozen=True)
class SymmetryAction:
    """The images of chunks, routes, and links under symmetries. The first symmetry is the identity.

    Attributes:
        chunks: Image of each chunk, shape (symmetries, chunks).
        routes: Image of each route, shape (symmetries, routes).
        links: Image of each link, shape (symmetries, links).
    """

    chunks: tuple[tuple[int, ...], ...]
    routes: tuple[tuple[int, ...], ...]
    links: tuple[tuple[int, ...], ...]

    @classmethod
    def identity(cls, problem: SchedulingProblem) -> SymmetryAction:
        """Return the action of the identity only."""
        sizes = (problem.chunks, len(problem.src), len(problem.topology.links))
        chunks, paths, links = (tuple(range(size)) for size in sizes)
        return cls((chunks,), (paths,), (links,))

    @classmethod
    def of(cls, problem: SchedulingProblem, group: Sequence[Permutation]) -> SymmetryAction:
        """Return the action of symmetries of the nodes. The first of them is the identity."""
        if len(group) < 2:
            return cls.identity(problem)
        numbers = tuple(range(max(problem.chunks, len(problem.src), len(problem.topology.links))))
        images = [
            [tuple(map(numbers.__getitem__, image)) for image in problem.symmetry_images(symmetry)]
            for symmetry in group
        ]  # numbers are shared objects: large groups have tens of millions of entries
        return cls(*(tuple(image[k] for image in images) for k in range(3)))

    @property
    def representatives(self) -> tuple[int, ...]:
        """Return one chunk of each orbit: the first."""
        return tuple(sorted({min(images) for images in zip(*self.chunks, strict=True)}))

    @cached_property
    def inverse_routes(self) -> tuple[tuple[int, ...], ...]:
        """Return the inverse image of each route, shape (symmetries, routes)."""
        return tuple(_inverse_permutation(paths) for paths in self.routes)

    def images(self, sends: Iterable[ChunkSend]) -> list[ChunkSend]:
        """Return sends of representatives and all their images, sorted by start."""
        all_sends = [
            replace(s, chunk=chunks[s.chunk], route=paths[s.route])
            for s in sends
            for chunks, paths in zip(self.chunks, self.routes, strict=True)
        ]
        return sorted(all_sends, key=lambda s: (s.start, s.chunk, s.route))


@dataclass(frozen=True, slots=True)
class IntervalResult:
    """The result of a model.

    Attributes:
        sends: Sends of the representatives. None: the solver has no solution.
        refuted: Whether it is proved that no symmetric schedule meets the horizon.
        optimal: Whether the schedule is proved optimal among these.
        effort_units: Effort spent.
    """

    sends: tuple[ChunkSend, ...] | None
    refuted: bool
    optimal: bool
    effort_units: float


class IntervalModel:
    """The model of a problem."""

    def __init__(  # noqa: PLR0913, PLR0917 - independent inputs
        self,
        problem: SchedulingProblem,
        action: SymmetryAction,
        horizon: int,
        sends: Sequence[ChunkSend] = (),
        free: Collection[int] | None = None,
        routes: Collection[tuple[int, int]] | None = None,
    ) -> None:
        """Build the model without an objective.

        Args:
            problem: The problem.
            action: Symmetries of the schedule.
            horizon: Latest arrival of any chunk, units.
            sends: Sends of representative chunks. Those of free chunks are hints, the others are
                fixed.
            free: Representative chunks to schedule. None: all.
            routes: Allowed (chunk, route) pairs. None: all.
        """
        self.problem, self.action, self.horizon = problem, action, horizon
        self.allowed_routes = routes
        self.model = CpModel()
        self.free_chunks = sorted(action.representatives if free is None else free)
        self.x: dict[tuple[int, int], IntVar] = {}
        self.start: dict[tuple[int, int], IntVar] = {}
        self.arrival: dict[tuple[int, int], IntVar] = {}
        self._fixed_sends = [s for s in sends if s.chunk not in set(self.free_chunks)]
        self._fixed_starts: dict[int, list[tuple[int, int]]] = {}
        for send in self._fixed_sends:
            self._fixed_starts.setdefault(send.route, []).append((send.chunk, send.start))
        for chunk in self.free_chunks:
            self._add_chunk(chunk)
        for resource, intervals in self._resource_intervals().items():
            interval_vars = [interval for interval, _ in intervals]
            if problem.capacity[resource] == 1:
                self.model.add_no_overlap(interval_vars)
            else:
                weights = [weight for _, weight in intervals]
                self.model.add_cumulative(interval_vars, weights, problem.capacity[resource])
        self._add_hints([s for s in sends if s.chunk in set(self.free_chunks)])

    def minimize_finish(self, lower_bound: int) -> None:
        """Minimize the completion times of the collectives, weighted by their priorities.

        Args:
            lower_bound: Lower bound on this sum, units.
        """
        priorities, is_single = self.problem.priorities, len(self.problem.priorities) == 1
        lowest = lower_bound if is_single else 0
        finishes = [self.model.new_int_var(lowest, self.horizon, "") for _ in priorities]
        for tenant, arrive in self._wanted_arrivals():
            self.model.add(finishes[tenant] >= arrive)
        value = sum(p * finish for p, finish in zip(priorities, finishes, strict=True))
        if not is_single:
            self.model.add(value >= lower_bound)
        self.model.minimize(value)

    def minimize_lateness(self, targets: Sequence[int]) -> None:
        """Minimize the weighted total lateness of arrivals after the targets of collectives."""
        delays = []
        for tenant, arrive in self._wanted_arrivals():
            target = targets[tenant]
            over = self.model.new_int_var(0, max(0, self.horizon - target), "")
            self.model.add(over >= arrive - target)
            delays.append(self.problem.priorities[tenant] * over)
        self.model.minimize(sum(delays))

    def _wanted_arrivals(self) -> list[tuple[int, IntVar]]:
        """Return the index of the collective and the time of each arrival at a destination."""
        wanted, tenant = self.problem.wanted, self.problem.collective_index
        return [
            (tenant[chunk], at)
            for (chunk, rank), at in self.arrival.items()
            if rank in wanted[chunk]
        ]

    def _add_chunk(self, chunk: int) -> None:
        """Add a chunk: its routes, and their starts."""
        problem, model = self.problem, self.model
        soonest, holders, wanted = (
            problem.earliest_arrival[chunk],
            problem.holders[chunk],
            problem.wanted[chunk],
        )
        latest = self._latest_arrivals(chunk)
        for rank in range(problem.ranks):
            if rank not in holders and soonest[rank] <= latest[rank]:
                self.arrival[chunk, rank] = model.new_int_var(
                    int(soonest[rank]), int(latest[rank]), ""
                )
        entering: dict[int, list[IntVar]] = {}
        costs, barred = problem.costs_of_chunk(chunk), problem.forbidden_for(chunk)
        for path, (src, dst, cost) in enumerate(zip(problem.src, problem.dst, costs, strict=True)):
            if path in barred or (
                self.allowed_routes is not None and (chunk, path) not in self.allowed_routes
            ):
                continue
            can_start = src in holders or (chunk, src) in self.arrival
            if (
                not can_start
                or (chunk, dst) not in self.arrival
                or soonest[src] + cost > latest[dst]
            ):
                continue
            x = self.x[chunk, path] = model.new_bool_var("")
            start = self.start[chunk, path] = model.new_int_var(
                int(soonest[src]), int(latest[dst] - cost), ""
            )
            entering.setdefault(dst, []).append(x)
            if src not in holders:
                model.add(start >= self.arrival[chunk, src]).only_enforce_if(x)
            model.add(self.arrival[chunk, dst] == start + cost).only_enforce_if(x)
        for rank in range(problem.ranks):
            if rank in wanted:
                model.add_exactly_one(entering.get(rank, []))
            elif (chunk, rank) in self.arrival:
                model.add_at_most_one(entering.get(rank, []))
                incoming = entering.get(rank, [])
                for path in problem.routes_from[rank]:
                    if (chunk, path) in self.x:
                        model.add(sum(incoming) >= self.x[chunk, path])

    def _latest_arrivals(self, chunk: int) -> list[int]:
        """Return the latest useful arrival of the chunk at each rank."""
        wanted = sorted(self.problem.wanted[chunk])
        ahead = self.problem.distances_of(chunk)[:, wanted].min(axis=1, initial=self.horizon + 1)
        return [
            self.horizon if rank in self.problem.wanted[chunk] else self.horizon - int(ahead[rank])
            for rank in range(self.problem.ranks)
        ]

    def _resource_intervals(self) -> dict[int, list[tuple[IntervalVar, int]]]:
        """Return the intervals and loads of each resource, for one link of each orbit."""
        problem, action, links = self.problem, self.action, len(self.problem.topology.links)
        firsts = {min(images) for images in zip(*action.links, strict=True)}
        held: dict[int, list[tuple[IntervalVar, int]]] = {}
        stem_intervals: dict[int, list[tuple[IntervalVar, int]]] = {}
        taken: set[tuple[int, int, int]] = set()
        for path, hops in enumerate(problem.route_uses):
            for place, hop in enumerate(hops):
                if hop.resource < links and hop.resource not in firsts:
                    continue
                rows = held.setdefault(hop.resource, [])
                for which, turn in enumerate(action.inverse_routes):
                    stem = problem.route_uses[turn[path]][place].multicast_group
                    if (hop.resource, which, stem) in taken:
                        continue
                    taken.add((hop.resource, which, stem))
                    if stem not in stem_intervals:
                        stem_intervals[stem] = self._group_intervals(stem)
                    rows += stem_intervals[stem]
        return held

    def _group_intervals(self, stem: int) -> list[tuple[IntervalVar, int]]:
        """Return the intervals and loads of chunks on the routes of a multicast group."""
        paths, model = self.problem.multicast_groups[stem], self.model
        first, place = paths[0]
        intervals = []
        for chunk in self.free_chunks:
            hop = self.problem.uses_of_chunk(chunk)[first][place]
            taken = [(chunk, path) for path, _ in paths if (chunk, path) in self.x]
            if taken:
                start, x = self._joint_departure(taken)
                over = model.new_optional_fixed_size_interval_var(
                    start + hop.offset, hop.busy, x, ""
                )
                intervals.append((over, hop.demand))
        stays = {stay for path, _ in paths for stay in self._fixed_starts.get(path, ())}
        for chunk, at in sorted(stays):
            hop = self.problem.uses_of_chunk(chunk)[first][place]
            over = model.new_fixed_size_interval_var(at + hop.offset, hop.busy, "")
            intervals.append((over, hop.demand))
        return intervals

    def _joint_departure(self, taken: list[tuple[int, int]]) -> tuple[IntVar, IntVar]:
        """Return the start of a chunk on several routes together, and whether it is sent."""
        if len(taken) == 1:
            return self.start[taken[0]], self.x[taken[0]]
        model = self.model
        start, any_of = model.new_int_var(0, self.horizon, ""), model.new_bool_var("")
        for key in taken:
            model.add_implication(self.x[key], any_of)
            model.add(start == self.start[key]).only_enforce_if(self.x[key])
        return start, any_of

    def _add_hints(self, sends: Sequence[ChunkSend]) -> None:
        if not sends:
            return
        at = {(s.chunk, s.route): s.start for s in sends}
        for key, x in self.x.items():
            self.model.add_hint(x, key in at)
            if key in at:
                self.model.add_hint(self.start[key], at[key])
                arrives = at[key] + self.problem.costs_of_chunk(key[0])[key[1]]
                self.model.add_hint(self.arrival[key[0], self.problem.dst[key[1]]], arrives)

    def solve(self, effort: Effort, strategy: cpsat.Strategy) -> IntervalResult:
        """Solve the model with CP-SAT.

        Raises:
            KeyboardInterrupt: The user interrupted.
        """
        result = cpsat.solve(self.model, effort, strategy)
        if not result.has_solution:
            return IntervalResult(
                None, result.is_infeasible, optimal=False, effort_units=result.units
            )
        sends = (*self._fixed_sends, *self._selected_sends(result))
        return IntervalResult(
            sends, refuted=False, optimal=result.is_optimal, effort_units=result.units
        )

    def _selected_sends(self, result: cpsat.Result) -> Iterable[ChunkSend]:
        """Return the sends of a solution, without useless ones, which cost nothing in the model."""
        selected = [
            ChunkSend(result.value(self.start[key]), *key)
            for key, x in self.x.items()
            if result.value(x)
        ]
        return prune_sends(self.problem, selected)


def _inverse_permutation(image: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(image)
    for source, target in enumerate(image):
        inverse[target] = source
    return tuple(inverse)
