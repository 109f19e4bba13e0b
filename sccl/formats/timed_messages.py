"""What ranks tell one another in a schedule, and what each message waits for.

A row of a schedule is a hop. Hops over switches are one message from rank to rank; a rank that
passes a message on and keeps nothing of it sends one that waits for what came alone. Chunks that
are one transfer on all hops from rank to rank are one message, of all their bytes; those that part
at a switch are a message each.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from sccl.core.schedule import Schedule
from sccl.errors import ParameterError
from sccl.formats.messages import Awaiting, Message

Hop = tuple[int, int, int, int, bool, int]
"""(when it starts, when it has arrived, chunk, link, reduce, the first row of its transfer)."""


@dataclass(frozen=True, slots=True, order=True)
class _Leg:
    """The way of a chunk from rank to rank.

    Attributes:
        of: the number that the schedule gives the message, and the chunk.
        onward: whether a rank passes it on that keeps nothing of it.
        kept: whether the rank that it comes to keeps it.
        transfers: that it is a part of, each by its first row.
    """

    start: int
    chunk: int
    src: int
    dst: int
    of: tuple[int, int]
    arrives: int
    reduce: bool
    onward: bool
    kept: bool
    transfers: tuple[int, ...]


def timed_messages(schedule: Schedule, awaiting: Awaiting) -> list[Message]:
    """Return the messages of a schedule, in the order of starts, chunks, sources, destinations.

    What has arrived at a rank by the tick at which a message starts, it waits for.

    Raises:
        ParameterError: messages are not told apart where there are switches, or one leaves a switch
            more than once.
    """
    sent: dict[tuple[int, ...], list[_Leg]] = defaultdict(list)
    for leg in sorted(_legs(schedule)):
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
    """What has come to ranks so far, by the numbers of messages."""

    def __init__(self, *, by_chunk: bool) -> None:
        self._by_chunk = by_chunk
        self._kept: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._passed: dict[tuple[tuple[int, int], int], int] = {}

    def note(self, number: int, legs: list[_Leg]) -> None:
        """Note that a message has arrived; a chunk that is stored takes the place of what was."""
        for leg in legs:
            if not leg.kept:
                self._passed[leg.of, leg.dst] = number
                continue
            place = self._kept[leg.dst, leg.chunk if self._by_chunk else 0]
            if self._by_chunk and not leg.reduce:
                place.clear()
            if number not in place[-1:]:
                place.append(number)

    def before(self, legs: list[_Leg]) -> tuple[int, ...]:
        """Return what a message waits for that starts now, in the order of coming."""
        every = [number for leg in legs for number in self._before(leg)]
        return tuple(every) if len(legs) == 1 else tuple(sorted(set(every)))

    def _before(self, leg: _Leg) -> list[int]:
        if leg.onward:
            return [self._passed[leg.of, leg.src]]
        return self._kept[leg.src, leg.chunk if self._by_chunk else 0]


def _legs(schedule: Schedule) -> Iterator[_Leg]:
    """Yield the ways from rank to rank."""
    if schedule.message is None:
        if schedule.topology.switches:
            raise ParameterError(
                "schedule: it has switches and does not say which hops are of one message: give "
                "one with the column 'message', as sccl tacos writes it"
            )
        for number, (start, arrives, chunk, link, reduce, first) in enumerate(_hops(schedule)):
            src, dst = schedule.topology.links[link].edge
            of, transfers = (number, chunk), (first,)
            yield _Leg(start, chunk, src, dst, of, arrives, reduce, False, True, transfers)  # noqa: FBT003 - columns
        return
    ways: dict[tuple[int, int], list[Hop]] = defaultdict(list)
    for number, hop in zip(schedule.message.tolist(), _hops(schedule), strict=True):
        ways[number, hop[2]].append(hop)
    for way, hops in ways.items():
        yield from _of_message(schedule, way, hops)


def _hops(schedule: Schedule) -> Iterator[Hop]:
    clock, transfers = schedule.clock, iter(schedule.transfers().tolist())
    for rows in schedule.batches():
        columns = (rows.start, rows.end, rows.chunk, rows.link, rows.reduce)
        for start, end, chunk, link, reduce in zip(*(c.tolist() for c in columns), strict=True):
            yield start, end + clock.lag(link), chunk, link, reduce, next(transfers)


def _of_message(schedule: Schedule, of: tuple[int, int], hops: list[Hop]) -> Iterator[_Leg]:
    ranks, links = schedule.topology.ranks, schedule.topology.links
    begin, src = hops[0][0], links[hops[0][3]].src
    first, at = src, src
    transfers: list[int] = []
    for i, (start, arrives, chunk, link, reduce, transfer) in enumerate(hops):
        if links[link].src != at:
            raise ParameterError(
                f"schedule: message {of[0]} goes on from node {links[link].src} and is at node "
                f"{at}: switches that copy are not told here, so give a message for each receiver"
            )
        if at < ranks:
            begin, src, transfers = start, at, []
        at = links[link].dst
        transfers.append(transfer)
        if at < ranks:
            kept, onward = i + 1 == len(hops), src != first
            way = tuple(transfers)
            yield _Leg(begin, chunk, src, at, of, arrives, reduce, onward, kept, way)


def sizes_of(schedule: Schedule, size_bytes: int | None) -> tuple[int, ...]:
    """Return the bytes of each chunk.

    Args:
        size_bytes: of a rank's buffer, as it is told; None: it is not.

    Raises:
        ParameterError: what is told is not what the schedule was made for.
    """
    sizes, chunks = schedule.chunk_bytes, schedule.collective.num_chunks
    each = sizes if isinstance(sizes, tuple) else (sizes,) * chunks
    own = sum(each) * schedule.collective.chunks / chunks
    if size_bytes is not None and size_bytes != own:
        raise ParameterError(
            f"the size is {size_bytes} bytes, and the schedule is for {own:.0f}: leave --size out"
        )
    return each
