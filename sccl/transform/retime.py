"""Convert steps to times: as a schedule with barriers, or with each send as soon as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.algorithm import Algorithm
from sccl.core.arrays import AnyIntArray, IntArray
from sccl.core.clock import AlphaModel, Clock, StepAlignment
from sccl.core.collective import Collective
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError, TooLargeError
from sccl.judge import require_valid
from sccl.sim import MessageRoutes, Messages, Timeline, simulate
from sccl.sim.messages import NO_GATE

MAX_DELAY_ROUNDS = 100
"""Largest number of rounds that postpone early sends. Measured instances need 1 to 90."""

DELAY_PATIENCE = 8
"""Rounds after which a send is put off by a link's time for a chunk more, and so on."""


@dataclass(frozen=True, slots=True, eq=False)
class SteppedSends:
    """Sends in steps, between ranks that may have no link.

    A send of step s carries the value of its sender after step s - 1, as in an
    :class:`~sccl.core.algorithm.Algorithm`.

    Attributes:
        step: Arrays of one length. Rows ascend by (step, chunk, src, dst).
        reduce: Whether the receiver reduces the value into its own. Otherwise it stores it.
    """

    collective: Collective
    step: AnyIntArray
    chunk: AnyIntArray
    src: AnyIntArray
    dst: AnyIntArray
    reduce: NDArray[np.bool_]

    @classmethod
    def from_algorithm(cls, algorithm: Algorithm) -> SteppedSends:
        """Return those of an algorithm, which sorts them."""
        rows = ((s.step, s.chunk, s.src, s.dst, s.reduce) for s in algorithm.sends)
        table = np.fromiter(rows, np.dtype((np.int64, 5)), algorithm.num_sends)
        step, chunk, src, dst, reduce = table.T
        return cls(algorithm.collective, step, chunk, src, dst, reduce.astype(np.bool_))


def schedule_algorithm(
    algorithm: Algorithm,
    chunk_bytes: int,
    model: AlphaModel = AlphaModel.TRAVELS,
    stepping: StepAlignment = StepAlignment.PIPELINED,
    tick_ps: int = 1,
) -> Schedule:
    """Return an algorithm's sends with their times, judged, as :func:`schedule_sends` makes them.

    Args:
        algorithm: one that the judge accepts.
        chunk_bytes: the size of every chunk.

    Raises:
        ParameterError: the size or the tick is out of range.
        JudgeError: the algorithm is not valid.
    """
    clock = Clock.from_topology(algorithm.topology, chunk_bytes, model, tick_ps)
    made = schedule_sends(
        SteppedSends.from_algorithm(algorithm), algorithm.topology, clock, stepping
    )
    return require_valid(made, "the way from steps to times")


def schedule_sends(
    sends: SteppedSends,
    topology: Topology,
    clock: Clock,
    stepping: StepAlignment = StepAlignment.PIPELINED,
) -> Schedule:
    """Return sends with simulated times, not yet verified.

    Ranks without a link use the simulation's shortest paths. A send carries the value at its start.
    A transfer that overwrites or reduces is therefore postponed until all sends of the earlier
    value have started.

    Args:
        clock: Clock of this machine, for the chunks of the collective.
        stepping: Whether a step begins at the end of the previous one, or each send when it can.

    Raises:
        ParameterError: It may take more ticks than a schedule supports.
        TooLargeError: Some sends arrive too early after the maximum number of postponements.
        UnreachableError: No path leads to the destination of a send.
    """
    timing = _delay_sends(sends, topology, clock, stepping)
    if timing is None and stepping is not StepAlignment.BARRIER:
        timing = _delay_sends(sends, topology, clock, StepAlignment.BARRIER)
    if timing is None:
        raise _too_early_error(sends.collective, topology)
    return timing.schedule(sends.collective)


def retime_schedule(schedule: Schedule, chunk_bytes: int) -> Schedule:
    """Return a schedule's messages for chunks of another size, not yet verified.

    Messages start as early as possible. Links keep the order of the schedule, unless early arrivals
    remain after the maximum number of postponements. Chunks of one transfer are sent one after the
    other.

    Args:
        chunk_bytes: the size of every chunk.

    Raises:
        ParameterError: chunks differ in size, switches copy messages, the size is out of range, or
            the times may be.
        TooLargeError: some messages arrive too early after the maximum number of postponements.
    """
    s = schedule
    if not isinstance(s.chunk_bytes, int):
        raise ParameterError(
            f"schedule of {s.collective.name}: its chunks differ in size, and other sizes need "
            "another plan: give a schedule of equal chunks"
        )
    clock = Clock.from_topology(s.topology, chunk_bytes, s.model, s.tick_ps)
    row, first = _message_rows(s)
    begin, end = row[first[:-1]], row[first[1:] - 1]  # first and last hop of each message
    ends = np.array([link.edge for link in s.topology.links], dtype=np.int64)
    lags = np.array([s.clock.lag(i) for i in range(len(ends))], dtype=np.int64)
    chunk, src, dst = s.chunk[begin], ends[s.link[begin], 0], ends[s.link[end], 1]
    if max(src.max(initial=0), dst.max(initial=0)) >= s.topology.ranks:
        raise ParameterError(
            f"schedule of {s.collective.name} on topology {s.topology.name!r}: some messages end "
            "at a switch that copies them, which retiming does not support: plan this size"
        )
    sent_at = 2 * s.start[begin].astype(np.int64) + 1  # at one tick, arrivals come first
    written_at = 2 * (s.end[end].astype(np.int64) + lags[s.link[end]])
    messages = Messages.from_order(chunk, src, dst, s.reduce[end], sent_at, written_at)
    messages = replace(messages, num_chunks=s.collective.num_chunks)
    routes = MessageRoutes(np.arange(len(begin)), first, s.link[row].astype(np.int64))
    places = None
    if s.collective.combining:
        places = _ValueOrder.from_events(chunk, src, dst, sent_at, written_at)
    timing = _postpone_early(messages, places, s.topology, clock, routes)
    if timing is None:  # a postponed message blocks its link: drop the order of links
        messages = replace(messages, step=np.full(len(messages), NO_GATE))
        timing = _postpone_early(messages, places, s.topology, clock, routes)
    if timing is None:
        raise _too_early_error(s.collective, s.topology)
    return timing.schedule(s.collective)


def _message_rows(schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Return the rows of a schedule message by message, and where each message begins.

    Messages are in the order in which they set out.
    """
    rows = np.arange(schedule.num_sends)
    if schedule.message is None:
        return rows, np.arange(len(rows) + 1)
    key = schedule.message.astype(np.int64) * schedule.collective.num_chunks + schedule.chunk
    by_key = np.argsort(key, kind="stable")  # hops of a message stay in the order of time
    begins = np.flatnonzero(np.diff(key[by_key], prepend=-1))
    lengths = np.diff(np.append(begins, len(rows)))
    order = np.argsort(by_key[begins], kind="stable")
    first = np.concatenate(([0], np.cumsum(lengths[order])))
    within = rows - np.repeat(first[:-1], lengths[order])
    return by_key[np.repeat(begins[order], lengths[order]) + within], first


def _too_early_error(collective: Collective, topology: Topology) -> TooLargeError:
    return TooLargeError(
        f"{collective.name} on topology {topology.name!r}: some sends arrive before "
        "their receiver has sent the value that they are reduced into, even after "
        f"{MAX_DELAY_ROUNDS} rounds of postponing: give fewer chunks or another algorithm"
    )


def _delay_sends(
    sends: SteppedSends, topology: Topology, clock: Clock, stepping: StepAlignment
) -> Timeline | None:
    """Return sends with their times, none too early. None: some still are after many rounds."""
    columns = (sends.step, sends.chunk, sends.src, sends.dst, sends.reduce)
    messages = Messages.from_steps(*columns, stepping=stepping)
    messages = replace(messages, num_chunks=sends.collective.num_chunks)
    places = None
    if sends.collective.combining:
        step = 2 * sends.step.astype(np.int64)  # a step sends the values before it
        places = _ValueOrder.from_events(sends.chunk, sends.src, sends.dst, step, step + 1)
    return _postpone_early(messages, places, topology, clock)


@dataclass(frozen=True, slots=True, eq=False)
class _ValueOrder:
    """Starts and arrivals at each chunk's copy at each rank, in their order.

    Attributes:
        order: rows: first all starts, then all arrivals.
        place: the copy of each.
        arrives: whether each is an arrival.
    """

    order: IntArray
    place: IntArray
    arrives: NDArray[np.bool_]

    @classmethod
    def from_events(
        cls,
        chunk: AnyIntArray,
        src: AnyIntArray,
        dst: AnyIntArray,
        sent_at: IntArray,
        written_at: IntArray,
    ) -> _ValueOrder:
        """Return the events of sends, ordered by any measure of time."""
        many, nodes = len(chunk), 1 + int(max(src.max(initial=0), dst.max(initial=0)))
        first = chunk.astype(np.int64) * nodes
        place = np.concatenate((first + src, first + dst))
        order = np.lexsort((np.concatenate((sent_at, written_at)), place))
        return cls(order, place[order], order >= many)

    def early_ticks(self, start: IntArray, arrive: IntArray) -> IntArray:
        """Return the number of ticks by which each send arrives too early.

        A send must not arrive before all sends of the earlier value from its destination started.

        Args:
            start: of each send.
            arrive: likewise.
        """
        many = len(start)
        started = np.concatenate((start, np.full(many, -1)))[self.order]
        times, rank = np.unique(started, return_inverse=True)
        is_first = np.diff(self.place, prepend=-1) != 0
        base = np.cumsum(is_first) * len(times)  # keeps the places apart
        latest = times[np.maximum.accumulate(rank + base) - base]
        early = np.zeros(many, dtype=np.int64)
        of = self.order[self.arrives] - many
        early[of] = np.maximum(latest[self.arrives] + 1 - arrive[of], 0)
        return early


def _postpone_early(
    messages: Messages,
    places: _ValueOrder | None,
    topology: Topology,
    clock: Clock,
    routes: MessageRoutes | None = None,
) -> Timeline | None:
    """Return messages with their times, none too early. None: some still are after many rounds.

    Sends that postpone one another would continue by one tick each. Sends that repeat are therefore
    postponed by more, so that others go first.

    Args:
        places: the order of values. None: nothing is reduced.
        routes: the links of each message. None: shortest paths.
    """
    timeline, released = simulate(messages, topology, clock, routes), messages.release
    if places is None:
        return timeline
    times = np.zeros(len(messages), dtype=np.int64)
    for _ in range(MAX_DELAY_ROUNDS):
        first, last = _message_row_ends(timeline)
        early = places.early_ticks(timeline.start[first], timeline.arrive[last])
        if not early.any():
            return timeline
        times += early > 0
        more = times // DELAY_PATIENCE * int((timeline.free - timeline.start).max())
        released = np.where(early > 0, timeline.start[first] + early + more, released)
        timeline = simulate(replace(messages, release=released), topology, clock, routes)
    return None


def _message_row_ends(timeline: Timeline) -> tuple[IntArray, IntArray]:
    """Return the first and the last row of each message."""
    rows = np.searchsorted(timeline.message, np.arange(len(timeline.messages) + 1))
    return rows[:-1], rows[1:] - 1
