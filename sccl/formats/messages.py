"""Convert algorithms and schedules to messages between ranks, with their dependencies.

A leg of :mod:`sccl.core.route_segments` is a message. A rank that forwards one without storing it
sends a message that depends only on that arrival. Chunks that are sent together are one message of
all their bytes. Chunks that separate at a switch are one message each.

Control dependencies give ASTRA-sim the order in which links serve messages. Sends that become free
at one nanosecond are issued there in the order of a hash table, and one that waits for its data is
overtaken by those behind it. A send that waited for the one before it would pay alpha twice: a send
is done when it has arrived. So it waits for a computation of a nanosecond that becomes free
together with the one before, and comes to the link right behind it. No link is idle for that, as
every message keeps its link busy for a nanosecond or more.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.route_segments import RouteSegment, route_segments
from sccl.core.schedule import Schedule
from sccl.errors import ParameterError, TooLargeError
from sccl.formats.format_contract import FormatOptions, SizedPlan


class Awaiting(StrEnum):
    """The dependencies of a message."""

    DATA = "data"
    """All that has come to its sender of its chunk in earlier steps."""
    STEP = "step"
    """All that has come to its sender in earlier steps."""


class MessageOptions(FormatOptions, frozen=True, kw_only=True):
    """The options of formats of messages."""

    awaiting: Annotated[
        Awaiting,
        Meta(
            description="Dependency of a send: data (all arrivals of its chunk) or step (all "
            "arrivals of earlier steps)."
        ),
    ] = Awaiting.DATA


@dataclass(frozen=True, slots=True)
class Message:
    """A send, with the messages that must arrive at its sender before.

    Attributes:
        number: Its place in the order of steps, chunks, sources, and destinations.
        reduce: Whether the receiver reduces it, or one of several chunks, into its own value.
        after: Numbers of messages to its sender.
        with_chunks: Further chunks that it carries, ascending, as transfers of schedules may.
    """

    number: int
    step: int
    chunk: int
    src: int
    dst: int
    reduce: bool
    after: tuple[int, ...]
    with_chunks: tuple[int, ...] = ()

    @property
    def chunks(self) -> tuple[int, ...]:
        """Return all chunks that it carries."""
        return (self.chunk, *self.with_chunks)


def sized_algorithm(plan: SizedPlan, limit: int) -> tuple[Algorithm, int]:
    """Return the algorithm of a plan, and the bytes of its chunks.

    Args:
        limit: messages that the format takes.

    Raises:
        ParameterError: chunks are of no whole bytes.
        TooLargeError: there are more messages.
    """
    algorithm, size = plan.plan, plan.size_bytes
    assert isinstance(algorithm, Algorithm)
    assert size is not None
    chunks = algorithm.collective.chunks
    if size % chunks:
        raise ParameterError(
            f"{plan.name}: {size} bytes do not divide into C={chunks} chunks: give a size that does"
        )
    if algorithm.num_sends > limit:
        raise TooLargeError(
            f"{plan.name}: {algorithm.num_sends} sends, and up to {limit} are written: give an "
            "algorithm of fewer chunks"
        )
    return algorithm, size // chunks


def algorithm_messages(algorithm: Algorithm, awaiting: Awaiting) -> list[Message]:
    """Return the sends of an algorithm, in the order of steps, chunks, sources, and destinations.

    A chunk that is stored at a rank replaces its earlier value, so earlier messages do not count.
    """
    come: dict[tuple[int, int], list[int]] = defaultdict(list)  # by rank, and chunk if it matters
    messages: list[Message] = []
    delivered = 0
    by_chunk = awaiting is Awaiting.DATA
    sends = sorted(algorithm.sends)
    for number, send in enumerate(sends):
        while sends[delivered].step < send.step:
            before = sends[delivered]
            at = come[before.dst, before.chunk if by_chunk else 0]
            if by_chunk and not before.reduce:
                at.clear()
            at.append(delivered)
            delivered += 1
        after = tuple(come[send.src, send.chunk if by_chunk else 0])
        messages.append(
            Message(number, send.step, send.chunk, send.src, send.dst, send.reduce, after)
        )
    return messages


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


MAX_VISITED = 64
"""Messages that are looked at for one whose data dependencies imply the order."""


def order_links(
    messages: Sequence[Message], link_of: Callable[[Message], tuple[int, ...]]
) -> dict[int, int]:
    """Return for messages which one has to be issued before, where data do not imply it.

    Args:
        messages: Messages of a plan, by number.
        link_of: Returns the first link that serves a message.
    """
    last: dict[tuple[int, ...], Message] = {}
    predecessors: dict[int, int] = {}
    for message in messages:
        link = link_of(message)
        before = last.get(link)
        if before is not None and not _is_implied(messages, before, message, predecessors):
            predecessors[message.number] = before.number
        last[link] = message
    return predecessors


def _is_implied(
    messages: Sequence[Message], before: Message, message: Message, order: dict[int, int]
) -> bool:
    """Return whether a message waits for data that come only after another was issued."""
    if message.after and not before.after and before.number not in order:
        return True  # that one was issued at the start
    seen: set[int] = set()
    open_ = list(message.after)
    while open_ and len(seen) < MAX_VISITED:
        number = open_.pop()
        if number == before.number:
            return True
        if number > before.number and number not in seen:
            seen.add(number)
            open_ += messages[number].after
    return False
