"""Convert steps to times, with barriers between steps or with each send as early as possible."""

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
"""Maximum number of rounds that postpone early sends. Measured instances need 1 to 90."""

DELAY_PATIENCE = 8
"""Rounds in which a send is early before its delay grows by the longest link occupation."""


@dataclass(frozen=True, slots=True, eq=False)
class SteppedSends:
    """Sends in steps, possibly between ranks without a direct link.

    A send of step s carries the value of its sender after step s - 1, as in an
    :class:`~sccl.core.algorithm.Algorithm`. Rows ascend by (step, chunk, src, dst).

    Attributes:
        collective: Collective that the sends implement.
        step: Step of each send, shape (sends,).
        chunk: Chunk of each send, shape (sends,).
        src: Source of each send, shape (sends,).
        dst: Destination of each send, shape (sends,).
        reduce: Whether the receiver reduces the value into its own, shape (sends,). Otherwise it
            stores the value.
    """

    collective: Collective
    step: AnyIntArray
    chunk: AnyIntArray
    src: AnyIntArray
    dst: AnyIntArray
    reduce: NDArray[np.bool_]

    @classmethod
    def from_algorithm(cls, algorithm: Algorithm) -> SteppedSends:
        """Return the sends of an algorithm, which are in this order."""
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
    """Return an algorithm as a verified schedule, with the times of :func:`schedule_sends`.

    Args:
        algorithm: Valid algorithm.
        chunk_bytes: Size of every chunk in bytes.
        model: Alpha model.
        stepping: Start of the sends of a step.
        tick_ps: Length of a tick in picoseconds.

    Raises:
        ParameterError: The size or the tick is out of range.
        JudgeError: The algorithm is not valid.
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
    """Return sends as a schedule with simulated times, without verification.

    Sends between ranks without a link take the simulation's shortest paths. A send carries the
    value at its start. So a transfer that overwrites or reduces is postponed until all sends of the
    earlier value have started.

    Args:
        sends: Sends with their steps.
        topology: Machine.
        clock: Clock of this machine, for the chunks of the collective.
        stepping: Start of the sends of a step: after the previous step, or as early as possible.

    Raises:
        ParameterError: The schedule may take more ticks than a schedule supports.
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
    """Return a schedule for another chunk size, without verification.

    Messages keep their routes and start as early as possible. Links keep the order of the schedule,
    unless arrivals are still too early after the maximum number of postponements. Chunks that one
    transfer carried are sent one after the other.

    Args:
        schedule: Schedule of equal chunks.
        chunk_bytes: New size of every chunk in bytes.

    Raises:
        ParameterError: Chunks differ in size, switches copy messages, or the size or the resulting
            times may be out of range.
        TooLargeError: Some messages arrive too early after the maximum number of postponements.
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
    """Return the rows of a schedule, grouped by message, and the first index of each group.

    Messages are in the order of their first hop. A final entry is the number of rows.
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
    """Return the timeline of sends, postponed so that none arrives too early.

    None: some are still too early after :data:`MAX_DELAY_ROUNDS` rounds.
    """
    columns = (sends.step, sends.chunk, sends.src, sends.dst, sends.reduce)
    messages = Messages.from_steps(*columns, stepping=stepping)
    messages = replace(messages, num_chunks=sends.collective.num_chunks)
    places = None
    if sends.collective.combining:
        step = 2 * sends.step.astype(np.int64)  # a step sends the values from its start
        places = _ValueOrder.from_events(sends.chunk, sends.src, sends.dst, step, step + 1)
    return _postpone_early(messages, places, topology, clock)


@dataclass(frozen=True, slots=True, eq=False)
class _ValueOrder:
    """The required order of sends and arrivals of each chunk at each rank.

    The events of n sends are numbered: n starts, then n arrivals. All columns have shape (2 n,).

    Attributes:
        order: event numbers, ascending by place and time.
        place: place (a chunk at a rank) of each event in ``order``.
        arrives: whether each event in ``order`` is an arrival.
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
        """Return the order of the events of sends, whose times may have any unit."""
        many, nodes = len(chunk), 1 + int(max(src.max(initial=0), dst.max(initial=0)))
        first = chunk.astype(np.int64) * nodes
        place = np.concatenate((first + src, first + dst))
        order = np.lexsort((np.concatenate((sent_at, written_at)), place))
        return cls(order, place[order], order >= many)

    def early_ticks(self, start: IntArray, arrive: IntArray) -> IntArray:
        """Return the number of ticks by which each send arrives too early.

        A send must arrive later than the starts of all sends of the old value from its destination.

        Args:
            start: Start of each send in ticks, shape (sends,).
            arrive: Arrival of each send in ticks, shape (sends,).
        """
        many = len(start)
        started = np.concatenate((start, np.full(many, -1)))[self.order]
        times, rank = np.unique(started, return_inverse=True)
        is_first = np.diff(self.place, prepend=-1) != 0
        base = np.cumsum(is_first) * len(times)  # restarts the running maximum at each place
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
    """Return the timeline of messages, postponed so that none arrives too early.

    Two sends that delay each other could be postponed by one tick for ever. So a send that is early
    again and again is postponed by more, and others go first.

    Args:
        messages: Messages with their dependencies.
        places: Required order of values. None: nothing is reduced.
        topology: Machine.
        clock: Clock of this machine.
        routes: Routes of the messages. None: shortest paths.

    Returns:
        The timeline. None: some are still too early after :data:`MAX_DELAY_ROUNDS` rounds.
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
