"""A profiler's trace and an execution trace of the same rank: times of the one, names of the other.

Nodes are numbered differently in the two, but calls and waits come in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from sccl.errors import InputError
from sccl.training.traces.readers.rank_trace import RankTrace, TracedCall, TracedWait


def pair_traces(timed: RankTrace, named: RankTrace) -> RankTrace:
    """Return the trace with times, completed with the calls and waits of the other trace.

    Raises:
        InputError: They are not of the same step.
    """
    others = [event for event in named.events if isinstance(event, (TracedCall, TracedWait))]
    rows = [event for event in timed.events if isinstance(event, (TracedCall, TracedWait))]
    for at, (call, other_call) in enumerate(zip(rows, others, strict=False)):
        if _event_key(call) != _event_key(other_call):
            raise InputError(
                f"{timed.source} and {named.source} come from different steps or ranks: call or "
                f"wait number {at} is {_event_key(call)} in one and {_event_key(other_call)} in "
                "the other"
            )
    if len(rows) != len(others):
        raise InputError(
            f"{timed.source} has {len(rows)} calls and waits, {named.source} has {len(others)}: "
            "give traces of the same step, with --step if they have step markers"
        )
    left = iter(others)
    events = tuple(
        _combine_events(event, next(left)) if isinstance(event, (TracedCall, TracedWait)) else event
        for event in timed.events
    )
    return replace(
        timed,
        format=f"{timed.format} and {named.format}",
        source=f"{timed.source} with {named.source}",
        events=events,
        unread=(*timed.unread, *named.unread),
        rank=named.rank if timed.rank is None else timed.rank,
        world=timed.world or named.world,
    )


def _event_key(event: TracedCall | TracedWait) -> str:
    """Return the properties of an event that both traces have."""
    if isinstance(event, TracedCall):
        return f"{event.collective} of {event.input_elements} {event.dtype}"
    return "a wait"


def _combine_events(
    timed: TracedCall | TracedWait, named: TracedCall | TracedWait
) -> TracedCall | TracedWait:
    if isinstance(timed, TracedCall) and isinstance(named, TracedCall):
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
    assert isinstance(named, TracedWait)
    return replace(named, thread=timed.thread)
