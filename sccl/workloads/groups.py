"""Groups that traces name and whose ranks they do not list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from sccl.errors import InputError
from sccl.workloads.readers.rank_trace import Call, RankTrace


def named_groups(
    traces: Mapping[int, RankTrace], world: int, *, alike: bool
) -> dict[int, RankTrace]:
    """Return traces whose calls list the ranks of the groups that they name.

    A rank is in a group if it calls a collective of it, which needs the traces of all ranks.

    Args:
        traces: Traces by rank.
        world: Number of ranks of the job.
        alike: Whether ranks without a trace do the same as those with one.

    Raises:
        InputError: a rank without a trace may be in one of several groups.
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
    if len(traces) < world:
        shown = ", ".join(f"{name!a:.40}" for name in sorted(members)[:8])
        if len(members) > 1 or not alike:
            where = next(iter(traces.values())).where
            hint = ", or --alike: they call that group, too" if len(members) == 1 else ""
            raise InputError(
                f"{where}: it names groups ({shown}) and lists no ranks of them, and "
                f"{world - len(traces)} of {world} ranks have no trace: give the traces of all "
                f"ranks{hint}"
            )
        members = {name: list(range(world)) for name in members}
        notes = (f"ranks without a trace call the same group, {shown}: it is of all ranks",)
    groups = {name: tuple(ranks) for name, ranks in members.items()}
    result = {rank: _with_groups(trace, groups) for rank, trace in traces.items()}
    first = min(result)
    result[first] = replace(result[first], assumed=(*result[first].assumed, *notes))
    return result


def _is_named(call: Call, trace: RankTrace) -> bool:
    has_ranks = call.group or call.group_size or call.end is not None
    return trace.shared_names and bool(call.group_name) and not has_ranks


def _with_groups(trace: RankTrace, groups: Mapping[str, tuple[int, ...]]) -> RankTrace:
    return replace(
        trace,
        events=tuple(
            replace(event, group=groups[event.group_name], group_size=len(groups[event.group_name]))
            if isinstance(event, Call) and _is_named(event, trace)
            else event
            for event in trace.events
        ),
    )
