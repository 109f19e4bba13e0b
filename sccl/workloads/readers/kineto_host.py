"""Time of a step in which the device did nothing, and what the host did then.

Where that is kept, the host is a stream that computes between one call or wait and the next. While
it was blocked, as ``cudaDeviceSynchronize`` says, it did nothing, and from the next line on waits
for what the device had been given; on which stream that was is not told, so it is all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from sccl.workloads.readers.kineto_calls import HostCall, Window
from sccl.workloads.readers.kineto_events import Launched, ProfiledEvent
from sccl.workloads.readers.rank_trace import HOST, Kernel, StreamEvent, TraceEvent

_Timed = tuple[float, TraceEvent]
_BLOCKED = re.compile(r"(cuda|hip)(Device|Stream|Event)Synchronize", re.IGNORECASE)


def idle_us(device: Sequence[Launched], begin: float, took: float) -> float:
    """Return how long the device did nothing between two times."""
    free, idle = begin, 0.0
    for began, ended in sorted((one.began, one.began + one.duration_us) for one in device):
        idle += max(0.0, min(began, begin + took) - free)
        free = max(free, ended)
    return idle + max(0.0, begin + took - free)


def host_time(
    host: Sequence[ProfiledEvent], calls: Sequence[HostCall], streams: Sequence[str], window: Window
) -> tuple[list[_Timed], list[_Timed]]:
    """Return for what the host waits before lines, and what it does after each.

    Args:
        host: what it did, all of it.
        calls: and waits, in order.
        streams: of the device, that compute.
        window: from when, and until when.
    """
    lines = [window[0], *(call.begin for call in calls), window[1]]
    blocked = [event for event in host if _BLOCKED.fullmatch(event.name)]
    waits: list[_Timed] = []
    does: list[_Timed] = []
    number = -1  # those of other marks are not negative
    for begin, end in itertools.pairwise(lines):
        inside = [
            min(event.end, end) - max(event.ts, begin)
            for event in blocked
            if event.ts < end and begin < event.end
        ]
        does.append((begin, Kernel(HOST, HOST, max(0.0, end - begin - sum(inside)))))
        for stream in streams if inside else ():
            waits.append((end, StreamEvent(stream, number, waits=False)))
            waits.append((end, StreamEvent(HOST, number, waits=True)))
            number -= 1
    return waits, does
