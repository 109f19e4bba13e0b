"""Divide time with varying bandwidth into epochs: capacities and delays by epoch.

Source: Liu et al., TE-CCL (SIGCOMM 2024), section 3. In the paper capacities change only between
epochs. Here the capacity of an epoch is the amount of data that pass a link within it, rounded
down. A chunk that shares an epoch with others passes its link within that epoch. Otherwise it uses
the link alone, for as many epochs as its bytes take from the start of the epoch. So no chunk passes
a link in an outage of any length, and a transfer that begins before the outage ends after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sccl.synth.limits import INFINITE
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.time_varying_bandwidth import VaryingRoutes
from sccl.synth.teccl.epochs import (
    Epochs,
    EpochSpan,
    build_epochs,
    count_epochs,
    resource_offsets,
    resource_span,
    switch_links,
)
from sccl.synth.teccl.time_varying_problem import latest_arrival

_Departure = tuple[int | None, tuple[EpochSpan, ...]]
"""The delay of a chunk (None if it never arrives), and its uses of resources."""


@dataclass(frozen=True)
class VaryingEpochs(Epochs):
    """A problem with varying bandwidth whose time is divided into epochs.

    Attributes:
        varying_routes: Additional time of routes, by their start.
        offsets: Start of the epochs of each resource, units.
        single_chunk_links: Links that carry at most one chunk in an epoch.
    """

    varying_routes: VaryingRoutes = field(kw_only=True)
    offsets: dict[int, int] = field(kw_only=True)
    single_chunk_links: frozenset[int] = field(kw_only=True)
    _capacities: dict[tuple[int, int], int] = field(default_factory=dict, kw_only=True)
    _departures: dict[tuple[int, int], _Departure] = field(default_factory=dict, kw_only=True)

    def capacity(self, resource: int, epoch: int) -> int:
        """Return the capacity of a resource in an epoch, at least 1: a single chunk may use it."""
        if resource >= len(self.problem.topology.links):
            return super().capacity(resource, epoch)
        key = resource, self.first_epoch + epoch
        if key not in self._capacities:
            begin = key[1] * self.length + self.offsets.get(resource, 0)
            self._capacities[key] = max(
                1, self.varying_routes.capacity(resource, begin, begin + self.length)
            )
        return self._capacities[key]

    def delay_at(self, path: int, epoch: int) -> int | None:
        """Return the delay of a chunk that starts in an epoch. None: it never arrives."""
        return self._departure(path, epoch)[0]

    def spans_at(self, path: int, epoch: int) -> tuple[EpochSpan, ...]:
        """Return the uses of resources by a chunk that starts in an epoch."""
        return self._departure(path, epoch)[1]

    def lower_bound(self, lower_bound: int) -> int:
        """Return a lower bound on the number of epochs of a schedule.

        Args:
            lower_bound: Lower bound on the completion time at full bandwidth in exact time, units.
        """

        def arrival_epoch(chunk: int, path: int, epoch: int) -> int:
            delay = self.for_chunk(chunk).delay_at(path, epoch)
            return INFINITE if delay is None else epoch + delay

        return max(super().lower_bound(lower_bound), latest_arrival(self.problem, arrival_epoch))

    def _departure(self, path: int, epoch: int) -> _Departure:
        key = path, self.first_epoch + epoch
        if key not in self._departures:
            self._departures[key] = self._compute_departure(path, epoch)
        return self._departures[key]

    def _compute_departure(self, path: int, epoch: int) -> _Departure:
        problem, length = self.problem, self.length
        start = (self.first_epoch + epoch) * length
        cost, delay = problem.route_costs[path], self.delay[path]
        if all(
            self.varying_routes.arrival_delay(path, unit) == 0 for unit in (start, start + length)
        ) and all(
            self.capacity(span.resource, epoch + k) == problem.capacity[span.resource] * length
            for span in self.spans[path]
            for k in range(span.first_epoch, span.last_epoch + 1)
        ):
            return delay, self.spans[path]
        links = len(problem.topology.links)
        pairs = zip(problem.route_uses[path], self.spans[path], strict=True)
        link_spans = [(hop, span) for hop, span in pairs if hop.resource < links]
        lag = self.varying_routes.arrival_delay(path, start)
        if all(
            span.load == hop.busy <= self.capacity(span.resource, epoch + span.first_epoch)
            for hop, span in link_spans
        ):
            latest_start = length - min(hop.busy for hop, _ in link_spans)
            wait = max(lag, latest_start)
            return max(delay, count_epochs(cost + wait, length)), self.spans[path]
        if lag >= INFINITE // 2:
            return None, self.spans[path]
        spans = tuple(
            resource_span(
                hop,
                length,
                self.offsets[hop.resource],
                is_exclusive=hop.resource in self.single_chunk_links,
            )
            for hop in problem.uses_at(0, path, start)  # the same for any chunk of this size
        )
        return max(delay, count_epochs(cost + lag, length)), spans


def build_varying_epochs(problem: SchedulingProblem, length: int, *, ports: bool = False) -> Epochs:
    """Divide the time of a problem into epochs. Its bandwidth may vary.

    Args:
        problem: The problem, with chunks of any sizes.
        length: Length of an epoch, units.
        ports: See :func:`sccl.synth.teccl.epochs.build_epochs`.
    """
    offsets, sizes = resource_offsets(problem), list[Epochs]()
    for sized_problem in problem.problems_by_size():
        steady = build_epochs(sized_problem, length, ports=ports, offsets=offsets)
        varying = (
            VaryingEpochs(
                sized_problem,
                length,
                steady.delay,
                steady.spans,
                steady.distance,
                varying_routes=sized_problem.varying_routes[0],
                offsets=offsets,
                single_chunk_links=switch_links(problem) if ports else frozenset(),
            )
            if problem.varying_routes
            else steady
        )
        sizes.append(varying)
    return replace(sizes[0], problem=problem, sizes=tuple(sizes) if len(sizes) > 1 else ())
