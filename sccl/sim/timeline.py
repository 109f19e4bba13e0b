"""Timelines: the transfers on every link over time, and the measures derived from them.

A schedule states the start of each transfer but no reason. If the transfer's chunk arrived, or its
link became free, at that very tick, then that is the reason for not starting earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.sim.messages import Messages
from sccl.sim.start_reasons import StartReason
from sccl.sim.state import NONE


class Causes:
    """Index that finds, for a row of a timeline, a row that ended at the tick at which it began."""

    def __init__(  # noqa: PLR0913, PLR0917 - columns of a timeline
        self,
        row: IntArray,
        chunk: IntArray,
        ends: IntArray,
        link: IntArray,
        start: IntArray,
        free: IntArray,
        arrive: IntArray,
    ) -> None:
        """Sort the ends of all transfers.

        All columns but ``ends`` have an entry for each chunk that a row carries.

        Args:
            row: row of the timeline, ascending.
            chunk: chunk number.
            ends: source and destination of each link, shape (links, 2).
            link: link number.
            start: tick at which the link starts to carry the row.
            free: tick at which the link is free again.
            arrive: tick at which the row is at the link's end.
        """
        nodes = int(ends.max(initial=0)) + 1
        src, dst = ends[link].T
        places, place = np.unique(
            np.concatenate((chunk * nodes + src, chunk * nodes + dst)), return_inverse=True
        )
        ticks, at = np.unique(np.concatenate((start, free, arrive)), return_inverse=True)
        self._row, rows = row, len(link)
        begins, frees, arrives = at[:rows], at[rows : 2 * rows], at[2 * rows :]
        self._wanted = np.stack((place[:rows] * len(ticks) + begins, link * len(ticks) + begins))
        self._ended = (place[rows:] * len(ticks) + arrives, link * len(ticks) + frees)
        self._order = tuple(np.argsort(key, kind="stable") for key in self._ended)
        # With up to 2 places and 3 ticks per row, this holds for fewer than 8 * 10^8 rows.
        assert len(places) * len(ticks) < 2**62

    def find_cause(self, row: int) -> tuple[int, StartReason]:
        """Return the row that ended at the tick at which ``row`` began, and the kind of cause.

        The row is -1 if there is none.
        """
        first, end = np.searchsorted(self._row, (row, row + 1))
        for which, why in enumerate((StartReason.ARRIVAL, StartReason.LINK)):
            key, order = self._ended[which], self._order[which]
            for wanted in self._wanted[which, first:end]:
                at = np.searchsorted(key, wanted, sorter=order)
                if at < len(order) and key[order[at]] == wanted:
                    return int(self._row[order[at]]), why
        return NONE, StartReason.RELEASE


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """One transfer of a critical path.

    Attributes:
        row: row of the timeline.
        message: message number.
        link: link, as an index into ``topology.links``.
        ready: tick at which the transfer was ready.
        start: tick at which it started.
        until: tick at which the next transfer of the path starts. For the last: its arrival.
        why: last event that it waited for, caused by the transfer before it on the path.
    """

    row: int
    message: int
    link: int
    ready: int
    start: int
    until: int
    why: StartReason


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The transfers on every link: a row for each link of each message's route, in order.

    Attributes:
        topology: machine.
        clock: clock of all ticks.
        messages: messages of the simulation.
        message: message number of each row.
        link: link of each row, as an index into ``topology.links``.
        ready: tick at which the message was ready for the link.
        start: tick at which the link starts to carry the message.
        free: tick at which the link is free again.
        arrive: tick at which the whole message is at the link's end.
        why: :class:`~sccl.sim.start_reasons.StartReason`: the last event that the start waited for.
        by: row that caused this event. -1: none.
    """

    topology: Topology
    clock: Clock
    messages: Messages
    message: IntArray
    link: IntArray
    ready: IntArray
    start: IntArray
    free: IntArray
    arrive: IntArray
    why: NDArray[np.int8]
    by: IntArray

    @property
    def finish(self) -> int:
        """Return the tick at which the last message arrives, or 0 without messages."""
        return int(self.arrive.max(initial=0))

    @property
    def finish_us(self) -> float:
        """Return the finish in microseconds."""
        return self.clock.us(self.finish)

    def finish_of_messages(self, first: int, end: int) -> int:
        """Return the tick at which the last of the messages ``first`` to ``end - 1`` arrives."""
        rows = slice(*np.searchsorted(self.message, [first, end]).tolist())
        return int(self.arrive[rows].max(initial=0))

    def busy(self) -> IntArray:
        """Return the ticks for which each link was busy, shape (links,)."""
        return self._by_link(self.link, self.free - self.start)

    def carried_bytes(self) -> IntArray:
        """Return the bytes that each link carried, shape (links,)."""
        chunk_bytes = self.clock.chunk_bytes
        chunks = self.messages.num_chunks
        each = np.array(
            (chunk_bytes,) * chunks if isinstance(chunk_bytes, int) else chunk_bytes, np.int64
        )
        row, chunk, _ = self.chunks()
        return self._by_link(self.link[row], each[chunk])

    def chunks(self) -> tuple[IntArray, NDArray[np.int32], NDArray[np.bool_]]:
        """Return the carried chunks as columns: row, chunk, and whether the message reduces it.

        Rows ascend. A row that carries several chunks occurs once for each of them.
        """
        carried = self.messages.carried_chunks()
        first = np.searchsorted(carried.message, np.arange(len(self.messages) + 1))
        many = np.diff(first)[self.message]
        row = np.repeat(np.arange(len(self.message)), many)
        within = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
        entry = first[self.message[row]] + within
        return row, carried.chunk[entry], carried.reduce[entry]

    def _by_link(self, link: IntArray, amounts: IntArray) -> IntArray:
        sums = np.zeros(len(self.topology.links), np.int64)
        np.add.at(sums, link, amounts)
        return sums

    def utilization(self, bins: int) -> NDArray[np.float64]:
        """Return the mean share of busy links in each of ``bins`` equal intervals.

        Raises:
            ParameterError: ``bins`` is below 1.
        """
        if bins < 1:
            raise ParameterError(f"utilisation in {bins} parts of the time, expected at least 1")
        shares = np.zeros(bins)
        finish = self.finish
        borders = [finish * i // bins for i in range(bins + 1)]
        for i, (since, until) in enumerate(pairwise(borders)):
            inside = np.minimum(self.free, until) - np.maximum(self.start, since)
            capacity = (until - since) * len(self.topology.links)
            shares[i] = int(np.maximum(inside, 0).sum()) / capacity if capacity else 0.0
        return shares

    def critical_path(self) -> tuple[CriticalStep, ...]:
        """Return the transfers that determine the finish; each caused the start of the next.

        They cover every tick from the release of the first: each counts until the next starts. If
        several messages arrive last, the path ends with the one that comes first. If only a release
        determines a start, as in schedules, the path continues with a transfer that ended at that
        very tick.
        """
        if not len(self.arrive):
            return ()
        row, until = int(self.arrive.argmax()), self.finish
        causes = self._causes() if self.messages.release.any() else None
        path: list[CriticalStep] = []
        while row >= 0:
            by, why = int(self.by[row]), StartReason(int(self.why[row]))
            if by < 0 and causes is not None:
                by, why = causes.find_cause(row)
            path.append(
                CriticalStep(
                    row=row,
                    message=int(self.message[row]),
                    link=int(self.link[row]),
                    ready=int(self.ready[row]),
                    start=int(self.start[row]),
                    until=until,
                    why=why,
                )
            )
            row, until = by, int(self.start[row])
        return tuple(reversed(path))

    def _causes(self) -> Causes:
        ends = np.array([link.edge for link in self.topology.links], np.int64).reshape(-1, 2)
        row, chunk, _ = self.chunks()
        times = (column[row] for column in (self.start, self.free, self.arrive))
        return Causes(row, chunk.astype(np.int64), ends, self.link[row], *times)

    def schedule(self, collective: Collective) -> Schedule:
        """Return the same transfers as a schedule, without verification.

        For reductions, the schedule may fail verification if a rank receives a chunk before it
        starts to send its previous value. The simulation stores the received value separately until
        then, whereas a schedule reduces it at once.

        Raises:
            CollectiveError: the collective has another number of ranks or chunks.
        """
        row, chunk, reduce = self.chunks()
        onward = self.message[1:] == self.message[:-1]
        reduce = reduce & ~np.append(onward, np.False_)[row]
        order = np.lexsort((self.link[row], chunk, self.start[row]))
        row = row[order]
        return Schedule(
            topology=self.topology,
            collective=collective,
            start=self.start[row],
            end=self.free[row],
            chunk=chunk[order],
            link=self.link[row],
            reduce=reduce[order],
            tick_ps=self.clock.tick_ps,
            chunk_bytes=self.clock.chunk_bytes,
            model=self.clock.model,
            message=self.message[row] if onward.any() else None,
        )
