"""The input, output and state of the engine: flat arrays, for compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sccl.core.arrays import IntArray

NONE = -1
"""In place of a message, a row, a link or a limit."""


class Fixed(NamedTuple):
    """The constant input: messages, then the columns of :class:`~sccl.sim.segments.Segments`.

    Attributes:
        early: the messages that wait for no gate, by release.
        size: by message, the place of its chunk's size.
        route: by message, its route.
        first_row: by message, where its rows begin, one for each link on its way.
        gate_first: by gate, where the messages that wait for it begin in ``gated``.
        onward_first: by gate, where the gates that count its opening begin in ``onward``.
        event_first: by message, where its segments begin among those of all messages.
        event_of: by segment of a message, the message.
        next_first: by segment of a message, where its successors begin in ``next_``.
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
    """The history: a row for each link on the way of each message.

    Attributes:
        ready: tick at which it came to the queue.
        start: tick at which the link begins with it.
        free: tick at which the link is free again.
        arrive: tick at which it is whole at the link's end.
        why: the last thing that its start waited for, a
            :class:`~sccl.sim.start_reasons.StartReason`.
        by: the row that caused this; NONE: none.
    """

    ready: IntArray
    start: IntArray
    free: IntArray
    arrive: IntArray
    why: NDArray[np.int8]
    by: IntArray


class State(NamedTuple):
    """The variable state.

    Attributes:
        counts: events on the heap, messages that came to a queue, early ones among them, and
            segments that started.
        tick: tick of each event on the heap.
        code: its kind and number: of a message that comes or arrives, or of a place in a queue.
        segment: by message, the segment that it is on or waits for.
        place: by message, its number in the order of coming.
        came: by number in the order of coming, the message.
        came_for: by number in the order of coming, the segment.
        behind: by message, the one behind it in the queue.
        beside: by message, another that waits for the same limit.
        blocked: by message, the resource that was missing when last tried: a limit or, numbered
            after these, a link.
        ready: by message, the tick at which it came.
        ready_why: by message, the reason for that tick.
        ready_by: by message, the row that caused this.
        head: by link, the head of its queue.
        tail: by link, the tail of its queue.
        free_at: by link, the tick from which on it is free.
        last_row: by link, the last row that it served.
        left: by limit (a budget, or the places of a switch), the free amount.
        waiting: by limit, one message that waits for it.
        freed_by: by limit, the row that last returned some of it.
        shut: by gate, the number of events that it still waits for.
        opening: gates to be counted at because others open, in no order.
        ahead: by segment of a message, the number of segments that have to start before it.
        due: by segment, the tick at which it was ready before its turn; NONE: it was not.
        began: by segment, its place in the order of starts.
    """

    counts: IntArray
    tick: IntArray
    code: IntArray
    segment: IntArray
    place: IntArray
    came: IntArray
    came_for: IntArray
    behind: IntArray
    beside: IntArray
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
