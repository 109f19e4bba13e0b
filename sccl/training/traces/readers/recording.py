"""Read recordings of running jobs, one file per rank, as the process group ``sccl`` writes them.

Steps follow from marks of the job, or from optimizer steps and repeated calls. Dependencies are
recorded, not guessed. The computation between two events of a thread is the host's work, because
these jobs compute on CPUs. The host does nothing while it is blocked in a wait.

Waits are invisible if the job requested the future of a call. An optimizer step needs the results
of all such calls. Until then, if results arrive between two events of a thread, the computation
between them is the larger one of the thread's CPU time and the time since the last arrival.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec

from sccl.core.formatting import format_count
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.training.files.recording_shapes import (
    AnyRecord,
    CallRecord,
    MarkRecord,
    RecordingWire,
    WaitRecord,
)
from sccl.training.traces.readers.common.contract import (
    MAX_EVENTS,
    MAX_RANKS,
    Kernel,
    PeerEnd,
    RankTrace,
    StepSelection,
    TracedCall,
    TracedWait,
    TraceEvent,
)
from sccl.training.types.workload_ops import COLLECTIVES, REDUCTIONS

NAME = "recording"
ABOUT = "recordings of running PyTorch jobs by sccl's own process group, one file per rank"
SOURCE = "sccl itself: the environment variable SCCL_RECORD, or sccl train run --record"
EXAMPLE = b"""{"sccl_recording":1,"rank":0,"world":2,"torch":"2.13.0","events":[
{"was":"call","thread":0,"begin":5,"end":6,"cpu_begin":5,"cpu_end":6,"number":0,
"collective":"allreduce","dtype":"float32","given":8,"got":8,"group":[0,1],"reduce":"sum"},
{"was":"wait","thread":0,"begin":7,"end":9,"cpu_begin":7,"cpu_end":7,"call":0},
{"was":"call","thread":0,"begin":19,"end":20,"cpu_begin":17,"cpu_end":18,"number":1,
"collective":"allreduce","dtype":"float32","given":8,"got":8,"group":[0,1],"reduce":"sum"},
{"was":"wait","thread":0,"begin":21,"end":29,"cpu_begin":19,"cpu_end":19,"call":1}]}
"""

_HEAD = b'"sccl_recording"'
_MAIN = "main"


def sniff(content: bytes) -> bool:
    """Return whether bytes look like a recording."""
    return _HEAD in content[:64]


def read(content: bytes, where: str, wanted: StepSelection) -> RankTrace:
    """Return the events of the rank in a step, with median durations over equal steps.

    Raises:
        InputError: The content is not a recording, or has no such step.
    """
    recording = _decode(content, where)
    steps = find_steps(recording.events, where)
    number = wanted.number
    if number is not None and not 0 <= number < len(steps):
        raise InputError(
            f"{where}: step {number} is not in it: give --step 0 to {len(steps) - 1}, or leave it "
            "out for the median of all"
        )
    taken = steps if number is None else [steps[number]]
    first = steps[number or 0]
    rows = [_measure_step(recording.events, step) for step in taken]
    assumed = []
    if len(taken) > 1:
        steps_alike = f"{format_count(len(taken), 'step')} alike"
        assumed.append(f"{steps_alike}: each piece of computation as in the middle")
    if recording.left_out:
        assumed.append(
            f"{format_count(recording.left_out, 'call')} of types without a name left out"
        )
    return RankTrace(
        source=where,
        format=NAME,
        events=tuple(_step_events(recording.events, first, rows)),
        rank=recording.rank,
        world=recording.world,
        main=_MAIN,
        step=None,
        iteration_us=round(median(row.took_us for row in rows), 3),
        has_times=True,
        assumed=tuple(assumed),
    )


def _decode(content: bytes, where: str) -> RecordingWire:
    try:
        recording = msgspec.json.decode(content, type=RecordingWire)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(
            f"{where}: no recording of a job, or one that is cut off ({str(error)[:120]})"
        ) from error
    if len(recording.events) > MAX_EVENTS or recording.world > MAX_RANKS:
        raise TooLargeError(
            f"{where}: {len(recording.events)} events of {recording.world} ranks are many: record "
            "fewer steps"
        )
    for number, event in enumerate(recording.events):
        _check_event(event, recording, f"{where}, event {number}")
    return recording


def _check_event(event: AnyRecord, recording: RecordingWire, where: str) -> None:
    if event.end < event.begin or event.cpu_end < event.cpu_begin:
        raise FormatError(f"{where}: it ends before it begins")
    if not isinstance(event, CallRecord):
        return
    if event.collective not in COLLECTIVES or event.dtype not in ITEM_BYTES:
        raise FormatError(f"{where}: {event.collective:.40} of {event.dtype:.40} is none")
    if event.reduce and event.reduce not in REDUCTIONS:
        raise FormatError(f"{where}: it reduces by {event.reduce:.40}, which is none")
    ranks = len(set(event.group))
    if not ranks or ranks < len(event.group) or max(event.group) >= recording.world:
        raise FormatError(f"{where}: its group is not of different ranks of {recording.world}")


@dataclass(slots=True)
class _StepGaps:
    """The computation before each event of a step, and the duration of the step."""

    gaps: list[float] = field(default_factory=list)
    took_us: float = 0.0


def _measure_step(events: Sequence[AnyRecord], step: RecordedStep) -> _StepGaps:
    """Return the computation before each event of a step, in microseconds."""
    row = _StepGaps()
    main = events[step.start].thread
    last: dict[int, AnyRecord] = {}
    for event in events[max(0, step.start - 64) : step.start]:
        last[event.thread] = event
    seen = _awaited_calls(events, step)
    unseen: list[CallRecord] = []
    for event in events[step.start : step.stop]:
        before = last.get(event.thread)
        row.gaps.append(_computation_between(before, event, unseen, is_main=event.thread == main))
        if isinstance(event, MarkRecord) and event.what == "optimizer":
            row.gaps[-1] += event.end - event.begin
            unseen = []
        elif isinstance(event, CallRecord) and event.in_future and event.number not in seen:
            unseen.append(event)
        last[event.thread] = event
    end = events[step.stop].begin if step.stop < len(events) else events[step.stop - 1].end
    row.took_us = end - events[step.start].begin
    return row


def _awaited_calls(events: Sequence[AnyRecord], step: RecordedStep) -> frozenset[int]:
    """Return the numbers of calls with a recorded wait."""
    step_events = events[step.start : step.stop]
    return frozenset(event.call for event in step_events if isinstance(event, WaitRecord))


def _computation_between(
    before: AnyRecord | None, event: AnyRecord, unseen: Sequence[CallRecord], *, is_main: bool
) -> float:
    """Return the computation of a thread between two of its events, in microseconds."""
    if before is None:
        return 0.0
    wall = max(0.0, event.begin - before.end)
    ends = [call.done for call in unseen if call.done and before.end < call.done < event.begin]
    if is_main and not ends:
        return wall
    computed = max(0.0, event.cpu_begin - before.cpu_end)
    return min(wall, max(computed, event.begin - max(ends, default=event.begin)))


def _step_events(
    events: Sequence[AnyRecord], step: RecordedStep, rows: Sequence[_StepGaps]
) -> list[TraceEvent]:
    """Return the events of a step, with the median computation over all steps between them."""
    trace_events: list[TraceEvent] = []
    unseen: dict[str, list[int]] = defaultdict(list)
    main, seen = events[step.start].thread, _awaited_calls(events, step)
    for place, event in enumerate(events[step.start : step.stop]):
        thread = _MAIN if event.thread == main else f"thread-{event.thread}"
        gaps = tuple(row.gaps[place] for row in rows)
        if any(gaps) and not (isinstance(event, MarkRecord) and unseen):
            trace_events.append(_build_kernel(thread, gaps))
        match event:
            case CallRecord():
                trace_events.append(_build_call(event, thread))
                if event.in_future and event.number not in seen:
                    unseen[thread].append(event.number)
            case WaitRecord():
                trace_events.append(TracedWait(thread, event.call))
            case MarkRecord():
                trace_events += _optimizer_waits(unseen, gaps)
    trace_events += _optimizer_waits(unseen, ())
    return trace_events


def _build_kernel(thread: str, gaps: tuple[float, ...]) -> Kernel:
    """Return the computation of a thread with its duration in each step."""
    return Kernel(thread, "cpu" if thread == _MAIN else thread, round(median(gaps), 3), gaps)


def _optimizer_waits(unseen: dict[str, list[int]], gaps: tuple[float, ...]) -> list[TraceEvent]:
    """Return waits for calls without a recorded wait, and the computation after them."""
    trace_events: list[TraceEvent] = [
        TracedWait(_MAIN, number) for numbers in unseen.values() for number in numbers
    ]
    if unseen and any(gaps):
        trace_events.append(_build_kernel(_MAIN, gaps))
    unseen.clear()
    return trace_events


def _has_no_tensor(event: CallRecord, elements: int, rooted: str) -> bool:
    """Return whether only other ranks have this tensor: the root, or the peer of a send."""
    return not elements and (event.collective == rooted or event.peer is not None)


def _build_call(event: CallRecord, thread: str) -> TracedCall:
    end = None if event.peer is None else PeerEnd(event.peer, event.sends)
    took = None if event.done is None else max(0.0, event.done - event.begin)
    return TracedCall(
        thread=thread,
        collective=event.collective,
        dtype=event.dtype,
        input_elements=None if _has_no_tensor(event, event.given, "scatter") else event.given,
        output_elements=None if _has_no_tensor(event, event.got, "gather") else event.got,
        request=event.number,
        group=event.group,
        group_size=len(event.group),
        root=event.root,
        reduce=event.reduce,
        send_splits=event.gives,
        receive_splits=event.gets,
        duration_us=took,
        end=end,
    )


_MAX_PIECES = 4000
"""Largest number of last pieces that are searched for repetitions. Comparisons grow with half its
square."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """The indices of a step's events, from ``start`` to ``stop - 1``."""

    start: int
    stop: int


def find_steps(events: Sequence[AnyRecord], where: str) -> list[RecordedStep]:
    """Return consecutive equal steps. If there are more than two, the first one is omitted.

    With marks by ``sccl.torch.step()``, a step goes from one mark to the next. Otherwise steps are
    repeating pieces between optimizer steps, or, without an optimizer, repeating events. Events
    before and after the repetition, such as the set-up of a job, do not belong to a step.

    Raises:
        InputError: There are no calls, or nothing repeats.
    """
    if not any(isinstance(event, CallRecord) for event in events):
        raise InputError(f"{where}: there are no calls in it: record a job of several ranks")
    pieces = _split_pieces(events)
    keys = _number_keys([_piece_key(events, piece) for piece in pieces])
    if any(isinstance(event, MarkRecord) and event.what == "step" for event in events):
        first, period, many = _longest_repetition(keys, [1])
    else:
        first, period, many = _longest_repetition(keys, range(1, len(keys) // 2 + 1))
    if many < 2:
        raise InputError(
            f"{where}: nothing in it repeats: record several steps, or mark their beginnings with "
            "sccl.torch.step()"
        )
    starts = range(first, first + many * period, period)
    steps = [RecordedStep(pieces[k].start, pieces[k + period - 1].stop) for k in starts]
    return steps[1:] if len(steps) > 2 else steps


def _split_pieces(events: Sequence[AnyRecord]) -> list[RecordedStep]:
    steps = [k for k, e in enumerate(events) if isinstance(e, MarkRecord) and e.what == "step"]
    ends = [k + 1 for k, e in enumerate(events) if isinstance(e, MarkRecord)]
    bounds = steps if len(steps) > 1 else [0, *ends]
    if len(bounds) < 3 and len(steps) < 2:
        bounds = list(range(len(events) + 1))
    bounds = bounds[-_MAX_PIECES - 1 :]
    return [RecordedStep(a, b) for a, b in itertools.pairwise(bounds) if a < b]


def _piece_key(events: Sequence[AnyRecord], piece: RecordedStep) -> Hashable:
    number = 0  # of the next call: waits are compared by the number of calls since theirs
    for event in reversed(events[: piece.start]):
        if isinstance(event, CallRecord):
            number = event.number + 1
            break
    parts: list[Hashable] = []
    for event in events[piece.start : piece.stop]:
        match event:
            case CallRecord():
                number = event.number + 1
                sizes = (event.given, event.got, event.gives, event.gets)
                operation = (event.collective, event.dtype, event.group, event.root, event.reduce)
                parts.append((event.thread, *operation, *sizes, event.peer, event.sends))
            case WaitRecord():
                parts.append((event.thread, number - event.call))
            case MarkRecord():
                parts.append((event.thread, event.what))
    return tuple(parts)


def _number_keys(keys: Sequence[Hashable]) -> list[int]:
    number: dict[Hashable, int] = {}
    return [number.setdefault(key, len(number)) for key in keys]


def _longest_repetition(keys: Sequence[int], periods: Sequence[int]) -> tuple[int, int, int]:
    """Return the start, period, and count of the longest repetition.

    A longer period must cover a tenth more, because a multiple of a period repeats too.
    """
    best = (0, 0, 0)
    for period in periods:
        run = 0
        for at in range(len(keys) - period):
            run = run + 1 if keys[at] == keys[at + period] else 0
            many = run // period + 1
            longer = many > 1 and many * period > 1.1 * best[1] * best[2]
            if longer or (period == best[1] and many > best[2]):
                best = (at - run + 1, period, many)
    return best
