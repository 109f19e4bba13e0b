"""Time in epochs: the delay of a chunk, and its use of resources by epoch (TE-CCL, section 3).

A chunk that is sent in an epoch starts within it. It may be forwarded from the first epoch that
begins no earlier than its arrival, wherever in the epoch it started. If a chunk takes a link longer
than an epoch, it uses the link for several epochs (appendix F). Otherwise a link carries in an
epoch as many chunks as pass it one after the other. Less than a tenth of an additional epoch is not
counted, as in the paper's code: a short alpha would otherwise cost a long epoch. So schedules are
placed again in exact time (:mod:`sccl.synth.scheduling.serial`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.formatting import format_count
from sccl.errors import ParameterError
from sccl.synth.network.shortest_paths import UNREACHABLE
from sccl.synth.scheduling.problem import SchedulingProblem
from sccl.synth.scheduling.resource_uses import ResourceUse

AUTO, FASTEST, SLOWEST = "auto", "fastest", "slowest"

_TOLERANCE_DIVISOR = 10
"""The part of an epoch that is let go is one of so many."""

MAX_EPOCHS = 4096
"""Epochs of a horizon."""


@dataclass(frozen=True, slots=True)
class EpochSpan:
    """The use of a resource by a chunk on a way: the epochs, and the amount.

    Attributes:
        first_epoch: first epoch, relative to the start.
        last_epoch: last epoch, relative to the start, inclusive.
        load: amount in each of these, out of the resource's capacity in an epoch.
        multicast_group: ways with one stem use it once for a chunk that starts on them together.
    """

    resource: int
    first_epoch: int
    last_epoch: int
    load: int
    multicast_group: int


@dataclass(frozen=True)
class Epochs:
    """A problem's epochs.

    Attributes:
        length: units.
        delay: by way: epochs from that of the send to that from which the chunk is there.
        spans: by way.
        distance: epochs from each rank to each other, without conflicts.
        first_epoch: number of epochs before the first one considered.
        sizes: for chunks of several sizes, the epochs of each. Delays here are those of the
            smallest.
    """

    problem: SchedulingProblem
    length: int
    delay: tuple[int, ...]
    spans: tuple[tuple[EpochSpan, ...], ...]
    distance: IntArray
    first_epoch: int = 0
    sizes: tuple[Epochs, ...] = ()

    def for_chunk(self, chunk: int) -> Epochs:
        """Return these as a chunk has them, by its size."""
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
        """Return the longest delay of all."""
        return max(max(size_epochs.delay) for size_epochs in self.sizes or (self,))

    @property
    def length_us(self) -> float:
        """Return how long one is, microseconds."""
        return self.length * self.problem.unit * self.problem.clock.tick_ps / 10**6

    def capacity(self, thing: int, epoch: int) -> int:  # noqa: ARG002 - others vary
        """Return the capacity of a resource in an epoch."""
        return self.problem.capacity[thing] * self.length

    def delay_at(self, route: int, epoch: int) -> int | None:  # noqa: ARG002 - others vary
        """Return the delay of a chunk that sets out in an epoch. None: it never arrives."""
        return self.delay[route]

    def spans_at(self, route: int, epoch: int) -> tuple[EpochSpan, ...]:  # noqa: ARG002 - others vary
        """Return the uses of resources by a chunk that starts in an epoch."""
        return self.spans[route]

    def earliest(self, chunk: int) -> list[int]:
        """Return of each rank the first epoch from which a chunk can be there."""
        return [
            int(k)
            for k in self.for_chunk(chunk).distance[sorted(self.problem.holders[chunk])].min(axis=0)
        ]

    @property
    def min_epochs(self) -> int:
        """Return the fewest epochs after which all can be where it is wanted."""
        problem = self.problem
        needed = [self.earliest(c)[r] for c in range(problem.chunks) for r in problem.wanted[c]]
        return max(needed, default=0)

    def lower_bound(self, lower_bound: int) -> int:
        """Return a number of epochs that no schedule takes fewer than.

        A part of an epoch is let go at every hop, so that a schedule may be over in fewer than
        bounds of exact time fill. Were epochs so long that nothing had to be let go, all would be
        in time as it is: so long they are, each, in the time that a schedule takes in fact.

        Args:
            lower_bound: units that no schedule takes less than in exact time.
        """
        return max(self.min_epochs, -(-lower_bound // self._effective_length))

    @cached_property
    def _effective_length(self) -> int:
        """Return how many units an epoch would have to have for all that is said to fit in it."""
        units = self.length
        for size_epochs in self.sizes or (self,):
            rows = zip(
                size_epochs.problem.route_costs,
                size_epochs.problem.route_uses,
                size_epochs.spans,
                size_epochs.delay,
                strict=True,
            )
            for cost, hops, spans, delay in rows:
                last = _latest_departure(hops, spans, self.length)
                if last and self.sizes:  # behind others of another size
                    last = max(self.length - hop.busy for hop in hops)
                units = max(units, -(-(cost + last) // delay))
                for hop, span in zip(hops, spans, strict=True):
                    units = max(units, -(-hop.busy // (span.last_epoch - span.first_epoch + 1)))
        return units


def epoch_length(problem: SchedulingProblem, epoch: str, multiplier: int) -> int:
    """Return the units of an epoch, at least as long as it is asked for.

    Raises:
        ParameterError: as :func:`epoch_length_us` says.
    """
    return ceil(epoch_length_us(problem, epoch, multiplier) / _unit_us(problem))


def epoch_length_us(problem: SchedulingProblem, epoch: str, multiplier: int) -> Fraction:
    """Return how long an epoch is, microseconds.

    Args:
        epoch: how long a chunk takes the fastest (auto is that) or the slowest link, of several
            sizes one of the largest, or microseconds.
        multiplier: so many times as long (the paper's EM).

    Raises:
        ParameterError: it is neither, or so short that no chunk passes a link in many of them.
    """
    links = len(problem.topology.links)
    largest = (hop for hops in problem.uses[-1] for hop in hops if hop.resource < links)
    busy = [hop.busy for hop in largest if hop.busy]
    unit_us, quickest = _unit_us(problem), min(busy, default=1)
    if epoch in {AUTO, FASTEST, SLOWEST}:
        return unit_us * multiplier * (max(busy, default=1) if epoch == SLOWEST else quickest)
    try:
        length = Fraction(epoch) * multiplier
    except (ValueError, ZeroDivisionError):
        length = Fraction(0)
    if length <= 0:
        raise ParameterError(
            f"epoch is {epoch!r}, expected {FASTEST!r}, {SLOWEST!r} or microseconds above 0"
        )
    if quickest * unit_us > MAX_EPOCHS * length:
        raise ParameterError(
            f"epoch is {epoch} us: no link of topology {problem.topology.name!r} passes a chunk in "
            f"{format_count(MAX_EPOCHS, 'epoch')}, the most that are modelled; the fastest takes "
            f"{float(quickest * unit_us):g} us: give that, or 'fastest'"
        )
    return length


def _unit_us(problem: SchedulingProblem) -> Fraction:
    return Fraction(problem.unit * problem.clock.tick_ps, 10**6)


def build_epochs(
    problem: SchedulingProblem,
    length: int,
    *,
    ports: bool = False,
    begins: dict[int, int] | None = None,
) -> Epochs:
    """Return a problem's epochs of a length, in units, of chunks of one size.

    Args:
        ports: whether a link to or from a switch carries at most one chunk in an epoch, however
            many it could (hyper-edges, appendix C).
        begins: as :func:`resource_offsets` has them. None: of these chunks.
    """
    begins = resource_offsets(problem) if begins is None else begins
    at_switch = switch_links(problem) if ports else frozenset()
    spans = tuple(
        tuple(
            resource_span(h, length, begins[h.resource], is_exclusive=h.resource in at_switch)
            for h in hops
        )
        for hops in problem.route_uses
    )
    delay = tuple(
        count_epochs(cost + _latest_departure(hops, route_spans, length), length)
        for cost, hops, route_spans in zip(
            problem.route_costs, problem.route_uses, spans, strict=True
        )
    )
    return Epochs(problem, length, delay, spans, _epoch_distances(problem, delay))


def switch_links(problem: SchedulingProblem) -> frozenset[int]:
    """Return the links to and from switches."""
    links = enumerate(problem.topology.links)
    return frozenset(i for i, link in links if max(link.edge) >= problem.ranks)


def resource_offsets(problem: SchedulingProblem) -> dict[int, int]:
    """Return of each thing how much later than the others' its epochs begin, units."""
    begins: dict[int, int] = {}
    for hop in (hop for holds in problem.uses for hops in holds for hop in hops):
        begins[hop.resource] = min(hop.offset, begins.get(hop.resource, hop.offset))
    return begins


def count_epochs(units: int, length: int) -> int:
    """Return in how many epochs that is, at least one, but for a small part of one."""
    return max(1, -(-(units - length // _TOLERANCE_DIVISOR) // length))


def resource_span(hop: ResourceUse, length: int, begin: int, *, is_exclusive: bool) -> EpochSpan:
    """Return the use of a resource whose epochs begin later than others by an offset."""
    first, within = divmod(hop.offset - begin, length)
    last = first + count_epochs(within + hop.busy, length) - 1
    is_whole = is_exclusive or 2 * hop.busy > length
    return EpochSpan(
        hop.resource,
        first,
        last,
        hop.demand * (length if is_whole else hop.busy),
        hop.multicast_group,
    )


def _latest_departure(
    hops: tuple[ResourceUse, ...], spans: tuple[EpochSpan, ...], length: int
) -> int:
    """Return the last unit of an epoch at which a chunk may set out, others before it."""
    if any(span.load >= hop.demand * length for hop, span in zip(hops, spans, strict=True)):
        return 0
    return max((length // hop.busy - 1) * hop.busy for hop in hops if hop.busy)


def _epoch_distances(problem: SchedulingProblem, delay: tuple[int, ...]) -> IntArray:
    far = np.full((problem.ranks, problem.ranks), UNREACHABLE, dtype=np.int64)
    np.fill_diagonal(far, 0)
    np.minimum.at(far, (np.array(problem.src), np.array(problem.dst)), np.array(delay))
    for middle in range(problem.ranks):  # Floyd and Warshall
        np.minimum(far, far[:, [middle]] + far[[middle], :], out=far)
    return far
