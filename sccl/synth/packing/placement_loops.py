"""Place sends in compiled loops, each as soon as the resources that it occupies are free.

A send occupies resources for some ticks. Pipes serve one send at a time, and consecutive sends form
one interval. Budgets serve several sends, up to their rate. One array has the sorted intervals of
all resources. Those of a resource start at its base.
"""

from __future__ import annotations

from sccl.compiled import compiled
from sccl.core.arrays import FloatArray, IntArray


@compiled
def _first_later(times: IntArray, low: int, count: int, time: int) -> int:
    """Return the index of the first of ``count`` ascending times that is later than ``time``."""
    a, b = 0, count
    while a < b:
        middle = (a + b) // 2
        if times[low + middle] <= time:
            a = middle + 1
        else:
            b = middle
    return a


@compiled
def _first_free_tick(  # noqa: PLR0913, PLR0917
    begin: IntArray, end: IntArray, low: int, count: int, time: int, busy: int
) -> int:
    """Return the first tick, ``time`` or later, at which a pipe is free for ``busy`` ticks."""
    i = _first_later(end, low, count, time)
    while i < count and begin[low + i] < time + busy:
        time = max(time, end[low + i])
        i += 1
    return time


@compiled
def _overload_end(
    intervals: tuple[IntArray, IntArray, FloatArray],
    where: tuple[int, int, int],
    times: tuple[int, int],
    room: float,
) -> int:
    """Return a tick before which a budget is too loaded for a send. Its start: it is not.

    Args:
        intervals: Begin, end, and bytes per tick of each interval.
        where: Base, index of the first interval that may overlap the send, number of intervals.
        times: Start and duration of the send.
        room: Bytes per tick that remain for other sends.
    """
    begin, end, taken = intervals
    low, first, count = where
    time, busy = times
    for j in range(first - 1, count):
        # check the start of the send, and each start of an interval during the send
        moment = time if j < first else begin[low + j]
        if moment >= time + busy:
            break
        if j < first or moment > time:
            total, soonest = 0.0, time
            for k in range(first, count):
                if begin[low + k] > moment:
                    break
                if end[low + k] > moment:
                    total += taken[low + k]
                    if soonest == time or end[low + k] < soonest:
                        soonest = end[low + k]
            if total > room:
                return soonest
    return time


@compiled
def _insert_interval(
    begin: IntArray,
    end: IntArray,
    taken: FloatArray,
    where: tuple[int, int],
    interval: tuple[int, int, float],
) -> None:
    """Insert an interval. ``where``: its index, and the end of its resource's intervals."""
    at, last = where
    for j in range(last, at, -1):
        begin[j], end[j], taken[j] = begin[j - 1], end[j - 1], taken[j - 1]
    begin[at], end[at], taken[at] = interval


@compiled
def _merge_interval(
    begin: IntArray, end: IntArray, low: int, count: int, interval: tuple[int, int]
) -> int:
    """Merge an interval of a pipe with adjacent ones. Return the decrease in intervals.

    -1: no interval is adjacent.
    """
    since, until = interval
    i = _first_later(begin, low, count, since)
    joins = i > 0 and end[low + i - 1] == since
    meets = i < count and begin[low + i] == until
    if joins and meets:
        end[low + i - 1] = end[low + i]
        for j in range(low + i, low + count - 1):
            begin[j], end[j] = begin[j + 1], end[j + 1]
        return 1
    if joins:
        end[low + i - 1] = until
        return 0
    if meets:
        begin[low + i] = since
        return 0
    return -1


@compiled
def place_sends(  # noqa: PLR0913, PLR0917 - arrays, which compiled loops are given one by one
    first: int,
    last: int,
    about: tuple[IntArray, IntArray, IntArray, IntArray],
    pairs: tuple[IntArray, IntArray, IntArray, IntArray, IntArray, FloatArray],
    held: tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray, IntArray],
    available: IntArray,
    start: IntArray,
) -> None:
    """Place a range of the sends of an order.

    Args:
        first: First send in the order.
        last: End in the order (exclusive).
        about: For each send of the order: its chunk, pair, source, and destination. A pair is a
            path and a size.
        pairs: For each pair: its latency and the index of its first use (plus the total). For each
            use: resource, offset from the start, duration, and, for a budget, bytes per tick.
        held: For each resource: index of its first interval (plus the total) and number of
            intervals. For each interval: begin, end, and, for a budget, bytes per tick. For each
            resource: its rate, 0 for a pipe. For each budget: its longest interval.
        available: Shape (chunks, ranks): tick from which a chunk is at a rank. Updated.
        start: Start of each send. Updated.
    """
    chunk, pair, source, target = about
    cost, hold_first, resource, offset, busy, pace = pairs
    base, count, begin, end, taken, room, longest = held
    for i in range(first, last):
        p = pair[i]
        at, before = available[chunk[i], source[i]], -1
        while at != before:
            before = at
            for h in range(hold_first[p], hold_first[p + 1]):
                x = resource[h]
                low, now, free = base[x], at + offset[h], -1
                if room[x] == 0.0:
                    now = _first_free_tick(begin, end, low, count[x], now, busy[h])
                while room[x] > 0.0 and free != now:
                    now = max(now, free)
                    position = _first_later(begin, low, count[x], now - longest[x] - 1)
                    free = _overload_end(
                        (begin, end, taken),
                        (low, position, count[x]),
                        (now, busy[h]),
                        room[x] - pace[h],
                    )
                at = now - offset[h]
        for h in range(hold_first[p], hold_first[p + 1]):
            x, since = resource[h], at + offset[h]
            until = since + busy[h]
            if busy[h] == 0:
                continue
            less = -1
            if room[x] == 0.0:
                less = _merge_interval(begin, end, base[x], count[x], (since, until))
            longest[x] = max(longest[x], busy[h])
            if less < 0:
                k = base[x] + _first_later(begin, base[x], count[x], since - 1)
                interval = (since, until, pace[h])
                _insert_interval(begin, end, taken, (k, base[x] + count[x]), interval)
            count[x] -= less
        start[i] = at
        available[chunk[i], target[i]] = max(available[chunk[i], target[i]], at + cost[p])
