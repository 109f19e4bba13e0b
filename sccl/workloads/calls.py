"""Merge the calls of ranks to the collectives of a step.

Ranks of a group call its collectives in the same order, as PyTorch requires. So the k-th call of a
group is the same operation on each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sccl.core.words import counted
from sccl.core.workload_ops import COMBINING, IN_BLOCKS, ROOTED, CommOp
from sccl.errors import FormatError, InputError, ParameterError, TooLargeError
from sccl.workloads.readers.rank_trace import Call, OtherEnd, RankTrace

_MOST_MEMBERS = 2**23
"""A guard against traces that claim groups of millions for each call."""

_Key = tuple[tuple[int, ...], int, bool]
"""A group, which of its calls, and whether that is a send between two ranks."""


@dataclass(frozen=True, slots=True)
class MergedCalls:
    """The collectives of a step.

    Attributes:
        ops: Collectives in order.
        of_rank: For each traced rank, the operation of each of its calls.
        assumed: Assumptions, as sentences.
    """

    ops: tuple[CommOp, ...]
    of_rank: Mapping[int, tuple[CommOp, ...]]
    assumed: tuple[str, ...]


def merged_calls(traces: Mapping[int, RankTrace], world: int) -> MergedCalls:
    """Return the collectives of a step.

    Args:
        traces: by rank.
        world: how many ranks the job has.

    Raises:
        InputError: ranks disagree, or a trace does not tell enough.
    """
    assumed: dict[str, None] = {}
    keys = {rank: _keys(rank, trace, world, assumed) for rank, trace in traces.items()}
    calls: dict[_Key, dict[int, Call]] = defaultdict(dict)
    for rank, trace in traces.items():
        for key, call in zip(keys[rank], trace.calls(), strict=True):
            calls[key][rank] = call
    ops: dict[_Key, CommOp] = {}
    for number, (key, of_rank) in enumerate(calls.items()):
        _check_all_call(key, of_rank, traces)
        first = min(of_rank)
        op_id = f"{_word(of_rank[first])}-{number}"
        try:
            ops[key] = _op(op_id, key, of_rank, assumed)
        except ParameterError as error:
            raise FormatError(f"{traces[first].where}: {error}") from error
    return MergedCalls(
        tuple(ops.values()),
        {rank: tuple(ops[key] for key in own) for rank, own in keys.items()},
        tuple(assumed),
    )


def _keys(rank: int, trace: RankTrace, world: int, assumed: dict[str, None]) -> list[_Key]:
    count: dict[tuple[tuple[int, ...], bool], int] = defaultdict(int)
    found: list[_Key] = []
    members = 0
    for call in trace.calls():
        members += len(call.group) or call.group_size or world
        if members > _MOST_MEMBERS:
            raise TooLargeError(
                f"{trace.where}: its groups have more than {_MOST_MEMBERS} ranks, those of all "
                "calls together: trace fewer steps"
            )
        if call.end is not None and call.end.in_job:
            group = _pair(rank, call.end, (), trace.where)
        else:
            group = _group(call, trace, world)
            if not (call.group or call.group_size or trace.of_all) and world > 1:
                assumed["a collective without ranks in the trace has all ranks"] = None
            group = group if call.end is None else _pair(rank, call.end, group, trace.where)
        sent = call.end is not None
        found.append((group, count[group, sent], sent))
        count[group, sent] += 1
    return found


def _group(call: Call, trace: RankTrace, world: int) -> tuple[int, ...]:
    if call.group:
        return call.group
    if call.first_stride is not None and call.group_size:
        first, stride = call.first_stride
        return tuple(range(first, first + stride * call.group_size, stride))
    if call.group_size in (0, world):
        return tuple(range(world))
    raise FormatError(
        f"{trace.where}: {call.collective} of a group of {call.group_size} of {world} ranks, and "
        "the members are not in the trace: trace from the beginning, where groups are created"
    )


def _pair(own: int, end: OtherEnd, group: Sequence[int], where: str) -> tuple[int, ...]:
    """Return both ends of a send, the giver first."""
    if not end.in_job and end.rank >= len(group):
        raise FormatError(
            f"{where}: rank {own} sends to, or gets from, place {end.rank} of a group of "
            f"{len(group)} ranks"
        )
    other = end.rank if end.in_job else group[end.rank]
    if other == own:
        raise FormatError(f"{where}: rank {own} sends to itself, expected another rank")
    return (own, other) if end.sends else (other, own)


def _shown(key: _Key) -> str:
    group, place, sent = key
    ranks = ", ".join(map(str, group[:8])) + (", ..." if len(group) > 8 else "")
    return f"send {place} of ranks ({ranks})" if sent else f"call {place} of group ({ranks})"


def _check_all_call(
    key: _Key, of_rank: Mapping[int, Call], traces: Mapping[int, RankTrace]
) -> None:
    first = min(of_rank)
    members = set(key[0])
    for rank in traces:
        if rank in members and rank not in of_rank:
            raise InputError(
                f"ranks disagree about {_shown(key)}: rank {first} calls "
                f"{_said(of_rank[first], len(key[0]))} ({traces[first].where}), and rank {rank} "
                f"nothing more ({traces[rank].where}): give traces of the same step"
            )
        if rank in of_rank:
            said = [_said(of_rank[r], len(key[0])) for r in (first, rank)]
            if said[0] != said[1]:
                raise InputError(
                    f"ranks disagree about {_shown(key)}: rank {first} calls {said[0]} "
                    f"({traces[first].where}), and rank {rank} {said[1]} ({traces[rank].where}): "
                    "give traces of the same step"
                )


def _said(call: Call, ranks: int) -> str:
    """Return a description of the properties that must be equal on all ranks of a group."""
    count = "" if call.collective == "alltoall" else f" of {_elements(call, ranks)}"
    root = "" if call.root is None else f" from place {call.root}"
    return f"{_word(call)}{count} {call.dtype}{root if call.end is None else ''}"


def _word(call: Call) -> str:
    return call.collective if call.end is None else "send"


def _elements(call: Call, ranks: int) -> int | None:
    """Return the elements of the largest buffer. See :class:`~sccl.core.workload_ops.CommOp`."""
    blocks = [None if one is None else one * ranks for one in (call.given, call.got)]
    match call.collective:
        case "allgather" | "gather":
            return blocks[0] if blocks[0] is not None else call.got
        case "scatter":
            return blocks[1] if blocks[1] is not None else call.given
        case "reducescatter":
            return call.given if call.given is not None else blocks[1]
    return call.given if call.given is not None else call.got


def _op(op_id: str, key: _Key, of_rank: Mapping[int, Call], assumed: dict[str, None]) -> CommOp:
    group = key[0]
    call = of_rank[min(of_rank)]
    counts = [_elements(one, len(group)) for one in of_rank.values()]
    known = [one for one in counts if one is not None]
    if not known:
        raise ParameterError(f"{_shown(key)}: the trace does not give the number of elements")
    count, splits = max(known), _splits(op_id, group, of_rank, assumed)
    if splits:
        count = max(map(sum, splits))
    elif call.collective in IN_BLOCKS and count % len(group):
        assumed[f"{op_id}: each rank sends equal parts to each, rounded up (not in the trace)"] = (
            None
        )
        count = -(-count // len(group)) * len(group)
    root = call.root
    if call.collective in ROOTED and root is None:
        assumed["the root is the first rank of the group (not in the trace)"] = None
        root = 0
    if root is not None and root >= len(group):
        raise ParameterError(f"{_shown(key)}: its root is place {root} of {len(group)}")
    reduce = next((one.reduce for one in of_rank.values() if one.reduce), "")
    if call.collective in COMBINING and not reduce:
        assumed["the reduction operator is sum (not in the trace)"] = None
    return CommOp(
        op_id,
        call.collective,
        group,
        count,
        call.dtype,
        root=None if root is None or call.collective not in ROOTED else group[root],
        reduce=(reduce or "sum") if call.collective in COMBINING else None,
        splits=splits,
    )


def _splits(
    op_id: str, group: Sequence[int], of_rank: Mapping[int, Call], assumed: dict[str, None]
) -> tuple[tuple[int, ...], ...]:
    """Return the elements from each rank to each. Empty: equal parts, or unknown.

    Raises:
        ParameterError: Ranks contradict one another.
    """
    told = {rank: _row(call, len(group), op_id) for rank, call in of_rank.items()}
    if call := next((one for one in of_rank.values() if one.splits_unknown), None):
        assumed[f"{call.splits_unknown}: equal parts for each"] = None
    if all(len(set(row)) == 1 for row in told.values()) and len(set(told.values())) <= 1:
        return ()
    if any(not row for row in told.values()):
        return ()
    if len(told) < len(group):
        left = counted(len(group) - len(told), "rank")
        assumed[
            f"{op_id}: {left} without a trace send as much to each as rank {min(told)} does"
        ] = None
    rows = tuple(told.get(rank, told[min(told)]) for rank in group)
    for place, rank in enumerate(group):
        if rank not in of_rank or not of_rank[rank].gets or len(told) < len(group):
            continue
        gets = _scaled(of_rank[rank].gets, of_rank[rank].got)
        given = tuple(row[place] for row in rows)
        if len(gets) == len(given) and gets != given:
            giver = next(i for i, (a, b) in enumerate(zip(gets, given, strict=True)) if a != b)
            raise ParameterError(
                f"{op_id}: rank {rank} gets {gets[giver]} elements of rank {group[giver]}, which "
                f"gives it {given[giver]}: give traces of the same step"
            )
    return rows


def _row(call: Call, ranks: int, op_id: str) -> tuple[int, ...]:
    """Return a rank's elements for each rank. Empty: unknown, and not equal parts."""
    if call.collective != "alltoall":
        return ()
    if not call.gives:
        whole = call.given is not None and call.given % ranks == 0
        return (call.given // ranks,) * ranks if whole and call.given is not None else ()
    if len(call.gives) != ranks:
        raise ParameterError(
            f"{op_id}: it is split into {len(call.gives)}, and its group has {ranks} ranks"
        )
    return _scaled(call.gives, call.given)


def _scaled(parts: tuple[int, ...], elements: int | None) -> tuple[int, ...]:
    """Return splits in elements: PyTorch tells rows, which may have several."""
    rows = sum(parts)
    each = elements // rows if elements and rows and elements % rows == 0 else 1
    return tuple(part * each for part in parts)
