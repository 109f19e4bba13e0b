"""For which call each wait of a trace is, in this step or in one before it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sccl.core.formatting import format_count
from sccl.core.workload_ops import MAX_LAG
from sccl.errors import InputError
from sccl.training.traces.readers.rank_trace import (
    Kernel,
    RankTrace,
    StreamEvent,
    TracedCall,
    TracedWait,
)


@dataclass(frozen=True, slots=True)
class SubmitLine:
    """A call, by its place among the calls of the step."""

    call: int
    thread: str


@dataclass(frozen=True, slots=True)
class WaitLine:
    """A wait: later work of the thread depends on a call, some steps ago."""

    call: int
    lag: int
    thread: str


ProgramLine = SubmitLine | WaitLine | Kernel | StreamEvent


def build_program(trace: RankTrace) -> tuple[tuple[ProgramLine, ...], tuple[str, ...]]:
    """Return the program of a rank, with the call of each wait, and the assumptions.

    If a trace does not match waits with calls, a wait right after a call of its thread is for that
    call, and for broadcasts for the oldest one, because DistributedDataParallel keeps two of them
    in flight. Any other wait is for the oldest unmatched call of the thread, if necessary of the
    previous step.

    A call without any wait in the step is awaited at the next line of the main thread, if another
    thread made it (like gradients, after the backward pass). Otherwise at the end of the step.

    Raises:
        InputError: A wait has no call.
    """
    calls = trace.calls()
    places = _waited_calls(trace, calls)
    lines: list[ProgramLine] = []
    call = wait = 0
    for event in trace.events:
        match event:
            case TracedCall():
                lines.append(SubmitLine(call, event.thread))
                call += 1
            case TracedWait():
                place, lag = places[wait]
                lines.append(WaitLine(place, lag, event.thread))
                wait += 1
            case Kernel() | StreamEvent():
                lines.append(event)
    left = sorted(set(range(len(calls))) - {place for place, _ in places})
    assumed = []
    if (
        any(e.request is None for e in trace.events if isinstance(e, (TracedCall, TracedWait)))
        and places
    ):
        assumed.append(
            "the trace does not match waits to calls: a wait right after a call of its thread is "
            "for that call, waits of broadcasts and others for the oldest unmatched call"
        )
    if left:
        assumed.append(
            f"no wait for {format_count(len(left), 'call')}: the next work of the main thread "
            "waits "
            "for it, or the end of the step"
        )
    return tuple(_add_missing_waits(lines, left, trace.main)), tuple(assumed)


def _add_missing_waits(
    lines: list[ProgramLine], left: Sequence[int], main: str
) -> list[ProgramLine]:
    """Return a program with waits for calls that it does not wait for."""
    program: list[ProgramLine] = []
    open_calls: list[int] = []
    wanted = set(left)
    for line in lines:
        if isinstance(line, Kernel) and line.thread == main:
            program += [WaitLine(call, 0, main) for call in open_calls]
            open_calls = []
        program.append(line)
        if isinstance(line, SubmitLine) and line.call in wanted and line.thread != main:
            open_calls.append(line.call)
            wanted.remove(line.call)
    return program + [WaitLine(call, 0, main) for call in sorted({*open_calls, *wanted})]


def _waited_calls(trace: RankTrace, calls: Sequence[TracedCall]) -> list[tuple[int, int]]:
    """Return the place of the call that each wait is for, and how many steps ago that was."""
    named = [event for event in trace.events if isinstance(event, (TracedCall, TracedWait))]
    if all(event.request is not None for event in named):
        return _match_by_request(trace, calls)
    return _match_in_order(trace)


def _match_by_request(trace: RankTrace, calls: Sequence[TracedCall]) -> list[tuple[int, int]]:
    """Return calls by the numbers of their requests, which go on from step to step."""
    latest: dict[int, int] = {}
    of_group: dict[str, dict[int, int]] = {}
    for place, call in enumerate(calls):
        if call.request is not None:
            of_group.setdefault(call.group_name, {})[call.request] = place
    of_group = {name: dict(sorted(requests.items())) for name, requests in of_group.items()}
    awaited: list[tuple[int, int]] = []
    number = 0
    for event in trace.events:
        if isinstance(event, TracedCall):
            if event.request is not None:
                latest[event.request] = number
            number += 1
        elif isinstance(event, TracedWait) and event.request is not None:
            if event.request in latest:
                awaited.append((latest[event.request], 0))
            else:
                awaited.append(_steps_ago(event.request, of_group, trace.source))
    return awaited


def _steps_ago(request: int, of_group: Mapping[str, dict[int, int]], where: str) -> tuple[int, int]:
    """Return the call that has the place of an earlier request: each step makes as many of them."""
    for requests in of_group.values():
        each = len(requests)
        lag = max(-(-(next(iter(requests)) - request) // each), 1)  # they are in ascending order
        if lag <= MAX_LAG and request + lag * each in requests:
            return requests[request + lag * each], lag
    raise InputError(
        f"{where}: it waits for request {request}, which was not submitted earlier in this step "
        "or in the previous one: trace whole steps, or give another --step"
    )


def _match_in_order(trace: RankTrace) -> list[tuple[int, int]]:
    """Return calls for waits that name none: see :func:`build_program` for the rule."""
    awaited: list[tuple[int, int] | None] = []
    threads: dict[str, _OpenCalls] = defaultdict(_OpenCalls)
    early: list[tuple[int, str]] = []
    number = 0
    for event in trace.events:
        if isinstance(event, TracedCall):
            threads[event.thread].add(event, number)
            number += 1
        elif isinstance(event, TracedWait):
            place = threads[event.thread].pop_next()
            if place is None:
                early.append((len(awaited), event.thread))
            awaited.append(None if place is None else (place, 0))
    for at, thread in early:
        threads[thread].last = None
        place = threads[thread].pop_next()
        if place is None:
            raise InputError(
                f"{trace.source}: thread {thread} waits more often than it calls collectives: "
                "trace "
                "whole steps, or take another --step"
            )
        awaited[at] = (place, 1)
    return [place for place in awaited if place is not None]


@dataclass(slots=True)
class _OpenCalls:
    """Calls of a thread that no wait was for yet, broadcasts apart, and its last call, at once."""

    broadcasts: deque[int] = field(default_factory=deque)
    other_calls: deque[int] = field(default_factory=deque)
    last: deque[int] | None = None

    def add(self, call: TracedCall, number: int) -> None:
        """Take a call in; nobody waits for one of gradients by itself."""
        self.last = None
        if not call.bucket:
            gives_all = call.collective == "broadcast" and call.end is None
            self.last = self.broadcasts if gives_all else self.other_calls
            self.last.append(number)

    def pop_next(self) -> int | None:
        """Return the call that a wait is for. None: there is none."""
        last, self.last = self.last, None
        if last is self.other_calls:
            return last.pop()
        if last is self.broadcasts:
            return last.popleft()
        open_calls = [calls for calls in (self.broadcasts, self.other_calls) if calls]
        return min(open_calls, key=lambda calls: calls[0]).popleft() if open_calls else None
