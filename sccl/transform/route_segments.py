"""Group the hops of a schedule over switches into paths from rank to rank.

A row of a schedule is a hop. Consecutive hops over switches form one segment from rank to rank. A
rank that forwards a message without storing it begins another segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sccl.core.schedule import Schedule
from sccl.errors import ParameterError

_HopRow = tuple[int, int, int, int, bool, int]
"""(start, arrival, chunk, link, reduce, first row of its transfer)."""


@dataclass(frozen=True, slots=True, order=True)
class RouteSegment:
    """The path of a chunk between two ranks.

    Attributes:
        message_chunk: Number of the message in the schedule, and the chunk.
        is_forwarded: Whether the source forwards the chunk without storing it.
        is_stored: Whether the destination stores the chunk.
        transfers: One transfer per hop, each named by its first row in the schedule.
        links: One link per hop.
    """

    start: int
    chunk: int
    src: int
    dst: int
    message_chunk: tuple[int, int]
    arrival: int
    reduce: bool
    is_forwarded: bool
    is_stored: bool
    transfers: tuple[int, ...]
    links: tuple[int, ...]


def route_segments(schedule: Schedule) -> Iterator[RouteSegment]:
    """Yield the segments of a schedule, in any order.

    Raises:
        ParameterError: The machine has switches but the schedule no messages, or a message leaves a
            switch more than once.
    """
    if schedule.message is None:
        if schedule.topology.switches:
            raise ParameterError(
                "schedule: it has switches, but no column 'message' groups the hops of a message: "
                "give a schedule with this column, as sccl synth tacos writes it"
            )
        for number, (start, arrives, chunk, link, reduce, first) in enumerate(_hop_rows(schedule)):
            src, dst = schedule.topology.links[link].edge
            of, transfers = (number, chunk), (first,)
            yield RouteSegment(
                *(start, chunk, src, dst, of, arrives, reduce, False, True, transfers, (link,))
            )
        return
    messages: dict[tuple[int, int], list[_HopRow]] = defaultdict(list)
    for number, hop in zip(schedule.message.tolist(), _hop_rows(schedule), strict=True):
        messages[number, hop[2]].append(hop)
    for key, hops in messages.items():
        yield from _message_segments(schedule, key, hops)


def _hop_rows(schedule: Schedule) -> Iterator[_HopRow]:
    clock, transfers = schedule.clock, iter(schedule.transfer_starts().tolist())
    for rows in schedule.batches():
        columns = (rows.start, rows.end, rows.chunk, rows.link, rows.reduce)
        for start, end, chunk, link, reduce in zip(*(c.tolist() for c in columns), strict=True):
            yield start, end + clock.lag(link), chunk, link, reduce, next(transfers)


def _message_segments(
    schedule: Schedule, of: tuple[int, int], hops: list[_HopRow]
) -> Iterator[RouteSegment]:
    ranks, links = schedule.topology.ranks, schedule.topology.links
    begin, src = hops[0][0], links[hops[0][3]].src
    first, at = src, src
    transfers: list[int] = []
    passed: list[int] = []
    for i, (start, arrives, chunk, link, reduce, transfer) in enumerate(hops):
        if links[link].src != at:
            raise ParameterError(
                f"schedule: message {of[0]} continues from node {links[link].src} but is at node "
                f"{at}: a copy in a switch needs one message per receiver"
            )
        if at < ranks:
            begin, src, transfers, passed = start, at, [], []
        at = links[link].dst
        transfers.append(transfer)
        passed.append(link)
        if at < ranks:
            kept, onward = i + 1 == len(hops), src != first
            rows, over = tuple(transfers), tuple(passed)
            yield RouteSegment(begin, chunk, src, at, of, arrives, reduce, onward, kept, rows, over)
