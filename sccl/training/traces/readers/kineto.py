"""Read traces of PyTorch's profiler (Kineto), with or without metadata of collectives.

Since 2.3, PyTorch records the name, elements, type, group, and splits of each collective. Earlier
versions have a node ``record_param_comms`` around each call and each wait, with the dimensions of
its tensors, and inside it an event such as ``nccl:all_to_all``. Their waits do not name a call, and
are matched with calls by order. With ``enable_cuda_sync_events``, the trace has the waits between
streams. Gloo records only the waits of synchronous calls. Computation is in the order in which the
host launched it.

If host work is kept, the host is a stream with computation between one call or wait and the next.
While the host is blocked, for example in ``cudaDeviceSynchronize``, it does nothing. After that, it
depends on the earlier work of the device. The stream of this work is unknown, so the host depends
on all streams.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from sccl.core.formatting import format_count
from sccl.training.traces.readers.common.contract import (
    HOST,
    NO_MARKS,
    Kernel,
    RankTrace,
    StepSelection,
    StreamEvent,
    TracedCall,
    TraceEvent,
)
from sccl.training.traces.readers.common.kineto_calls import (
    REDUCTIONS,
    HostCall,
    Window,
    host_calls,
    inexact_reduction,
)
from sccl.training.traces.readers.common.kineto_events import (
    LaunchedKernel,
    ProfiledEvent,
    ProfiledRank,
    StepMark,
    StreamWait,
    check_durations,
    check_streams,
    read_events,
)

NAME = "kineto"
ABOUT = "traces of torch.profiler (Kineto, Chrome trace events)"
SOURCE = "PyTorch 1.13 to 2.13, torch.profiler; metadata of collectives since 2.3"
EXAMPLE = b"""{"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "tid": 1, "ts": 10, "dur": 90},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": 12, "dur": 2,
"args": {"correlation": 1}},
{"ph": "X", "cat": "kernel", "name": "gemm", "tid": 7, "ts": 15, "dur": 20,
"args": {"correlation": 1, "stream": 7}},
{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "tid": 1, "ts": 20, "dur": 9, "args":
{"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 64, "Out msg nelems": 64,
"Group size": 2, "Process Group Ranks": "[0, 1]"}}]}
"""

_MAX_SHOWN = 16
"""Largest number of names of metadata in a line."""
_COMM_KERNEL = re.compile("nccl|rccl", re.IGNORECASE)
_NO_DEVICE = "there is no device in the trace: host time between calls counts as computation"
_OTHER_DEVICE = (
    "the trace has no GPU kernels, and events of other categories are not read: host time between "
    "calls counts as computation"
)


def sniff(content: bytes) -> bool:
    """Return whether the content has trace events."""
    head = content.lstrip()[:1]
    return b'"traceEvents"' in content or (head == b"[" and b'"ph"' in content[:4096])


def read(content: bytes, where: str, wanted: StepSelection) -> RankTrace:
    """Return the events of a rank in one step.

    Raises:
        InputError: The content is not such a trace, is truncated, or has no such step.
    """
    trace = read_events(content, where)
    place = wanted.find_index([mark.number for mark in trace.marks], where)
    begin, end, took, main = _step_range(trace, place)
    device = [kernel for kernel in trace.device if begin <= kernel.launched < end]
    check_streams(device, where)
    check_durations((*device, *(e for e in trace.host if begin <= e.ts < end)), where)
    communication = [kernel for kernel in device if _COMM_KERNEL.search(kernel.name)]
    timeline: list[tuple[float, TraceEvent]] = [
        (kernel.launched, Kernel(kernel.thread or main, kernel.stream, kernel.duration_us))
        for kernel in device
        if not _COMM_KERNEL.search(kernel.name)
    ]
    timeline += _stream_wait_events(trace.waits, timeline, (begin, end))
    calls = host_calls(trace.host, communication, (begin, end), trace.groups, where)
    assumed = [] if place is not None else [NO_MARKS]
    left_out = idle_us(trace.device, begin, took) if trace.device else 0.0
    after: list[tuple[float, TraceEvent]] = []
    if not trace.device and calls:
        timeline += _host_computation(calls, begin, main, took)
        assumed.append(_OTHER_DEVICE if trace.unread else _NO_DEVICE)
    elif wanted.host:
        streams = sorted({kernel.stream for _, kernel in timeline if isinstance(kernel, Kernel)})
        before, after = host_gaps(trace.host, calls, streams, (begin, begin + took))
        timeline += before
        left_out = 0.0
    timeline += [*((call.begin, call.event) for call in calls), *after]
    timeline.sort(key=lambda pair: pair[0])
    return RankTrace(
        source=where,
        format=NAME,
        events=tuple(event for _, event in timeline),
        rank=trace.rank,
        world=trace.world,
        main=main,
        step=None if place is None else trace.marks[place].number,
        iteration_us=took,
        excluded_us=left_out,
        has_times=True,
        assumed=tuple(assumed),
        unread=tuple(_unused_events(trace, communication, calls)),
    )


def _unused_events(
    trace: ProfiledRank, communication: Sequence[LaunchedKernel], calls: Sequence[HostCall]
) -> Iterator[str]:
    for name, number in sorted(trace.unread.items()):
        yield f"{format_count(number, 'event')} of {name}"
    if trace.attributes:
        shown = ", ".join(f"{name!a:.62}" for name in trace.attributes[:_MAX_SHOWN])
        left = len(trace.attributes) - _MAX_SHOWN
        more = f" and {left} more" if left > 0 else ""
        yield f"metadata of collectives: {shown}{more}"
    reductions = {word for event in communication if (word := inexact_reduction(event.name))}
    for word in sorted(reductions):
        yield f"the reduction {word} in names of kernels, which is taken for {REDUCTIONS[word]}"
    made = [event.event for event in calls if isinstance(event.event, TracedCall)]
    cut = {call.group_name for call in made if call.cut_group}
    if cut:
        names = ", ".join(f"{name!a:.40}" for name in sorted(cut))
        yield f"lists of ranks that are cut, of groups ({names}) that pg_config does not list"


def _step_range(trace: ProfiledRank, place: int | None) -> tuple[float, float, float, str]:
    """Return begin, end, and duration of a step in microseconds, and the thread that runs it."""
    if place is None:
        begin = min((event.ts for event in trace.host), default=0.0)
        end = max((event.end for event in trace.host), default=0.0)
        main = str(trace.host[0].tid) if trace.host else ""
        return min((begin, *(d.launched for d in trace.device))), float("inf"), end - begin, main
    mark = trace.marks[place]
    following: Sequence[StepMark] = trace.marks[place + 1 : place + 2]
    end = following[0].begin if following and following[0].begin > mark.begin else mark.end
    return mark.begin, max(end, mark.begin), max(end, mark.begin) - mark.begin, mark.thread


def _stream_wait_events(
    waits: Sequence[StreamWait], timeline: Sequence[tuple[float, TraceEvent]], window: Window
) -> Iterator[tuple[float, TraceEvent]]:
    """Yield waits between computing streams, and the marks that they wait for."""
    streams = {event.stream for _, event in timeline if isinstance(event, Kernel)}
    inside = [
        wait
        for wait in waits
        if wait.stream != wait.awaited
        and {wait.stream, wait.awaited} <= streams
        and window[0] <= wait.marked
        and wait.waited < window[1]
    ]
    for number, wait in enumerate(sorted(inside, key=lambda item: (item.waited, item.awaited))):
        yield wait.marked, StreamEvent(wait.awaited, number, waits=False)
        yield wait.waited, StreamEvent(wait.stream, number, waits=True)


def _host_computation(
    calls: list[HostCall], begin: float, main: str, took: float
) -> list[tuple[float, TraceEvent]]:
    """Return the host's work between calls and waits as computation."""
    timeline: list[tuple[float, TraceEvent]] = []
    free: dict[str, float] = {main: begin}
    streams: dict[str, str] = {}
    for call in calls:
        thread = call.event.thread
        stream = streams.setdefault(thread, f"host-{len(streams)}")
        since = free.get(thread, call.begin)
        if call.begin > since:
            timeline.append((since, Kernel(thread, stream, call.begin - since)))
        free[thread] = max(since, call.end)
    if free[main] < begin + took:
        rest = begin + took - free[main]
        timeline.append((free[main], Kernel(main, streams.get(main, "host"), rest)))
    return timeline


_Timed = tuple[float, TraceEvent]
_BLOCKED = re.compile(r"(cuda|hip)(Device|Stream|Event)Synchronize", re.IGNORECASE)


def idle_us(device: Sequence[LaunchedKernel], begin: float, took: float) -> float:
    """Return the idle time of the device during ``took`` microseconds after ``begin``."""
    free, idle = begin, 0.0
    for began, ended in sorted((event.began, event.began + event.duration_us) for event in device):
        idle += max(0.0, min(began, begin + took) - free)
        free = max(free, ended)
    return idle + max(0.0, begin + took - free)


def host_gaps(
    host: Sequence[ProfiledEvent], calls: Sequence[HostCall], streams: Sequence[str], window: Window
) -> tuple[list[_Timed], list[_Timed]]:
    """Return the host's waits for streams, and its work between calls and waits.

    Args:
        host: All events of the host.
        calls: Calls and waits, in order.
        streams: Streams of the device that compute.
        window: Begin and end of the step, in microseconds.
    """
    lines = [window[0], *(call.begin for call in calls), window[1]]
    blocked = _blocked_intervals(host, window)
    waits: list[_Timed] = []
    does: list[_Timed] = []
    number = -1  # other marks have nonnegative numbers
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
    """Return the disjoint intervals in which any thread of the host is blocked."""
    spans: list[tuple[float, float]] = []
    for event in host:
        if not window[0] <= event.ts < window[1] or not _BLOCKED.fullmatch(event.name):
            continue
        if spans and event.ts <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], event.end))
        else:
            spans.append((event.ts, event.end))
    return spans
