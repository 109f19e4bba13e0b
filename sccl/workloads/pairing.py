"""A profiler's trace and an execution trace of the same rank: times of the one, names of the other.

Nodes are numbered differently in the two, but calls and waits come in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from sccl.errors import InputError
from sccl.workloads.readers.rank_trace import Awaited, Call, RankTrace


def paired(timed: RankTrace, named: RankTrace) -> RankTrace:
    """Return the trace with times, completed with the calls and waits of the other trace.

    Raises:
        InputError: They are not of the same step.
    """
    others = [event for event in named.events if isinstance(event, (Call, Awaited))]
    own = [event for event in timed.events if isinstance(event, (Call, Awaited))]
    for at, (one, other) in enumerate(zip(own, others, strict=False)):
        if _said(one) != _said(other):
            raise InputError(
                f"{timed.where} and {named.where} are of other steps, or other ranks: number {at} "
                f"of their calls and waits is {_said(one)} and {_said(other)}"
            )
    if len(own) != len(others):
        raise InputError(
            f"{timed.where} has {len(own)} calls and waits, {named.where} has {len(others)}: give "
            "traces of the same step, by --step where they have marks of steps"
        )
    left = iter(others)
    events = tuple(
        _both(event, next(left)) if isinstance(event, (Call, Awaited)) else event
        for event in timed.events
    )
    return replace(
        timed,
        format=f"{timed.format} and {named.format}",
        where=f"{timed.where} with {named.where}",
        events=events,
        unread=(*timed.unread, *named.unread),
        rank=named.rank if timed.rank is None else timed.rank,
        world=timed.world or named.world,
    )


def _said(event: Call | Awaited) -> str:
    """Return the properties of an event that both traces have."""
    if isinstance(event, Call):
        return f"{event.collective} of {event.given} {event.dtype}"
    return "a wait"


def _both(timed: Call | Awaited, named: Call | Awaited) -> Call | Awaited:
    if isinstance(timed, Call) and isinstance(named, Call):
        return replace(
            named,
            thread=timed.thread,
            bucket=timed.bucket,
            duration_us=timed.duration_us,
            reduce=timed.reduce or named.reduce,
            group=named.group or timed.group,
            group_size=named.group_size or timed.group_size,
            end=named.end or timed.end,
        )
    assert isinstance(named, Awaited)
    return replace(named, thread=timed.thread)
