"""Events of a Chrome trace as Kineto writes them, as far as they tell of computation and calls."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from sccl.core.workload_ops import MOST_US
from sccl.errors import FormatError, TooLargeError
from sccl.workloads.readers.contract import MAX_EVENTS, MAX_RANKS

_NONE = msgspec.Raw(b"")
_STEP = re.compile(r"ProfilerStep\s?#([0-9]{1,9})")
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_SYNC, _WAIT = "cuda_sync", "Stream Wait Event"
_LAUNCHING = ("runtime", "driver")
_CLOCK_US = 1.0
"""Older traces have whole microseconds."""

_EPOCH_US = 1e17
"""No clock of a computer is beyond that, microseconds from 1970 on."""


class EventArguments(msgspec.Struct, frozen=True):
    """What stands beside an event, undecoded: types of it differ between versions."""

    stream: msgspec.Raw = _NONE
    device: msgspec.Raw = _NONE
    correlation: msgspec.Raw = _NONE
    awaited: msgspec.Raw = msgspec.field(default=_NONE, name="wait_on_stream")
    recorded: msgspec.Raw = msgspec.field(default=_NONE, name="wait_on_cuda_event_record_corr_id")
    dims: msgspec.Raw = msgspec.field(default=_NONE, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NONE, name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=_NONE, name="Concrete Inputs")
    collective: msgspec.Raw = msgspec.field(default=_NONE, name="Collective name")
    dtype: msgspec.Raw = _NONE
    given: msgspec.Raw = msgspec.field(default=_NONE, name="In msg nelems")
    got: msgspec.Raw = msgspec.field(default=_NONE, name="Out msg nelems")
    gives: msgspec.Raw = msgspec.field(default=_NONE, name="In split size")
    gets: msgspec.Raw = msgspec.field(default=_NONE, name="Out split size")
    group_size: msgspec.Raw = msgspec.field(default=_NONE, name="Group size")
    group_name: msgspec.Raw = msgspec.field(default=_NONE, name="Process Group Name")
    group: msgspec.Raw = msgspec.field(default=_NONE, name="Process Group Ranks")
    first: msgspec.Raw = msgspec.field(default=_NONE, name="Global rank start")
    stride: msgspec.Raw = msgspec.field(default=_NONE, name="Global rank stride")
    root: msgspec.Raw = msgspec.field(default=_NONE, name="Root rank")
    giver: msgspec.Raw = msgspec.field(default=_NONE, name="Src Rank")
    taker: msgspec.Raw = msgspec.field(default=_NONE, name="Dst Rank")


_NO_ARGUMENTS = EventArguments()


class ProfiledEvent(msgspec.Struct, frozen=True):
    """An event that has a begin and a duration, microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
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


class _Trace(msgspec.Struct):
    events: list[ProfiledEvent] = msgspec.field(name="traceEvents")
    distributed: _Distributed = msgspec.field(default=_Distributed(), name="distributedInfo")


@dataclass(frozen=True, slots=True)
class Mark:
    """A step, from when until when."""

    number: int
    begin: float
    end: float
    thread: str


@dataclass(frozen=True, slots=True)
class Launched:
    """What ran on the device: when and by which thread it was launched.

    Attributes:
        launched: by the clock of the host; its own begin where its launch is not in the trace.
        thread: empty: likewise.
        began: to run, by the clock of the device.
    """

    launched: float
    thread: str
    stream: str
    name: str
    duration_us: float
    began: float


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A stream waits for what another had been given until a mark, by the clock of the host.

    Attributes:
        marked: when the mark was set.
        waited: when the wait was called.
    """

    marked: float
    waited: float
    stream: str
    awaited: str


@dataclass(frozen=True, slots=True)
class ProfiledRank:
    """A trace, sorted.

    Attributes:
        marks: of steps, in order.
        device: what ran there, as it was launched.
        host: what the host did of its own, in order.
        waits: of streams for one another; none: the trace does not tell.
    """

    rank: int | None
    world: int
    marks: tuple[Mark, ...]
    device: tuple[Launched, ...]
    host: tuple[ProfiledEvent, ...]
    waits: tuple[StreamWait, ...] = ()


def profiled(content: bytes, where: str) -> ProfiledRank:
    """Return the events of a trace.

    Raises:
        FormatError: it is cut off, no JSON, or times are none.
        TooLargeError: it has more events than are read.
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
    events = [event for event in trace.events if event.ph == "X" and event.cat != "Trace"]
    for event in events:
        _check_times(event, where)
    events.sort(key=lambda event: event.ts)
    info = trace.distributed
    world = info.world_size or 0
    if not (0 <= world <= MAX_RANKS and 0 <= (info.rank or 0) < MAX_RANKS):
        raise FormatError(f"{where}: distributedInfo says rank {info.rank} of {world} ranks")
    on_device = [event for event in events if event.cat.lower() in _DEVICE]
    _check_streams(on_device, where)
    host = [
        event
        for event in events
        if event.cat.lower() not in _DEVICE and not event.cat.startswith(("gpu_", _SYNC))
    ]
    called = {
        bytes(event.args.correlation): event
        for event in host
        if event.args.correlation and event.cat.lower().endswith(_LAUNCHING)
    }
    return ProfiledRank(
        info.rank,
        world,
        tuple(_marks(host)),
        tuple(_launched(on_device, called)),
        tuple(host),
        tuple(_stream_waits((event for event in events if event.cat == _SYNC), called)),
    )


def _check_times(event: ProfiledEvent, where: str) -> None:
    right = math.isfinite(event.ts) and abs(event.ts) <= _EPOCH_US and 0 <= event.dur <= MOST_US
    if not right:
        raise FormatError(
            f"{where}: event {event.name!r:.60} begins at {event.ts:g} and takes {event.dur:g}: "
            "expected microseconds, and a duration from 0 on"
        )


def _check_streams(on_device: list[ProfiledEvent], where: str) -> None:
    """Check that a stream does one thing after the other, but for what was launched at once.

    Kernels of a graph have one launch, and may run side by side.
    """
    last: dict[tuple[bytes, bytes], ProfiledEvent] = {}
    for event in on_device:
        key = bytes(event.args.device), bytes(event.args.stream)
        before = last.get(key)
        if before is None or event.end >= before.end:
            last[key] = event
        at_once = before is not None and event.args.correlation == before.args.correlation
        if before is None or at_once or not key[1]:
            continue
        both = min(before.end, event.end) - event.ts
        if both > _CLOCK_US:
            raise FormatError(
                f"{where}: on stream {key[1].decode(errors='replace'):.20} {before.name!r:.60} and "
                f"{event.name!r:.60}, at {event.ts:.3f} us, run at the same time for {both:.3f} "
                "us: expected one after the other, as of one device and one run"
            )


def _marks(host: list[ProfiledEvent]) -> list[Mark]:
    found: dict[int, Mark] = {}
    for event in host:
        if told := _STEP.search(event.name):
            number = int(told[1])
            found.setdefault(number, Mark(number, event.ts, event.end, str(event.tid)))
    return sorted(found.values(), key=lambda mark: mark.begin)


def _stream_waits(
    events: Iterable[ProfiledEvent], called: Mapping[bytes, ProfiledEvent]
) -> Iterator[StreamWait]:
    """Yield waits of streams whose calls, and those that set their marks, are in the trace."""
    for event in events:
        args = event.args
        waited, marked = (called.get(bytes(raw)) for raw in (args.correlation, args.recorded))
        if event.name != _WAIT or waited is None or marked is None or marked.ts > waited.ts:
            continue
        yield StreamWait(marked.ts, waited.ts, _stream(event), _named(args.awaited) or "")


def _named(raw: msgspec.Raw) -> str | None:
    """Return the name of a stream; None: it is none that can be shown."""
    name = bytes(raw).decode(errors="replace").strip('"')
    return name if name.isprintable() and 0 < len(name) < 40 else None


def _stream(event: ProfiledEvent) -> str:
    return _named(event.args.stream) or str(event.tid)


def _launched(
    on_device: list[ProfiledEvent], calls: Mapping[bytes, ProfiledEvent]
) -> list[Launched]:
    found = []
    for event in on_device:
        call = calls.get(bytes(event.args.correlation)) if event.args.correlation else None
        at, thread = (call.ts, str(call.tid)) if call else (event.ts, "")
        found.append(Launched(at, thread, _stream(event), event.name, event.dur, event.ts))
    return sorted(found, key=lambda one: one.launched)
