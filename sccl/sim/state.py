"""Input, output and state of the simulation engine, as flat arrays for compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray

NONE = -1
"""Placeholder for a missing message, row, link or limit."""


class Fixed(NamedTuple):
    """The constant input of the engine.

    Fields without an entry here are those of :class:`~sccl.sim.messages.Messages`,
    :class:`~sccl.sim.service_order.ServiceOrder` and :class:`~sccl.sim.segments.Segments`. An
    *event* is a segment of a message: events are numbered message after message.

    Attributes:
        early: messages without a gate, ascending by release.
        size: index of each message's chunk size, shape (messages,).
        route: route number of each message, shape (messages,).
        first_row: first row of each message, shape (messages + 1,). A message has a row for each
            link of its route.
        gate_first: index in ``gated`` of the first message that waits for each gate.
        gated: messages, grouped by the gate that they wait for.
        onward_first: index in ``onward`` of the first gate that counts each gate's opening.
        onward: gates, grouped by the gate whose opening they count.
        event_first: first event of each message, shape (messages,).
        event_of: message of each event, shape (events,).
        next_first: index in ``next_`` of each event's first successor, shape (events + 1,).
    """

    early: IntArray
    release: IntArray
    at_least: IntArray
    arrival_opens: NDArray[np.int32]
    start_opens: NDArray[np.int32]
    barriers: NDArray[np.bool_]
    size: IntArray
    route: IntArray
    first_row: IntArray
    gate_first: IntArray
    gated: IntArray
    onward_first: IntArray
    onward: IntArray
    event_first: IntArray
    event_of: IntArray
    next_first: IntArray
    next_: IntArray
    route_first: IntArray
    use_first: IntArray
    use_link: IntArray
    use_offset: IntArray
    use_alpha: IntArray
    use_idle: IntArray
    pace: NDArray[np.int64]
    claim_first: IntArray
    claim_on: IntArray
    claim: IntArray
    claim_early: IntArray
    enters: IntArray
    stored: NDArray[np.bool_]


class Rows(NamedTuple):
    """The output: a row for each link of each message's route.

    Attributes:
        ready: tick at which the message was ready for the link.
        start: tick at which the link starts to carry the message.
        free: tick at which the link is free again.
        arrive: tick at which the whole message is at the link's end.
        why: :class:`~sccl.sim.start_reasons.StartReason`: the last event that the start waited for.
        by: row of the transfer that caused this event, or ``NONE``.
    """

    ready: IntArray
    start: IntArray
    free: IntArray
    arrive: IntArray
    why: NDArray[np.int8]
    by: IntArray


class State(NamedTuple):
    """The variable state of the engine.

    A *ticket* is the number of an entry in the order in which messages joined queues. A *limit* is
    a budget, or the buffer places of a switch. Per-segment columns count over all messages.

    Attributes:
        counts: four counters: entries on the heap, tickets issued, messages of ``Fixed.early`` that
            were processed, and segments that started.
        tick: tick of each entry on the heap.
        code: kind and number of each entry on the heap. The number is a message or a ticket.
        segment: current or next segment of each message.
        place: last ticket of each message.
        came: message of each ticket.
        came_for: segment of each ticket.
        behind: next message in the same queue, for each message.
        next_waiting: next message that waits for the same limit, for each message.
        blocked: resource that was missing at each message's last attempt. Limits are numbered
            first, then links.
        ready: tick at which each message was ready for its segment.
        ready_why: reason for that tick, for each message.
        ready_by: row that caused this reason, for each message.
        head: first message in the queue of each link.
        tail: last message in the queue of each link.
        free_at: tick from which each link is free.
        last_row: last row that each link served.
        left: free amount of each limit.
        waiting: first of the messages that wait for each limit, linked by ``next_waiting``.
        freed_by: row that last released part of each limit.
        shut: number of events that each gate still waits for.
        opening: work space: stack of gates with an event to count.
        ahead: number of segments that must still start before each segment.
        due: tick at which each segment was ready, if its predecessors had not all started; else
            ``NONE``.
        began: rank of each segment in the order of starts.
    """

    counts: IntArray
    tick: IntArray
    code: IntArray
    segment: IntArray
    place: IntArray
    came: IntArray
    came_for: IntArray
    behind: IntArray
    next_waiting: IntArray
    blocked: IntArray
    ready: IntArray
    ready_why: NDArray[np.int8]
    ready_by: IntArray
    head: IntArray
    tail: IntArray
    free_at: IntArray
    last_row: IntArray
    left: IntArray
    waiting: IntArray
    freed_by: IntArray
    shut: IntArray
    opening: IntArray
    ahead: IntArray
    due: IntArray
    began: IntArray
