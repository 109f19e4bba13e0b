"""Compute the time of a step in which the device was idle, and the host's work then.

If it is kept, the host is a stream that computes between one call or wait and the next. While it
was blocked, for example in ``cudaDeviceSynchronize``, it did nothing, and from the next line on it
depends on the work that the device had. The stream of that work is unknown, so it is all streams.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from sccl.training.traces.readers.kineto_calls import HostCall, Window
from sccl.training.traces.readers.kineto_events import LaunchedKernel, ProfiledEvent
from sccl.training.traces.readers.rank_trace import HOST, Kernel, StreamEvent, TraceEvent

_Timed = tuple[float, TraceEvent]
_BLOCKED = re.compile(r"(cuda|hip)(Device|Stream|Event)Synchronize", re.IGNORECASE)


def idle_us(device: Sequence[LaunchedKernel], begin: float, took: float) -> float:
    """Return how long the device did nothing between two times."""
    free, idle = begin, 0.0
    for began, ended in sorted((event.began, event.began + event.duration_us) for event in device):
        idle += max(0.0, min(began, begin + took) - free)
        free = max(free, ended)
    return idle + max(0.0, begin + took - free)


def host_gaps(
    host: Sequence[ProfiledEvent], calls: Sequence[HostCall], streams: Sequence[str], window: Window
) -> tuple[list[_Timed], list[_Timed]]:
    """Return the waits of the host before lines, and its work after each.

    Args:
        host: All events of the host.
        calls: Calls and waits, in order.
        streams: Streams of the device that compute.
        window: Begin and end.
    """
    lines = [window[0], *(call.begin for call in calls), window[1]]
    blocked = _blocked_intervals(host, window)
    waits: list[_Timed] = []
    does: list[_Timed] = []
    number = -1  # those of other marks are not negative
    first = 0
    for begin, end in itertools.pairwise(lines):
        while first < len(blocked) and blocked[first][1] <= begin:
            first += 1
        took, at = 0.0, first
        while at < len(blocked) and blocked[at][0] < end:
            took += min(blocked[at][1], end) - max(blocked[at][0], begin)
            at += 1
        does.append((begin, Kernel(HOST, HOST, max(0.0, end - begin - took))))
        for stream in streams if at > first else ():
            waits.append((end, StreamEvent(stream, number, waits=False)))
            waits.append((end, StreamEvent(HOST, number, waits=True)))
            number -= 1
    return waits, does


def _blocked_intervals(host: Sequence[ProfiledEvent], window: Window) -> list[tuple[float, float]]:
    """Return when the host is blocked, one after the other, whichever of its threads are."""
    spans: list[tuple[float, float]] = []
    for event in host:
        if not window[0] <= event.ts < window[1] or not _BLOCKED.fullmatch(event.name):
            continue
        if spans and event.ts <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], event.end))
        else:
            spans.append((event.ts, event.end))
    return spans
