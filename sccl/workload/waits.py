"""For which call each wait of a trace is, in this step or in one before it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sccl.core.words import counted
from sccl.core.workload_ops import MOST_LAG
from sccl.errors import InputError
from sccl.workload.readers.rank_trace import Awaited, Call, Kernel, RankTrace


@dataclass(frozen=True, slots=True)
class Submitted:
    """A call, by its place among the calls of the step."""

    call: int
    thread: str


@dataclass(frozen=True, slots=True)
class Waited:
    """What follows on the thread waits for a call, of so many steps ago."""

    call: int
    lag: int
    thread: str


Line = Submitted | Waited | Kernel


def program_of(trace: RankTrace) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """Return what a rank does, each wait with its call, and what was taken for granted for that.

    A call that nothing in the step waits for is waited for where the thread that runs the steps
    goes on, if another made it (as gradients are, once backward is done); else at its end.

    Raises:
        InputError: a wait is for nothing.
    """
    calls = trace.calls()
    places = _places(trace, calls)
    lines: list[Line] = []
    call = wait = 0
    for event in trace.events:
        match event:
            case Call():
                lines.append(Submitted(call, event.thread))
                call += 1
            case Awaited():
                place, lag = places[wait]
                lines.append(Waited(place, lag, event.thread))
                wait += 1
            case Kernel():
                lines.append(event)
    left = sorted(set(range(len(calls))) - {place for place, _ in places})
    assumed = []
    if any(e.request is None for e in trace.events if not isinstance(e, Kernel)) and places:
        assumed.append(
            "for which call a wait is, is not told: one that follows a call of its thread at once "
            "is for that, any other for the oldest that none was for"
        )
    if left:
        assumed.append(
            f"nothing waits for {counted(len(left), 'call')} by itself: what the main thread "
            "does next does, or the end of the step"
        )
    return tuple(_with_waits(lines, left, trace.main)), tuple(assumed)


def _with_waits(lines: list[Line], left: Sequence[int], main: str) -> list[Line]:
    """Return a program with waits for calls that it does not wait for."""
    found: list[Line] = []
    open_calls: list[int] = []
    wanted = set(left)
    for line in lines:
        if isinstance(line, Kernel) and line.thread == main:
            found += [Waited(call, 0, main) for call in open_calls]
            open_calls = []
        found.append(line)
        if isinstance(line, Submitted) and line.call in wanted and line.thread != main:
            open_calls.append(line.call)
            wanted.remove(line.call)
    return found + [Waited(call, 0, main) for call in sorted({*open_calls, *wanted})]


def _places(trace: RankTrace, calls: Sequence[Call]) -> list[tuple[int, int]]:
    """Return the place of the call that each wait is for, and how many steps ago that was."""
    named = [event for event in trace.events if not isinstance(event, Kernel)]
    if all(event.request is not None for event in named):
        return _numbered(trace, calls)
    return _in_turn(trace)


def _numbered(trace: RankTrace, calls: Sequence[Call]) -> list[tuple[int, int]]:
    """Return calls by the numbers of their requests, which go on from step to step."""
    latest: dict[int, int] = {}
    of_group: dict[str, dict[int, int]] = {}
    for place, call in enumerate(calls):
        if call.request is not None:
            of_group.setdefault(call.group_name, {})[call.request] = place
    of_group = {name: dict(sorted(requests.items())) for name, requests in of_group.items()}
    found: list[tuple[int, int]] = []
    number = 0
    for event in trace.events:
        if isinstance(event, Call):
            if event.request is not None:
                latest[event.request] = number
            number += 1
        elif isinstance(event, Awaited) and event.request is not None:
            if event.request in latest:
                found.append((latest[event.request], 0))
            else:
                found.append(_steps_ago(event.request, of_group, trace.where))
    return found


def _steps_ago(request: int, of_group: Mapping[str, dict[int, int]], where: str) -> tuple[int, int]:
    """Return the call that has the place of an earlier request: each step makes as many of them."""
    for requests in of_group.values():
        each = len(requests)
        lag = max(-(-(next(iter(requests)) - request) // each), 1)  # they are in ascending order
        if lag <= MOST_LAG and request + lag * each in requests:
            return requests[request + lag * each], lag
    raise InputError(
        f"{where}: it waits for request {request}, which neither this step submits before that "
        "nor, by its number, one before it: trace whole steps, or take another --step"
    )


def _in_turn(trace: RankTrace) -> list[tuple[int, int]]:
    """Return calls for waits that name none: see the format's reader for the rule."""
    found: list[tuple[int, int] | None] = []
    open_calls: dict[str, deque[int]] = defaultdict(deque)
    at_once: dict[str, int] = {}
    early: list[tuple[int, str]] = []
    number = 0
    for event in trace.events:
        if isinstance(event, Call):
            at_once.pop(event.thread, None)
            if not event.bucket:
                open_calls[event.thread].append(number)
                at_once[event.thread] = number
            number += 1
        elif isinstance(event, Awaited):
            mine = open_calls[event.thread]
            last = at_once.pop(event.thread, None)
            if mine:
                place = mine.pop() if last == mine[-1] else mine.popleft()
                found.append((place, 0))
            else:
                early.append((len(found), event.thread))
                found.append(None)
    for at, thread in early:
        mine = open_calls[thread]
        if not mine:
            raise InputError(
                f"{trace.where}: thread {thread} waits more often than it calls collectives: trace "
                "whole steps, or take another --step"
            )
        found[at] = (mine.popleft(), 1)
    return [place for place in found if place is not None]
