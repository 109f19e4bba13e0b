"""What the engine reads and what it writes: flat arrays, so that compiled loops can take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

NONE = -1
"""In place of a message, a row, a link or a limit."""


class Fixed(NamedTuple):
    """What does not change: messages, then what :class:`~sccl.sim.tables.Segments` describes.

    Attributes:
        early: the messages that wait for no gate, by release.
        size: of each message, the place of its chunk's size.
        route: of each message.
        first_row: of each message, where its rows begin, one for each link on its way.
        gate_first: of each gate, where those that wait for it begin in ``gated``.
        onward_first: of each gate, where the gates that count its opening begin in ``onward``.
        event_first: of each message, where its segments begin among those of all messages.
        event_of: of each segment of a message, the message.
        next_first: of each of them, where those begin in ``next_`` that start after it.
    """

    early: Numbers
    release: Numbers
    at_least: Numbers
    arrival_opens: NDArray[np.int32]
    start_opens: NDArray[np.int32]
    barriers: NDArray[np.bool_]
    size: Numbers
    route: Numbers
    first_row: Numbers
    gate_first: Numbers
    gated: Numbers
    onward_first: Numbers
    onward: Numbers
    event_first: Numbers
    event_of: Numbers
    next_first: Numbers
    next_: Numbers
    route_first: Numbers
    use_first: Numbers
    use_link: Numbers
    use_offset: Numbers
    use_alpha: Numbers
    use_idle: Numbers
    pace: NDArray[np.int64]
    claim_first: Numbers
    claim_on: Numbers
    claim: Numbers
    claim_early: Numbers
    enters: Numbers
    stored: NDArray[np.bool_]


class Rows(NamedTuple):
    """What has happened: a row for each link on the way of each message.

    Attributes:
        ready: tick at which it came to the queue.
        start: tick at which the link begins with it.
        free: tick at which the link is free again.
        arrive: tick at which it is whole at the link's end.
        why: what its start had to wait for last, a :class:`~sccl.sim.why.Why`.
        by: the row that this was about; NONE: none.
    """

    ready: Numbers
    start: Numbers
    free: Numbers
    arrive: Numbers
    why: NDArray[np.int8]
    by: Numbers


class State(NamedTuple):
    """What changes.

    Attributes:
        counts: events on the heap, messages that came to a queue, early ones among them, and
            segments that started.
        tick: of each event on the heap.
        code: its kind and number: of a message that comes or arrives, or of a place in a queue.
        segment: of each message, the segment that it is on or waits for.
        place: of each message, its number in the order of coming.
        came: of each number in the order of coming, the message.
        came_for: likewise, the segment.
        behind: of each message, the one behind it in the queue.
        beside: of each message, another that waits for the same limit.
        blocked: of each message, what it could not have when last tried: a limit or, numbered
            after these, a link.
        ready: of each message, the tick at which it came.
        ready_why: of each message, what made it ready.
        ready_by: the row that this was about.
        head: of each link's queue.
        tail: of each link's queue.
        free_at: of each link, the tick from which on it is free.
        last_row: of each link, the last that it served.
        left: of each limit (a budget, or the places of a switch), how much there is.
        waiting: of each limit, one that waits for it.
        freed_by: of each limit, the row that gave back of it last.
        shut: of each gate, for how much more it waits.
        opening: gates that are counted at because others open, in no order.
        ahead: of each segment of a message, how many have to start before it.
        due: of each, the tick at which it was ready before its turn; NONE: it was not.
        began: of each, its place in the order of starts.
    """

    counts: Numbers
    tick: Numbers
    code: Numbers
    segment: Numbers
    place: Numbers
    came: Numbers
    came_for: Numbers
    behind: Numbers
    beside: Numbers
    blocked: Numbers
    ready: Numbers
    ready_why: NDArray[np.int8]
    ready_by: Numbers
    head: Numbers
    tail: Numbers
    free_at: Numbers
    last_row: Numbers
    left: Numbers
    waiting: Numbers
    freed_by: Numbers
    shut: Numbers
    opening: Numbers
    ahead: Numbers
    due: Numbers
    began: Numbers
