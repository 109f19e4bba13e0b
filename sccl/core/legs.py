"""Group the hops of a schedule over switches into paths from rank to rank.

A row of a schedule is a hop. Hops over switches are one leg from rank to rank. A rank that passes a
message on without storing it begins another leg. Chunks that are one transfer on all hops of a leg
go together. Chunks that part at a switch do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sccl.core.schedule import Schedule
from sccl.errors import ParameterError

_Hop = tuple[int, int, int, int, bool, int]
"""(when it starts, when it has arrived, chunk, link, reduce, the first row of its transfer)."""


@dataclass(frozen=True, slots=True, order=True)
class Leg:
    """The way of a chunk from rank to rank.

    Attributes:
        of: the number that the schedule gives the message, and the chunk.
        onward: whether a rank passes it on that keeps nothing of it.
        kept: whether the rank that it comes to keeps it.
        transfers: that it is a part of, each by its first row: one of each hop.
        links: of each hop.
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
    links: tuple[int, ...]


def legs_of(schedule: Schedule) -> Iterator[Leg]:
    """Yield the ways from rank to rank, in no order that is promised.

    Raises:
        ParameterError: messages are unknown apart where there are switches, or one leaves a switch
            more than once.
    """
    if schedule.message is None:
        if schedule.topology.switches:
            raise ParameterError(
                "schedule: it has switches, but no column 'message' groups the hops of a message: "
                "give a schedule with this column, as sccl tacos writes it"
            )
        for number, (start, arrives, chunk, link, reduce, first) in enumerate(_hops(schedule)):
            src, dst = schedule.topology.links[link].edge
            of, transfers = (number, chunk), (first,)
            yield Leg(start, chunk, src, dst, of, arrives, reduce, False, True, transfers, (link,))  # noqa: FBT003 - columns
        return
    ways: dict[tuple[int, int], list[_Hop]] = defaultdict(list)
    for number, hop in zip(schedule.message.tolist(), _hops(schedule), strict=True):
        ways[number, hop[2]].append(hop)
    for way, hops in ways.items():
        yield from _of_message(schedule, way, hops)


def _hops(schedule: Schedule) -> Iterator[_Hop]:
    clock, transfers = schedule.clock, iter(schedule.transfers().tolist())
    for rows in schedule.batches():
        columns = (rows.start, rows.end, rows.chunk, rows.link, rows.reduce)
        for start, end, chunk, link, reduce in zip(*(c.tolist() for c in columns), strict=True):
            yield start, end + clock.lag(link), chunk, link, reduce, next(transfers)


def _of_message(schedule: Schedule, of: tuple[int, int], hops: list[_Hop]) -> Iterator[Leg]:
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
            way, over = tuple(transfers), tuple(passed)
            yield Leg(begin, chunk, src, at, of, arrives, reduce, onward, kept, way, over)
