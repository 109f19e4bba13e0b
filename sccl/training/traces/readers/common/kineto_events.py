"""Read the events of computation and calls from a Chrome trace by Kineto."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec

from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.common.contract import MAX_EVENTS, MAX_RANKS
from sccl.training.traces.readers.common.torch_names import STEP, parse_integers, value_of
from sccl.training.types.workload_ops import MAX_OP_US

_NO_RAW = msgspec.Raw(b"")
_DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_SYNC, _WAIT = "cuda_sync", "Stream Wait Event"
_LAUNCHING = ("runtime", "driver")
_HOST_CATEGORIES = frozenset(
    {"", "cpu_op", "user_annotation", "python_function", "overhead", "operator", "function"}
    | {"external_correlation", "cpu_instant_event", "fwdbwd", "ac2g", "async"}
)
"""Categories of host events, in lower case, in addition to runtimes and drivers of devices."""
_READ_CATEGORIES = _DEVICE_CATEGORIES | _HOST_CATEGORIES | {_SYNC}
_UNUSED_DEVICE_CATEGORIES = frozenset({"gpu_user_annotation", "trace"})
"""Categories that repeat events of other categories."""
_NO_DURATION = frozenset({"", "M", "i", "I", "C", "s", "t", "f"})
"""Kinds of trace events without a duration: names, marks, counters, and arrows."""
_CLOCK_US, _INTEGER_CLOCK_US = 1.0, 2.0
"""Overlap in microseconds that rounding may cause. If begin and duration are whole microseconds,
each may be off by one."""

_METADATA = re.compile(rb'"args"\s*:\s*\{([^{}]*"Collective name"[^{}]*)\}')
_KEY = re.compile(rb'"([^"\\]{1,60})"\s*:')

_EPOCH_US = 1e17
"""Largest valid time in microseconds since 1970."""


class EventArguments(msgspec.Struct, frozen=True):
    """The undecoded arguments of an event, because their types differ between versions."""

    stream: msgspec.Raw = _NO_RAW
    device: msgspec.Raw = _NO_RAW
    correlation: msgspec.Raw = _NO_RAW
    awaited: msgspec.Raw = msgspec.field(default=_NO_RAW, name="wait_on_stream")
    recorded: msgspec.Raw = msgspec.field(default=_NO_RAW, name="wait_on_cuda_event_record_corr_id")
    dims: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Concrete Inputs")
    collective: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Collective name")
    dtype: msgspec.Raw = _NO_RAW
    given: msgspec.Raw = msgspec.field(default=_NO_RAW, name="In msg nelems")
    got: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Out msg nelems")
    gives: msgspec.Raw = msgspec.field(default=_NO_RAW, name="In split size")
    gets: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Out split size")
    group_size: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Group size")
    group_name: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Process Group Name")
    group: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Process Group Ranks")
    first: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Global rank start")
    stride: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Global rank stride")
    root: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Root rank")
    giver: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Src Rank")
    taker: msgspec.Raw = msgspec.field(default=_NO_RAW, name="Dst Rank")


_NO_ARGUMENTS = EventArguments()


class ProfiledEvent(msgspec.Struct, frozen=True):
    """An event that has a begin and a duration, microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | float = ""
    tid: int | str | float = ""
    ts: float = 0.0
    dur: float = 0.0
    args: EventArguments = _NO_ARGUMENTS

    @property
    def end(self) -> float:
        """Return when it has ended."""
        return self.ts + self.dur


class _Distributed(msgspec.Struct, frozen=True):
    rank: int | None = None
    world_size: int | None = None
    groups: msgspec.Raw = msgspec.field(default=_NO_RAW, name="pg_config")


class _Trace(msgspec.Struct):
    events: list[ProfiledEvent] = msgspec.field(name="traceEvents")
    distributed: _Distributed = msgspec.field(default=_Distributed(), name="distributedInfo")


_OPERATORS = frozenset({"cpu_op", "operator"})
"""Categories of operators that a process of the job calls."""


@dataclass(frozen=True, slots=True)
class StepMark:
    """A step, with its begin and end in microseconds."""

    number: int
    begin: float
    end: float
    thread: str


@dataclass(frozen=True, slots=True)
class LaunchedKernel:
    """A kernel or copy on the device, with its launch.

    Attributes:
        launched: Launch time by the host's clock, or the begin if the launch is not in the trace.
        thread: Launching thread. Empty: the launch is not in the trace.
        stream: Stream of the device.
        name: Name of the kernel.
        duration_us: Duration.
        began: Begin by the device's clock.
        device: Number of the device in the trace.
        correlation: Number of the launch in the trace.
        has_stream: Whether the trace has the stream.
    """

    launched: float
    thread: str
    stream: str
    name: str
    duration_us: float
    began: float
    device: bytes = b""
    correlation: bytes = b""
    has_stream: bool = True


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A wait of a stream for the work of another stream up to a mark.

    Attributes:
        marked: Time of the call that sets the mark, by the host's clock.
        waited: Time of the call that waits, by the host's clock.
        stream: Waiting stream.
        awaited: Stream of the mark.
    """

    marked: float
    waited: float
    stream: str
    awaited: str


@dataclass(frozen=True, slots=True)
class ProfiledRank:
    """The sorted events of a rank's trace.

    Attributes:
        rank: Rank. None: unknown.
        world: Number of ranks of the job. 0: unknown.
        marks: Step markers, in order.
        device: Work on the device, in order of launch.
        host: Events of the host, in order.
        waits: Waits between streams. Empty: not in the trace.
        groups: Ranks of process groups, by name.
        unread: Number of ignored events of each category or kind.
        attributes: Names of ignored metadata of collectives, in order.
    """

    rank: int | None
    world: int
    marks: tuple[StepMark, ...]
    device: tuple[LaunchedKernel, ...]
    host: tuple[ProfiledEvent, ...]
    waits: tuple[StreamWait, ...] = ()
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()


def read_events(content: bytes, where: str) -> ProfiledRank:
    """Return the events of a trace.

    Raises:
        FormatError: The trace is truncated or not JSON, or has invalid times.
        TooLargeError: The trace has too many events.
    """
    if content.count(b'"ph"') > MAX_EVENTS:
        raise TooLargeError(
            f"{where}: it has more than {MAX_EVENTS} events: trace fewer steps, or cut some out"
        )
    try:
        if content.lstrip()[:1] == b"[":
            trace = _Trace(msgspec.json.decode(content, type=list[ProfiledEvent]))
        else:
            trace = msgspec.json.decode(content, type=_Trace)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise FormatError(
            f"{where}: no trace of Kineto, or one that is cut off ({str(error)[:120]}): expected "
            "JSON with traceEvents, as torch.profiler exports it"
        ) from error
    unread: Counter[str] = Counter()
    events = []
    for event in trace.events:
        if event.ph != "X":
            if event.ph not in _NO_DURATION:
                unread[f"kind {event.ph!a:.20}"] += 1
        elif _is_read(event.cat):
            events.append(event)
        elif event.cat.lower() not in _UNUSED_DEVICE_CATEGORIES:
            unread[f"category {event.cat!a:.60}"] += 1
    for event in events:
        _check_times(event, where)
    events.sort(key=lambda event: event.ts)
    info = trace.distributed
    world = info.world_size or 0
    if not (0 <= world <= MAX_RANKS and 0 <= (info.rank or 0) < MAX_RANKS):
        raise FormatError(f"{where}: distributedInfo has rank {info.rank} of {world} ranks")
    on_device = [event for event in events if event.cat.lower() in _DEVICE_CATEGORIES]
    host = [
        event
        for event in events
        if event.cat.lower() not in _DEVICE_CATEGORIES and event.cat.lower() != _SYNC
    ]
    _check_processes(host, where)
    called = {
        bytes(event.args.correlation): event
        for event in host
        if event.args.correlation and event.cat.lower().endswith(_LAUNCHING)
    }
    return ProfiledRank(
        info.rank,
        world,
        tuple(_step_marks(host)),
        tuple(_launched_kernels(on_device, called)),
        tuple(host),
        tuple(_stream_waits((event for event in events if event.cat.lower() == _SYNC), called)),
        _process_groups(info.groups, where),
        unread,
        _unused_attributes(content),
    )


def _check_processes(host: Sequence[ProfiledEvent], where: str) -> None:
    """Check that only one process called operators. Tools may merge traces of several ranks.

    Raises:
        FormatError: Several processes called operators.
    """
    processes = {event.pid for event in host if event.cat.lower() in _OPERATORS}
    if len(processes) > 1:
        shown = ", ".join(sorted(f"{pid!s:.20}" for pid in processes)[:4])
        raise FormatError(
            f"{where}: {len(processes)} processes call operators ({shown}), as in a merged trace "
            "of several ranks: give one trace per rank"
        )


def _unused_attributes(content: bytes) -> tuple[str, ...]:
    """Return the names of unused metadata of collectives."""
    names = {key for match in _METADATA.finditer(content) for key in _KEY.findall(match[1])}
    used = {name.encode() for name in EventArguments.__struct_encode_fields__}
    return tuple(sorted(name.decode(errors="replace") for name in names - used))


def _is_read(category: str) -> bool:
    name = category.lower()
    return name in _READ_CATEGORIES or name.endswith(_LAUNCHING)


def _process_groups(raw: msgspec.Raw, where: str) -> dict[str, tuple[int, ...]]:
    """Return the ranks of process groups by name. Ambiguous names are omitted."""
    listed = value_of(raw, where)
    groups: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and "pg_name" in entry:
            groups[str(entry["pg_name"])].add(parse_integers(entry.get("ranks")))
    return {name: ranks for name, (ranks, *others) in groups.items() if not others}


def _check_times(event: ProfiledEvent, where: str) -> None:
    if not (math.isfinite(event.ts) and abs(event.ts) <= _EPOCH_US and math.isfinite(event.dur)):
        _refuse_times(event.name, event.ts, event.dur, where)


def check_durations(events: Iterable[ProfiledEvent | LaunchedKernel], where: str) -> None:
    """Check that the durations of events are within the limits of workloads.

    Raises:
        FormatError: A duration is outside the limits.
    """
    for event in events:
        took = event.dur if isinstance(event, ProfiledEvent) else event.duration_us
        if not 0 <= took <= MAX_OP_US:
            began = event.ts if isinstance(event, ProfiledEvent) else event.began
            _refuse_times(event.name, began, took, where)


def _refuse_times(name: str, began: float, took: float, where: str) -> NoReturn:
    raise FormatError(
        f"{where}: event {name!r:.60} begins at {began:g} and takes {took:g}: expected "
        "microseconds, and a duration from 0 on"
    )


def check_streams(on_device: Sequence[LaunchedKernel], where: str) -> None:
    """Check that the kernels of a stream run one after the other.

    Kernels of a CUDA graph share one launch, and may run in parallel.

    Args:
        on_device: Kernels and copies of the step, in any order.
        where: Name of the trace, for messages.

    Raises:
        FormatError: Two kernels of a stream overlap by more than rounding.
    """
    whole_times = all(run.began.is_integer() and run.duration_us.is_integer() for run in on_device)
    clock = _INTEGER_CLOCK_US if whole_times else _CLOCK_US
    last: dict[tuple[bytes, str], LaunchedKernel] = {}
    for run in sorted(on_device, key=lambda run: run.began):
        key = run.device, run.stream
        end = run.began + run.duration_us
        before = last.get(key)
        if before is None or end >= before.began + before.duration_us:
            last[key] = run
        if before is None or run.correlation == before.correlation or not run.has_stream:
            continue
        both = min(before.began + before.duration_us, end) - run.began
        if both > clock:
            raise FormatError(
                f"{where}: on stream {run.stream:.20} {before.name!r:.60} and {run.name!r:.60}, at "
                f"{run.began:.3f} us, run at the same time for {both:.3f} us: expected one after "
                "the other, as of one device and one run"
            )


def _step_marks(host: list[ProfiledEvent]) -> list[StepMark]:
    marks: dict[int, StepMark] = {}
    for event in host:
        if match := STEP.search(event.name):
            number = int(match[1])
            marks.setdefault(number, StepMark(number, event.ts, event.end, str(event.tid)))
    return sorted(marks.values(), key=lambda mark: mark.begin)


def _stream_waits(
    events: Iterable[ProfiledEvent], called: Mapping[bytes, ProfiledEvent]
) -> Iterator[StreamWait]:
    """Yield the waits between streams whose calls, for wait and mark, are both in the trace."""
    for event in events:
        args = event.args
        waited, marked = (called.get(bytes(raw)) for raw in (args.correlation, args.recorded))
        if event.name != _WAIT or waited is None or marked is None or marked.ts > waited.ts:
            continue
        yield StreamWait(
            marked.ts, waited.ts, _event_stream(event), _stream_name(args.awaited) or ""
        )


def _stream_name(raw: msgspec.Raw) -> str | None:
    """Return the name of a stream. None: the name is empty, too long, or not printable."""
    name = bytes(raw).decode(errors="replace").strip('"')
    return name if name.isprintable() and 0 < len(name) < 40 else None


def _event_stream(event: ProfiledEvent) -> str:
    return _stream_name(event.args.stream) or str(event.tid)


def _launched_kernels(
    on_device: list[ProfiledEvent], calls: Mapping[bytes, ProfiledEvent]
) -> list[LaunchedKernel]:
    launches = []
    for event in on_device:
        call = calls.get(bytes(event.args.correlation)) if event.args.correlation else None
        at, thread = (call.ts, str(call.tid)) if call else (event.ts, "")
        launches.append(
            LaunchedKernel(
                at,
                thread,
                _event_stream(event),
                event.name,
                event.dur,
                event.ts,
                device=bytes(event.args.device),
                correlation=bytes(event.args.correlation),
                has_stream=bool(event.args.stream),
            )
        )
    return sorted(launches, key=lambda launch: launch.launched)
