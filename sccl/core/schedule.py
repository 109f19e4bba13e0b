"""Schedule: the transfers of every link, in whole ticks. The timed counterpart of an algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import AnyIntArray, IntArray
from sccl.core.clock import PS_PER_US, AlphaModel, Clock
from sccl.core.collective import Collective
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError

MAX_TIME = 2**62
"""Maximum tick of a schedule, such that adding an alpha still fits in 64 bits."""

MAX_MESSAGES = 2**31
"""Upper limit of message numbers, which may have any order and gaps."""

BATCH_ROWS = 2**20
"""Number of rows per batch: a few tens of MB."""

_CHECK_ROWS = 2**15
"""Number of rows that are checked together, such that they fit in the fastest cache."""

_INTEGER_COLUMNS = ("start", "end", "chunk", "link", "message")


class TransferColumns(NamedTuple):
    """Consecutive rows of a schedule, as arrays of one length."""

    start: AnyIntArray
    end: AnyIntArray
    chunk: AnyIntArray
    link: AnyIntArray
    reduce: NDArray[np.bool_]
    message: AnyIntArray | None


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Transfers with their times, for one collective on one topology.

    Like an :class:`~sccl.core.algorithm.Algorithm` it is a *candidate*: its form has been checked,
    but the schedule is not verified.

    A row is a chunk's transfer over one link. A path through switches, or through ranks that
    forward a chunk without storing it, consists of several rows. With messages, these are the rows
    of one message. Without messages, ranks store all arriving chunks, and a switch forwards chunks
    in the order of arrival.

    Rows of one link with the same start and the same end are one transfer of several chunks: the
    link has one alpha for all of them (:meth:`Clock.busy_combined`), and all arrive at the end of
    the transfer. They may separate after it: a path belongs to a message and a chunk.

    The columns are stored unchanged, in any integer type, and may be on disk (``numpy.memmap``).
    Methods need only one batch of rows in memory. A row takes 25 bytes: two times of 64 bits, a
    chunk and a link of 32 bits each, and a flag. So the 1.6 * 10^9 transfers of an allgather among
    40,000 ranks are a file of 40 GB, or 24 GB with times and links of 32 bits and chunks of 16. The
    transfers of a broadcast of 1,000 chunks are 1 GB.

    Attributes:
        start: Tick at which the link begins with the chunk. Rows ascend by (start, chunk, link).
        end: Tick at which the link is free again. The chunk arrives :meth:`Clock.lag` later.
        chunk: Chunk number.
        link: Index of the link in ``topology.links``.
        reduce: Whether the receiver reduces the chunk into its value. Otherwise it stores the
            chunk.
        message: Message of which the row is a hop. None: each row is a message.
        tick_ps: Length of a tick, picoseconds.
        chunk_bytes: Size of every chunk, or a tuple with the size of each chunk, bytes.
        model: State of a link during alpha.

    Raises:
        ParameterError: The columns have another form, or contain numbers out of range.
        CollectiveError: The collective has another number of ranks, or of chunk sizes.
    """

    topology: Topology
    collective: Collective
    start: AnyIntArray
    end: AnyIntArray
    chunk: AnyIntArray
    link: AnyIntArray
    reduce: NDArray[np.bool_]
    tick_ps: int
    chunk_bytes: int | tuple[int, ...]
    model: AlphaModel = AlphaModel.TRAVELS
    message: AnyIntArray | None = None

    def __post_init__(self) -> None:
        self._check_columns()
        if not len(self.start):
            object.__setattr__(self, "message", None)  # files do not distinguish empty messages
        for name in self._column_names():
            column = getattr(self, name).view()
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        self._check_fit()
        last_key = None
        for position, rows in enumerate(self.batches(_CHECK_ROWS)):
            self._check_ranges(rows, position * _CHECK_ROWS)
            self._check_order(rows, position * _CHECK_ROWS, last_key)
            last_key = tuple(int(column[-1]) for column in (rows.start, rows.chunk, rows.link))

    def _column_names(self) -> tuple[str, ...]:
        return tuple(n for n in TransferColumns._fields if getattr(self, n) is not None)

    def _check_columns(self) -> None:
        for name in self._column_names():
            column = getattr(self, name)
            kinds, description = (
                ("iu", "whole numbers") if name in _INTEGER_COLUMNS else ("b", "booleans")
            )
            is_array = isinstance(column, np.ndarray)
            if not is_array or column.ndim != 1 or column.dtype.kind not in kinds:
                shown = f"{column.ndim} dimensions of {column.dtype}" if is_array else type(column)
                raise ParameterError(
                    f"schedule, column {name!r}: {shown}, expected an array of one dimension of "
                    f"{description}"
                )
            if len(column) != len(self.start):
                raise ParameterError(
                    f"schedule, column {name!r}: {len(column)} rows, expected {len(self.start)} as "
                    "in 'start'"
                )

    def _check_fit(self) -> None:
        if self.collective.ranks != self.topology.ranks:
            raise CollectiveError(
                f"collective {self.collective.name!r} is made for {self.collective.ranks} ranks, "
                f"topology {self.topology.name!r} has {self.topology.ranks}"
            )
        sizes, chunks = self.chunk_bytes, self.collective.num_chunks
        if isinstance(sizes, tuple) and len(sizes) != chunks:
            raise CollectiveError(
                f"collective {self.collective.name!r} has {chunks} chunks, and {len(sizes)} sizes "
                "are given: give one for all chunks, or one for each"
            )
        _ = self.clock  # raises an error if sizes or ticks are out of range

    def _check_ranges(self, rows: TransferColumns, first: int) -> None:
        limits = {"chunk": self.collective.num_chunks, "link": len(self.topology.links)}
        if self.message is not None:
            limits["message"] = MAX_MESSAGES
        for name, end in (("start", MAX_TIME), ("end", MAX_TIME), *limits.items()):
            column = getattr(rows, name)
            if len(column) and not 0 <= column.min() <= column.max() < end:
                row = int(np.flatnonzero((column < 0) | (column >= end))[0])
                raise ParameterError(
                    f"schedule, row {first + row}: {name} is {column[row]}, expected 0 to {end - 1}"
                )
        wrong = rows.end <= rows.start
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ParameterError(
                f"schedule, row {first + row}: it ends at {rows.end[row]} and starts at "
                f"{rows.start[row]}, expected an end after the start"
            )

    def _check_order(
        self, rows: TransferColumns, first: int, last_key: tuple[int, ...] | None
    ) -> None:
        """Check that rows ascend by (start, chunk, link), after the previous batch's last row."""
        keys = [rows.start, rows.chunk, rows.link]
        if last_key is not None:
            last = [np.array([b], dtype=key.dtype) for b, key in zip(last_key, keys, strict=True)]
            keys = [np.concatenate(pair) for pair in zip(last, keys, strict=True)]
            first -= 1
        descends = np.ones(len(keys[0]) - 1, dtype=np.bool_)  # equal keys count as descending
        for key in reversed(keys):
            descends = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & descends)
        if descends.any():
            row = first + 1 + int(np.flatnonzero(descends)[0])
            raise ParameterError(
                f"schedule, row {row}: it is out of order or repeats row {row - 1} (order: start, "
                "chunk, link): sort the rows, and list each transfer once"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self._scalar_fields() == other._scalar_fields() and all(
            np.array_equal(mine, theirs)
            for a, b in zip(self.batches(), other.batches(), strict=True)
            for mine, theirs in zip(a, b, strict=True)
            if mine is not None and theirs is not None
        )

    def __hash__(self) -> int:
        return hash(self._scalar_fields())

    def _scalar_fields(self) -> tuple[object, ...]:
        """Return all fields except the columns, and the length of these."""
        head = (self.topology, self.collective, self.tick_ps, self.chunk_bytes, self.model)
        return (*head, self.num_sends, self.message is None)

    @property
    def num_sends(self) -> int:
        """Return the number of rows, which counts chunks of combined transfers separately."""
        return len(self.start)

    @property
    def clock(self) -> Clock:
        """Return the clock of its times."""
        return Clock.from_topology(self.topology, self.chunk_bytes, self.model, self.tick_ps)

    @property
    def finish(self) -> int:
        """Return the tick at which the last chunk arrives. 0: nothing is sent."""
        return max((int(arrivals.max()) for _, arrivals in self._arrivals()), default=0)

    @property
    def finish_us(self) -> Fraction:
        """Return the completion time in microseconds."""
        return Fraction(self.finish * self.tick_ps, PS_PER_US)

    def part_finishes(self, parts: Sequence[int]) -> tuple[int, ...]:
        """Return the ticks at which the last chunk of each part of the collective arrives.

        Args:
            parts: Number of consecutive chunks of the pattern in each part.
        """
        ends = np.cumsum(parts)
        finish_ticks = np.zeros(len(parts), dtype=np.int64)
        for rows, arrivals in self._arrivals():
            part = np.searchsorted(ends, rows.chunk % ends[-1], side="right")
            np.maximum.at(finish_ticks, part, arrivals)
        return tuple(finish_ticks.tolist())

    def _arrivals(self) -> Iterator[tuple[TransferColumns, NDArray[np.int64]]]:
        """Yield rows, and the ticks at which their chunks arrive."""
        clock = self.clock
        lags = np.array([clock.lag(i) for i in range(len(self.topology.links))], dtype=np.int64)
        for rows in self.batches():
            yield rows, rows.end.astype(np.int64) + lags[rows.link]

    def transfer_starts(self) -> NDArray[np.int64]:
        """Return the first row of each row's transfer: itself if the transfer has one chunk."""
        order = np.lexsort((self.end, self.start, self.link))  # stable: rows of a transfer ascend
        begins = np.zeros(len(order), dtype=np.bool_)
        begins[:1] = True
        for column in (self.end, self.start, self.link):
            begins[1:] |= column[order[1:]] != column[order[:-1]]
        first_rows = np.empty(len(order), dtype=np.int64)
        first_rows[order] = order[begins][np.cumsum(begins) - 1]
        return first_rows

    @property
    def has_combined_transfers(self) -> bool:
        """Return whether any transfer carries several chunks."""
        return bool((self.transfer_starts() != np.arange(self.num_sends)).any())

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[TransferColumns]:
        """Yield the rows in order, in batches of ``rows``, as views without copying."""
        for first in range(0, self.num_sends, rows):
            part = slice(first, first + rows)
            columns = {name: getattr(self, name)[part] for name in self._column_names()}
            yield TransferColumns(**({"message": None} | columns))


def build_schedule(
    topology: Topology,
    collective: Collective,
    rows: Sequence[tuple[int, int, int, int, bool]],
    clock: Clock,
    messages: Sequence[int] | None = None,
) -> Schedule:
    """Return a schedule from rows (start, end, chunk, link, reduce) in any order.

    Args:
        messages: Message of each row. None: each row is a message.

    Raises:
        InputError: The rows do not form a schedule.
    """
    for row in rows:
        if not all(0 <= time < MAX_TIME for time in row[:2]):
            raise ParameterError(
                f"schedule: a transfer from tick {row[0]} to {row[1]}, expected 0 to {MAX_TIME - 1}"
            )
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][2], rows[i][3]))
    ordered = [rows[i] for i in order]
    message = None if messages is None else np.array([messages[i] for i in order], dtype=np.int64)
    table = np.array([row[:4] for row in ordered], dtype=np.int64).reshape(-1, 4)
    return Schedule(
        topology=topology,
        collective=collective,
        start=table[:, 0].copy(),
        end=table[:, 1].copy(),
        chunk=table[:, 2].astype(np.int32),
        link=table[:, 3].astype(np.int32),
        reduce=np.array([row[4] for row in ordered], dtype=np.bool_),
        tick_ps=clock.tick_ps,
        chunk_bytes=clock.chunk_bytes,
        model=clock.model,
        message=message,
    )


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """A filter of transfers of a schedule, by default all.

    Attributes:
        chunk: Chunk of the transfers.
        rank: Source or destination of the transfers.
        begin: First tick at which transfers may start.
        until: Tick before which transfers start.
    """

    chunk: int | None = None
    rank: int | None = None
    begin: int = 0
    until: int | None = None

    def link_mask(self, topology: Topology, links: IntArray) -> NDArray[np.bool_]:
        """Return whether the filter includes transfers over each link, shape (links,)."""
        if self.rank is None:
            return np.ones(len(links), dtype=np.bool_)
        ends = np.array([link.edge for link in topology.links], dtype=np.int64)
        touched: NDArray[np.bool_] = (ends == self.rank).any(axis=1)[links]
        return touched

    def check(self, topology: Topology, collective: Collective) -> None:
        """Check that the selected chunk, rank and times exist.

        Raises:
            ParameterError: One does not.
        """
        for name, value, limit in (
            ("chunk", self.chunk, collective.num_chunks - 1),
            ("rank", self.rank, topology.ranks - 1),
            ("begin", self.begin, MAX_TIME),
            ("until", self.until, MAX_TIME),
        ):
            if value is not None and not 0 <= value <= limit:
                raise ParameterError(f"{name} is {value}, expected 0 to {limit}")

    def apply(self, schedule: Schedule) -> Schedule:
        """Return the selected transfers of an ordinary schedule.

        Raises:
            ParameterError: There is no such chunk, rank or time.
        """
        self.check(schedule.topology, schedule.collective)
        selected = self.link_mask(schedule.topology, schedule.link.astype(np.int64))
        selected &= schedule.start >= self.begin
        if self.until is not None:
            selected &= schedule.start < self.until
        if self.chunk is not None:
            selected &= schedule.chunk == self.chunk
        columns = {name: getattr(schedule, name)[selected] for name in TransferColumns._fields[:5]}
        message = None if schedule.message is None else schedule.message[selected]
        return replace(schedule, **columns, message=message)
