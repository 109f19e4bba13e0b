"""Complete traces: members of groups that have only names, and ranks without a trace.

If the user permits it, a rank without a trace behaves like a traced rank. Its groups follow from a
mesh: a group whose ranks have a constant stride represents parallel groups that cover all ranks of
the job, and the rank belongs to the one that contains it.

Chakra traces for simulators may come with a file ``comm_group.json``. It is an object with a list
of ranks for the name of each group. ASTRA-sim reads it with ``--comm-group-configuration``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from sccl.core.formatting import format_count, join_first
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.training.traces.readers.common.contract import (
    MAX_RANKS,
    RankTrace,
    TracedCall,
    TraceEvent,
)

MAX_EVENTS = 2**20
"""Largest number of events of all completed ranks together."""

_MAX_SHOWN = 8


def complete_traces(
    traces: Mapping[int, RankTrace], world: int, *, alike: bool
) -> dict[int, RankTrace]:
    """Return traces of all ranks.

    If the only traced rank calls only collectives of all ranks, its trace represents all ranks.

    Args:
        traces: Traces by rank.
        world: Number of ranks of the job.
        alike: Whether ranks without a trace behave like traced ranks.

    Raises:
        InputError: Ranks have no trace and ``alike`` is false, or groups do not form a mesh.
    """
    missing = sorted(set(range(world)) - set(traces))
    if not missing:
        return dict(traces)
    if not alike:
        raise InputError(
            f"{len(missing)} of {world} ranks have no trace "
            f"({join_first(missing, _MAX_SHOWN)}): give their traces, too, or "
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
    """Return the trace of a rank that behaves like another rank.

    Its receive splits are dropped, because they follow from the other ranks' send splits.
    """
    events: list[TraceEvent] = [
        replace(_shift_call(event, model, rank, world, trace.source), receive_splits=())
        if isinstance(event, TracedCall)
        else event
        for event in trace.events
    ]
    return replace(trace, rank=rank, events=tuple(events))


def _shift_call(call: TracedCall, model: int, rank: int, world: int, where: str) -> TracedCall:
    """Return a call with the corresponding group of another rank.

    Raises:
        InputError: The group does not fit a mesh, or the call is a send or receive.
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
    """Return the group of a rank with the size and stride of another. Empty: it does not fit."""
    stride = like[1] - like[0] if len(like) > 1 else 1
    block = stride * len(like)
    if block < 1 or world % block:
        return ()
    first = rank - rank % block + rank % stride
    return tuple(range(first, first + block, stride))


def resolve_named_groups(
    traces: Mapping[int, RankTrace], world: int, listed: GroupList | None = None, *, alike: bool
) -> dict[int, RankTrace]:
    """Return traces whose calls have the ranks of their named groups.

    Without a list of groups, a rank belongs to a group if it calls a collective of the group. This
    requires the traces of all ranks.

    Args:
        traces: Traces by rank.
        world: Number of ranks of the job.
        listed: Groups listed in a file. None: no file.
        alike: Whether ranks without a trace behave like traced ranks.

    Raises:
        InputError: The group of a rank without a trace is ambiguous, or the list and the traces
            differ.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(traces):
        trace = traces[rank]
        names = dict.fromkeys(call.group_name for call in trace.calls() if _is_named(call, trace))
        for name in names:
            members[name].append(rank)
    if not members:
        return dict(traces)
    notes: tuple[str, ...] = ()
    if listed is not None:
        members = {
            name: _listed_ranks(listed, name, ranks, traces) for name, ranks in members.items()
        }
    elif len(traces) < world:
        shown = ", ".join(f"{name!a:.40}" for name in sorted(members)[:_MAX_SHOWN])
        if len(members) > 1 or not alike:
            where = next(iter(traces.values())).source
            hint = ", or --alike if they call that group, too" if len(members) == 1 else ""
            raise InputError(
                f"{where}: it names groups ({shown}) without their ranks, and "
                f"{world - len(traces)} of {world} ranks have no trace: give the traces of all "
                f"ranks{hint}"
            )
        members = {name: list(range(world)) for name in members}
        notes = (f"ranks without a trace call the same group {shown}: it contains all ranks",)
    elif singletons := [name for name, ranks in members.items() if len(ranks) == 1 < world]:
        shown = ", ".join(f"{name!a:.40}" for name in sorted(singletons)[:_MAX_SHOWN])
        note = (
            f"{format_count(len(singletons), 'group')} ({shown}) with one rank, because no other "
            "rank calls it: if traces are missing, give them, or the comm_group.json that lists "
            "the groups"
        )
        notes = (note,)
    groups = {name: tuple(ranks) for name, ranks in members.items()}
    result = {rank: _with_groups(trace, groups) for rank, trace in traces.items()}
    first = min(result)
    result[first] = replace(result[first], assumed=(*result[first].assumed, *notes))
    return result


def check_listed_groups(traces: Mapping[int, RankTrace], listed: GroupList | None) -> None:
    """Check that the list has the groups of ranks that behave like traced ranks.

    Raises:
        InputError: The list lacks a group.
    """
    if listed is None:
        return
    groups = set(listed.ranks.values())
    for rank, trace in traces.items():
        for call in trace.calls():
            if trace.shared_names and call.group_name and call.group not in groups:
                shown = ", ".join(map(str, call.group[:_MAX_SHOWN]))
                raise InputError(
                    f"{listed.source}: it lists no group ({shown}), which rank {rank} would call "
                    "as "
                    f"others call {call.group_name!a:.60}: give the traces of all ranks"
                )


def _listed_ranks(
    listed: GroupList, name: str, callers: list[int], traces: Mapping[int, RankTrace]
) -> list[int]:
    """Return the listed ranks of a group.

    Raises:
        InputError: The list lacks the group, or a rank that calls it.
    """
    ranks = listed.ranks.get(name, ())
    others = sorted(set(callers) - set(ranks))
    if others:
        of = f"group {name!a:.60}, which {listed.source} does not list"
        if ranks:
            of = f"group {name!a:.60}, in which rank {others[0]} is not by {listed.source}"
        raise InputError(
            f"{traces[others[0]].source}: it calls {of}: give the list that belongs to the traces"
        )
    return list(ranks)


def _is_named(call: TracedCall, trace: RankTrace) -> bool:
    has_ranks = call.group or call.group_size or call.end is not None
    return trace.shared_names and bool(call.group_name) and not has_ranks


def _with_groups(trace: RankTrace, groups: Mapping[str, tuple[int, ...]]) -> RankTrace:
    return replace(
        trace,
        events=tuple(
            replace(event, group=groups[event.group_name], group_size=len(groups[event.group_name]))
            if isinstance(event, TracedCall) and _is_named(event, trace)
            else event
            for event in trace.events
        ),
    )


_LIST_NAMES = ("comm_group.json", "comm_groups.json")
_LIST_BEGINNING = re.compile(rb'\s*\{\s*"[^"\\]{1,200}"\s*:\s*\[\s*[0-9]')
_MAX_MEMBERS = 2**22
"""Largest number of members of all groups of a list together."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of a ``comm_group.json`` file.

    Attributes:
        source: Name of the file, for messages.
        ranks: Ranks of each group, by name.
    """

    source: str
    ranks: Mapping[str, tuple[int, ...]]

    @property
    def world(self) -> int:
        """Return the largest listed rank plus 1."""
        return 1 + max((max(ranks) for ranks in self.ranks.values()), default=-1)


def read_group_list(content: bytes, where: str) -> GroupList | None:
    """Return the groups that a file lists. None: by name and beginning it is a trace.

    Raises:
        InputError: The file is an invalid list, or too large.
    """
    if not where.endswith(_LIST_NAMES) and not _LIST_BEGINNING.match(content):
        return None
    expected = 'expected ranks by the names of groups, such as {"0": [0, 1], "1": [2, 3]}'
    try:
        lists = msgspec.json.decode(content, type=dict[str, list[int]])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(f"{where}: no list of groups ({error}); {expected}") from error
    if sum(map(len, lists.values())) > _MAX_MEMBERS:
        raise TooLargeError(f"{where}: its groups have more than {_MAX_MEMBERS} ranks together")
    for name, ranks in lists.items():
        if not ranks or len(set(ranks)) < len(ranks) or not 0 <= min(ranks) <= max(ranks):
            raise FormatError(f"{where}: group {name!a:.60} is no set of ranks; {expected}")
        if max(ranks) >= MAX_RANKS:
            raise TooLargeError(
                f"{where}: group {name!a:.60} has rank {max(ranks)}, expected up to {MAX_RANKS - 1}"
            )
    return GroupList(where, {name: tuple(sorted(ranks)) for name, ranks in lists.items()})
