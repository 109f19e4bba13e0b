"""Divide time into epochs: delays of chunks, and their use of resources by epoch.

Source: Liu et al., TE-CCL (SIGCOMM 2024), sections 3.1 and 5, appendices C and F.

A chunk that is sent in an epoch starts within it, at any time. It can be forwarded in the first
epoch that begins no earlier than its latest possible arrival. ``Epochs.delay`` is the number of
epochs between the two (the paper's delta, rounded up, plus 1). A transfer that takes longer than an
epoch uses its link in several epochs (appendix F). Otherwise the capacity of a link is the number
of chunks that pass it one after the other in an epoch.

A remainder of less than a tenth of an epoch does not count, as in the paper's code. Otherwise a
short alpha would cost a whole epoch. So the times of a schedule in epochs are not exact, and
:mod:`sccl.synth.scheduling.serial` assigns exact times to its sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

from sccl.core.arrays import IntArray
from sccl.core.formatting import format_count
from sccl.errors import ParameterError
from sccl.synth.limits import SLACK_DIVISOR
from sccl.synth.network.shortest_paths import all_pairs
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse

AUTO, FASTEST, SLOWEST = "auto", "fastest", "slowest"

MAX_EPOCHS = 4096
"""Epochs of a model. More are refused, because the variables of a model grow with them."""


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """The use of a resource by a chunk on a route.

    Attributes:
        resource: A link, a budget, or a switch port.
        first_epoch: First epoch of use, relative to the epoch of the send.
        last_epoch: Last epoch of use, relative to the epoch of the send.
        load: Used part of the resource's capacity in each of these epochs.
        multicast_group: Routes of one group use the resource once for a chunk that starts on them
            in the same epoch, because a switch copies it.
    """

    resource: int
    first_epoch: int
    last_epoch: int
    load: int
    multicast_group: int


@dataclass(frozen=True)
class Epochs:
    """A problem whose time is divided into epochs.

    Attributes:
        problem: The problem.
        length: Length of an epoch, units.
        delay: Number of epochs between a send and the first epoch in which the chunk can be
            forwarded, shape (routes,).
        spans: Resource uses of each route, hop by hop.
        distance: Fewest epochs of a path without contention, shape (ranks, ranks), by source and
            destination.
        first_epoch: Number of epochs before epoch 0 of the model, in earlier rounds of A*.
        sizes: Epochs for each chunk size, if there are several. The other attributes are those of
            the smallest size.
    """

    problem: SchedulingProblem
    length: int
    delay: tuple[int, ...]
    spans: tuple[tuple[EpochSpan, ...], ...]
    distance: IntArray
    first_epoch: int = 0
    sizes: tuple[Epochs, ...] = ()

    def for_chunk(self, chunk: int) -> Epochs:
        """Return the epochs for the size of a chunk."""
        if not self.sizes:
            return self
        size_epochs = self.sizes[self.problem.size[chunk]]
        return (
            size_epochs
            if size_epochs.first_epoch == self.first_epoch
            else replace(size_epochs, first_epoch=self.first_epoch)
        )

    @property
    def max_delay(self) -> int:
        """Return the longest delay of all routes and sizes."""
        return max(max(size_epochs.delay) for size_epochs in self.sizes or (self,))

    @property
    def length_us(self) -> float:
        """Return the length of an epoch in microseconds."""
        return self.problem.to_us(self.length)

    def capacity(self, resource: int, epoch: int) -> int:  # noqa: ARG002 - for varying bandwidth
        """Return the capacity of a resource in an epoch."""
        return self.problem.capacity[resource] * self.length

    def delay_at(self, route: int, epoch: int) -> int | None:  # noqa: ARG002 - as above
        """Return the delay of a chunk that starts in an epoch. None: it never arrives."""
        return self.delay[route]

    def spans_at(self, route: int, epoch: int) -> tuple[EpochSpan, ...]:  # noqa: ARG002 - as above
        """Return the uses of resources by a chunk that starts in an epoch."""
        return self.spans[route]

    def earliest(self, chunk: int) -> list[int]:
        """Return the first epoch in which a chunk can be at each rank."""
        return [
            int(k)
            for k in self.for_chunk(chunk).distance[sorted(self.problem.holders[chunk])].min(axis=0)
        ]

    @property
    def min_epochs(self) -> int:
        """Return a lower bound on the number of epochs: the latest of the earliest arrivals."""
        problem = self.problem
        needed = [self.earliest(c)[r] for c in range(problem.chunks) for r in problem.wanted[c]]
        return max(needed, default=0)

    def lower_bound(self, lower_bound: int) -> int:
        """Return a lower bound on the number of epochs of a schedule.

        Remainders do not count (see the module), so a schedule may need fewer epochs than its exact
        time fills. With epochs of ``_effective_length`` there are no remainders: a schedule of n
        epochs can be executed in n * _effective_length units. So n is at least the bound on exact
        time divided by that length.

        Args:
            lower_bound: Lower bound on the completion time in exact time, units.
        """
        return max(self.min_epochs, -(-lower_bound // self._effective_length))

    @cached_property
    def _effective_length(self) -> int:
        """Return the shortest epoch length at which no delay or span has a remainder."""
        effective_length = self.length
        for size_epochs in self.sizes or (self,):
            rows = zip(
                size_epochs.problem.route_costs,
                size_epochs.problem.route_uses,
                size_epochs.spans,
                size_epochs.delay,
                strict=True,
            )
            for cost, hops, spans, delay in rows:
                wait = _max_wait(hops, spans, self.length)
                if wait and self.sizes:  # behind chunks of another size
                    wait = max(self.length - hop.busy for hop in hops)
                effective_length = max(effective_length, -(-(cost + wait) // delay))
                for hop, span in zip(hops, spans, strict=True):
                    span_epochs = span.last_epoch - span.first_epoch + 1
                    effective_length = max(effective_length, -(-hop.busy // span_epochs))
        return effective_length


def epoch_length(problem: SchedulingProblem, epoch: str, multiplier: int) -> int:
    """Return the length of an epoch in units, rounded up.

    Args:
        problem: The problem.
        epoch: See :func:`epoch_length_us`.
        multiplier: See :func:`epoch_length_us`.

    Raises:
        ParameterError: See :func:`epoch_length_us`.
    """
    return ceil(epoch_length_us(problem, epoch, multiplier) / _unit_us(problem))


def epoch_length_us(problem: SchedulingProblem, epoch: str, multiplier: int) -> Fraction:
    """Return the length of an epoch in microseconds.

    Args:
        problem: The problem.
        epoch: "fastest" or "slowest": time of a chunk of the largest size on the fastest or the
            slowest link. "auto": the same as "fastest". Otherwise a number of microseconds.
        multiplier: Factor of that time (the paper's EM).

    Raises:
        ParameterError: ``epoch`` is none of these, or no chunk passes a link within
            :data:`MAX_EPOCHS` epochs.
    """
    links = len(problem.topology.links)
    link_uses = (hop for hops in problem.uses[-1] for hop in hops if hop.resource < links)
    busy = [hop.busy for hop in link_uses if hop.busy]
    unit_us, fastest = _unit_us(problem), min(busy, default=1)
    if epoch in {AUTO, FASTEST, SLOWEST}:
        return unit_us * multiplier * (max(busy, default=1) if epoch == SLOWEST else fastest)
    try:
        length = Fraction(epoch) * multiplier
    except (ValueError, ZeroDivisionError):
        length = Fraction(0)
    if length <= 0:
        raise ParameterError(
            f"epoch is {epoch!r}, expected {FASTEST!r}, {SLOWEST!r} or microseconds above 0"
        )
    if fastest * unit_us > MAX_EPOCHS * length:
        raise ParameterError(
            f"epoch is {epoch} us: no link of topology {problem.topology.name!r} passes a chunk in "
            f"{format_count(MAX_EPOCHS, 'epoch')}, the most that are modeled; the fastest takes "
            f"{float(fastest * unit_us):g} us: give that, or 'fastest'"
        )
    return length


def _unit_us(problem: SchedulingProblem) -> Fraction:
    return Fraction(problem.unit * problem.clock.tick_ps, 10**6)


def build_epochs(
    problem: SchedulingProblem,
    length: int,
    *,
    ports: bool = False,
    offsets: dict[int, int] | None = None,
) -> Epochs:
    """Divide the time of a problem with chunks of one size into epochs.

    Args:
        problem: The problem.
        length: Length of an epoch, units.
        ports: Whether a link to or from a switch carries at most one chunk in an epoch (the limit
            on hyper-edges, appendix C).
        offsets: Start of the epochs of each resource, units (see :func:`resource_offsets`). None:
            those of this problem.
    """
    offsets = resource_offsets(problem) if offsets is None else offsets
    exclusive_links = switch_links(problem) if ports else frozenset()
    spans = tuple(
        tuple(
            resource_span(
                hop, length, offsets[hop.resource], is_exclusive=hop.resource in exclusive_links
            )
            for hop in hops
        )
        for hops in problem.route_uses
    )
    delay = tuple(
        count_epochs(cost + _max_wait(hops, route_spans, length), length)
        for cost, hops, route_spans in zip(
            problem.route_costs, problem.route_uses, spans, strict=True
        )
    )
    distance = all_pairs(problem.ranks, problem.src, problem.dst, delay)  # appendix D
    return Epochs(problem, length, delay, spans, distance)


def switch_links(problem: SchedulingProblem) -> frozenset[int]:
    """Return the links to and from switches."""
    links = enumerate(problem.topology.links)
    return frozenset(i for i, link in links if max(link.edge) >= problem.ranks)


def resource_offsets(problem: SchedulingProblem) -> dict[int, int]:
    """Return, for each resource, the smallest offset of its use within a route, in units.

    The epochs of the resource begin that much later. So the use of a later hop falls into as few
    epochs as the use of the first one.
    """
    offsets: dict[int, int] = {}
    for hop in (hop for uses in problem.uses for hops in uses for hop in hops):
        offsets[hop.resource] = min(hop.offset, offsets.get(hop.resource, hop.offset))
    return offsets


def count_epochs(units: int, length: int) -> int:
    """Return the number of epochs of a time, at least 1. A small remainder does not count."""
    return max(1, -(-(units - length // SLACK_DIVISOR) // length))


def resource_span(hop: ResourceUse, length: int, offset: int, *, is_exclusive: bool) -> EpochSpan:
    """Return the epochs in which a transfer uses a resource (appendix F), and the load.

    Args:
        hop: The use in exact time.
        length: Length of an epoch, units.
        offset: Start of the resource's epochs, units.
        is_exclusive: Whether the resource carries at most one chunk in an epoch.
    """
    first, within = divmod(hop.offset - offset, length)
    last = first + count_epochs(within + hop.busy, length) - 1
    is_whole = is_exclusive or 2 * hop.busy > length  # no second chunk fits
    return EpochSpan(
        hop.resource,
        first,
        last,
        hop.demand * (length if is_whole else hop.busy),
        hop.multicast_group,
    )


def _max_wait(hops: tuple[ResourceUse, ...], spans: tuple[EpochSpan, ...], length: int) -> int:
    """Return the longest wait of a chunk for other chunks of its epoch, units."""
    if any(span.load >= hop.demand * length for hop, span in zip(hops, spans, strict=True)):
        return 0
    return max((length // hop.busy - 1) * hop.busy for hop in hops if hop.busy)
