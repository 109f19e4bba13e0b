"""Messages: the input of a simulation, and their dependencies, as columns.

A *place* is a chunk at a node. A send from a place carries the value there at its start. So a
message waits for the earlier arrivals at its source, and an arrival replaces the value only after
all sends of the old value have started. Both dependencies are counted at *gates*: a gate opens when
all events that it counts have happened. Each message waits for at most one gate, its arrival is
counted at no more than one, and so is its start. So three columns hold the dependencies, however
many messages meet at a place. For a reduction with 1,000 arrivals and 1,000 subsequent sends they
have 2,000 entries; a list of pairs would have a million. A message with more dependencies, as in
the instructions of a program, waits for a gate that counts the openings of other gates.

A value may arrive at a place before all sends of the old value have started, for example when two
ranks exchange partial results of one chunk while the link of one is still busy. It is then stored
separately until those sends have started. That delays only the messages that forward it, whereas
waiting for each other's start could deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm
from sccl.core.arrays import AnyIntArray, IntArray
from sccl.core.clock import StepAlignment
from sccl.core.schedule import MAX_TIME, Schedule
from sccl.errors import ParameterError

MAX_NODES = 2**31
"""Upper limit of node numbers, which are stored in 32 bits."""

NO_GATE = -1
"""Placeholder in columns of gates, steps and limits: none."""

_TYPES = {
    "chunk": np.int32, "src": np.int32, "dst": np.int32, "reduce": np.bool_,
    "release": np.int64, "at_least": np.int64,
    "waits_for": np.int32, "arrival_opens": np.int32, "start_opens": np.int32, "step": np.int32,
}  # fmt: skip

_GATES = ("waits_for", "arrival_opens", "start_opens")
_ONWARD = ("opened", "counted_at")

Numbers: TypeAlias = AnyIntArray | Sequence[int]


class ExtraChunks(NamedTuple):
    """The additional chunks of messages that carry several, as columns of equal length.

    Attributes:
        message: message numbers, ascending.
        chunk: chunk numbers.
        reduce: whether each chunk is reduced into the value at the destination.
    """

    message: NDArray[np.int64]
    chunk: NDArray[np.int32]
    reduce: NDArray[np.bool_]

    @classmethod
    def from_columns(
        cls, message: AnyIntArray, chunk: AnyIntArray, reduce: NDArray[np.bool_]
    ) -> ExtraChunks:
        """Return the columns, converted to the integer types of this class."""
        return cls(message.astype(np.int64), chunk.astype(np.int32), reduce)


NO_EXTRA_CHUNKS = ExtraChunks(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages in the order of their numbers, which breaks ties at the same tick.

    The columns are read-only. Unless noted, they have one entry per message. Instances are built by
    :meth:`from_steps`, :meth:`from_order`, :meth:`from_algorithm`, :meth:`from_schedule` and
    :func:`concatenate`.

    Attributes:
        chunk: chunk number.
        src: source node.
        dst: destination node, any number of links away.
        reduce: whether the chunk is reduced into the value at the destination.
        release: earliest tick at which the message starts.
        at_least: minimum ticks for which the message occupies its link. If positive, the message
            does not wait for budgets. 0: the duration that the clock gives.
        waits_for: gate that must open before the message starts, or ``NO_GATE``.
        arrival_opens: gate that counts the arrival, or ``NO_GATE``.
        start_opens: gate that counts the start, or ``NO_GATE``.
        step: step number. Links serve messages in step order. Concurrent collectives have separate
            steps. ``NO_GATE``: no step; links serve the message when it is ready.
        barriers: whether each gate is a barrier between steps, shape (gates,). Other gates belong
            to places.
        opened: gates whose opening is counted at another gate.
        counted_at: gate at which the opening of each gate in ``opened`` is counted.
        num_chunks: number of chunks. Chunk numbers are below it.
        more: further chunks of messages that carry several, as transfers of schedules may. Such a
            message needs an ``at_least`` that suffices for all of its chunks.

    Raises:
        ParameterError: a column has the wrong form, or contains a number out of range.
    """

    chunk: NDArray[np.int32]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    reduce: NDArray[np.bool_]
    release: NDArray[np.int64]
    at_least: NDArray[np.int64]
    waits_for: NDArray[np.int32]
    arrival_opens: NDArray[np.int32]
    start_opens: NDArray[np.int32]
    step: NDArray[np.int32]
    barriers: NDArray[np.bool_]
    opened: NDArray[np.int32]
    counted_at: NDArray[np.int32]
    num_chunks: int
    more: ExtraChunks = NO_EXTRA_CHUNKS

    def __post_init__(self) -> None:
        for name in _TYPES:
            column = getattr(self, name)
            if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind == "f":
                raise ParameterError(
                    f"messages, column {name!r}: expected an array of one dimension of whole "
                    "numbers, or booleans"
                )
            if len(column) != len(self.chunk):
                raise ParameterError(
                    f"messages, column {name!r}: {len(column)} rows, expected {len(self.chunk)} "
                    "as in 'chunk'"
                )
        ends = {"chunk": self.num_chunks, "src": MAX_NODES, "dst": MAX_NODES}
        times = {"release": MAX_TIME, "at_least": MAX_TIME}
        for name, end in (ends | times).items():
            self._check(name, 0, end)
        self._check("step", NO_GATE, MAX_NODES)
        for name in _GATES:
            self._check(name, NO_GATE, len(self.barriers))
        for name in _ONWARD:
            self._check(name, 0, len(self.barriers))
        if len(self.opened) != len(self.counted_at):
            raise ParameterError(
                f"messages, column 'counted_at': {len(self.counted_at)} rows, expected "
                f"{len(self.opened)} as in 'opened'"
            )
        if (loops := np.flatnonzero(self.src == self.dst)).size:
            raise ParameterError(
                f"messages, row {loops[0]}: its source and destination are both "
                f"{self.src[loops[0]]}, expected two nodes"
            )
        if not self.at_least[self.more.message].all():
            raise ParameterError("messages: one carries several chunks, and has no time of its own")
        for name, kind in _TYPES.items():
            column = np.ascontiguousarray(getattr(self, name), dtype=kind).view()
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    def _check(self, name: str, start: int, end: int) -> None:
        column = getattr(self, name)
        if not len(column) or (column.min() >= start and column.max() < end):
            return
        row = int(np.flatnonzero((column < start) | (column >= end))[0])
        raise ParameterError(
            f"messages, row {row}: {name} is {column[row]}, expected {start} to {end - 1}"
        )

    def __len__(self) -> int:
        return len(self.chunk)

    @classmethod
    def from_steps(  # noqa: PLR0913 - four columns and their properties
        cls,
        step: Numbers,
        chunk: Numbers,
        src: Numbers,
        dst: Numbers,
        reduce: NDArray[np.bool_] | None = None,
        *,
        stepping: StepAlignment = StepAlignment.PIPELINED,
    ) -> Messages:
        """Return the messages of an algorithm whose sends are given as columns, in any order.

        Messages are numbered by step, chunk, source and destination.

        Args:
            step: step of each send. A chunk that arrives in a step can be sent in later steps.
            chunk: chunk of each send.
            src: source of each send.
            dst: destination of each send.
            reduce: whether each send reduces. None: none does.
            stepping: start of the messages of a step, relative to the step before.

        Raises:
            ParameterError: columns differ in length, or contain numbers that are not integers of at
                least 0.
        """
        names = ("step", "chunk", "src", "dst")
        table = [_int64_column(n, c) for n, c in zip(names, (step, chunk, src, dst), strict=True)]
        reduces = np.zeros(len(table[0]), np.bool_) if reduce is None else np.asarray(reduce)
        if len({len(column) for column in (*table, reduces)}) > 1:
            raise ParameterError(
                f"messages: columns of {', '.join(str(len(c)) for c in (*table, reduces))} rows, "
                "expected one length"
            )
        order = np.lexsort(table[::-1])
        at, of, start, end = (column[order] for column in table)
        level = np.unique(at, return_inverse=True)[1].astype(np.int32)
        open_ = np.full(len(at), NO_GATE)
        gates: _Gates = (open_, open_, open_, np.zeros(0, np.bool_))
        if stepping is not StepAlignment.BARRIER:
            gates = _version_gates(of, start, end, at, at + 1)
        made = replace(cls._build(of, start, end, reduces[order], gates), step=level)
        return made.with_barriers() if stepping is StepAlignment.BARRIER else made

    @classmethod
    def from_order(  # noqa: PLR0913, PLR0917 - four columns, and the order of their values
        cls,
        chunk: AnyIntArray,
        src: AnyIntArray,
        dst: AnyIntArray,
        reduce: NDArray[np.bool_],
        sent_at: IntArray,
        written_at: IntArray,
    ) -> Messages:
        """Return messages that keep a given order, and start as early as it allows.

        A message waits for the arrivals at its source up to ``sent_at``. Links serve messages in
        the order of ``sent_at``.

        Args:
            chunk: chunk of each message.
            src: source of each message.
            dst: destination of each message.
            reduce: whether each message reduces.
            sent_at: time at which each message reads its chunk, in any unit.
            written_at: time at which it changes the chunk at its destination, in the same unit.
        """
        gates = _version_gates(chunk, src, dst, sent_at, written_at)
        level = np.unique(sent_at, return_inverse=True)[1].astype(np.int32)
        return replace(cls._build(chunk, src, dst, reduce, gates), step=level)

    @classmethod
    def from_algorithm(
        cls, algorithm: Algorithm, stepping: StepAlignment = StepAlignment.PIPELINED
    ) -> Messages:
        """Return the sends of an algorithm as messages."""
        sends = algorithm.sends

        def column(name: str) -> NDArray[np.int64]:
            return np.fromiter(map(attrgetter(name), sends), np.int64, len(sends))

        step, chunk, src, dst = (column(name) for name in ("step", "chunk", "src", "dst"))
        reduce = column("reduce").astype(np.bool_)
        made = cls.from_steps(step, chunk, src, dst, reduce, stepping=stepping)
        return replace(made, num_chunks=algorithm.collective.num_chunks)

    @classmethod
    def from_schedule(cls, schedule: Schedule) -> Messages:
        """Return the transfers of a schedule as messages, in the order of their rows.

        The start in the schedule becomes the release of the message, and the duration its minimum
        occupation of the link. A transfer of several chunks becomes one message.
        """
        lags, ends = _link_table(schedule)
        src, dst = ends[schedule.link].T
        start, free = schedule.start.astype(np.int64), schedule.end.astype(np.int64)
        gates = _version_gates(schedule.chunk, src, dst, start, free + lags[schedule.link])
        first = schedule.transfer_starts()
        leads = first == np.arange(len(first))
        of = (np.cumsum(leads) - 1)[first]
        gates, opened, counted_at = _transfer_gates(gates, of)
        others = np.flatnonzero(~leads)
        others = others[np.argsort(of[others], kind="stable")]
        more = ExtraChunks.from_columns(of[others], schedule.chunk[others], schedule.reduce[others])
        chunk, src, dst, reduce, start, free = (
            column[leads] for column in (schedule.chunk, src, dst, schedule.reduce, start, free)
        )
        made = cls._build(chunk, src, dst, reduce, gates)
        return replace(
            made,
            num_chunks=schedule.collective.num_chunks,
            release=start,
            at_least=free - start,
            opened=opened.astype(np.int32),
            counted_at=counted_at.astype(np.int32),
            more=more,
        )

    @classmethod
    def _build(
        cls,
        chunk: AnyIntArray,
        src: AnyIntArray,
        dst: AnyIntArray,
        reduce: NDArray[np.bool_],
        gates: _Gates,
    ) -> Messages:
        """Return messages without steps, all released at tick 0."""
        zeros = np.zeros(len(chunk), np.int64)
        num_chunks = int(chunk.max()) + 1 if len(chunk) else 1
        onward = np.empty(0, np.int32)
        *opens, barriers = gates
        no_step = np.full(len(chunk), NO_GATE)
        columns = (chunk, src, dst, reduce, zeros, zeros, *opens, no_step, barriers, onward, onward)
        return cls(*columns, num_chunks)  # type: ignore[arg-type, call-arg]

    @property
    def has_steps(self) -> bool:
        """Return whether links serve some messages in the order of their steps."""
        return bool((self.step != NO_GATE).any())

    def with_barriers(self) -> Messages:
        """Return the messages with a barrier between steps, in place of their other gates.

        Each message with a step waits for all arrivals of the step before.
        """
        stepped = self.step != NO_GATE
        steps, level = np.unique(self.step, return_inverse=True)
        before = np.searchsorted(steps, self.step - 1)
        follows = stepped & (self.step > 0) & (steps[before] == self.step - 1)
        first = len(self.barriers)
        return replace(
            self,
            waits_for=np.where(follows, first + before, np.where(stepped, NO_GATE, self.waits_for)),
            arrival_opens=np.where(stepped, first + level, self.arrival_opens),
            start_opens=np.where(stepped, NO_GATE, self.start_opens),
            step=np.full(len(self), NO_GATE),
            barriers=np.concatenate((self.barriers, np.ones(len(steps), np.bool_))),
        )

    def carried_chunks(self) -> ExtraChunks:
        """Return all chunks of all messages, by message; the one in ``chunk`` comes first."""
        message = np.concatenate((np.arange(len(self)), self.more.message))
        chunk = np.concatenate((self.chunk, self.more.chunk))
        reduce = np.concatenate((self.reduce, self.more.reduce))
        order = np.argsort(message, kind="stable")
        return ExtraChunks.from_columns(message[order], chunk[order], reduce[order])

    def delayed(self, ticks: int) -> Messages:
        """Return the messages with all releases ``ticks`` later."""
        return replace(self, release=self.release + ticks)


def concatenate(parts: Sequence[Messages]) -> Messages:
    """Return the messages of several collectives that run concurrently.

    Chunks and messages of each part are numbered after those of earlier parts. So if several
    messages are ready at one tick, those of earlier parts come first. The clock of the simulation
    must hold the sizes of all chunks in this order.

    Raises:
        ParameterError: there is no part.
    """
    if not parts:
        raise ParameterError("messages: no collective to run, expected at least one")
    chunks = np.cumsum([0, *(part.num_chunks for part in parts)])
    gates = np.cumsum([0, *(len(part.barriers) for part in parts)])
    firsts = np.cumsum([0, *(len(part) for part in parts)])
    steps = np.cumsum([0, *(int(part.step.max(initial=NO_GATE)) + 2 for part in parts)])
    columns: dict[str, list[NDArray[Any]]] = {f.name: [] for f in fields(Messages)[:-2]}
    for part, first_chunk, first_gate, first_step in zip(parts, chunks, gates, steps, strict=False):
        for name, column in columns.items():
            values = getattr(part, name)
            if name in _ONWARD:
                values = values + first_gate
            elif name in _GATES:
                values = np.where(values == NO_GATE, NO_GATE, values + first_gate)
            elif name == "step":
                values = np.where(values == NO_GATE, NO_GATE, values + first_step)
            column.append(values + first_chunk if name == "chunk" else values)
    joined = {name: np.concatenate(column) for name, column in columns.items()}
    more = [
        ExtraChunks.from_columns(
            part.more.message + first, part.more.chunk + first_chunk, part.more.reduce
        )
        for part, first, first_chunk in zip(parts, firsts, chunks, strict=False)
    ]
    together_ = ExtraChunks(*(np.concatenate(column) for column in zip(*more, strict=True)))
    return Messages(**joined, num_chunks=int(chunks[-1]), more=together_)


_Gates = tuple[AnyIntArray, AnyIntArray, AnyIntArray, NDArray[np.bool_]]
"""The columns ``waits_for``, ``arrival_opens``, ``start_opens`` and ``barriers``."""


def _version_gates(
    chunk: AnyIntArray,
    src: AnyIntArray,
    dst: AnyIntArray,
    read_at: AnyIntArray,
    written_at: AnyIntArray,
) -> _Gates:
    """Return gates, one for each version of each place.

    A version is the value at a place between two changes. The events at a place are sends and
    arrivals, in the order of time; at the same time, arrivals come first. A version begins with the
    first arrival, or with an arrival that follows a send. Its gate opens when its arrivals have
    happened and the sends of the version before have started.
    """
    messages = len(chunk)
    nodes = 1 + max(int(src.max(initial=0)), int(dst.max(initial=0)))
    first = chunk.astype(np.int64) * nodes
    place = np.concatenate((first + src, first + dst))
    at = np.concatenate((read_at, written_at))
    arrives = np.arange(2 * messages) >= messages
    order = np.lexsort((~arrives, at, place))
    place, arrives = place[order], arrives[order]
    begins = arrives.copy()
    begins[1:] &= (place[1:] != place[:-1]) | ~arrives[:-1]
    version = np.cumsum(begins) - 1
    places = np.append(place[begins], (-1, -1))  # place of each version, then two sentinels
    current = np.where(places[version] == place, version, NO_GATE)
    coming = np.where(places[version + 1] == place, version + 1, NO_GATE)
    waits, opens, starts = (np.full(messages, NO_GATE) for _ in range(3))
    sends = ~arrives
    waits[order[sends]] = current[sends]
    starts[order[sends]] = coming[sends]
    opens[order[arrives] - messages] = version[arrives]
    return waits, opens, starts, np.zeros(int(begins.sum()), np.bool_)


def _transfer_gates(gates: _Gates, of: AnyIntArray) -> tuple[_Gates, AnyIntArray, AnyIntArray]:
    """Merge the gates of rows that one message carries.

    If the rows of a message wait for several gates, the message waits for an extra gate that counts
    their openings. If the rows count at several gates, the message counts at an extra gate whose
    opening counts at each of them.

    Args:
        gates: gates of each row.
        of: message of each row.

    Returns:
        The gates of each message, and the columns ``opened`` and ``counted_at``.
    """
    *columns, barriers = gates
    many = int(of.max(initial=-1)) + 1
    gate_columns: list[AnyIntArray] = []
    onward: list[AnyIntArray] = [np.empty((2, 0), np.int64)]
    more = 0
    for waits, column in zip((True, False, False), columns, strict=True):
        rows = np.flatnonzero(column != NO_GATE)
        several = np.bincount(of[rows], minlength=many) > 1
        gate = np.full(many, NO_GATE, np.int64)
        gate[of[rows]] = column[rows]
        gate[several] = len(barriers) + more + np.arange(several.sum())
        more += int(several.sum())
        rows = rows[several[of[rows]]]
        both = np.stack((column[rows], gate[of[rows]]))
        onward.append(both if waits else both[::-1])
        gate_columns.append(gate)
    opened, counted_at = np.concatenate(onward, axis=1)
    all_barriers = np.concatenate((barriers, np.zeros(more, np.bool_)))
    return (*gate_columns, all_barriers), opened, counted_at  # type: ignore[return-value]


def _link_table(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lag of each link in ticks, and its source and destination."""
    clock, links = schedule.clock, schedule.topology.links
    lags = np.array([clock.lag(i) for i in range(len(links))], np.int64)
    return lags, np.array([k.edge for k in links], np.int64)


def _int64_column(name: str, values: Numbers) -> NDArray[np.int64]:
    """Return integers from 0 to ``MAX_NODES - 1`` as 64-bit integers, whose sums cannot overflow.

    Raises:
        ParameterError: the values are not such integers, or not one-dimensional.
    """
    column = np.asarray(values)
    if column.ndim != 1 or (len(column) and column.dtype.kind not in "iu"):
        raise ParameterError(
            f"messages, column {name!r}: {column.ndim} dimensions of {column.dtype}, expected an "
            "array of one dimension of whole numbers"
        )
    wide = column.astype(np.int64)
    if len(wide) and not 0 <= wide.min() <= wide.max() < MAX_NODES:
        row = int(np.flatnonzero((wide < 0) | (wide >= MAX_NODES))[0])
        raise ParameterError(
            f"messages, row {row}: {name} is {column[row]}, expected 0 to {MAX_NODES - 1}"
        )
    return wide
