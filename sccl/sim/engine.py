"""Discrete-event engine: advance messages on a machine, event by event.

A *segment* is a part of a route that a chunk passes without a stop (:mod:`sccl.sim.segments`). The
rules, which ``tests/kit/slow_simulator.py`` follows tick by tick:

1. A message is *ready* once its release tick has passed and its gate is open. For a later segment
   of its route, it is ready when the whole chunk has arrived at the segment's start. If the switch
   there cuts through, it is ready when the head of the chunk has arrived, but no earlier than the
   tick from which the tail can follow without a pause.
2. At each tick, ends of segments and arrivals are processed first. Then the engine tries to start
   the messages at the heads of link queues, in the order in which they were enqueued. Then ready
   messages are enqueued, lowest number first: each goes to the end of the queue of its segment's
   first link, and is tried if it is alone there. All consequences happen before the next message
   is enqueued.
3. A message starts if each link of its segment is free by the time the chunk reaches it, every
   budget has at least the segment's rate left, and the switch at the segment's end has a free
   buffer place. The message occupies each link until the chunk has passed it. It occupies budgets
   until the chunk has passed the last link (minus the alpha during which the next user sends no
   byte). It occupies the buffer place until the next segment starts, or, if the switch stores whole
   chunks, until the next segment has ended.
4. For messages with steps, a segment starts only after all segments that precede it in the service
   order of its links, budgets and switches (:mod:`sccl.sim.service_order`).
5. A message with a fixed duration does not wait for budgets, since it may use them more slowly than
   its link allows. It still takes its share, for which others wait.

So a link serves its queue in order, and the message at the head blocks those behind it. Budgets and
switches have no queue: among the heads of several links, the first that fits starts, earlier ones
are tried first, and small requests may overtake a large one. (If a budget had a queue, a message to
a busy port would block its sender for all other destinations, unlike in any crossbar.)
"""

from __future__ import annotations

from sccl.compiled import compiled_in_place
from sccl.sim.start_reasons import StartReason
from sccl.sim.state import NONE, Fixed, Rows, State

# Kinds of events, in the order in which one tick processes them. An event's code joins its kind and
# its number.
_ENDS, _ARRIVES, _TRIES, _COMES = (kind << 60 for kind in range(4))
_NUMBER = (1 << 60) - 1

_RELEASE, _ARRIVAL, _BARRIER, _START, _ONWARD, _LINK, _LIMIT, _ORDER = (
    int(why) for why in StartReason
)


@compiled_in_place
def _push(now: State, tick: int, code: int) -> None:
    """Put an event on the heap."""
    at = now.counts[0]
    now.counts[0] += 1
    while at > 0:
        above = (at - 1) >> 1
        if now.tick[above] < tick or (now.tick[above] == tick and now.code[above] < code):
            break
        now.tick[at], now.code[at] = now.tick[above], now.code[above]
        at = above
    now.tick[at], now.code[at] = tick, code


@compiled_in_place
def _pop(now: State) -> None:
    """Take the first event off the heap."""
    now.counts[0] -= 1
    size = now.counts[0]
    tick, code = now.tick[size], now.code[size]
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        sibling = below + 1
        if sibling < size and (
            now.tick[sibling] < now.tick[below]
            or (now.tick[sibling] == now.tick[below] and now.code[sibling] < now.code[below])
        ):
            below = sibling
        if tick < now.tick[below] or (tick == now.tick[below] and code < now.code[below]):
            break
        now.tick[at], now.code[at] = now.tick[below], now.code[below]
        at = below
    now.tick[at], now.code[at] = tick, code


@compiled_in_place
def _release_limit(now: State, limit: int, amount: int, tick: int, row: int) -> None:
    """Return an amount to a limit, and schedule an attempt of each message that waits for it.

    Attempts follow the order in which the messages were enqueued.
    """
    now.left[limit] += amount
    now.freed_by[limit] = row
    message = now.waiting[limit]
    now.waiting[limit] = NONE
    while message != NONE:
        _push(now, tick, _TRIES | now.place[message])
        message = now.next_waiting[message]


@compiled_in_place
def _count_gate(  # noqa: PLR0913, PLR0917 - compiled code takes arrays and numbers
    fixed: Fixed, now: State, gate: int, tick: int, row: int, why: int
) -> None:
    """Count an arrival or a start at a gate. If it is the last, schedule the waiting messages."""
    now.opening[0] = gate
    left = 1
    while left > 0:
        left -= 1
        open_gate = now.opening[left]
        now.shut[open_gate] -= 1
        if now.shut[open_gate] > 0:
            continue
        for i in range(fixed.gate_first[open_gate], fixed.gate_first[open_gate + 1]):
            message = fixed.gated[i]
            is_late = fixed.release[message] > tick
            now.ready_why[message] = _RELEASE if is_late else why
            now.ready_by[message] = NONE if is_late else row
            _push(now, max(tick, fixed.release[message]), _COMES | message)
        for i in range(fixed.onward_first[open_gate], fixed.onward_first[open_gate + 1]):
            now.opening[left] = fixed.onward[i]
            left += 1


@compiled_in_place
def _is_blocked(fixed: Fixed, now: State, message: int, tick: int) -> bool:
    """Return whether a resource keeps a message from starting.

    If so, the resource is recorded, and the next attempt is scheduled for when it becomes free.
    """
    segment = now.segment[message]
    for use in range(fixed.use_first[segment], fixed.use_first[segment + 1]):
        link = fixed.use_link[use]
        if now.free_at[link] > tick + fixed.use_offset[use]:
            now.blocked[message] = len(now.left) + link
            _push(now, now.free_at[link] - fixed.use_offset[use], _TRIES | now.place[message])
            return True
    lacks = NONE
    kept = fixed.at_least[message] > 0
    for i in range(fixed.claim_first[segment], fixed.claim_first[segment + 1]):
        if lacks == NONE and not kept and now.left[fixed.claim_on[i]] < fixed.claim[i]:
            lacks = fixed.claim_on[i]
    enters = fixed.enters[segment]
    if lacks == NONE and enters != NONE and now.left[enters] < 1:
        lacks = enters
    if lacks == NONE:
        return False
    now.blocked[message] = lacks
    now.next_waiting[message] = now.waiting[lacks]
    now.waiting[lacks] = message
    return True


@compiled_in_place
def _write_reason(now: State, message: int, row: int, out: Rows) -> None:
    """Write the reason why a message does not start before this tick."""
    blocked = now.blocked[message]
    out.ready[row] = now.ready[message]
    if blocked == NONE:
        out.why[row], out.by[row] = now.ready_why[message], now.ready_by[message]
    elif blocked < len(now.left):
        out.why[row], out.by[row] = _LIMIT, now.freed_by[blocked]
    else:
        out.why[row], out.by[row] = _LINK, now.last_row[blocked - len(now.left)]


@compiled_in_place
def _passing_ticks(fixed: Fixed, message: int, segment: int) -> int:
    """Return the ticks that a message takes to pass one link of a segment, without alpha."""
    idle = fixed.use_idle[fixed.use_first[segment]]
    return int(max(fixed.pace[fixed.size[message], segment], fixed.at_least[message] - idle))


@compiled_in_place
def _take_links(fixed: Fixed, now: State, message: int, tick: int, out: Rows) -> int:
    """Occupy the links of a segment, write one row for each, and return the last row."""
    segment = now.segment[message]
    passing = _passing_ticks(fixed, message, segment)
    row = fixed.first_row[message] - fixed.use_first[fixed.route_first[fixed.route[message]]]
    first = fixed.use_first[segment]
    for use in range(first, fixed.use_first[segment + 1]):
        link = fixed.use_link[use]
        start = tick + fixed.use_offset[use]
        if use == first:
            _write_reason(now, message, row + use, out)
        else:
            out.ready[row + use], out.why[row + use] = start, _ONWARD
            out.by[row + use] = row + use - 1
        out.start[row + use] = start
        out.free[row + use] = start + passing + fixed.use_idle[use]
        out.arrive[row + use] = start + passing + fixed.use_alpha[use]
        now.free_at[link] = out.free[row + use]
        now.last_row[link] = row + use
    return int(row + fixed.use_first[segment + 1] - 1)


@compiled_in_place
def _is_stored_before(fixed: Fixed, message: int, segment: int) -> bool:
    """Return whether a segment begins at a store-and-forward switch with limited places."""
    if segment == fixed.route_first[fixed.route[message]]:
        return False
    return bool(fixed.enters[segment - 1] != NONE and fixed.stored[segment - 1])


@compiled_in_place
def _take_limits(fixed: Fixed, now: State, message: int, last: int, out: Rows) -> None:
    """Take the budgets and switch places of a segment that starts; ``last`` is its last row."""
    segment = now.segment[message]
    claims = fixed.claim_first[segment + 1] - fixed.claim_first[segment]
    for i in range(fixed.claim_first[segment], fixed.claim_first[segment + 1]):
        now.left[fixed.claim_on[i]] -= fixed.claim[i]
    if claims > 0 or _is_stored_before(fixed, message, segment):
        _push(now, out.free[last] - fixed.claim_early[segment], _ENDS | now.place[message])
    if fixed.enters[segment] != NONE:
        now.left[fixed.enters[segment]] -= 1


@compiled_in_place
def _event_number(fixed: Fixed, now: State, message: int) -> int:
    """Return the number of a message's current segment, counted over all messages."""
    within = now.segment[message] - fixed.route_first[fixed.route[message]]
    return int(fixed.event_first[message] + within)


@compiled_in_place
def _is_early(fixed: Fixed, now: State, message: int, tick: int) -> bool:
    """Return whether other segments must start before a ready message; if so, record its tick."""
    event = _event_number(fixed, now, message)
    if now.ahead[event] == 0:
        return False
    now.due[event] = tick
    return True


@compiled_in_place
def _pass_turn(fixed: Fixed, now: State, event: int, tick: int, row: int) -> None:
    """Record the start of a segment, and schedule ready successors whose last predecessor it is."""
    now.began[event] = now.counts[3]
    now.counts[3] += 1
    for i in range(fixed.next_first[event], fixed.next_first[event + 1]):
        successor = fixed.next_[i]
        now.ahead[successor] -= 1
        if now.ahead[successor] == 0 and now.due[successor] != NONE:
            message = fixed.event_of[successor]
            now.ready_why[message], now.ready_by[message] = _ORDER, row
            _push(now, tick, _COMES | message)


@compiled_in_place
def _start(fixed: Fixed, now: State, message: int, tick: int, out: Rows) -> None:
    """Start a message on its segment, and schedule an attempt of the next one in the queue."""
    segment = now.segment[message]
    last = _take_links(fixed, now, message, tick, out)
    first = last - (fixed.use_first[segment + 1] - fixed.use_first[segment]) + 1
    _take_limits(fixed, now, message, last, out)
    _pass_turn(fixed, now, _event_number(fixed, now, message), tick, first)
    link = fixed.use_link[fixed.use_first[segment]]
    behind = now.behind[message]
    now.head[link] = behind
    if behind != NONE:
        now.blocked[behind] = len(now.left) + link
        _push(now, now.free_at[link], _TRIES | now.place[behind])
    route = fixed.route[message]
    if segment > fixed.route_first[route]:
        if fixed.enters[segment - 1] != NONE and not fixed.stored[segment - 1]:
            _release_limit(now, fixed.enters[segment - 1], 1, tick, first)
    elif fixed.start_opens[message] != NONE:
        _count_gate(fixed, now, fixed.start_opens[message], tick, first, _START)
    if segment + 1 == fixed.route_first[route + 1]:
        _push(now, out.arrive[last], _ARRIVES | message)
        return
    wait = _passing_ticks(fixed, message, segment)
    if not fixed.stored[segment]:
        wait = max(0, wait - _passing_ticks(fixed, message, segment + 1))
    now.segment[message] = segment + 1
    now.ready_why[message], now.ready_by[message] = _ONWARD, last
    head = out.start[last] + fixed.use_alpha[fixed.use_first[segment + 1] - 1]
    _push(now, head + wait, _COMES | message)


@compiled_in_place
def _enqueue_message(fixed: Fixed, now: State, message: int, tick: int) -> bool:
    """Append a message to the queue of its segment's first link; return whether it is alone."""
    link = fixed.use_link[fixed.use_first[now.segment[message]]]
    number = now.counts[1]
    now.counts[1] += 1
    now.place[message] = number
    now.came[number], now.came_for[number] = message, now.segment[message]
    due = now.due[_event_number(fixed, now, message)]
    now.ready[message] = tick if due == NONE else due
    now.behind[message] = NONE
    now.blocked[message] = NONE
    is_alone = now.head[link] == NONE
    if is_alone:
        now.head[link] = message
    else:
        now.behind[now.tail[link]] = message
    now.tail[link] = message
    return bool(is_alone)


@compiled_in_place
def _end_segment(fixed: Fixed, now: State, number: int, tick: int) -> None:
    """Release the budgets of a segment, and the buffer place at its start."""
    message, segment = now.came[number], now.came_for[number]
    row = fixed.first_row[message] - fixed.use_first[fixed.route_first[fixed.route[message]]]
    last = row + fixed.use_first[segment + 1] - 1
    for i in range(fixed.claim_first[segment], fixed.claim_first[segment + 1]):
        _release_limit(now, fixed.claim_on[i], fixed.claim[i], tick, last)
    if _is_stored_before(fixed, message, segment):
        _release_limit(now, fixed.enters[segment - 1], 1, tick, last)


@compiled_in_place
def _count_arrival(fixed: Fixed, now: State, message: int, tick: int) -> None:
    gate = fixed.arrival_opens[message]
    if gate != NONE:
        why = _BARRIER if fixed.barriers[gate] else _ARRIVAL
        _count_gate(fixed, now, gate, tick, fixed.first_row[message + 1] - 1, why)


@compiled_in_place
def _is_release_next(fixed: Fixed, now: State) -> bool:
    """Return whether the next event is the release of a message without a gate."""
    if now.counts[2] == len(fixed.early):
        return False
    if now.counts[0] == 0:
        return True
    message = fixed.early[now.counts[2]]
    tick = fixed.release[message]
    return bool(tick < now.tick[0] or (tick == now.tick[0] and (_COMES | message) < now.code[0]))


@compiled_in_place
def run_events(fixed: Fixed, now: State, out: Rows, events: int) -> bool:
    """Process up to ``events`` events; return whether more remain."""
    for _ in range(events):
        if _is_release_next(fixed, now):
            message = fixed.early[now.counts[2]]
            tick, code = fixed.release[message], _COMES | message
            now.counts[2] += 1
        elif now.counts[0] > 0:
            tick, code = now.tick[0], now.code[0]
            _pop(now)
        else:
            return False
        number = code & _NUMBER
        if code < _ARRIVES:
            _end_segment(fixed, now, number, tick)
            continue
        if code < _TRIES:
            _count_arrival(fixed, now, number, tick)
            continue
        message = now.came[number] if code < _COMES else number
        if code >= _COMES and _is_early(fixed, now, message, tick):
            continue
        if code >= _COMES and not _enqueue_message(fixed, now, message, tick):
            continue
        if not _is_blocked(fixed, now, message, tick):
            _start(fixed, now, message, tick, out)
    return True
