"""Convert algorithms and schedules to messages between ranks, with their dependencies.

Each segment of :mod:`sccl.transform.route_segments` becomes a message. If a rank forwards a message
without storing it, the forwarded message depends only on that arrival. Chunks that are sent
together form one message with all their bytes. Chunks that separate at a switch are separate
messages.

Control dependencies define the order in which ASTRA-sim's links serve messages. Without them, sends
that become ready in the same nanosecond are issued in the order of a hash table, and a send that
waits for its data is overtaken by later sends. A send must not depend on the previous send itself:
a send ends at its arrival, so alpha would count twice. Instead it depends on a computation of one
nanosecond that becomes ready together with the previous send. So it reaches the link right after
the previous send. No link idles for this, since every message occupies its link for at least a
nanosecond.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from sccl.core.algorithm import Algorithm
from sccl.core.schedule import Schedule
from sccl.errors import ParameterError, TooLargeError
from sccl.formats.common.contract import FormatOptions, SizedPlan
from sccl.transform.route_segments import RouteSegment, route_segments


class Awaiting(StrEnum):
    """The dependencies of a message."""

    DATA = "data"
    """Arrivals of the same chunk at its sender in earlier steps."""
    STEP = "step"
    """All arrivals at its sender in earlier steps."""


class MessageOptions(FormatOptions, frozen=True, kw_only=True):
    """The options of formats of messages."""

    awaiting: Annotated[
        Awaiting,
        "Dependency of a send: data (all arrivals of its chunk) or step (all arrivals of earlier "
        "steps).",
    ] = Awaiting.DATA


@dataclass(frozen=True, slots=True)
class Message:
    """A send, with the messages that must arrive at its sender before.

    Attributes:
        number: Its position in the order of steps, chunks, sources, and destinations.
        reduce: Whether the receiver reduces any of its chunks into its own value.
        after: Numbers of the messages that must arrive before.
        with_chunks: Further chunks of a schedule's combined transfer, ascending.
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
        limit: Maximum number of messages of the format.

    Raises:
        ParameterError: Chunks have fractional bytes.
        TooLargeError: There are too many messages.
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

    A stored chunk replaces the rank's earlier value, so it removes dependencies on earlier
    messages.
    """
    come: dict[tuple[int, int], list[int]] = defaultdict(list)  # by rank and (for DATA) chunk
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
"""Maximum number of visited messages when checking whether data dependencies imply the order."""


def order_links(
    messages: Sequence[Message], link_of: Callable[[Message], tuple[int, ...]]
) -> dict[int, int]:
    """Return the message that must be issued before each message, unless data imply the order.

    Args:
        messages: Messages of a plan, by number.
        link_of: Function that returns the first link that serves a message.
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
    """Return whether the data dependencies of a message imply that another was issued before."""
    if message.after and not before.after and before.number not in order:
        return True  # the other one is issued at the start
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
