"""Groups that traces name and whose ranks they do not list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from sccl.core.formatting import format_count
from sccl.errors import InputError
from sccl.training.traces.readers.group_list import GroupList
from sccl.training.traces.readers.rank_trace import RankTrace, TracedCall

_MAX_SHOWN = 8


def resolve_named_groups(
    traces: Mapping[int, RankTrace], world: int, listed: GroupList | None = None, *, alike: bool
) -> dict[int, RankTrace]:
    """Return traces whose calls list the ranks of the groups that they name.

    Without a list a rank is in a group if it calls a collective of it, which needs the traces of
    all ranks.

    Args:
        traces: Traces by rank.
        world: Number of ranks of the job.
        listed: Groups that a file lists. None: no file does.
        alike: Whether ranks without a trace do the same as those with one.

    Raises:
        InputError: a rank without a trace may be in one of several groups, or the list and the
            traces differ.
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
    """Check that the list has each group of a rank that does as another.

    Raises:
        InputError: It lacks one.
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
    """Return the ranks of a group by the list.

    Raises:
        InputError: It does not list the group, or not a rank that calls it.
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
