"""Sends that wait for one another, placed in an order: each as soon, or as late, as it can be."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from sccl.synth.intervals.placing import Held
from sccl.synth.intervals.posed import Posed
from sccl.synth.intervals.ways import Hop

_PASSES = 8
"""From the end and from the start again, at the most."""


class Spans:
    """What is held of a thing by one at a time: spans, those that touch as one.

    So what is dense is passed over at once, as :class:`Held` does not.
    """

    def __init__(self) -> None:
        self._begin: list[int] = []
        self._end: list[int] = []

    def next(self, start: int, busy: int, _weight: int) -> int:
        """Return the first unit from one on from which it is free for so long."""
        at = bisect_right(self._end, start)
        while at < len(self._begin) and self._begin[at] < start + busy:
            start = max(start, self._end[at])
            at += 1
        return start

    def take(self, start: int, busy: int, _weight: int) -> None:
        """Note that it is held."""
        if not busy:
            return
        end, at = start + busy, bisect_left(self._end, start)
        after = at
        if at < len(self._end) and self._end[at] == start:
            start, after = self._begin[at], at + 1
        if after < len(self._begin) and self._begin[after] == end:
            end, after = self._end[after], after + 1
        self._begin[at:after], self._end[at:after] = [start], [end]


def _empty(posed: Posed) -> list[Spans | Held]:
    """Return all things, of which nothing is held; lines are those that no two hold at once."""
    least = list(posed.room)
    for own in posed.hops:
        for h in own:
            least[h.thing] = min(least[h.thing], h.weight)
    pairs = zip(least, posed.room, strict=True)
    return [Spans() if 2 * weight > room else Held(room) for weight, room in pairs]


@dataclass(frozen=True)
class Waiting:
    """What is sent, and what each of it waits for.

    Attributes:
        ways: of each send: those on which a chunk sets out together, as a switch copies it.
        needs: of each send: pairs (send, way) that have to have arrived when it starts.
    """

    posed: Posed
    ways: Sequence[Sequence[int]]
    needs: Sequence[Sequence[tuple[int, int]]]

    def __post_init__(self) -> None:
        assert self.posed.alike  # what each of several sizes holds is not looked at here

    @cached_property
    def _hops(self) -> list[list[Hop]]:
        """Return what each send holds."""
        return [
            list({h.stem: h for way in ways for h in self.posed.hops[way]}.values())
            for ways in self.ways
        ]

    @cached_property
    def _wait(self) -> list[list[tuple[int, int]]]:
        """Return of each send the pairs (send, way) of those that wait for it to have come so."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.ways]
        for send, needs in enumerate(self.needs):
            for before, way in needs:
                found[before].append((send, way))
        return found

    def finish(self, starts: Sequence[int]) -> int:
        """Return the units after which all has arrived."""
        cost = self.posed.cost
        pairs = zip(starts, self.ways, strict=True)
        return max((start + cost[way] for start, ways in pairs for way in ways), default=0)

    def tightened(self, starts: Sequence[int]) -> list[int]:
        """Return when each send starts if each starts once it can, in the order of these starts.

        Then again from the end, and from the start, as long as that helps: what could be later
        gives way to what could not (Li and Willis 1992: forward and backward scheduling).
        """
        best = self.soonest(_in_order(starts))
        for _ in range(_PASSES):
            again = self.soonest(_in_order(self.latest(_from_the_end(self, best))))
            if self.finish(again) >= self.finish(best):
                break
            best = again
        return best

    def soonest(self, order: Iterable[int]) -> list[int]:
        """Return the starts of sends, each as soon as can be after those before it.

        Args:
            order: each after those that it needs.
        """
        held, cost = _empty(self.posed), self.posed.cost
        starts = [0] * len(self.ways)
        for send in order:
            start, before = 0, -1
            for other, way in self.needs[send]:
                start = max(start, starts[other] + cost[way])
            while start != before:
                before = start
                for h in self._hops[send]:
                    start = held[h.thing].next(start + h.offset, h.busy, h.weight) - h.offset
            for h in self._hops[send]:
                held[h.thing].take(start + h.offset, h.busy, h.weight)
            starts[send] = start
        return starts

    def latest(self, order: Iterable[int]) -> list[int]:
        """Return the starts of sends, each as late as can be before those after it. The first at 0.

        Args:
            order: each after those that need it.
        """
        held, cost = _empty(self.posed), self.posed.cost
        left = [0] * len(self.ways)  # from its start to the end of all
        for send in order:
            own, before = max(cost[way] for way in self.ways[send]), -1
            for other, way in self._wait[send]:
                own = max(own, left[other] + cost[way])
            while own != before:
                before = own
                for h in self._hops[send]:
                    ends = h.offset + h.busy
                    own = held[h.thing].next(own - ends, h.busy, h.weight) + ends
            for h in self._hops[send]:
                held[h.thing].take(own - h.offset - h.busy, h.busy, h.weight)
            left[send] = own
        whole = max(left, default=0)
        return [whole - own for own in left]


def _in_order(starts: Sequence[int]) -> list[int]:
    return sorted(range(len(starts)), key=lambda send: (starts[send], send))


def _from_the_end(waiting: Waiting, starts: Sequence[int]) -> list[int]:
    """Return the sends by when they have come somewhere, the last first: each before its needs."""
    cost = waiting.posed.cost
    comes = [
        start + min(cost[w] for w in ways) for start, ways in zip(starts, waiting.ways, strict=True)
    ]
    return sorted(range(len(starts)), key=lambda send: (-comes[send], -starts[send], -send))
