"""Model allreduce chains in continuous time, with two optional intervals per chunk and route.

One interval is present if a partial result is sent over the route to be reduced. The other is
present if the result is copied over the route. Each chunk has one root. Every other rank sends its
partial result once, after it has received all contributions that it reduces, and receives the
result once. So the reductions form a tree into the root, and the copies form a tree out of it: in a
cycle each send would wait for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sccl.solvers import cpsat
from sccl.solvers.cpsat import IntervalVar, IntVar
from sccl.synth.scheduling.intervals_cpsat import IntervalModel, SymmetryAction
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem


class ChainModel(IntervalModel):
    """Interval model of allreduce. The base class models sends without reductions, here copies."""

    def __init__(
        self,
        problem: SchedulingProblem,
        action: SymmetryAction,
        horizon: int,
        sends: Sequence[ChunkSend] = (),
        free: Collection[int] | None = None,
    ) -> None:
        """Build the model without an objective.

        Args:
            problem: Allgather of the chunks. The holder of a chunk need not become its root.
            action: Symmetries of the schedule.
            horizon: Latest arrival of any chunk, units.
            sends: Sends of representative chunks. Those of free chunks are hints, the others are
                fixed.
            free: Representative chunks to schedule. None: all.
        """
        self._reduce_used: dict[tuple[int, int], IntVar] = {}
        self._reduce_start: dict[tuple[int, int], IntVar] = {}
        self._is_root: dict[tuple[int, int], IntVar] = {}
        far = problem.earliest_arrival[: problem.ranks]  # rank r holds chunk r
        self._collect_time = far.max(axis=0).tolist()
        self._spread_time = far.max(axis=1).tolist()
        super().__init__(problem, action, horizon, sends, free)

    def _wanted_arrivals(self) -> list[tuple[int, IntVar]]:
        """Return the weight and time of each arrival of a result. Every rank wants all results."""
        return [(0, at) for at in self.arrival.values()]

    def _add_chunk(self, chunk: int) -> None:
        """Add a chunk: its root, the routes of its partial results and copies, and their starts.

        Two bounds limit the arrivals. A rank cannot have the result before the farthest
        contribution can reach it. After a partial result is complete at a rank, the result needs at
        least the time from this rank to the farthest one.
        """
        problem, model, horizon = self.problem, self.model, self.horizon
        complete: dict[int, IntVar] = {}
        for rank in range(problem.ranks):
            before, after = self._collect_time[rank], self._spread_time[rank]
            root = self._is_root[chunk, rank] = model.new_bool_var("")
            complete[rank] = model.new_int_var(0, max(0, horizon - after), "")
            have = model.new_int_var(min(before, horizon), horizon, "")
            self.arrival[chunk, rank] = have
            if before + after > horizon:
                model.add(root == 0)
            model.add(have >= complete[rank])
        model.add_exactly_one([self._is_root[chunk, rank] for rank in range(problem.ranks)])
        for route in range(len(problem.src)):
            self._add_reduce(chunk, route, complete)
            self._add_copy(chunk, route)
        for rank in range(problem.ranks):
            out = [self._reduce_used.get((chunk, route)) for route in problem.routes_from[rank]]
            into = [self.x.get((chunk, route)) for route in problem.routes_to[rank]]
            for variables in (out, into):
                model.add_exactly_one(
                    [self._is_root[chunk, rank], *(x for x in variables if x is not None)]
                )

    def _add_reduce(self, chunk: int, route: int, complete: dict[int, IntVar]) -> None:
        problem, model = self.problem, self.model
        src, dst, cost = problem.src[route], problem.dst[route], problem.route_costs[route]
        latest = self.horizon - self._spread_time[dst] - cost
        if latest < 0:
            return
        x = self._reduce_used[chunk, route] = model.new_bool_var("")
        start = self._reduce_start[chunk, route] = model.new_int_var(0, latest, "")
        model.add(start >= complete[src]).only_enforce_if(x)
        model.add(complete[dst] >= start + cost).only_enforce_if(x)

    def _add_copy(self, chunk: int, route: int) -> None:
        problem, model = self.problem, self.model
        src, dst, cost = problem.src[route], problem.dst[route], problem.route_costs[route]
        soonest = self._collect_time[src]
        if soonest + cost > self.horizon:
            return
        x = self.x[chunk, route] = model.new_bool_var("")
        start = self.start[chunk, route] = model.new_int_var(soonest, self.horizon - cost, "")
        model.add(start >= self.arrival[chunk, src]).only_enforce_if(x)
        model.add(self.arrival[chunk, dst] >= start + cost).only_enforce_if(x)

    def _resource_intervals(self) -> dict[int, list[tuple[IntervalVar, int]]]:
        """Return the uses of each resource by copies and by reductions."""
        held, problem = super()._resource_intervals(), self.problem
        for (chunk, route), x in self._reduce_used.items():
            start = self._reduce_start[chunk, route]
            intervals = [
                self.model.new_optional_fixed_size_interval_var(start + h.offset, h.busy, x, "")
                for h in problem.route_uses[route]
            ]
            for route_images in self.action.routes:
                for interval, hop in zip(
                    intervals, problem.route_uses[route_images[route]], strict=True
                ):
                    if hop.resource in held:
                        held[hop.resource].append((interval, hop.demand))
        return held

    def _add_hints(self, sends: Sequence[ChunkSend]) -> None:
        if not sends:
            return
        copied = {(s.chunk, s.route): s.start for s in sends if not s.reduce}
        reduced = {(s.chunk, s.route): s.start for s in sends if s.reduce}
        problem, model = self.problem, self.model
        complete = dict.fromkeys(self._is_root, 0)
        for (chunk, route), start in reduced.items():
            target = (chunk, problem.dst[route])
            complete[target] = max(complete[target], start + problem.route_costs[route])
        have = {
            (c, problem.dst[route]): at + problem.route_costs[route]
            for (c, route), at in copied.items()
        }
        for chunk_rank, root in self._is_root.items():
            model.add_hint(root, chunk_rank not in have)
            model.add_hint(self.arrival[chunk_rank], have.get(chunk_rank, complete[chunk_rank]))
        for at, xs, starts in (
            (copied, self.x, self.start),
            (reduced, self._reduce_used, self._reduce_start),
        ):
            for key, x in xs.items():
                model.add_hint(x, key in at)
                if key in at:
                    model.add_hint(starts[key], at[key])

    def _selected_sends(self, result: cpsat.Result) -> list[ChunkSend]:
        return [
            ChunkSend(result.value(starts[key]), *key, reduce)
            for xs, starts, reduce in (
                (self._reduce_used, self._reduce_start, True),
                (self.x, self.start, False),
            )
            for key, x in xs.items()
            if result.value(x)
        ]
