"""Time in epochs: the delay of a chunk, and its use of resources by epoch (TE-CCL, section 3).

A chunk that is sent in an epoch starts within it. It may be forwarded from the first epoch that
begins no earlier than its arrival, wherever in the epoch it started. If a chunk takes a link longer
than an epoch, it uses the link for several epochs (appendix F). Otherwise a link carries in an
epoch as many chunks as pass it one after the other. Less than a tenth of an additional epoch is not
counted, as in the paper's code: a short alpha would otherwise cost a long epoch. So schedules are
placed again in exact time (:mod:`sccl.synth.intervals.placing`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from sccl.core.words import counted
from sccl.errors import ParameterError
from sccl.synth.intervals.posed import Posed, Ticks
from sccl.synth.intervals.ways import Hop
from sccl.synth.network.paths import FAR

AUTO, FASTEST, SLOWEST = "auto", "fastest", "slowest"

_TENTH = 10
"""The part of an epoch that is let go is one of so many."""

MOST = 4096
"""Epochs of a horizon."""


@dataclass(frozen=True, slots=True)
class Span:
    """The use of a resource by a chunk on a way: the epochs, and the amount.

    Attributes:
        first: first epoch, relative to the start.
        last: last epoch, relative to the start, inclusive.
        load: amount in each of these, out of the resource's capacity in an epoch.
        stem: ways with one stem use it once for a chunk that starts on them together.
    """

    thing: int
    first: int
    last: int
    load: int
    stem: int


@dataclass(frozen=True)
class Epochs:
    """A problem's epochs.

    Attributes:
        length: units.
        delay: by way: epochs from that of the send to that from which the chunk is there.
        spans: by way.
        far: epochs from each rank to each other, without conflicts.
        first: number of epochs before the first one considered.
        sizes: for chunks of several sizes, the epochs of each. Delays here are those of the
            smallest.
    """

    posed: Posed
    length: int
    delay: tuple[int, ...]
    spans: tuple[tuple[Span, ...], ...]
    far: Ticks
    first: int = 0
    sizes: tuple[Epochs, ...] = ()

    def of(self, chunk: int) -> Epochs:
        """Return these as a chunk has them, by its size."""
        if not self.sizes:
            return self
        own = self.sizes[self.posed.size[chunk]]
        return own if own.first == self.first else replace(own, first=self.first)

    @property
    def longest(self) -> int:
        """Return the longest delay of all."""
        return max(max(own.delay) for own in self.sizes or (self,))

    @property
    def us(self) -> float:
        """Return how long one is, microseconds."""
        return self.length * self.posed.unit * self.posed.clock.tick_ps / 10**6

    def room(self, thing: int, epoch: int) -> int:  # noqa: ARG002 - others vary
        """Return the capacity of a resource in an epoch."""
        return self.posed.room[thing] * self.length

    def delay_at(self, way: int, epoch: int) -> int | None:  # noqa: ARG002 - others vary
        """Return the delay of a chunk that sets out in an epoch. None: it never arrives."""
        return self.delay[way]

    def spans_at(self, way: int, epoch: int) -> tuple[Span, ...]:  # noqa: ARG002 - others vary
        """Return the uses of resources by a chunk that starts in an epoch."""
        return self.spans[way]

    def soonest(self, chunk: int) -> list[int]:
        """Return of each rank the first epoch from which a chunk can be there."""
        return [int(k) for k in self.of(chunk).far[sorted(self.posed.holders[chunk])].min(axis=0)]

    @property
    def least(self) -> int:
        """Return the fewest epochs after which all can be where it is wanted."""
        posed = self.posed
        needed = [self.soonest(c)[r] for c in range(posed.chunks) for r in posed.wanted[c]]
        return max(needed, default=0)

    def fewest(self, least: int) -> int:
        """Return a number of epochs that no schedule takes fewer than.

        A part of an epoch is let go at every hop, so that a schedule may be over in fewer than
        bounds of exact time fill. Were epochs so long that nothing had to be let go, all would be
        in time as it is: so long they are, each, in the time that a schedule takes in fact.

        Args:
            least: units that no schedule takes less than in exact time.
        """
        return max(self.least, -(-least // self._in_fact))

    @cached_property
    def _in_fact(self) -> int:
        """Return how many units an epoch would have to have for all that is said to fit in it."""
        found = self.length
        for own in self.sizes or (self,):
            rows = zip(own.posed.cost, own.posed.hops, own.spans, own.delay, strict=True)
            for cost, hops, spans, delay in rows:
                last = _latest(hops, spans, self.length)
                if last and self.sizes:  # behind others of another size
                    last = max(self.length - hop.busy for hop in hops)
                found = max(found, -(-(cost + last) // delay))
                for hop, span in zip(hops, spans, strict=True):
                    found = max(found, -(-hop.busy // (span.last - span.first + 1)))
        return found


def length_of(posed: Posed, epoch: str, multiplier: int) -> int:
    """Return the units of an epoch, at least as long as it is asked for.

    Raises:
        ParameterError: as :func:`length_us` says.
    """
    return ceil(length_us(posed, epoch, multiplier) / _unit_us(posed))


def length_us(posed: Posed, epoch: str, multiplier: int) -> Fraction:
    """Return how long an epoch is, microseconds.

    Args:
        epoch: how long a chunk takes the fastest (auto is that) or the slowest link, of several
            sizes one of the largest, or microseconds.
        multiplier: so many times as long (the paper's EM).

    Raises:
        ParameterError: it is neither, or so short that no chunk passes a link in many of them.
    """
    links = len(posed.topology.links)
    largest = (hop for hops in posed.holds[-1] for hop in hops if hop.thing < links)
    busy = [hop.busy for hop in largest if hop.busy]
    unit_us, quickest = _unit_us(posed), min(busy, default=1)
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
    if quickest * unit_us > MOST * length:
        raise ParameterError(
            f"epoch is {epoch} us: no link of topology {posed.topology.name!r} passes a chunk in "
            f"{counted(MOST, 'epoch')}, the most that are modelled; the fastest takes "
            f"{float(quickest * unit_us):g} us: give that, or 'fastest'"
        )
    return length


def _unit_us(posed: Posed) -> Fraction:
    """Return a unit in microseconds."""
    return Fraction(posed.unit * posed.clock.tick_ps, 10**6)


def epochs_of(
    posed: Posed, length: int, *, ports: bool = False, begins: dict[int, int] | None = None
) -> Epochs:
    """Return a problem's epochs of a length, in units, of chunks of one size.

    Args:
        ports: whether a link to or from a switch carries at most one chunk in an epoch, however
            many it could (hyper-edges, appendix C).
        begins: as :func:`begins_of` has them. None: of these chunks.
    """
    begins = begins_of(posed) if begins is None else begins
    at_switch = at_switches(posed) if ports else frozenset()
    spans = tuple(
        tuple(span_of(h, length, begins[h.thing], alone=h.thing in at_switch) for h in hops)
        for hops in posed.hops
    )
    delay = tuple(
        epochs_in(cost + _latest(hops, own, length), length)
        for cost, hops, own in zip(posed.cost, posed.hops, spans, strict=True)
    )
    return Epochs(posed, length, delay, spans, _far(posed, delay))


def at_switches(posed: Posed) -> frozenset[int]:
    """Return the links to and from switches."""
    links = enumerate(posed.topology.links)
    return frozenset(i for i, link in links if max(link.edge) >= posed.ranks)


def begins_of(posed: Posed) -> dict[int, int]:
    """Return of each thing how much later than the others' its epochs begin, units."""
    begins: dict[int, int] = {}
    for hop in (hop for holds in posed.holds for hops in holds for hop in hops):
        begins[hop.thing] = min(hop.offset, begins.get(hop.thing, hop.offset))
    return begins


def epochs_in(units: int, length: int) -> int:
    """Return in how many epochs that is, at least one, but for a small part of one."""
    return max(1, -(-(units - length // _TENTH) // length))


def span_of(hop: Hop, length: int, begin: int, *, alone: bool) -> Span:
    """Return the use of a resource whose epochs begin later than others by an offset."""
    first, within = divmod(hop.offset - begin, length)
    last = first + epochs_in(within + hop.busy, length) - 1
    whole = alone or 2 * hop.busy > length
    return Span(hop.thing, first, last, hop.weight * (length if whole else hop.busy), hop.stem)


def _latest(hops: tuple[Hop, ...], spans: tuple[Span, ...], length: int) -> int:
    """Return the last unit of an epoch at which a chunk may set out, others before it."""
    if any(span.load >= hop.weight * length for hop, span in zip(hops, spans, strict=True)):
        return 0
    return max((length // hop.busy - 1) * hop.busy for hop in hops if hop.busy)


def _far(posed: Posed, delay: tuple[int, ...]) -> Ticks:
    far = np.full((posed.ranks, posed.ranks), FAR, dtype=np.int64)
    np.fill_diagonal(far, 0)
    np.minimum.at(far, (np.array(posed.src), np.array(posed.dst)), np.array(delay))
    for middle in range(posed.ranks):  # Floyd and Warshall
        np.minimum(far, far[:, [middle]] + far[[middle], :], out=far)
    return far
