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
    """Looks up, by row of a timeline, which row ended as it began."""

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

        Args:
            row: of the timeline, once for each chunk that it carries. They ascend.
            chunk: which it carries, in columns of the same length.
            ends: of each link, source and destination.
            link: of each.
            start: ticks.
            free: ticks at which links are free again.
            arrive: ticks.
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
        assert len(places) * len(ticks) < 2**62  # of 2 and 3 keys a row: so rows < 10^9

    def find_cause(self, row: int) -> tuple[int, StartReason]:
        """Return the row that ended as another began, and the kind of cause. -1: none."""
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
        link: its place in ``topology.links``.
        ready: tick at which its data were ready.
        start: tick at which it started.
        until: tick at which the next transfer of the path starts, or it arrives.
        why: the last thing that it waited for, caused by the transfer before it on the path.
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
    """The transfers on every link: a row for each link on the way of each message, in order.

    Attributes:
        clock: the clock of all ticks.
        message: message number.
        link: place of the link in ``topology.links``.
        ready: tick at which it came to the link's queue.
        start: tick at which the link begins with it.
        free: tick at which the link is free again.
        arrive: tick at which it is whole at the link's end.
        why: the last thing that its start waited for, a
            :class:`~sccl.sim.start_reasons.StartReason`.
        by: the row that caused this. -1: none.
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
        """Return the tick at which the last message arrives. 0: there is none."""
        return int(self.arrive.max(initial=0))

    @property
    def finish_us(self) -> float:
        """Return the finish in microseconds."""
        return self.clock.us(self.finish)

    def finish_of_messages(self, first: int, end: int) -> int:
        """Return the tick at which the last of some messages arrives, ``end`` not among them."""
        rows = slice(*np.searchsorted(self.message, [first, end]).tolist())
        return int(self.arrive[rows].max(initial=0))

    def busy(self) -> IntArray:
        """Return of each link the ticks for which it was busy."""
        return self._by_link(self.link, self.free - self.start)

    def carried_bytes(self) -> IntArray:
        """Return of each link the bytes that it carried."""
        chunk_bytes = self.clock.chunk_bytes
        chunks = self.messages.num_chunks
        each = np.array(
            (chunk_bytes,) * chunks if isinstance(chunk_bytes, int) else chunk_bytes, np.int64
        )
        row, chunk, _ = self.chunks()
        return self._by_link(self.link[row], each[chunk])

    def chunks(self) -> tuple[IntArray, NDArray[np.int32], NDArray[np.bool_]]:
        """Return columns of carried chunks: row, chunk, and whether its message reduces it.

        Rows ascend. The row of a message with several chunks occurs once for each of them.
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
        """Return which part of all links was busy in each of so many equal parts of the time.

        Raises:
            ParameterError: there are no bins.
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
        """Return the transfers that led to the finish, each started because of the one before.

        From the release of the first on they leave no tick out: each lasts until the next starts.
        If several messages arrive last, it is the path of the first. If only a release determines a
        start, as in schedules, the path continues with a transfer that ended at that very tick.
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
        """Return the same transfers as a schedule, which is not verified yet.

        It may fail verification if combining ranks receive a chunk before they start to send their
        previous value: a timeline stores the two separately, and a schedule adds at once.

        Raises:
            CollectiveError: the collective is of another number of ranks or chunks.
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
