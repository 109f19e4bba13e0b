"""Merge the calls of ranks into the collectives of a step, and match waits with calls.

PyTorch requires that all ranks of a group call its collectives in the same order. So the k-th call
in a group is the same collective on each of its ranks.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sccl.core.formatting import format_count, join_first
from sccl.errors import FormatError, InputError, ParameterError, TooLargeError
from sccl.training.traces.readers.common.contract import (
    Kernel,
    PeerEnd,
    RankTrace,
    StreamEvent,
    TracedCall,
    TracedWait,
)
from sccl.training.types.workload_ops import BLOCK_COLLECTIVES, COMBINING, MAX_LAG, ROOTED, CommOp

_MAX_MEMBERS = 2**23
"""Largest number of group members over all calls, as protection from malicious traces."""

_CallKey = tuple[tuple[int, ...], int, bool]
"""A group, the number of a call in it, and whether the call is a send between two ranks."""


@dataclass(frozen=True, slots=True)
class MergedCalls:
    """The collectives of a step.

    Attributes:
        ops: Collectives in order.
        by_rank: Collective of each call, for each traced rank.
        assumed: Assumptions, as sentences.
    """

    ops: tuple[CommOp, ...]
    by_rank: Mapping[int, tuple[CommOp, ...]]
    assumed: tuple[str, ...]


def merge_calls(traces: Mapping[int, RankTrace], world: int) -> MergedCalls:
    """Merge the calls of ranks into the collectives of a step.

    Args:
        traces: Traces by rank.
        world: Number of ranks of the job.

    Raises:
        InputError: Ranks disagree, or a trace lacks required data.
    """
    assumed: dict[str, None] = {}
    keys = {rank: _call_keys(rank, trace, world, assumed) for rank, trace in traces.items()}
    calls: dict[_CallKey, dict[int, TracedCall]] = defaultdict(dict)
    for rank, trace in traces.items():
        for key, call in zip(keys[rank], trace.calls(), strict=True):
            calls[key][rank] = call
    ops: dict[_CallKey, CommOp] = {}
    for number, (key, of_rank) in enumerate(calls.items()):
        _check_all_call(key, of_rank, traces)
        first = min(of_rank)
        op_id = f"{_call_word(of_rank[first])}-{number}"
        try:
            ops[key] = _build_op(op_id, key, of_rank, assumed)
        except ParameterError as error:
            raise FormatError(f"{traces[first].source}: {error}") from error
    return MergedCalls(
        tuple(ops.values()),
        {rank: tuple(ops[key] for key in rank_keys) for rank, rank_keys in keys.items()},
        tuple(assumed),
    )


def _call_keys(rank: int, trace: RankTrace, world: int, assumed: dict[str, None]) -> list[_CallKey]:
    count: dict[tuple[tuple[int, ...], bool], int] = defaultdict(int)
    keys: list[_CallKey] = []
    members = 0
    for call in trace.calls():
        members += len(call.group) or call.group_size or world
        if members > _MAX_MEMBERS:
            raise TooLargeError(
                f"{trace.source}: the groups of all its calls together have more than "
                f"{_MAX_MEMBERS} ranks: trace fewer steps"
            )
        if call.end is not None and call.end.in_job:
            group = _send_pair(rank, call.end, (), trace.source)
        else:
            group = _call_group(call, trace, world)
            if not (call.group or call.group_size or trace.covers_all_ranks) and world > 1:
                assumed["a collective without ranks in the trace has all ranks"] = None
            group = group if call.end is None else _send_pair(rank, call.end, group, trace.source)
        sent = call.end is not None
        keys.append((group, count[group, sent], sent))
        count[group, sent] += 1
    return keys


def _call_group(call: TracedCall, trace: RankTrace, world: int) -> tuple[int, ...]:
    if call.group:
        return call.group
    if call.first_stride is not None and call.group_size:
        first, stride = call.first_stride
        return tuple(range(first, first + stride * call.group_size, stride))
    if call.group_size in (0, world):
        return tuple(range(world))
    raise FormatError(
        f"{trace.source}: {call.collective} of a group of {call.group_size} of {world} ranks, and "
        "the members are not in the trace: trace from the beginning, where groups are created"
    )


def _send_pair(rank: int, end: PeerEnd, group: Sequence[int], where: str) -> tuple[int, ...]:
    """Return both ends of a send, the source first."""
    if not end.in_job and end.rank >= len(group):
        raise FormatError(
            f"{where}: rank {rank} sends to, or gets from, place {end.rank} of a group of "
            f"{len(group)} ranks"
        )
    peer = end.rank if end.in_job else group[end.rank]
    if peer == rank:
        raise FormatError(f"{where}: rank {rank} sends to itself, expected another rank")
    return (rank, peer) if end.sends else (peer, rank)


def _format_key(key: _CallKey) -> str:
    group, place, sent = key
    ranks = join_first(group, 8)
    return f"send {place} of ranks ({ranks})" if sent else f"call {place} of group ({ranks})"


def _check_all_call(
    key: _CallKey, of_rank: Mapping[int, TracedCall], traces: Mapping[int, RankTrace]
) -> None:
    first = min(of_rank)
    members = set(key[0])
    for rank in traces:
        if rank in members and rank not in of_rank:
            raise InputError(
                f"ranks disagree about {_format_key(key)}: rank {first} calls "
                f"{_describe_call(of_rank[first], len(key[0]))} ({traces[first].source}), and rank "
                f"{rank} "
                f"nothing more ({traces[rank].source}): give traces of the same step"
            )
        if rank in of_rank:
            said = [_describe_call(of_rank[r], len(key[0])) for r in (first, rank)]
            if said[0] != said[1]:
                raise InputError(
                    f"ranks disagree about {_format_key(key)}: rank {first} calls {said[0]} "
                    f"({traces[first].source}), and rank {rank} {said[1]} ({traces[rank].source}): "
                    "give traces of the same step"
                )


def _describe_call(call: TracedCall, ranks: int) -> str:
    """Return a description of the properties that must be equal on all ranks of a group."""
    count = "" if call.collective == "alltoall" else f" of {_buffer_elements(call, ranks)}"
    root = "" if call.root is None else f" from place {call.root}"
    return f"{_call_word(call)}{count} {call.dtype}{root if call.end is None else ''}"


def _call_word(call: TracedCall) -> str:
    return call.collective if call.end is None else "send"


def _buffer_elements(call: TracedCall, ranks: int) -> int | None:
    """Return the elements of the largest buffer."""
    blocks = [
        None if count is None else count * ranks
        for count in (call.input_elements, call.output_elements)
    ]
    match call.collective:
        case "allgather" | "gather":
            return blocks[0] if blocks[0] is not None else call.output_elements
        case "scatter":
            return blocks[1] if blocks[1] is not None else call.input_elements
        case "reducescatter":
            return call.input_elements if call.input_elements is not None else blocks[1]
    return call.input_elements if call.input_elements is not None else call.output_elements


def _build_op(
    op_id: str, key: _CallKey, of_rank: Mapping[int, TracedCall], assumed: dict[str, None]
) -> CommOp:
    group = key[0]
    call = of_rank[min(of_rank)]
    counts = [_buffer_elements(item, len(group)) for item in of_rank.values()]
    known_counts = [item for item in counts if item is not None]
    if not known_counts:
        raise ParameterError(f"{_format_key(key)}: the trace does not give the number of elements")
    count, splits = max(known_counts), _send_splits(op_id, group, of_rank, assumed)
    if splits:
        count = max(map(sum, splits))
    elif call.collective in BLOCK_COLLECTIVES and count % len(group):
        assumed[f"{op_id}: each rank sends equal parts to each, rounded up (not in the trace)"] = (
            None
        )
        count = -(-count // len(group)) * len(group)
    root = call.root
    if call.collective in ROOTED and root is None:
        assumed["the root is the first rank of the group (not in the trace)"] = None
        root = 0
    if root is not None and root >= len(group):
        raise ParameterError(f"{_format_key(key)}: its root is place {root} of {len(group)}")
    reduce = next((item.reduce for item in of_rank.values() if item.reduce), "")
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


def _send_splits(
    op_id: str, group: Sequence[int], of_rank: Mapping[int, TracedCall], assumed: dict[str, None]
) -> tuple[tuple[int, ...], ...]:
    """Return the elements from each rank to each. Empty: equal parts, or unknown.

    Raises:
        ParameterError: Ranks contradict one another.
    """
    table = {rank: _split_row(call, len(group), op_id) for rank, call in of_rank.items()}
    if call := next((item for item in of_rank.values() if item.splits_unknown), None):
        assumed[f"{call.splits_unknown}: equal parts for each"] = None
    if all(len(set(row)) == 1 for row in table.values()) and len(set(table.values())) <= 1:
        return ()
    if any(not row for row in table.values()):
        return ()
    if len(table) < len(group):
        left = format_count(len(group) - len(table), "rank")
        assumed[
            f"{op_id}: {left} without a trace send as much to each as rank {min(table)} does"
        ] = None
    rows = tuple(table.get(rank, table[min(table)]) for rank in group)
    for place, rank in enumerate(group):
        if rank not in of_rank or not of_rank[rank].receive_splits or len(table) < len(group):
            continue
        gets = _scale_splits(of_rank[rank].receive_splits, of_rank[rank].output_elements)
        sent = tuple(row[place] for row in rows)
        if len(gets) == len(sent) and gets != sent:
            giver = next(i for i, (a, b) in enumerate(zip(gets, sent, strict=True)) if a != b)
            raise ParameterError(
                f"{op_id}: rank {rank} gets {gets[giver]} elements of rank {group[giver]}, which "
                f"gives it {sent[giver]}: give traces of the same step"
            )
    return rows


def _split_row(call: TracedCall, ranks: int, op_id: str) -> tuple[int, ...]:
    """Return the elements that a rank sends to each rank. Empty: unknown."""
    if call.collective != "alltoall":
        return ()
    if not call.send_splits:
        is_divisible = call.input_elements is not None and call.input_elements % ranks == 0
        return (
            (call.input_elements // ranks,) * ranks
            if is_divisible and call.input_elements is not None
            else ()
        )
    if len(call.send_splits) != ranks:
        raise ParameterError(
            f"{op_id}: it is split into {len(call.send_splits)}, and its group has {ranks} ranks"
        )
    return _scale_splits(call.send_splits, call.input_elements)


def _scale_splits(parts: tuple[int, ...], elements: int | None) -> tuple[int, ...]:
    """Return splits in elements. PyTorch records rows, which may have several elements."""
    rows = sum(parts)
    each = elements // rows if elements and rows and elements % rows == 0 else 1
    return tuple(part * each for part in parts)


@dataclass(frozen=True, slots=True)
class SubmitLine:
    """A call, given by its index among the calls of the step."""

    call: int
    thread: str


@dataclass(frozen=True, slots=True)
class WaitLine:
    """A wait of a thread for a call, ``lag`` steps ago. Later work of the thread depends on it."""

    call: int
    lag: int
    thread: str


ProgramLine = SubmitLine | WaitLine | Kernel | StreamEvent


def build_program(trace: RankTrace) -> tuple[tuple[ProgramLine, ...], tuple[str, ...]]:
    """Return the program of a rank, with the call of each wait, and assumptions as sentences.

    If a trace does not match waits with calls, they are matched by rules. A wait right after a call
    of its thread is for that call. If that call is a broadcast, the wait is for the oldest
    unmatched broadcast, because DistributedDataParallel keeps two broadcasts in flight. Any other
    wait is for the oldest unmatched call of the thread, if necessary of the previous step.

    A call without a wait gets one. If the main thread did not make the call (as for gradients), the
    wait comes before the next kernel of the main thread. Otherwise it comes at the end of the step.

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
    """Return the program with waits for calls that have none."""
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
    """Return the index of the call and the number of steps ago, for each wait."""
    named = [event for event in trace.events if isinstance(event, (TracedCall, TracedWait))]
    if all(event.request is not None for event in named):
        return _match_by_request(trace, calls)
    return _match_in_order(trace)


def _match_by_request(trace: RankTrace, calls: Sequence[TracedCall]) -> list[tuple[int, int]]:
    """Match waits with calls by request numbers, which increase from step to step."""
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
    """Return the call that corresponds to a request of an earlier step, and the lag in steps.

    Each step makes the same number of requests in a group.
    """
    for requests in of_group.values():
        each = len(requests)
        lag = max(-(-(next(iter(requests)) - request) // each), 1)  # requests ascend
        if lag <= MAX_LAG and request + lag * each in requests:
            return requests[request + lag * each], lag
    raise InputError(
        f"{where}: it waits for request {request}, which was not submitted earlier in this step "
        "or in the previous one: trace whole steps, or give another --step"
    )


def _match_in_order(trace: RankTrace) -> list[tuple[int, int]]:
    """Match waits without request numbers with calls, by the rules of :func:`build_program`."""
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
    """The unmatched calls of a thread.

    Attributes:
        broadcasts: Unmatched broadcasts.
        other_calls: Other unmatched calls.
        last: Queue of the call directly before the current event. None: there is no such call.
    """

    broadcasts: deque[int] = field(default_factory=deque)
    other_calls: deque[int] = field(default_factory=deque)
    last: deque[int] | None = None

    def add(self, call: TracedCall, number: int) -> None:
        """Add a call. Calls of gradient buckets are omitted, because they have no own wait."""
        self.last = None
        if not call.bucket:
            gives_all = call.collective == "broadcast" and call.end is None
            self.last = self.broadcasts if gives_all else self.other_calls
            self.last.append(number)

    def pop_next(self) -> int | None:
        """Remove and return the call that the next wait is for. None: there is none."""
        last, self.last = self.last, None
        if last is self.other_calls:
            return last.pop()
        if last is self.broadcasts:
            return last.popleft()
        open_calls = [calls for calls in (self.broadcasts, self.other_calls) if calls]
        return min(open_calls, key=lambda calls: calls[0]).popleft() if open_calls else None
