"""Epochs with varying bandwidth: capacities and delays by epoch (TE-CCL, section 3).

The paper takes a matrix of capacities per epoch, with changes only between epochs. Here the
capacity of an epoch is the data that pass a link within it, rounded down. A chunk that passes a
link within an epoch, as one of several, does so. Otherwise it uses the link alone, for as many
epochs as its bytes take from the epoch's begin on. So no chunk passes a link in an outage, however
long that is, and a transfer that began before it ends after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sccl.synth.intervals.posed import Posed
from sccl.synth.intervals.varied_ways import VariedWays
from sccl.synth.network.paths import FAR
from sccl.synth.teccl.epochs import (
    Epochs,
    Span,
    at_switches,
    begins_of,
    epochs_in,
    epochs_of,
    span_of,
)
from sccl.synth.teccl.varied_least import farthest

_Setting = tuple[int | None, tuple[Span, ...]]
"""The delay of a chunk (None if it never arrives), and its uses of resources."""


@dataclass(frozen=True)
class VariedEpochs(Epochs):
    """A problem's epochs, whose bandwidth varies.

    Attributes:
        varied: how much longer ways take.
        begins: of each thing how much later than the others' its epochs begin.
        alone: links that carry one chunk in an epoch, however many they could.
    """

    varied: VariedWays = field(kw_only=True)
    begins: dict[int, int] = field(kw_only=True)
    alone: frozenset[int] = field(kw_only=True)
    _rooms: dict[tuple[int, int], int] = field(default_factory=dict, kw_only=True)
    _known: dict[tuple[int, int], _Setting] = field(default_factory=dict, kw_only=True)

    def room(self, thing: int, epoch: int) -> int:
        """Return the capacity of a resource in an epoch, at least 1: a single chunk may use it."""
        if thing >= len(self.posed.topology.links):
            return super().room(thing, epoch)
        key = thing, self.first + epoch
        if key not in self._rooms:
            begin = key[1] * self.length + self.begins.get(thing, 0)
            self._rooms[key] = max(1, self.varied.room(thing, begin, begin + self.length))
        return self._rooms[key]

    def delay_at(self, way: int, epoch: int) -> int | None:
        """Return the delay of a chunk that sets out in an epoch. None: it never arrives."""
        return self._set_out(way, epoch)[0]

    def spans_at(self, way: int, epoch: int) -> tuple[Span, ...]:
        """Return the uses of resources by a chunk that starts in an epoch."""
        return self._set_out(way, epoch)[1]

    def fewest(self, least: int) -> int:
        """Return a number of epochs that no schedule takes fewer than.

        Args:
            least: units that no schedule takes less than at full bandwidth, in exact time.
        """

        def arrives(chunk: int, way: int, epoch: int) -> int:
            """Return the epoch from which a chunk is there that sets out in one."""
            delay = self.of(chunk).delay_at(way, epoch)
            return FAR if delay is None else epoch + delay

        return max(super().fewest(least), farthest(self.posed, arrives))

    def _set_out(self, way: int, epoch: int) -> _Setting:
        key = way, self.first + epoch
        if key not in self._known:
            self._known[key] = self._worked_out(way, epoch)
        return self._known[key]

    def _worked_out(self, way: int, epoch: int) -> _Setting:
        posed, length = self.posed, self.length
        at, cost, delay = (self.first + epoch) * length, posed.cost[way], self.delay[way]
        if all(self.varied.late(way, tick) == 0 for tick in (at, at + length)) and all(
            self.room(span.thing, epoch + k) == posed.room[span.thing] * length
            for span in self.spans[way]
            for k in range(span.first, span.last + 1)
        ):
            return delay, self.spans[way]
        links = len(posed.topology.links)
        pairs = zip(posed.hops[way], self.spans[way], strict=True)
        own = [(hop, span) for hop, span in pairs if hop.thing < links]
        late = self.varied.late(way, at)
        if all(
            span.load == hop.busy <= self.room(span.thing, epoch + span.first) for hop, span in own
        ):
            last = length - min(hop.busy for hop, _ in own)  # it sets out at the latest
            return max(delay, epochs_in(cost + max(late, last), length)), self.spans[way]
        if late >= FAR // 2:
            return None, self.spans[way]
        spans = tuple(
            span_of(hop, length, self.begins[hop.thing], alone=hop.thing in self.alone)
            for hop in posed.held(0, way, at)  # as any chunk does
        )
        return max(delay, epochs_in(cost + late, length)), spans


def varied_epochs_of(posed: Posed, length: int, *, ports: bool = False) -> Epochs:
    """Return a problem's epochs of a length, in units, whether its bandwidth varies or not.

    Args:
        ports: as :func:`sccl.synth.teccl.epochs.epochs_of` has it.
    """
    if not posed.alike:
        sizes = tuple(_of_size(one, length, begins_of(posed), ports) for one in posed.by_size())
        return replace(sizes[0], posed=posed, sizes=sizes)
    return _of_size(posed, length, begins_of(posed), ports)


def _of_size(posed: Posed, length: int, begins: dict[int, int], ports: bool) -> Epochs:
    """Return the epochs of chunks of one size."""
    plain = epochs_of(posed, length, ports=ports, begins=begins)
    if not posed.varied:
        return plain
    return VariedEpochs(
        posed,
        length,
        plain.delay,
        plain.spans,
        plain.far,
        varied=posed.varied[0],
        begins=begins,
        alone=at_switches(posed) if ports else frozenset(),
    )
