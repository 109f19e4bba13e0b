"""Re-execute a schedule transfer by transfer, and report every violation.

The verifier reads only the topology, the collective and the clock, and advances through time. An
arrival at a tick is available to transfers that start at that tick. A transfer carries the value
that its sender has at its start. The rules:

- A transfer occupies its link for at least the duration that the clock gives, and a link carries
  one chunk at a time. Rows of a link with the same start and the same end are one transfer of
  several chunks: its duration covers all of them together, and each arrives at the end of the whole
  transfer.
- The transfers over a shared budget never exceed its rate together. Each counts at a constant rate,
  from the departure of its first byte to that of its last byte.
- A rank sends only chunks that it holds.
- A node that forwards a message does not store it. A cut-through switch sends no byte before that
  byte has arrived. Another switch, or a rank, sends no byte before the whole chunk has arrived.
  Several chunks that arrived as one transfer cut through only if they also leave as one transfer
  without other chunks. Otherwise each chunk has arrived at the end of the transfer.
- The buffer of a switch contains the messages that have arrived completely and have not started to
  leave or, without cut-through, have not left completely. A message leaves a node once, or several
  times if the switch copies.
- In reductions, each partial result is tracked as a set of contributions.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sccl.core.formatting import format_count
from sccl.core.schedule import MAX_TIME, Schedule
from sccl.core.topology import Switch
from sccl.judge.execution import Execution
from sccl.judge.link_capacity import capacity_violations
from sccl.judge.violation import ChunkPlace, Contributions, Violation

CombinedChunks = frozenset[tuple[int | None, int]]
"""(message, chunk) of each chunk that one transfer carries."""

NodePassage = tuple[object, int, int]
"""(message, chunk, node): a chunk of a message at a node that forwards it."""


@dataclass(frozen=True, slots=True)
class TimedSend:
    """A row of a schedule.

    Attributes:
        start: tick at which it starts.
        end: tick at which its link is free again.
        first: tick at which its first byte arrives.
        last: tick at which its last byte arrives.
        chunk: chunk number.
        src: node at the start of its link.
        dst: node at the end of its link.
        reduce: whether the destination reduces the chunk into its value.
        message: the message that it is a hop of, or None if the schedule has no messages.
    """

    start: int
    end: int
    first: int
    last: int
    chunk: int
    src: int
    dst: int
    reduce: bool
    message: int | None

    @property
    def transfer(self) -> tuple[int, int, int, int]:
        """Return the key that all rows of one transfer share."""
        return self.start, self.end, self.src, self.dst


@dataclass(slots=True)
class _PassingMessage:
    """A message at a node that forwards it.

    Attributes:
        inbound: the transfer that brought it.
        value: contributions that it carries.
        last_departure: latest start of its outgoing transfers, None before the first.
        last_finish: latest end of its outgoing transfers.
    """

    inbound: TimedSend
    value: Contributions
    last_departure: int | None = None
    last_finish: int = 0


def violations(schedule: Schedule) -> list[Violation]:
    """Return all violations of a schedule. An empty list means that it is valid."""
    run = _TimedExecution(schedule)
    faults = list(capacity_violations(schedule))
    for transfer in timed_sends(schedule):
        faults += run.arrive(transfer.start)
        faults += run.start(transfer)
    faults += run.arrive(MAX_TIME * 2)
    faults += run.buffer_violations()
    faults += run.final_violations()
    return faults


def timed_sends(schedule: Schedule) -> Iterator[TimedSend]:
    """Yield the rows of a schedule, ascending by start."""
    links = [k.edge for k in schedule.topology.links]
    clock = schedule.clock
    lags = [clock.lag(i) for i in range(len(links))]
    for rows in schedule.batches():
        number = rows.start if rows.message is None else rows.message
        columns = (rows.start, rows.end, rows.chunk, rows.link, rows.reduce, number)
        for start, end, chunk, link, reduce, m in zip(*(c.tolist() for c in columns), strict=True):
            src, dst = links[link]
            yield TimedSend(
                start=start,
                end=end,
                first=start + clock.alpha[link],
                last=end + lags[link],
                chunk=chunk,
                src=src,
                dst=dst,
                reduce=reduce,
                message=None if rows.message is None else m,
            )


class _TimedExecution(Execution[TimedSend]):
    """The state of a re-execution as time advances."""

    UNIT = "transfer"

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.collective, range(schedule.collective.num_chunks))
        self.topology = schedule.topology
        self.relays = _relay_ranks(schedule)
        self.together = _combined_transfers(schedule)
        self.passing: dict[NodePassage, list[_PassingMessage]] = defaultdict(list)
        self.pending_arrivals: list[tuple[int, int, TimedSend, Contributions]] = []
        self.started = 0

    def describe(self, transfer: TimedSend) -> str:
        how = "reduce-send" if transfer.reduce else "send"
        where = f"from {transfer.src} to {transfer.dst} at tick {transfer.start}"
        return f"{how} of chunk {transfer.chunk} {where}"

    def arrival(self, transfer: TimedSend) -> str:
        return f"tick {transfer.last}"

    def violation(
        self, transfer: TimedSend, kind: str, text: str, node: int, *, arriving: bool = False
    ) -> Violation:
        return Violation(
            kind,
            text,
            chunk=transfer.chunk,
            rank=node,
            link=(transfer.src, transfer.dst),
            tick=transfer.last if arriving else transfer.start,
        )

    def arrive(self, until: int) -> Iterator[Violation]:
        """Process all arrivals up to a tick; those of one chunk at one rank and tick together."""
        while self.pending_arrivals and self.pending_arrivals[0][0] <= until:
            tick = self.pending_arrivals[0][0]
            by_place: dict[ChunkPlace, list[tuple[TimedSend, Contributions]]] = defaultdict(list)
            while self.pending_arrivals and self.pending_arrivals[0][0] == tick:
                _, _, transfer, sent = heapq.heappop(self.pending_arrivals)
                by_place[transfer.chunk, transfer.dst].append((transfer, sent))
            for place, incoming in by_place.items():
                yield from self.receive(place, incoming)

    def start(self, transfer: TimedSend) -> Iterator[Violation]:
        """Start a transfer with the value that its sender has."""
        yield from self.misuse_violations(transfer)
        if self._is_passing(transfer.message, transfer.src):
            sent, wrong = self._forward(transfer)
        else:
            sent, wrong = self.value.get((transfer.chunk, transfer.src)), None
            if sent is None:
                wrong = self.unavailable_violation(transfer)
        if wrong:
            yield wrong
        if sent is None:
            return
        if not self._is_passing(transfer.message, transfer.dst):
            self.started += 1  # breaks ties between arrivals at one tick
            heapq.heappush(self.pending_arrivals, (transfer.last, self.started, transfer, sent))
            return
        if transfer.reduce and self.collective.combining:
            text = f"{self.describe(transfer)} reduces where it is only passed on"
            yield self.violation(transfer, "conflict", text, transfer.dst)
        hop = (transfer.message, transfer.chunk, transfer.dst)
        self.passing[hop].append(_PassingMessage(transfer, sent))

    def _is_passing(self, message: int | None, node: int) -> bool:
        """Return whether a node forwards a message without storing it."""
        return node >= self.topology.ranks or (message, node) in self.relays

    def _forward(self, transfer: TimedSend) -> tuple[Contributions | None, Violation | None]:
        """Return the value that a node forwards, and the violation, if any."""
        node = transfer.src
        switch = self._switch(node)
        came = self.passing[transfer.message, transfer.chunk, node]
        ready = [
            p
            for p in came
            if transfer.start >= self._earliest_departure(switch, p.inbound, transfer)
        ]
        fresh = [p for p in ready if p.last_departure is None]
        if not ready:
            text = (
                f"{self.describe(transfer)}: chunk {transfer.chunk} has not arrived at "
                f"{self._name(node)} by then"
            )
            return None, self.violation(transfer, "availability", text, node)
        wrong = None
        if not (fresh or switch.copies):
            passed = f"{self._name(node)} has passed that on already, and does not copy"
            text = f"{self.describe(transfer)}: {passed}"
            wrong = self.violation(transfer, "switch", text, node)
        passage = ready[-1] if switch.copies or wrong else fresh[0]
        if transfer.end < passage.inbound.last:
            text = (
                f"{self.describe(transfer)}: it ends at tick {transfer.end}, and the last byte "
                f"reaches {self._name(node)} at tick {passage.inbound.last}"
            )
            wrong = self.violation(transfer, "switch", text, node)
        passage.last_departure, passage.last_finish = (
            transfer.start,
            max(passage.last_finish, transfer.end),
        )
        return passage.value, wrong

    def _earliest_departure(self, switch: Switch, came: TimedSend, leaves: TimedSend) -> int:
        """Return the earliest tick at which an arrival, complete or in progress, can leave a node.

        Transfers of the same chunks carry them in the same order and at constant rates. So if the
        first and the last byte have arrived in time, every byte between them has, too.
        """
        is_together = self.together.get(came.transfer) == self.together.get(leaves.transfer)
        return came.first if switch.cut_through and is_together else came.last

    def _switch(self, node: int) -> Switch:
        """Return the properties of a node that forwards messages. Ranks store and forward."""
        ranks = self.topology.ranks
        return self.topology.switches[node - ranks] if node >= ranks else _RELAY

    def _name(self, node: int) -> str:
        switches = self.topology.switches
        ranks = self.topology.ranks
        return f"switch {switches[node - ranks].name!r}" if node >= ranks else f"rank {node}"

    def buffer_violations(self) -> Iterator[Violation]:
        """Yield the overflows of switch buffers."""
        held: dict[int, list[tuple[int, int, TimedSend]]] = defaultdict(list)
        for (_, _, node), messages in self.passing.items():
            switch = self._switch(node)
            for p in messages:
                if p.last_departure is None or switch.buffer_chunks is None:
                    continue  # a message without further sends is dropped
                leaves = p.last_departure if switch.cut_through else p.last_finish
                if leaves > p.inbound.last:
                    held[node] += [(p.inbound.last, 1, p.inbound), (leaves, -1, p.inbound)]
        for node in sorted(held):
            yield from self._overflow(node, sorted(held[node], key=lambda event: event[:2]))

    def _overflow(self, node: int, events: list[tuple[int, int, TimedSend]]) -> Iterator[Violation]:
        limit, count = self._switch(node).buffer_chunks, 0
        assert limit is not None
        for tick, change, transfer in events:  # at a tick, departures release buffer space first
            count += change
            if change > 0 and count > limit:
                text = (
                    f"{self._name(node)} holds {format_count(count, 'chunk')} from tick {tick} on, "
                    "and "
                    f"has room for {limit}"
                )
                yield self.violation(transfer, "buffer", text, node, arriving=True)


_RELAY = Switch("", copies=False, buffer_chunks=None, cut_through=False)


def _relay_ranks(schedule: Schedule) -> set[tuple[int | None, int]]:
    """Return the nodes that forward messages, as (message, node)."""
    if schedule.message is None:
        return set()
    into: set[tuple[int | None, int]] = set()
    out: set[tuple[int | None, int]] = set()
    for transfer in timed_sends(schedule):
        into.add((transfer.message, transfer.dst))
        out.add((transfer.message, transfer.src))
    return into & out


def _combined_transfers(schedule: Schedule) -> dict[tuple[int, int, int, int], CombinedChunks]:
    """Return the chunks of each transfer of several chunks. Empty if no switch cuts through."""
    cut_through = any(switch.cut_through for switch in schedule.topology.switches)
    if not cut_through or not schedule.has_combined_transfers:
        return {}
    members: dict[tuple[int, int, int, int], set[tuple[int | None, int]]] = defaultdict(set)
    for row in timed_sends(schedule):
        members[row.transfer].add((row.message, row.chunk))
    return {transfer: frozenset(rows) for transfer, rows in members.items() if len(rows) > 1}
