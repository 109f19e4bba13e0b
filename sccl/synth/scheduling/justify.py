"""Place dependent sends in a given order, each as early or as late as possible."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.synth.limits import MAX_PASSES
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse
from sccl.synth.scheduling.serial import ResourceTimeline


class BusyIntervals:
    """Disjoint intervals in which a resource that serves one send at a time is busy.

    Adjacent intervals are merged. So a dense part of the schedule is skipped in one step, unlike in
    :class:`ResourceTimeline`.
    """

    def __init__(self) -> None:
        self._begin: list[int] = []
        self._end: list[int] = []

    def earliest_fit(self, start: int, busy: int, _weight: int) -> int:
        """Return the first unit, ``start`` or later, from which it is free for ``busy`` units."""
        at = bisect_right(self._end, start)
        while at < len(self._begin) and self._begin[at] < start + busy:
            start = max(start, self._end[at])
            at += 1
        return start

    def reserve(self, start: int, busy: int, _weight: int) -> None:
        """Mark an interval as busy."""
        if not busy:
            return
        end, at = start + busy, bisect_left(self._end, start)
        after = at
        if at < len(self._end) and self._end[at] == start:
            start, after = self._begin[at], at + 1
        if after < len(self._begin) and self._begin[after] == end:
            end, after = self._end[after], after + 1
        self._begin[at:after], self._end[at:after] = [start], [end]


def _empty_timelines(problem: SchedulingProblem) -> list[BusyIntervals | ResourceTimeline]:
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
    def _uses(self) -> list[list[ResourceUse]]:
        return [
            list(
                {
                    h.multicast_group: h for path in paths for h in self.problem.route_uses[path]
                }.values()
            )
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
        held, cost = _empty_timelines(self.problem), self.problem.route_costs
        starts = [0] * len(self.routes)
        for send in order:
            start, before = 0, -1
            for other_send, path in self.predecessors[send]:
                start = max(start, starts[other_send] + cost[path])
            while start != before:
                before = start
                for h in self._uses[send]:
                    start = (
                        held[h.resource].earliest_fit(start + h.offset, h.busy, h.demand) - h.offset
                    )
            for h in self._uses[send]:
                held[h.resource].reserve(start + h.offset, h.busy, h.demand)
            starts[send] = start
        return starts

    def latest_starts(self, order: Iterable[int]) -> list[int]:
        """Return the starts of sends, each as late as possible. The first send starts at 0.

        Args:
            order: The sends, each after its successors.
        """
        held, cost = _empty_timelines(self.problem), self.problem.route_costs
        left = [0] * len(self.routes)  # from the start of a send to the end of the schedule
        for send in order:
            remaining, before = max(cost[path] for path in self.routes[send]), -1
            for other_send, path in self._successors[send]:
                remaining = max(remaining, left[other_send] + cost[path])
            while remaining != before:
                before = remaining
                for h in self._uses[send]:
                    ends = h.offset + h.busy
                    remaining = (
                        held[h.resource].earliest_fit(remaining - ends, h.busy, h.demand) + ends
                    )
            for h in self._uses[send]:
                held[h.resource].reserve(remaining - h.offset - h.busy, h.busy, h.demand)
            left[send] = remaining
        total = max(left, default=0)
        return [total - remaining for remaining in left]


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
