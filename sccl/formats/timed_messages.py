"""Convert schedules to messages between ranks, with their dependencies.

A leg of :mod:`sccl.core.legs` is a message. A rank that forwards one without storing it sends a
message that depends only on that arrival. Chunks that are sent together are one message of all
their bytes. Chunks that separate at a switch are one message each.
"""

from __future__ import annotations

from collections import defaultdict, deque

from sccl.core.legs import Leg, legs_of
from sccl.core.schedule import Schedule
from sccl.errors import ParameterError
from sccl.formats.messages import Awaiting, Message


def timed_messages(schedule: Schedule, awaiting: Awaiting) -> list[Message]:
    """Return the messages of a schedule, in the order of starts, chunks, sources, and destinations.

    A message depends on everything that arrived at its rank by the tick of its start.

    Raises:
        ParameterError: Messages cannot be identified on a machine with switches, or one leaves a
            switch more than once.
    """
    sent: dict[tuple[int, ...], list[Leg]] = defaultdict(list)
    for leg in sorted(legs_of(schedule)):
        sent[leg.transfers].append(leg)
    parts = list(sent.values())
    steps = {start: i for i, start in enumerate(sorted({legs[0].start for legs in parts}))}
    come = _Come(by_chunk=awaiting is Awaiting.DATA)
    arrivals = deque(sorted(range(len(parts)), key=lambda i: (parts[i][0].arrives, i)))
    found = []
    for number, legs in enumerate(parts):
        leg, *others = legs
        while arrivals and parts[arrivals[0]][0].arrives <= leg.start:
            come.note(arrivals[0], parts[arrivals[0]])
            arrivals.popleft()
        step, after = steps[leg.start], come.before(legs)
        reduce, more = any(one.reduce for one in legs), tuple(one.chunk for one in others)
        found.append(Message(number, step, leg.chunk, leg.src, leg.dst, reduce, after, more))
    return found


class _Come:
    """The messages that have arrived at ranks so far."""

    def __init__(self, *, by_chunk: bool) -> None:
        self._by_chunk = by_chunk
        self._kept: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._passed: dict[tuple[tuple[int, int], int], int] = {}

    def note(self, number: int, legs: list[Leg]) -> None:
        """Record the arrival of a message. A stored chunk replaces its earlier value."""
        for leg in legs:
            if not leg.kept:
                self._passed[leg.of, leg.dst] = number
                continue
            place = self._kept[leg.dst, leg.chunk if self._by_chunk else 0]
            if self._by_chunk and not leg.reduce:
                place.clear()
            if number not in place[-1:]:
                place.append(number)

    def before(self, legs: list[Leg]) -> tuple[int, ...]:
        """Return the dependencies of a message that starts now, in order of arrival."""
        every = [number for leg in legs for number in self._before(leg)]
        return tuple(every) if len(legs) == 1 else tuple(sorted(set(every)))

    def _before(self, leg: Leg) -> list[int]:
        if leg.onward:
            return [self._passed[leg.of, leg.src]]
        return self._kept[leg.src, leg.chunk if self._by_chunk else 0]


def sizes_of(schedule: Schedule, size_bytes: int | None) -> tuple[int, ...]:
    """Return the bytes of each chunk.

    Args:
        size_bytes: Stated size of a rank's buffer. None: not stated.

    Raises:
        ParameterError: The stated size differs from that of the schedule.
    """
    sizes, chunks = schedule.chunk_bytes, schedule.collective.num_chunks
    each = sizes if isinstance(sizes, tuple) else (sizes,) * chunks
    own = sum(each) * schedule.collective.chunks / chunks
    if size_bytes is not None and size_bytes != own:
        raise ParameterError(
            f"the size is {size_bytes} bytes, and the schedule is for {own:.0f}: leave --size out"
        )
    return each
