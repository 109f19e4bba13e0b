"""Step 3, contiguity and exact scheduling: merge consecutive chunks of a link into one transfer.

Source: Shah et al., TACCL (NSDI 2023), section 5.1 and appendix B.3, equations (16) to (21). Merged
chunks start together, take one alpha and the sum of the betas, and arrive together. The other
transfers of a link follow one another in the order of step 2.

The variables differ from the paper's, which has ``is_together`` for each pair of chunks of a link.
Only consecutive chunks can be merged, so one variable for each chunk suffices: whether it joins the
previous chunk (``joins_previous``). A second one is its index in its batch (``num_before``). So the
model has as many variables as chunks, and no constant larger than the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence

from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.limits import MAX_INTERVALS
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse
from sccl.synth.taccl.batches import Batch, BatchCosts

STRATEGY = cpsat.Strategy(conflicts=4000)

_ChunkRoute = tuple[int, int]
"""A chunk and a route."""


def optimize_contiguity(
    problem: SchedulingProblem, batches: Sequence[Batch], lower_bound: int, effort: Effort
) -> tuple[tuple[Batch, ...], float]:
    """Merge chunks that are consecutive on a route into batches, and assign exact times.

    Args:
        problem: The problem.
        batches: A schedule. The model keeps its order on each route, and starts from it.
        lower_bound: Lower bound on the completion time, units.
        effort: Limits of the solver.

    Returns:
        The schedule, which is ``batches`` if the solver has no solution, and the effort spent.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    if sum(len(b.chunks) for b in batches) > MAX_INTERVALS:
        return tuple(batches), 0.0
    model = _ContiguityModel(problem, batches, lower_bound)
    result = cpsat.solve(model.model, effort, STRATEGY)
    if not result.has_solution:
        return tuple(batches), result.units
    return model.read_batches(result), result.units


class _ContiguityModel:
    def __init__(
        self, problem: SchedulingProblem, batches: Sequence[Batch], lower_bound: int
    ) -> None:
        self.problem, self.costs, self.model = problem, BatchCosts(problem), CpModel()
        self.horizon = self.costs.finish(batches)
        self.start: dict[_ChunkRoute, IntVar] = {}
        self.arrival: dict[_ChunkRoute, IntVar] = {}
        self.joins_previous: dict[_ChunkRoute, IntVar] = {}
        self.num_before: dict[_ChunkRoute, IntVar] = {}
        self.is_last: dict[_ChunkRoute, IntVar] = {}
        self.order: dict[int, list[int]] = {}
        self._add_variables(batches)
        for path, chunks in sorted(self.order.items()):
            self._add_route_order(path, chunks)
        self._add_causality()
        self._add_resources()
        finish = self.model.new_int_var(lower_bound, self.horizon, "")
        self.model.add_max_equality(finish, list(self.arrival.values()))
        self.model.minimize(finish)

    def _add_variables(self, batches: Sequence[Batch]) -> None:
        """Add the variables of each chunk on its routes, with the schedule as a hint."""
        model = self.model
        for batch in sorted(batches, key=lambda b: (b.start, b.route)):
            arrival = self.costs.arrival(batch)
            for index, chunk in enumerate(batch.chunks):
                key = (chunk, batch.route)
                self.order.setdefault(batch.route, []).append(chunk)
                self.start[key] = model.new_int_var(0, self.horizon, "")
                self.arrival[key] = model.new_int_var(0, self.horizon, "")
                self.joins_previous[key] = model.new_bool_var("")
                model.add_hint(self.start[key], batch.start)
                model.add_hint(self.arrival[key], arrival)
                model.add_hint(self.joins_previous[key], index > 0)

    def _add_route_order(self, path: int, chunks: list[int]) -> None:
        """Require that consecutive chunks of a route are merged or follow one another."""
        model, single_cost = self.model, self.costs.cost(path, 1)
        can_batch = self.costs.can_batch[path]
        extra = self.costs.extra_units(path) if can_batch else 0  # beta of each further chunk
        busy = max(hop.busy for hop in self.problem.route_uses[path])
        for index, chunk in enumerate(chunks):
            key = (chunk, path)
            joins_previous = self.joins_previous[key]
            num_before = model.new_int_var(0, index if can_batch else 0, "")
            self.num_before[key] = num_before
            if not index or not can_batch:
                model.add(joins_previous == 0)
            model.add(num_before == 0).only_enforce_if(~joins_previous)
            if index:
                previous = (chunks[index - 1], path)
                counts_previous = num_before == self.num_before[previous] + 1
                model.add(counts_previous).only_enforce_if(joins_previous)
                # Equation (16): merged chunks are sent at the same time.
                same_start = self.start[key] == self.start[previous]
                model.add(same_start).only_enforce_if(joins_previous)
                same_arrival = self.arrival[key] == self.arrival[previous]
                model.add(same_arrival).only_enforce_if(joins_previous)
                # Equation (19): otherwise the link must be free again.
                link_free = self.start[previous] + busy + extra * self.num_before[previous]
                model.add(self.start[key] >= link_free).only_enforce_if(~joins_previous)
            is_last = self.is_last[key] = model.new_bool_var("")  # in its batch
            if index + 1 < len(chunks):
                model.add(is_last == 1 - self.joins_previous[chunks[index + 1], path])
            else:
                model.add(is_last == 1)
            # Equations (17) and (18): the arrival after one alpha and all betas of the batch.
            batch_arrival = self.start[key] + single_cost + extra * num_before
            model.add(self.arrival[key] == batch_arrival).only_enforce_if(is_last)

    def _add_causality(self) -> None:
        """Require that a rank sends a chunk only after its arrival (equation (4))."""
        problem = self.problem
        arrival_at = {
            (chunk, problem.dst[path]): self.arrival[chunk, path] for chunk, path in self.start
        }
        for (chunk, path), start in self.start.items():
            if (chunk, problem.src[path]) in arrival_at:
                self.model.add(start >= arrival_at[chunk, problem.src[path]])

    def _add_resources(self) -> None:
        """Add the capacity of resources that several routes share (equations (20) and (21)).

        In the paper step 2 determines the order of the chunks at each switch. Here the solver
        chooses the order between routes. The last chunk of a batch holds the resource for all of
        it.
        """
        problem, model = self.problem, self.model
        uses_by_resource: dict[int, list[tuple[ResourceUse, _ChunkRoute]]] = {}
        for key in self.start:
            for hop in problem.route_uses[key[1]]:
                uses_by_resource.setdefault(hop.resource, []).append((hop, key))
        for resource, uses in sorted(uses_by_resource.items()):
            if len({path for _, (_, path) in uses}) == 1:
                continue  # equation (19) orders the chunks of one route
            intervals = [self._use_interval(hop, key) for hop, key in uses]
            capacity = problem.capacity[resource]
            if capacity == 1:
                model.add_no_overlap(intervals)
            else:
                model.add_cumulative(intervals, [hop.demand for hop, _ in uses], capacity)

    def _use_interval(self, hop: ResourceUse, key: _ChunkRoute) -> IntervalVar:
        """Return the interval in which a transfer holds a resource."""
        model, begin = self.model, self.start[key] + hop.offset
        if not self.costs.can_batch[key[1]]:
            return model.new_fixed_size_interval_var(begin, hop.busy, "")
        extra = self.costs.extra_units(key[1])
        size = model.new_int_var(hop.busy, hop.busy + extra * len(self.order[key[1]]), "")
        model.add(size == hop.busy + extra * self.num_before[key])
        end = model.new_int_var(0, 2 * self.horizon, "")
        model.add(end == begin + size)
        return model.new_optional_interval_var(begin, size, end, self.is_last[key], "")

    def read_batches(self, result: cpsat.Result) -> tuple[Batch, ...]:
        batches = []
        for path, chunks in self.order.items():
            batch: list[int] = []
            for chunk in chunks:
                if batch and not result.value(self.joins_previous[chunk, path]):
                    batches.append(self._read_batch(result, path, batch))
                    batch = []
                batch.append(chunk)
            batches.append(self._read_batch(result, path, batch))
        return tuple(sorted(batches, key=lambda b: (b.start, b.route, b.chunks)))

    def _read_batch(self, result: cpsat.Result, path: int, chunks: list[int]) -> Batch:
        return Batch(result.value(self.start[chunks[0], path]), path, tuple(sorted(chunks)))
