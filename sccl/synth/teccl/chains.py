"""Allreduce as chains of demands: each chunk is reduced on its way to a root, then copied from it.

TE-CCL, section 8: ALLREDUCE consists of several demands, which are stages of one another. Here
every chunk has its own stages: a send waits for arrivals of its chunk and for its links, and never
for other chunks. Between the stages no rank requires the chunk, so any rank may be its root.

The model has two optional intervals per chunk and route. One interval is present if a partial
result is sent over the route to be reduced. The other is present if the result is copied over the
route. Each chunk has one root. Every other rank sends its partial result once, after it has
received all contributions that it reduces, and receives the result once. So the reductions form a
tree into the root, and the copies form a tree out of it: in a cycle each send would wait for
itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sccl.solvers import cpsat
from sccl.solvers.cpsat import IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.limits import INFINITE, MAX_REFINED_SENDS
from sccl.synth.network.transfers import Sends
from sccl.synth.scheduling.intervals_cpsat import IntervalModel, SymmetryAction
from sccl.synth.scheduling.justify import ProjectSchedule
from sccl.synth.scheduling.problem import ChunkSend, SchedulingProblem
from sccl.synth.scheduling.serial import group_multicasts
from sccl.synth.teccl.phase_search import EPOCH_MODELS, PhaseSearch
from sccl.synth.teccl.rerooting import MAX_SENDS


def chain_from_sends(sends: Sends) -> tuple[ChunkSend, ...]:
    """Return sends as a chain. Their starts are in ticks, and only their order is meaningful."""
    columns = (sends.start, sends.chunk, sends.link, sends.reduce)
    return tuple(ChunkSend(*row) for row in zip(*(c.tolist() for c in columns), strict=True))


def tighten_chain(problem: SchedulingProblem, chain: Sequence[ChunkSend]) -> tuple[ChunkSend, ...]:
    """Start each send as early as possible in the given order, then justify both ways.

    A rank sends its partial result once it has received all contributions that it reduces. Other
    ranks copy the result that they received. The root copies the result that it reduced.
    """
    order = sorted(chain, key=lambda s: (s.start, s.chunk, s.route))
    groups = _group_sends(problem, order)
    reduced: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for send, (chunk, routes, reduce) in enumerate(groups):
        for route in routes:
            if reduce:
                reduced[chunk, problem.dst[route]].append((send, route))
            else:
                stored.setdefault((chunk, problem.dst[route]), [(send, route)])
    needs = []
    for chunk, routes, reduce in groups:
        chunk_rank = (chunk, problem.src[routes[0]])
        comes = reduced.get(chunk_rank, [])
        needs.append(comes if reduce else stored.get(chunk_rank, comes))
    waiting = ProjectSchedule(problem, [routes for _, routes, _ in groups], needs)
    starts = waiting.forward_backward(range(len(groups)))
    return tuple(
        ChunkSend(start, chunk, route, reduce)
        for start, (chunk, routes, reduce) in zip(starts, groups, strict=True)
        for route in routes
    )


def _group_sends(
    problem: SchedulingProblem, chain: Sequence[ChunkSend]
) -> list[tuple[int, list[int], bool]]:
    """Return multicasts as (chunk, routes, whether the receivers reduce).

    Reductions are never multicast together with copies, so they count as separate chunks here.
    """
    rows = [replace(s, chunk=s.chunk + problem.chunks * s.reduce) for s in chain]
    return [
        (n % problem.chunks, routes, n >= problem.chunks)
        for _, n, routes in group_multicasts(problem, rows)
    ]


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


@dataclass
class ChainSearch(PhaseSearch):
    """A search for a better allreduce. ``lower_bound`` holds for every allreduce, of any method.

    Attributes:
        problem: Second phase of the allreduce: an allgather on the original machine.
        rival_finish: Completion time of the best schedule of another method, units.
    """

    rival_finish: int = INFINITE

    model_type: ClassVar = ChainModel
    intervals_per_route: ClassVar[int] = 2
    max_intervals: ClassVar[int] = 4000
    min_units: ClassVar[float] = 0.05
    full_model_units: ClassVar[tuple[float, float]] = (1.0, 0.25)
    """Budgets. Without the model, an allreduce of 64 KB on mesh:3x3 takes 36 % longer, and of 1 MB
    on dgx1 3.8 %.
    """

    @property
    def min_chain_time(self) -> int:
        """Return a lower bound on the time of a chain, to the root and from it, in units."""
        far = self.problem.earliest_arrival[: self.problem.ranks]  # rank r holds chunk r
        return int((far.max(axis=0) + far.max(axis=1)).min())

    def overlap_phases(self, strict: tuple[ChunkSend, ...]) -> None:
        """Schedule the sends of consecutive phases again, without a barrier between the phases."""
        if len(strict) <= MAX_REFINED_SENDS:
            self._accept(strict)

    @property
    def has_root_choice(self) -> bool:
        """Return whether to try other roots: there are few sends and no switch copies chunks."""
        few = len(self.sends or ()) <= MAX_SENDS
        return few and not self.problem.is_multicast and self.options.model not in EPOCH_MODELS

    def improve_before(self, units: int, effort: Effort) -> None:
        """Search for chains that finish before another method, unless epochs are required.

        The search stops at once if no chain can finish before the better of ``units`` and the
        present schedule. If the other method is faster, neighborhoods are not searched.

        Args:
            units: Completion time of the other method, units.
            effort: Limits of the search.

        Raises:
            KeyboardInterrupt: The user interrupted. Results so far are kept.
        """
        self.rival_finish = units
        self.is_exhausted = units < self.finish
        if self.options.model not in EPOCH_MODELS and self._cutoff() > max(
            self.min_chain_time, self.target
        ):
            self.improve(effort)

    def _cutoff(self) -> int:
        return min(self.finish, self.rival_finish)

    def _accept(self, sends: tuple[ChunkSend, ...]) -> None:
        super()._accept(tighten_chain(self.problem, sends))

    def _mark_exhausted(self) -> None:
        """Record that no better chains exist. Schedules that are not chains may still be better."""
        self.is_exhausted = True
