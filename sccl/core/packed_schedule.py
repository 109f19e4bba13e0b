"""PackedSchedule: a schedule in rounds, stored as a log with about two bytes per transfer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from mmap import MADV_DONTNEED, mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray, UInt64Array
from sccl.core.clock import AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.progress import ProgressCallback
from sccl.core.schedule import BATCH_ROWS, MAX_TIME, Schedule, ScheduleFilter, TransferColumns
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TooLargeError

Chunks = NDArray[np.uint16] | NDArray[np.uint32]
MAX_PART_TRANSFERS = 2**25
"""Maximum number of transfers of a part: a GB of file or memory."""

_BLOCK_ROWS = 2**20  # rows of ``fired`` and chunks of ``log`` per block: about 8 MB


def release_pages(column: NDArray[Any]) -> None:
    """Release the memory pages of an array in a mapped file, which are read again on access."""
    base: object = column
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap) and hasattr(base, "madvise"):
        base.madvise(MADV_DONTNEED)


class PassKind(StrEnum):
    """Direction and effect of a pass over a log.

    ``STORES``: from the first round to the last, and receivers store chunks. ``REDUCES``: from the
    last round to the first, and receivers reduce chunks.
    """

    STORES = "stores"
    REDUCES = "reduces"


@dataclass(frozen=True, slots=True, eq=False)
class PackedSchedule:
    """A schedule in rounds, for machines whose links all take the same time for a chunk.

    Like a :class:`~sccl.core.schedule.Schedule`, it is a *candidate*: its form has been checked,
    but the schedule is not verified. :meth:`batches` yields its transfers as rows of a schedule.

    In a round every link carries one chunk or none. A *slot* is the index of a link in the order by
    destination, then source. In a reducing pass, the order is by source, then destination. So one
    log serves both passes on a machine with two-way links: read backwards over the opposite links,
    it collects the data that it distributes.

    The arrays may be memory-mapped. Then at most one batch of a file is in memory.

    Attributes:
        fired: Bits packed in words, shape (rounds, words). A bit is set if its slot carries a
            chunk.
        log: Carried chunks, ordered by round and slot.
        passes: Passes over the log, in the order of execution.
        tick_ps: Length of a tick in picoseconds.
        chunk_bytes: Size of every chunk in bytes.
        model: State of a link during alpha.

    Raises:
        ParameterError: The arrays have another form, or the machine lacks a link.
        CollectiveError: The collective has another number of ranks.
    """

    topology: Topology
    collective: Collective
    fired: UInt64Array
    log: Chunks
    passes: tuple[PassKind, ...]
    tick_ps: int
    chunk_bytes: int
    model: AlphaModel

    def __post_init__(self) -> None:
        if self.collective.ranks != self.topology.ranks:
            raise CollectiveError(
                f"collective {self.collective.name!r} is made for {self.collective.ranks} ranks, "
                f"topology {self.topology.name!r} has {self.topology.ranks}"
            )
        self._check_machine()
        self._check_arrays()
        for name in ("fired", "log"):
            column = getattr(self, name).view()
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        self._check_log()

    def _check_machine(self) -> None:
        clock, links = self.clock, len(self.topology.links)
        costs = {(clock.busy(i), clock.lag(i)) for i in range(links)}
        alike = len(costs) == 1 and not next(iter(costs))[1]
        if not alike or self.topology.switches or self.topology.budgets:
            raise ParameterError(
                f"topology {self.topology.name!r}: a packed schedule is for links between ranks "
                "that all are busy equally long and share nothing, with chunks that arrive as "
                "links become free: keep it as a schedule"
            )
        if not self.passes:
            raise ParameterError("packed schedule: it has no pass, expected 'stores' or 'reduces'")

    def _check_arrays(self) -> None:
        words = -(-len(self.topology.links) // 64)
        if self.fired.dtype != np.uint64 or self.fired.shape[1:] != (words,):
            raise ParameterError(
                f"packed schedule: 'fired' is {self.fired.dtype} of {self.fired.shape}, expected "
                f"rows of {words} words of 64 bits"
            )
        if self.log.dtype not in (np.uint16, np.uint32) or self.log.ndim != 1:
            raise ParameterError(
                f"packed schedule: 'log' is {self.log.dtype} of {self.log.ndim} dimensions, "
                "expected one of whole numbers of 16 or 32 bits"
            )
        if len(self.passes) * len(self.fired) * self.round_ticks >= MAX_TIME:
            raise ParameterError(
                f"packed schedule: {len(self.fired)} rounds of {self.round_ticks} ticks end after "
                f"tick {MAX_TIME - 1}, the last that is counted"
            )

    def _check_log(self) -> None:
        links, chunks = len(self.topology.links), self.collective.num_chunks
        if links % 64 and len(self.fired) and (self.fired[:, -1] >> np.uint64(links % 64)).any():
            raise ParameterError(
                f"packed schedule: a slot after the last of {links} carries a chunk"
            )
        counts = np.diff(self.round_ends(), prepend=0)
        if counts.sum() != len(self.log):
            raise ParameterError(
                f"packed schedule: slots carry {counts.sum()} chunks, and {len(self.log)} are "
                "listed"
            )
        if len(counts) and not (counts[0] and counts[-1]):
            raise ParameterError("packed schedule: nothing is carried in its first or last round")
        for first in range(0, len(self.log), _BLOCK_ROWS):
            if (max_chunk := int(self.log[first : first + _BLOCK_ROWS].max())) >= chunks:
                raise ParameterError(
                    f"packed schedule: chunk {max_chunk} does not exist, expected 0 to {chunks - 1}"
                )
            release_pages(self.log)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedSchedule):
            return NotImplemented
        return self._scalar_fields() == other._scalar_fields() and all(
            np.array_equal(a, b) for a, b in ((self.fired, other.fired), (self.log, other.log))
        )

    def __hash__(self) -> int:
        return hash(self._scalar_fields())

    def _scalar_fields(self) -> tuple[object, ...]:
        """Return all fields except the arrays, and the lengths of these."""
        head = (self.topology, self.collective, self.tick_ps, self.chunk_bytes, self.model)
        return (*head, self.passes, len(self.fired), len(self.log))

    @property
    def clock(self) -> Clock:
        """Return the clock of its times."""
        return Clock.from_topology(self.topology, self.chunk_bytes, self.model, self.tick_ps)

    @property
    def round_ticks(self) -> int:
        """Return the ticks of a round."""
        return self.clock.busy(0)

    @property
    def num_sends(self) -> int:
        """Return the number of transfers."""
        return len(self.log) * len(self.passes)

    @property
    def finish(self) -> int:
        """Return the tick at which the last chunk arrives. 0: nothing is sent."""
        return len(self.fired) * len(self.passes) * self.round_ticks

    def slot_links(self, passing: PassKind) -> IntArray:
        """Return the index in ``topology.links`` of each slot's link."""
        src, dst = np.array([link.edge for link in self.topology.links], dtype=np.int64).T
        order = np.lexsort((src, dst) if passing is PassKind.STORES else (dst, src))
        return order.astype(np.int64)

    def round_ends(self) -> IntArray:
        """Return the end of each round's chunks in the log, shape (rounds,)."""
        rows = max(_BLOCK_ROWS // max(self.fired.shape[1], 1), 1)
        counts = [np.zeros(0, dtype=np.int64)]
        for first in range(0, len(self.fired), rows):
            part = self.fired[first : first + rows]
            counts.append(np.bitwise_count(part).sum(axis=1, dtype=np.int64))
            release_pages(self.fired)
        return np.cumsum(np.concatenate(counts))

    def link_counts(self) -> IntArray:
        """Return the number of transfers of each link of ``topology.links``."""
        rows = max(_BLOCK_ROWS // max(64 * self.fired.shape[1], 1), 1)
        links = len(self.topology.links)
        slots = np.zeros(links, np.int64)
        for first in range(0, len(self.fired), rows):
            part = self.fired[first : first + rows].astype("<u8", copy=False).view(np.uint8)
            bits = np.unpackbits(part, axis=1, count=links, bitorder="little")
            slots += bits.sum(axis=0, dtype=np.int64)
            release_pages(self.fired)
        counts = np.zeros(links, np.int64)
        for passing in self.passes:
            counts[self.slot_links(passing)] += slots
        return counts

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[TransferColumns]:
        """Yield the transfers as rows of a :class:`Schedule`, in batches of complete rounds.

        Args:
            rows: Maximum number of rows of a batch with more than one round.
        """
        yield from self._part_columns(rows, ScheduleFilter(), 0, len(self.passes) * len(self.fired))

    def partial_schedule(
        self, part: ScheduleFilter, on_progress: ProgressCallback = lambda *_: None
    ) -> Schedule:
        """Return the transfers of a part as an ordinary schedule, which is incomplete on its own.

        Args:
            on_progress: Callback with the number of processed rounds, and their total.

        Raises:
            ParameterError: There is no such chunk, rank or time.
            TooLargeError: There are more than :data:`MAX_PART_TRANSFERS` transfers.
        """
        part.check(self.topology, self.collective)
        ticks, rounds = self.round_ticks, len(self.passes) * len(self.fired)
        first = min(-(-part.begin // ticks), rounds)
        until = rounds if part.until is None else min(-(-part.until // ticks), rounds)
        batches: list[TransferColumns] = []
        total = 0
        for columns in self._part_columns(BATCH_ROWS, part, first, until):
            total += len(columns.start)
            if total > MAX_PART_TRANSFERS:
                raise TooLargeError(
                    f"the part has more than {MAX_PART_TRANSFERS} transfers; this version writes "
                    "down that "
                    "many: give a chunk, a rank, or a shorter time"
                )
            batches.append(columns)
            done = int(columns.start[-1]) // ticks - first if len(columns.start) else 0
            on_progress(done, max(until - first, 1))
        start, end, chunk, link, reduce = (
            np.concatenate([np.zeros(0, dtype), *(each[i] for each in batches)])
            for i, dtype in enumerate((np.int64, np.int64, np.int32, np.int32, np.bool_))
        )
        return Schedule(
            topology=self.topology,
            collective=self.collective,
            start=start,
            end=end,
            chunk=chunk,
            link=link,
            reduce=reduce,
            tick_ps=self.tick_ps,
            chunk_bytes=self.chunk_bytes,
            model=self.model,
        )

    def _part_columns(
        self, rows: int, part: ScheduleFilter, first: int, until: int
    ) -> Iterator[TransferColumns]:
        """Yield the transfers of a part within a range of rounds, counted over all passes."""
        ends = np.concatenate([[0], self.round_ends()])
        for position, passing in enumerate(self.passes):
            rounds = len(self.fired)
            begin, stop = max(first - position * rounds, 0), min(until - position * rounds, rounds)
            links = self.slot_links(passing)
            chosen = part.link_mask(self.topology, links)
            while begin < stop:
                if passing is PassKind.STORES:
                    low, high = begin, max(_last_round(ends, begin, rows), begin + 1)
                else:
                    high = rounds - begin
                    low = min(_first_round(ends, high, rows), high - 1)
                count = min(high - low, stop - begin)
                low, high = (
                    (low, low + count) if passing is PassKind.STORES else (high - count, high)
                )
                number, slot = self._sent_between(low, high)
                chunk = self.log[int(ends[low]) : int(ends[high])].astype(np.int32)
                taken = chosen[slot] if part.chunk is None else chosen[slot] & (chunk == part.chunk)
                release_pages(self.log)
                number, slot, chunk = number[taken], slot[taken], chunk[taken]
                if passing is PassKind.REDUCES:
                    number = rounds - 1 - number
                yield self._transfer_columns(
                    position * rounds + number, links[slot], chunk, passing
                )
                begin += count

    def _sent_between(self, low: int, high: int) -> tuple[IntArray, IntArray]:
        """Return the round and the slot of each carried chunk in rounds ``low`` to ``high - 1``."""
        rows = self.fired[low:high].astype("<u8", copy=False).view(np.uint8)
        number, slot = np.nonzero(np.unpackbits(rows, axis=1, bitorder="little"))
        return number + low, slot

    def _transfer_columns(
        self, number: IntArray, link: IntArray, chunk: NDArray[np.int32], passing: PassKind
    ) -> TransferColumns:
        order = np.lexsort((link, chunk, number))
        start = number[order] * self.round_ticks
        return TransferColumns(
            start=start,
            end=start + self.round_ticks,
            chunk=chunk[order],
            link=link[order].astype(np.int32),
            reduce=np.full(len(start), passing is PassKind.REDUCES),
            message=None,
        )


AnySchedule = Schedule | PackedSchedule

TransferRow = tuple[float, float, float, int, int, int, bool]
"""Start, end and arrival in microseconds, chunk, source, destination, and whether it reduces."""


def transfer_rows(plan: AnySchedule, rows: int = BATCH_ROWS) -> Iterator[TransferRow]:
    """Yield the transfers of a schedule in the order of their starts.

    Args:
        rows: Number of transfers per batch.
    """
    clock, edges = plan.clock, [link.edge for link in plan.topology.links]
    for batch in plan.batches(rows):
        columns = (batch.start, batch.end, batch.chunk, batch.link, batch.reduce)
        for start, end, chunk, link, reduces in zip(*(c.tolist() for c in columns), strict=True):
            times = clock.us(start), clock.us(end), clock.us(end + clock.lag(link))
            yield (*times, chunk, *edges[link], reduces)


def link_usage(plan: AnySchedule) -> list[tuple[int, int, float]]:
    """Return the number of transfers, the index, and the busy microseconds of each link.

    Several chunks that are sent together count as one transfer.
    """
    if isinstance(plan, Schedule):
        begins = plan.transfer_starts() == np.arange(plan.num_sends)
        link, ticks = plan.link[begins], (plan.end - plan.start)[begins].astype(np.int64)
        count, busy = np.zeros((2, len(plan.topology.links)), np.int64)
        np.add.at(count, link, 1)
        np.add.at(busy, link, ticks)
    else:
        count = plan.link_counts()
        busy = count * plan.round_ticks
    clock, both = plan.clock, zip(count.tolist(), busy.tolist(), strict=True)
    return [(n, link, clock.us(ticks)) for link, (n, ticks) in enumerate(both)]


def _last_round(ends: IntArray, first: int, rows: int) -> int:
    """Return the last end of a range of rounds from ``first`` with at most ``rows`` transfers."""
    return int(np.searchsorted(ends, ends[first] + rows, side="right")) - 1


def _first_round(ends: IntArray, until: int, rows: int) -> int:
    """Return the first begin of a range of rounds to ``until`` with at most ``rows`` transfers."""
    return int(np.searchsorted(ends, ends[until] - rows, side="left"))
