"""Complete traces: give ranks without a trace the behavior of a traced one, if the user permits it.

Groups are those of a mesh: a group whose ranks have a constant stride represents as many groups as
fill the job. A rank without a trace belongs to the one that contains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sccl.errors import InputError, TooLargeError
from sccl.training.traces.readers.rank_trace import RankTrace, TracedCall, TraceEvent

MAX_EVENTS = 2**20
"""Largest number of events of all completed ranks together."""

_MAX_SHOWN = 8


def complete_traces(
    traces: Mapping[int, RankTrace], world: int, *, alike: bool
) -> dict[int, RankTrace]:
    """Return traces of all ranks. That of one, where all of its collectives are of all ranks.

    Args:
        alike: whether a rank without a trace does as one with a trace does.

    Raises:
        InputError: ranks have no trace and are not given to be alike, or groups are of no mesh.
    """
    missing = sorted(set(range(world)) - set(traces))
    if not missing:
        return dict(traces)
    if not alike:
        shown = ", ".join(map(str, missing[:_MAX_SHOWN])) + (
            ", ..." if len(missing) > _MAX_SHOWN else ""
        )
        raise InputError(
            f"{len(missing)} of {world} ranks have no trace ({shown}): give their traces, too, or "
            "--alike if they behave like traced ranks"
        )
    traced = sorted(traces)
    if len(traced) == 1 and all(
        _is_of_all_ranks(call, world) for call in traces[traced[0]].calls()
    ):
        return dict(traces)
    models = [traced[rank % len(traced)] for rank in missing]
    if sum(len(traces[model].events) for model in models) > MAX_EVENTS:
        raise TooLargeError(
            f"{len(missing)} ranks without a trace (--alike) have more than {MAX_EVENTS} events "
            "in all: give the traces of a smaller job, or of fewer steps"
        )
    note = f"{len(missing)} of {world} ranks were not traced: they do the same in groups of theirs"
    by_rank = {rank: _trace_as_rank(trace, rank, rank, world) for rank, trace in traces.items()}
    for rank, model in zip(missing, models, strict=True):
        by_rank[rank] = _trace_as_rank(traces[model], model, rank, world)
    by_rank[traced[0]] = replace(by_rank[traced[0]], assumed=(*by_rank[traced[0]].assumed, note))
    return dict(sorted(by_rank.items()))


def _is_of_all_ranks(call: TracedCall, world: int) -> bool:
    return call.end is None and (
        set(call.group) == set(range(world)) or (not call.group and call.group_size in (0, world))
    )


def _trace_as_rank(trace: RankTrace, model: int, rank: int, world: int) -> RankTrace:
    """Return the trace of a rank that behaves like another.

    Its received elements follow from the sends.
    """
    events: list[TraceEvent] = [
        replace(_shift_call(event, model, rank, world, trace.source), receive_splits=())
        if isinstance(event, TracedCall)
        else event
        for event in trace.events
    ]
    return replace(trace, rank=rank, events=tuple(events))


def _shift_call(call: TracedCall, model: int, rank: int, world: int, where: str) -> TracedCall:
    """Return a call among the ranks that it is of for another rank.

    Raises:
        InputError: its group is none of a mesh, or it is a send.
    """
    if _is_of_all_ranks(call, world):
        return call
    if call.end is not None:
        raise InputError(
            f"{where}: rank {model} sends to, or receives from, one other rank, and its trace "
            "does not show the calls of other ranks: give the traces of all ranks"
        )
    first, stride = call.first_stride or (-1, 0)
    group = call.group or tuple(range(first, first + stride * call.group_size, stride or 1))
    if not group or _group_in_mesh(model, group, world) != group:
        shown = ", ".join(map(str, group[:_MAX_SHOWN])) or f"{call.group_size} ranks"
        raise InputError(
            f"{where}: rank {model} calls {call.collective}, and its trace does not show the "
            f"corresponding groups of {world} ranks ({shown}): give the traces of all ranks"
        )
    return replace(call, group=_group_in_mesh(rank, group, world), first_stride=None)


def _group_in_mesh(rank: int, like: tuple[int, ...], world: int) -> tuple[int, ...]:
    """Return the group of a rank, of as many and as far apart ranks. Empty: they fill up no job."""
    stride = like[1] - like[0] if len(like) > 1 else 1
    block = stride * len(like)
    if block < 1 or world % block:
        return ()
    first = rank - rank % block + rank % stride
    return tuple(range(first, first + block, stride))
