"""Convert schedules to messages between ranks, with their dependencies.

A leg of :mod:`sccl.core.route_segments` is a message. A rank that forwards one without storing it
sends a message that depends only on that arrival. Chunks that are sent together are one message of
all their bytes. Chunks that separate at a switch are one message each.
"""

from __future__ import annotations

from collections import defaultdict, deque

from sccl.core.route_segments import RouteSegment, route_segments
from sccl.core.schedule import Schedule
from sccl.errors import ParameterError
from sccl.formats.algorithm_messages import Awaiting, Message


def schedule_messages(schedule: Schedule, awaiting: Awaiting) -> list[Message]:
    """Return the messages of a schedule, in the order of starts, chunks, sources, and destinations.

    A message depends on everything that arrived at its rank by the tick of its start.

    Raises:
        ParameterError: Messages cannot be identified on a machine with switches, or one leaves a
            switch more than once.
    """
    sent: dict[tuple[int, ...], list[RouteSegment]] = defaultdict(list)
    for leg in sorted(route_segments(schedule)):
        sent[leg.transfers].append(leg)
    parts = list(sent.values())
    steps = {start: i for i, start in enumerate(sorted({legs[0].start for legs in parts}))}
    come = _Arrivals(by_chunk=awaiting is Awaiting.DATA)
    arrivals = deque(sorted(range(len(parts)), key=lambda i: (parts[i][0].arrival, i)))
    messages = []
    for number, legs in enumerate(parts):
        leg, *others = legs
        while arrivals and parts[arrivals[0]][0].arrival <= leg.start:
            come.record(arrivals[0], parts[arrivals[0]])
            arrivals.popleft()
        step, after = steps[leg.start], come.dependencies_of(legs)
        reduce, more = any(item.reduce for item in legs), tuple(item.chunk for item in others)
        messages.append(Message(number, step, leg.chunk, leg.src, leg.dst, reduce, after, more))
    return messages


class _Arrivals:
    """The messages that have arrived at ranks so far."""

    def __init__(self, *, by_chunk: bool) -> None:
        self._by_chunk = by_chunk
        self._arrivals: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._passed: dict[tuple[tuple[int, int], int], int] = {}

    def record(self, number: int, legs: list[RouteSegment]) -> None:
        """Record the arrival of a message. A stored chunk replaces its earlier value."""
        for leg in legs:
            if not leg.is_stored:
                self._passed[leg.message_chunk, leg.dst] = number
                continue
            place = self._arrivals[leg.dst, leg.chunk if self._by_chunk else 0]
            if self._by_chunk and not leg.reduce:
                place.clear()
            if number not in place[-1:]:
                place.append(number)

    def dependencies_of(self, legs: list[RouteSegment]) -> tuple[int, ...]:
        """Return the dependencies of a message that starts now, in order of arrival."""
        numbers = [number for leg in legs for number in self._leg_dependencies(leg)]
        return tuple(numbers) if len(legs) == 1 else tuple(sorted(set(numbers)))

    def _leg_dependencies(self, leg: RouteSegment) -> list[int]:
        if leg.is_forwarded:
            return [self._passed[leg.message_chunk, leg.src]]
        return self._arrivals[leg.src, leg.chunk if self._by_chunk else 0]


def chunk_sizes(schedule: Schedule, size_bytes: int | None) -> tuple[int, ...]:
    """Return the bytes of each chunk.

    Args:
        size_bytes: Stated size of a rank's buffer. None: not stated.

    Raises:
        ParameterError: The stated size differs from that of the schedule.
    """
    sizes, chunks = schedule.chunk_bytes, schedule.collective.num_chunks
    each = sizes if isinstance(sizes, tuple) else (sizes,) * chunks
    total = sum(each) * schedule.collective.chunks / chunks
    if size_bytes is not None and size_bytes != total:
        raise ParameterError(
            f"the size is {size_bytes} bytes, and the schedule is for {total:.0f}: leave --size out"
        )
    return each
