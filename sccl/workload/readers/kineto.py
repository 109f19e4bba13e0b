"""Traces of PyTorch's profiler (Kineto), with metadata of collectives and without.

Since 2.3 PyTorch says of each collective its name, elements, type, group and splits; before, there
is a node ``record_param_comms`` around each call and each wait, with the dimensions of its tensors
and within it an event such as ``nccl:all_to_all``. Waits name no call there: a wait that follows a
call of its thread at once is for that, any other for the oldest call of the thread that none was
for. Computation is in the order in which the host launched it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sccl.errors import FormatError
from sccl.workload.readers.contract import NO_MARKS, WantedStep
from sccl.workload.readers.kineto_events import (
    EventArguments,
    Launched,
    Mark,
    ProfiledEvent,
    ProfiledRank,
    profiled,
)
from sccl.workload.readers.rank_trace import Awaited, Call, Kernel, RankTrace, TraceEvent
from sccl.workload.readers.torch_names import (
    COMM_NODE,
    WAIT,
    collective_of,
    dtype_of,
    elements_of_dims,
    numbers_of,
    required_collective,
    value_of,
    whole,
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

_BACKENDS = ("nccl:", "gloo:", "mpi:", "ucc:", "rccl:")
_COMM_KERNEL = re.compile("nccl|rccl", re.IGNORECASE)
_REDUCTION = re.compile(r"_(Sum|Prod|Min|Max|Avg|MinMax|PreMulSum|SumPostDiv)(_|\(|$)")
_REDUCTIONS = {"Sum": "sum", "Prod": "prod", "Min": "min", "Max": "max", "Avg": "avg"}
_BUCKETS = "torch::autograd::AccumulateGrad"
"""Around calls that DistributedDataParallel makes of gradients, as they are ready."""

_NO_DEVICE = "there is no device in the trace: what the host does between calls is computation"

_NESTED = 8
"""Of such events, one in another: as many are looked at."""


def sniff(content: bytes) -> bool:
    """Return whether it has trace events."""
    head = content.lstrip()[:1]
    return b'"traceEvents"' in content or (head == b"[" and b'"ph"' in content[:4096])


def read(content: bytes, where: str, wanted: WantedStep) -> RankTrace:
    """Return what a rank did in one step.

    Raises:
        InputError: it is no such trace, is cut off, or has no such step.
    """
    trace = profiled(content, where)
    place = wanted.place([mark.number for mark in trace.marks], where)
    begin, end, took, main = _range(trace, place)
    device = [one for one in trace.device if begin <= one.launched < end]
    host = [one for one in trace.host if begin <= one.ts < end]
    timeline: list[tuple[float, TraceEvent]] = [
        (one.launched, Kernel(one.thread or main, one.stream, one.duration_us))
        for one in device
        if not _COMM_KERNEL.search(one.name)
    ]
    calls = _calls(host, [one for one in device if _COMM_KERNEL.search(one.name)], where)
    assumed = [] if place is not None else [NO_MARKS]
    if not trace.device and calls:
        timeline += _of_host([node for node, _ in calls], begin, main, took)
        assumed.append(_NO_DEVICE)
    timeline += [(node.ts, what) for node, what in calls]
    timeline.sort(key=lambda pair: pair[0])
    return RankTrace(
        where=where,
        format=NAME,
        events=tuple(event for _, event in timeline),
        rank=trace.rank,
        world=trace.world,
        main=main,
        step=None if place is None else trace.marks[place].number,
        iteration_us=took,
        timed=True,
        assumed=tuple(assumed),
    )


def _range(trace: ProfiledRank, place: int | None) -> tuple[float, float, float, str]:
    """Return when a step begins and ends, how long it takes, and the thread that runs it."""
    if place is None:
        begin = min((event.ts for event in trace.host), default=0.0)
        end = max((event.end for event in trace.host), default=0.0)
        main = str(trace.host[0].tid) if trace.host else ""
        return min((begin, *(d.launched for d in trace.device))), float("inf"), end - begin, main
    mark = trace.marks[place]
    following: Sequence[Mark] = trace.marks[place + 1 : place + 2]
    end = following[0].begin if following and following[0].begin > mark.begin else mark.end
    return mark.begin, max(end, mark.begin), max(end, mark.begin) - mark.begin, mark.thread


def _calls(
    host: list[ProfiledEvent], kernels: list[Launched], where: str
) -> list[tuple[ProfiledEvent, TraceEvent]]:
    """Return calls of collectives and waits for them, each with its node."""
    threads: dict[str, list[ProfiledEvent]] = defaultdict(list)
    buckets: dict[str, list[ProfiledEvent]] = defaultdict(list)
    for event in host:
        if event.name == COMM_NODE or event.name.startswith(_BACKENDS):
            threads[str(event.tid)].append(event)
        elif _BUCKETS in event.name:
            buckets[str(event.tid)].append(event)
    launched: dict[str, list[Launched]] = defaultdict(list)
    for kernel in kernels:
        launched[kernel.thread].append(kernel)
    found: list[tuple[ProfiledEvent, TraceEvent]] = []
    for thread, events in threads.items():
        for node, named in _nodes(events):
            what = _call(node, named, thread, where)
            if isinstance(what, Call):
                what = _with_kernels(what, _during(launched[thread], node))
                what = replace(what, bucket=_within(buckets[thread], node))
            found.append((node, what))
    return found


def _of_host(
    nodes: list[ProfiledEvent], begin: float, main: str, took: float
) -> list[tuple[float, TraceEvent]]:
    """Return what threads of the host do between calls and waits, as computation."""
    found: list[tuple[float, TraceEvent]] = []
    free: dict[str, float] = {main: begin}
    streams: dict[str, str] = {}
    for node in sorted(nodes, key=lambda node: node.ts):
        thread = str(node.tid)
        stream = streams.setdefault(thread, f"host-{len(streams)}")
        since = free.get(thread, node.ts)
        if node.ts > since:
            found.append((since, Kernel(thread, stream, node.ts - since)))
        free[thread] = max(since, node.end)
    if free[main] < begin + took:
        rest = begin + took - free[main]
        found.append((free[main], Kernel(main, streams.get(main, "host"), rest)))
    return found


def _nodes(events: list[ProfiledEvent]) -> list[tuple[ProfiledEvent, ProfiledEvent | None]]:
    """Return the calls and waits of a thread, each with the event within it that has its name."""
    found: list[tuple[ProfiledEvent, ProfiledEvent | None]] = []
    for event in events:
        if event.name != COMM_NODE and found and event.ts <= found[-1][0].end:
            found[-1] = (found[-1][0], found[-1][1] or event)
        else:
            found.append((event, None))
    return found


def _during(kernels: list[Launched], node: ProfiledEvent) -> list[Launched]:
    begin = bisect_left(kernels, node.ts, key=lambda kernel: kernel.launched)
    return kernels[begin : bisect_right(kernels, node.end, key=lambda kernel: kernel.launched)]


def _within(outer: list[ProfiledEvent], inner: ProfiledEvent) -> bool:
    """Return whether an event began within another, which may have yet others in it."""
    before = bisect_right(outer, inner.ts, key=lambda event: event.ts)
    return any(inner.ts <= event.end for event in outer[max(0, before - _NESTED) : before])


def _with_kernels(call: Call, ran: list[Launched]) -> Call:
    """Return a call with what its kernels tell: how long they took, and what combines elements."""
    told = next((found[1] for one in ran if (found := _REDUCTION.search(one.name))), "")
    took = sum(one.duration_us for one in ran) if ran else None
    return replace(call, duration_us=took, reduce=_REDUCTIONS.get(told, ""))


def _call(
    node: ProfiledEvent, named: ProfiledEvent | None, thread: str, where: str
) -> Call | Awaited:
    """Return what a node is: a call, or a wait.

    Args:
        named: the event within it that has the name of its collective, if there is one.

    Raises:
        FormatError: it is a call of what is no collective, or of nobody knows what.
    """
    args = node.args
    place = f"{where}: the call at {node.ts:.3f} us"
    concrete = value_of(args.concrete, place)
    told = value_of(args.collective, place) or _name_among(concrete)
    if told is None and node.name != COMM_NODE:
        told = node.name
    if told is None and named is not None:
        told = named.name
    if told is None and elements_of_dims(value_of(args.dims, place)) is not None:
        raise FormatError(
            f"{place} has no name: give the execution trace of the rank beside it, or one of a "
            "profiler that records shapes"
        )
    if told is None or told == WAIT:
        return Awaited(thread, _request(concrete))
    collective = required_collective(str(told), place)
    call = Call(thread, collective, "", request=_request(concrete))
    fields = named.args if named is not None and named.args.dims else args
    return _told(_described(call, fields, place), args, place)


def _name_among(concrete: object) -> str | None:
    words = [w for w in concrete if isinstance(w, str)] if isinstance(concrete, list) else []
    return next((w for w in words if w == WAIT or (w and collective_of(w))), None)


def _request(concrete: object) -> int | None:
    """Return the number of a call, which stands three before its name where inputs are recorded."""
    name = _name_among(concrete)
    if not isinstance(concrete, list) or name not in concrete[3:]:
        return None
    return whole(concrete[concrete.index(name, 3) - 3])


def _described(call: Call, fields: EventArguments, place: str) -> Call:
    """Return a call with what the dimensions and types of its tensors tell."""
    elements = elements_of_dims(value_of(fields.dims, place))
    types = value_of(fields.types, place)
    word = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else ""
    return replace(
        call,
        given=elements,
        dtype=dtype_of(word, place) if word and word != "TensorList" else "",
    )


def _told(call: Call, args: EventArguments, place: str) -> Call:
    """Return a call with what the metadata of collectives tell; without, it stays as it is.

    Raises:
        FormatError: neither tells the type of its elements.
    """
    word = value_of(args.dtype, place)
    dtype = dtype_of(word, place) if isinstance(word, str) and word else call.dtype
    if not dtype:
        raise FormatError(
            f"{place} does not tell which elements it is about: profile with record_shapes=True, "
            "or give the execution trace of the rank beside it"
        )
    given = whole(value_of(args.given, place))
    group = numbers_of(value_of(args.group, place))
    size = whole(value_of(args.group_size, place)) or len(group)
    first, stride = (whole(value_of(raw, place)) for raw in (args.first, args.stride))
    return replace(
        call,
        dtype=dtype,
        given=call.given if given is None else given,
        got=whole(value_of(args.got, place)),
        group_name=str(value_of(args.group_name, place) or ""),
        group=group if len(group) == size else (),
        first_stride=None if first is None or not stride else (first, stride),
        group_size=size,
        root=whole(value_of(args.root, place)),
        gives=numbers_of(value_of(args.gives, place)),
        gets=numbers_of(value_of(args.gets, place)),
    )
