"""Place dependent sends in a given order, each as early or as late as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.synth.limits import MAX_PASSES
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse
from sccl.synth.scheduling.serial import (
    BusyIntervals,
    ResourceTimeline,
    Timeline,
    earliest_common_fit,
    reserve_uses,
)


def _empty_timelines(problem: SchedulingProblem) -> list[Timeline]:
    """Return an empty timeline of each resource. Intervals are for those without parallel uses."""
    min_weights = list(problem.capacity)
    for hops in problem.route_uses:
        for h in hops:
            min_weights[h.resource] = min(min_weights[h.resource], h.demand)
    pairs = zip(min_weights, problem.capacity, strict=True)
    return [
        BusyIntervals() if 2 * weight > capacity else ResourceTimeline(capacity)
        for weight, capacity in pairs
    ]


@dataclass(frozen=True)
class ProjectSchedule:
    """Sends and their predecessors.

    Attributes:
        problem: The scheduling problem.
        routes: Routes of each send. A switch copies the chunk if there are several.
        predecessors: Pairs (send, route) that must arrive before each send starts.
    """

    problem: SchedulingProblem
    routes: Sequence[Sequence[int]]
    predecessors: Sequence[Sequence[tuple[int, int]]]

    def __post_init__(self) -> None:
        assert self.problem.has_uniform_chunks  # justification supports only one size

    @cached_property
    def _uses(self) -> list[Sequence[ResourceUse]]:
        return self._uses_together(self.problem.route_uses)

    @cached_property
    def _reversed_uses(self) -> list[Sequence[ResourceUse]]:
        """Return the uses of each send, relative to its end, in reversed time."""
        return self._uses_together(self.problem.reversed_uses)

    def _uses_together(self, uses: Sequence[Sequence[ResourceUse]]) -> list[Sequence[ResourceUse]]:
        """Return the uses of each send, one for each multicast group."""
        return [
            uses[paths[0]]
            if len(paths) == 1
            else list({h.multicast_group: h for path in paths for h in uses[path]}.values())
            for paths in self.routes
        ]

    @cached_property
    def _successors(self) -> list[list[tuple[int, int]]]:
        """Return, for each send, the pairs (successor, route): the route of this send it needs."""
        waiters: list[list[tuple[int, int]]] = [[] for _ in self.routes]
        for send, needs in enumerate(self.predecessors):
            for before, path in needs:
                waiters[before].append((send, path))
        return waiters

    def finish(self, starts: Sequence[int]) -> int:
        """Return the completion time, in units."""
        cost = self.problem.route_costs
        pairs = zip(starts, self.routes, strict=True)
        return max((start + cost[path] for start, paths in pairs for path in paths), default=0)

    def forward_backward(self, starts: Sequence[int]) -> list[int]:
        """Return the starts of all sends, as early as possible in the order of the given starts.

        Then sends are shifted to the right and to the left again, as long as the completion time
        improves. So sends with slack make way for critical ones (Li and Willis 1992: forward and
        backward scheduling).
        """
        best = self.earliest_starts(_start_order(starts))
        for _ in range(MAX_PASSES):
            again = self.earliest_starts(
                _start_order(self.latest_starts(_finish_order(self, best)))
            )
            if self.finish(again) >= self.finish(best):
                break
            best = again
        return best

    def earliest_starts(self, order: Iterable[int]) -> list[int]:
        """Return the starts of sends, each as early as possible after the earlier ones of an order.

        Args:
            order: The sends, each after its predecessors.
        """
        return self._serial_times(order, self.predecessors, self._uses, [0] * len(self.routes))

    def latest_starts(self, order: Iterable[int]) -> list[int]:
        """Return the starts of sends, each as late as possible. The first send starts at 0.

        Args:
            order: The sends, each after its successors.
        """
        cost = self.problem.route_costs
        durations = [max(cost[path] for path in paths) for paths in self.routes]
        # from the start of a send to the end of the schedule
        left = self._serial_times(order, self._successors, self._reversed_uses, durations)
        total = max(left, default=0)
        return [total - remaining for remaining in left]

    def _serial_times(
        self,
        order: Iterable[int],
        needs: Sequence[Sequence[tuple[int, int]]],
        uses: Sequence[Sequence[ResourceUse]],
        earliest: Sequence[int],
    ) -> list[int]:
        """Return the times of sends, each as early as possible after the earlier ones of an order.

        Args:
            order: The sends, each after those that it needs.
            needs: For each send, pairs (send, route) whose cost must have passed before it.
            uses: Uses of resources by each send.
            earliest: Lower bound on the time of each send.
        """
        held, cost = _empty_timelines(self.problem), self.problem.route_costs
        times = list(earliest)
        for send in order:
            time = times[send]
            for needed, path in needs[send]:
                time = max(time, times[needed] + cost[path])
            times[send] = time = earliest_common_fit(held, uses[send], time)
            reserve_uses(held, uses[send], time)
        return times


def _start_order(starts: Sequence[int]) -> list[int]:
    return sorted(range(len(starts)), key=lambda send: (starts[send], send))


def _finish_order(waiting: ProjectSchedule, starts: Sequence[int]) -> list[int]:
    """Return the sends by their first arrival, the latest first: each before its predecessors."""
    cost = waiting.problem.route_costs
    comes = [
        start + min(cost[w] for w in paths)
        for start, paths in zip(starts, waiting.routes, strict=True)
    ]
    return sorted(range(len(starts)), key=lambda send: (-comes[send], -starts[send], -send))
