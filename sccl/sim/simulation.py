"""Simulate messages on a machine, with the costs of a clock, and return a timeline."""

from __future__ import annotations

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.clock import Clock
from sccl.core.schedule import MAX_TIME, Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.sim.message_routes import MessageRoutes, find_routes
from sccl.sim.messages import NO_GATE, Messages
from sccl.sim.segments import Segments, build_segments, chunk_size_indices
from sccl.sim.service_order import ServiceOrder, find_service_order, unordered_service
from sccl.sim.state import NONE, Fixed, Rows, State
from sccl.sim.timeline import Timeline

EVENTS_PER_CALL = 2**20
"""Number of events between checks for signals: a quarter of a second of simulation."""


def simulate(
    messages: Messages, topology: Topology, clock: Clock, hops: MessageRoutes | None = None
) -> Timeline:
    """Simulate messages over the links of a machine, and return the timeline.

    The rules are those of :mod:`sccl.sim.engine`. The same messages have the same timeline on every
    computer. A message between ranks that no link joins takes a shortest path
    (:mod:`sccl.sim.message_routes`).

    Args:
        messages: messages with their dependencies.
        topology: machine.
        clock: clock of this machine, for the sizes of all chunks.
        hops: routes of the messages. None: shortest paths.

    Raises:
        ParameterError: clock, machine and messages do not fit, the simulation may exceed the range
            of ticks, or messages wait for one another in a cycle.
        UnreachableError: no path leads to a message's destination.
        TopologyError: a budget counts a chunk twice on its way through a switch that stores
            nothing.
    """
    from sccl.sim.engine import run_events  # noqa: PLC0415 - Numba takes time to load

    if len(clock.alpha) != len(topology.links):
        raise ParameterError(
            f"the clock has {len(clock.alpha)} links, and topology {topology.name!r} has "
            f"{len(topology.links)}: give the clock of this machine"
        )
    size = chunk_size_indices(messages, clock)
    if hops is None:
        hops = find_routes(topology, messages.src, messages.dst)
    parts = build_segments(hops, topology, clock)
    first_row = np.concatenate(([0], np.cumsum(np.diff(hops.first)[hops.route])))
    segment = _message_segments(hops.route, parts)
    links = len(topology.links)

    def run(sent: Messages, turns: ServiceOrder) -> tuple[Rows, State]:
        """Return the rows of all messages, and the final state."""
        fixed = _build_fixed(sent, size, hops.route, first_row, parts, turns)
        _check_length(fixed, sent, clock)
        out = _empty_rows(int(first_row[-1]))
        now = _initial_state(fixed, sent, links, parts.left, turns)
        while run_events(fixed, now, out, EVENTS_PER_CALL):
            pass  # Python handles signals between calls
        _check_all_sent(sent, out.arrive[first_row[1:] - 1])
        return out, now

    turns = unordered_service(len(segment))
    if messages.has_steps:
        turns = find_service_order(
            run(messages.with_barriers(), turns)[1].began, segment, parts, links
        )
    out, _ = run(messages, turns)
    lengths = np.diff(first_row)
    within = np.arange(len(out.start)) - np.repeat(first_row[:-1], lengths)
    link = hops.link[np.repeat(hops.first[hops.route], lengths) + within]
    message = np.repeat(np.arange(len(messages)), lengths)
    return Timeline(topology, clock, messages, message, link, *out)


def replay(schedule: Schedule) -> Timeline:
    """Return the timeline of a schedule, in which no transfer starts before its scheduled time.

    A transfer starts later only if its link is not free or its chunk has not arrived. That never
    happens in a schedule that passes verification, so its timeline has the schedule's finish.
    """
    return simulate(Messages.from_schedule(schedule), schedule.topology, schedule.clock)


def _message_segments(route: IntArray, parts: Segments) -> IntArray:
    """Return the segments of the routes of all messages, message after message."""
    many = np.diff(parts.route_first)[route]
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    segment: IntArray = np.repeat(parts.route_first[route], many) + within
    return segment


def _build_fixed(  # noqa: PLR0913, PLR0917 - the engine's input from six tables
    messages: Messages,
    size: IntArray,
    route: IntArray,
    first_row: IntArray,
    parts: Segments,
    turns: ServiceOrder,
) -> Fixed:
    """Return the input of the engine. Gates without events to count are open from the start."""
    waits, onward = _effective_gates(messages)
    order = np.argsort(waits, kind="stable")
    gates = np.arange(len(messages.barriers) + 1)
    gate_first = np.searchsorted(waits[order], gates)  # the last entry is the end
    free = order[: gate_first[0]]
    early = free[np.argsort(messages.release[free], kind="stable")]
    by_gate = np.argsort(onward[0], kind="stable")
    many = np.diff(parts.route_first)[route]
    return Fixed(
        early,
        messages.release,
        messages.at_least,
        messages.arrival_opens,
        messages.start_opens,
        messages.barriers,
        size,
        route,
        first_row,
        gate_first,
        order,
        np.searchsorted(onward[0][by_gate], gates),
        onward[1][by_gate],
        np.cumsum(many) - many,
        np.repeat(np.arange(len(route)), many),
        turns.next_first,
        turns.next_,
        *parts[:-1],
    )


def _effective_gates(messages: Messages) -> tuple[IntArray, IntArray]:
    """Return the gates that are closed at the start.

    Returns:
        The gate of each message, or ``NO_GATE`` if it has none or it is open. Then the pairs of
        ``opened`` and ``counted_at``, without those whose ``opened`` is open.
    """
    waits = messages.waits_for.astype(np.int64)
    onward = np.stack((messages.opened, messages.counted_at)).astype(np.int64)
    while True:  # a gate that counts only open gates is open, too
        counts = _gate_counts(messages, onward[1])
        shut = counts[onward[0]] > 0
        if shut.all():
            break
        onward = onward[:, shut]
    waits[(waits != NO_GATE) & (counts[waits] == 0)] = NO_GATE
    return waits, onward


def _gate_counts(messages: Messages, counted_at: IntArray) -> IntArray:
    """Return the number of events that each gate counts, and a final 0.

    Events are arrivals, starts, and the openings of other gates, which ``counted_at`` lists.
    """
    counts = np.zeros(len(messages.barriers) + 1, np.int64)
    for column in (messages.arrival_opens, messages.start_opens, counted_at):
        counts += np.bincount(column[column != NO_GATE], minlength=len(counts))
    return counts


def _check_length(fixed: Fixed, messages: Messages, clock: Clock) -> None:
    """Check that ticks and bytes fit into 64 bits, even if only one link works at a time.

    Raises:
        ParameterError: they may not fit.
    """
    max_ticks = (
        int(fixed.pace.max(initial=0)) + int(fixed.at_least.max(initial=0)) + 2 * max(clock.alpha)
    )
    ticks = int(messages.release.max(initial=0)) + int(fixed.first_row[-1]) * max_ticks
    if max(ticks, int(fixed.first_row[-1]) * clock.sizes[-1]) >= MAX_TIME:
        raise ParameterError(
            f"{len(messages)} messages of {clock.sizes[-1]} bytes may take {ticks} ticks of "
            f"{clock.tick_ps} ps, expected less than {MAX_TIME}: give smaller chunks or a longer "
            "tick"
        )


def _empty_rows(count: int) -> Rows:
    ready, start, free, arrive, by = (np.full(count, NONE) for _ in range(5))
    return Rows(ready, start, free, arrive, np.zeros(count, np.int8), by)


def _initial_state(
    fixed: Fixed, messages: Messages, links: int, left: IntArray, turns: ServiceOrder
) -> State:
    """Return the state before the first tick."""
    many = len(messages)
    all_segments = len(fixed.event_of)
    # The heap holds at most one event per message, and one end per segment.
    events = many + all_segments + 1

    def unset(count: int) -> IntArray:
        return np.full(count, NONE, np.int64)

    return State(
        counts=np.zeros(4, np.int64),
        tick=np.empty(events, np.int64),
        code=np.empty(events, np.int64),
        segment=fixed.route_first[fixed.route],
        place=unset(many),
        came=unset(all_segments),
        came_for=unset(all_segments),
        behind=unset(many),
        next_waiting=unset(many),
        blocked=unset(many),
        ready=unset(many),
        ready_why=np.zeros(many, np.int8),  # release, the reason for messages without a gate
        ready_by=unset(many),
        head=unset(links),
        tail=unset(links),
        free_at=np.zeros(links, np.int64),
        last_row=unset(links),
        left=left.copy(),
        waiting=unset(len(left)),
        freed_by=unset(len(left)),
        shut=_gate_counts(messages, fixed.onward),
        opening=unset(len(fixed.onward) + 1),
        ahead=turns.ahead.copy(),
        due=unset(all_segments),
        began=unset(all_segments),
    )


def _check_all_sent(messages: Messages, arrive: IntArray) -> None:
    """Check that all messages have arrived.

    Args:
        messages: messages.
        arrive: tick at which each message arrives, or ``NONE``.

    Raises:
        ParameterError: messages wait for one another in a cycle.
    """
    missing = np.flatnonzero(arrive == NONE)
    if not len(missing):
        return
    row = missing[0]
    raise ParameterError(
        f"messages: {len(missing)} of {len(messages)} never arrive, since they wait for one "
        f"another; the first is row {row}, chunk {messages.chunk[row]} from {messages.src[row]} "
        f"to {messages.dst[row]}: look for a cycle of dependencies, or of full switches"
    )
