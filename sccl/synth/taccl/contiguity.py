"""Step 3, contiguity: which neighbours in the order of a link go together, in exact times.

TACCL (NSDI 2023), appendix B.3, equations 16 to 21: chunks that go together start together, take
one alpha and the sum of the betas, and arrive together. Others go one after the other, in the order
of step 2. There a variable stands for each pair of chunks on a link. Here one for each chunk but
the first states whether it goes with the one before it, and a number counts them: as many variables
as chunks, and no constant larger than the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence

from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse
from sccl.synth.taccl.batches import Batch, BatchCosts

MAX_CHUNK_ROUTES = 8_000
"""Chunks on ways that a model is made of."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_ChunkRoute = tuple[int, int]


def optimize_contiguity(
    problem: SchedulingProblem, batches: Sequence[Batch], lower_bound: int, effort: Effort
) -> tuple[tuple[Batch, ...], float]:
    """Return chunks in the order that they have on their ways, in batches where that is faster.

    Args:
        batches: a schedule: its order, and the start of the model.
        lower_bound: lower bound on its time, units.

    Returns:
        The schedule, which is the given one if no better one was found, and the effort spent.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    if sum(len(b.chunks) for b in batches) > MAX_CHUNK_ROUTES:
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
        """Add chunks in the order of their ways, and a schedule to begin from."""
        model = self.model
        for batch in sorted(batches, key=lambda b: (b.start, b.route)):
            arrives = self.costs.arrival(batch)
            for place, chunk in enumerate(batch.chunks):
                key = (chunk, batch.route)
                self.order.setdefault(batch.route, []).append(chunk)
                self.start[key] = model.new_int_var(0, self.horizon, "")
                self.arrival[key] = model.new_int_var(0, self.horizon, "")
                self.joins_previous[key] = model.new_bool_var("")
                model.add_hint(self.start[key], batch.start)
                model.add_hint(self.arrival[key], arrives)
                model.add_hint(self.joins_previous[key], place > 0)

    def _add_route_order(self, path: int, chunks: list[int]) -> None:
        """Let chunks of a way go one after the other, or together."""
        model, single_cost = self.model, self.costs.cost(path, 1)
        joins = self.costs.can_batch[path]
        more = self.costs.extra_units(path) if joins else 0
        busy = max(hop.busy for hop in self.problem.route_uses[path])
        for place, chunk in enumerate(chunks):
            key = (chunk, path)
            merged = self.joins_previous[key]
            # of those that it goes with, how many are before it
            many = self.num_before[key] = model.new_int_var(0, place if joins else 0, "")
            if not place or not joins:
                model.add(merged == 0)
            model.add(many == 0).only_enforce_if(~merged)
            if place:
                before = (chunks[place - 1], path)
                model.add(many == self.num_before[before] + 1).only_enforce_if(merged)
                model.add(self.start[key] == self.start[before]).only_enforce_if(merged)
                model.add(self.arrival[key] == self.arrival[before]).only_enforce_if(merged)
                free = self.start[before] + busy + more * self.num_before[before]
                model.add(self.start[key] >= free).only_enforce_if(~merged)
            last = self.is_last[key] = model.new_bool_var("")  # of those that go together
            if place + 1 < len(chunks):
                model.add(last == 1 - self.joins_previous[chunks[place + 1], path])
            else:
                model.add(last == 1)
            long = self.start[key] + single_cost + more * many
            model.add(self.arrival[key] == long).only_enforce_if(last)

    def _add_causality(self) -> None:
        """Let a chunk leave a rank once it has come there."""
        problem = self.problem
        comes = {
            (chunk, problem.dst[path]): self.arrival[chunk, path] for chunk, path in self.start
        }
        for (chunk, path), start in self.start.items():
            if (chunk, problem.src[path]) in comes:
                self.model.add(start >= comes[chunk, problem.src[path]])

    def _add_resources(self) -> None:
        """Add the use of resources shared by several ways: the last of a batch holds them."""
        problem, model, rows = (
            self.problem,
            self.model,
            dict[int, list[tuple[ResourceUse, _ChunkRoute]]](),
        )
        for key in self.start:
            for hop in problem.route_uses[key[1]]:
                rows.setdefault(hop.resource, []).append((hop, key))
        for thing, uses in sorted(rows.items()):
            if len({path for _, (_, path) in uses}) == 1:
                continue  # ordered along the way
            held = [self._use_interval(hop, key) for hop, key in uses]
            if problem.capacity[thing] == 1:
                model.add_no_overlap(held)
            else:
                model.add_cumulative(held, [hop.demand for hop, _ in uses], problem.capacity[thing])

    def _use_interval(self, hop: ResourceUse, key: _ChunkRoute) -> IntervalVar:
        """Return when a transfer holds something."""
        model, begin = self.model, self.start[key] + hop.offset
        if not self.costs.can_batch[key[1]]:
            return model.new_fixed_size_interval_var(begin, hop.busy, "")
        more = self.costs.extra_units(key[1])
        size = model.new_int_var(hop.busy, hop.busy + more * len(self.order[key[1]]), "")
        model.add(size == hop.busy + more * self.num_before[key])
        end = model.new_int_var(0, 2 * self.horizon, "")
        model.add(end == begin + size)
        return model.new_optional_interval_var(begin, size, end, self.is_last[key], "")

    def read_batches(self, result: cpsat.Result) -> tuple[Batch, ...]:
        batches = []
        for path, chunks in self.order.items():
            together: list[int] = []
            for chunk in chunks:
                if together and not result.value(self.joins_previous[chunk, path]):
                    batches.append(self._read_batch(result, path, together))
                    together = []
                together.append(chunk)
            batches.append(self._read_batch(result, path, together))
        return tuple(sorted(batches, key=lambda b: (b.start, b.route, b.chunks)))

    def _read_batch(self, result: cpsat.Result, path: int, chunks: list[int]) -> Batch:
        return Batch(result.value(self.start[chunks[0], path]), path, tuple(sorted(chunks)))
