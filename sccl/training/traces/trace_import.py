"""Read the traces of ranks, assign them to ranks, and build one workload.

A rank may have a profiler trace and an execution trace. Then times come from the profiler trace,
and names from the execution trace. Their node numbers differ, but calls and waits have the same
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sccl.core.formatting import format_count
from sccl.errors import InputError, ParameterError, TooLargeError
from sccl.training.traces import readers
from sccl.training.traces.rank_merge import merge_ranks
from sccl.training.traces.readers import MAX_RANKS, StepSelection, TraceReader
from sccl.training.traces.readers.common.contract import (
    HOST,
    CallSpan,
    Kernel,
    RankTrace,
    TracedCall,
    TracedWait,
)
from sccl.training.traces.trace_completion import (
    MAX_EVENTS,
    GroupList,
    check_listed_groups,
    complete_traces,
    read_group_list,
    resolve_named_groups,
)
from sccl.training.types.workload import Workload

_RANKS_IN_ORDER_NOTE = (
    "ranks of the traces are 0, 1, and so on, in the given order (not in the traces)"
)


@dataclass(frozen=True, slots=True)
class TraceHints:
    """Options for traces.

    Attributes:
        format: Name of a reader. ``auto``: the one that recognizes the trace.
        rank: With several traces, the only rank to use. With one trace that lacks its rank, the
            rank.
        ranks: Number of ranks of the job, if no trace has it.
        step: Step to use. None: one in the middle.
        alike: Whether ranks without a trace behave like those with one. Otherwise they are
            required.
        host_time: Whether the host's time between calls is kept, as a separate stream.
    """

    format: str = "auto"
    rank: int | None = None
    ranks: int | None = None
    step: int | None = None
    alike: bool = False
    host_time: bool = False

    def __post_init__(self) -> None:
        for name, value, minimum in (("rank", self.rank, 0), ("ranks", self.ranks, 1)):
            if value is not None and not minimum <= value <= MAX_RANKS:
                raise ParameterError(f"{name} is {value}, expected {minimum} to {MAX_RANKS}")


@dataclass(frozen=True, slots=True)
class ParsedWorkload:
    """A workload from traces.

    Attributes:
        workload: Workload of the job.
        formats: Names of the readers, in the order of the traces.
        understood: Summary of each trace, one line each.
        assumed: Assumptions about values that the traces lack, as sentences.
        unread: Unused content of the traces, as sentences.
    """

    workload: Workload
    formats: tuple[str, ...]
    understood: tuple[str, ...]
    assumed: tuple[str, ...]
    unread: tuple[str, ...]


def read_workload(
    traces: Iterable[tuple[str, bytes]], hints: TraceHints, name: str
) -> ParsedWorkload:
    """Return the workload of traces.

    Args:
        traces: Name and content of each trace file.
        hints: Options for traces.
        name: Name of the workload.

    Raises:
        InputError: A trace cannot be read, ranks disagree, or there are no collectives.
    """
    parsed, listed = _read_traces(traces, hints)
    chosen = _traces_by_rank(parsed, hints)
    world, assumed = _job_size(chosen, listed, hints)
    by_rank = {entry.rank: entry for entry in chosen if entry.rank is not None}
    if chosen[0].covers_all_ranks:
        by_rank = _traces_of_all_ranks(chosen[0], world)
    if max(by_rank) >= world:
        raise InputError(
            f"{by_rank[max(by_rank)].source}: its rank is {max(by_rank)}, and the job has {world} "
            "ranks: give --ranks, or another --rank"
        )
    _check_steps(chosen)
    if not any(trace.calls() for trace in chosen):
        others = f" and {format_count(len(chosen) - 1, 'other')}" if len(chosen) > 1 else ""
        raise InputError(
            f"{chosen[0].source}{others}: the selected part has no collectives: trace a job of "
            "several ranks, or take another --step"
        )
    if not chosen[0].covers_all_ranks:
        by_rank = resolve_named_groups(by_rank, world, listed, alike=hints.alike)
        by_rank = complete_traces(dict(sorted(by_rank.items())), world, alike=hints.alike)
        check_listed_groups(by_rank, listed)
    result = merge_ranks(by_rank, world, name, len(chosen))
    groups = (
        (f"{listed.source}: {format_count(len(listed.ranks), 'group')} of ranks",) if listed else ()
    )
    return ParsedWorkload(
        workload=result.workload,
        formats=tuple(entry.format for entry in chosen),
        understood=(
            *(
                _summarize_trace(entry)
                for entry in sorted(chosen, key=lambda entry: entry.rank or 0)
            ),
            *groups,
        ),
        assumed=(*result.assumed, *assumed),
        unread=tuple(dict.fromkeys(line for entry in chosen for line in entry.unread)),
    )


def _check_steps(traces: Sequence[RankTrace]) -> None:
    first = traces[0]
    mismatch = next((t for t in traces if t.step != first.step), None)
    if mismatch is not None:
        message = " and ".join(
            f"{t.source} {'has no step markers' if t.step is None else f'has step {t.step}'}"
            for t in (first, mismatch)
        )
        raise InputError(
            f"traces contain different steps, {message}: give --step N for a step in all of them"
        )


def _summarize_trace(trace: RankTrace) -> str:
    """Return a summary of a rank's trace in one line."""
    calls = trace.calls()
    work = [event for event in trace.events if isinstance(event, Kernel)]
    kernels = [kernel for kernel in work if kernel.thread != HOST]
    subject = "all ranks" if trace.covers_all_ranks else f"rank {trace.rank}"
    step = "all of it" if trace.step is None else f"step {trace.step}"
    line = f"{subject}, {step} ({trace.format}): {format_count(len(calls), 'collective')}"
    took = [call.duration_us for call in calls if call.duration_us is not None]
    if took:
        line += f" that take {sum(took):.0f} us"
    if trace.has_times:
        computing = sum(kernel.duration_us for kernel in kernels)
        line += f", {computing:.0f} us of computation in {format_count(len(kernels), 'piece')}"
    if trace.iteration_us is not None:
        line += f", in {trace.iteration_us:.0f} us"
    if len(work) > len(kernels):
        line += f", {sum(item.duration_us for item in work if item.thread == HOST):.0f} of the host"
    elif trace.excluded_us:
        line += f", {trace.excluded_us:.0f} of which the device is idle: these are left out"
    return line


def _read_traces(
    traces: Iterable[tuple[str, bytes]], hints: TraceHints
) -> tuple[list[RankTrace], GroupList | None]:
    """Return the traces, and the list of groups among them.

    Traces with times are read first, because they select the step. They are large, so the content
    of each is released after reading.

    Raises:
        InputError: A trace cannot be read, or two files list groups.
    """
    parsed: list[RankTrace] = []
    others: list[tuple[TraceReader, str, bytes]] = []
    listed: GroupList | None = None
    for where, content in traces:
        if (groups := read_group_list(content, where)) is not None:
            if listed is not None:
                raise InputError(f"{listed.source} and {where} both list groups: give one of them")
            listed = groups
            continue
        has_format = hints.format != "auto"
        reader = readers.load(hints.format) if has_format else readers.detect_reader(content, where)
        if reader.NAME == "kineto":
            parsed.append(
                reader.read(content, where, StepSelection(hints.step, host=hints.host_time))
            )
        else:
            others.append((reader, where, content))
    if hints.host_time and not parsed and others:
        raise InputError(
            f"{others[0][1]}: only Kineto traces have the time of the host: leave --host-time out"
        )
    wanted = StepSelection(parsed[0].step, marked=False) if parsed else StepSelection(hints.step)
    parsed += [reader.read(content, where, wanted) for reader, where, content in others]
    return parsed, listed


def _traces_by_rank(traces: Sequence[RankTrace], hints: TraceHints) -> list[RankTrace]:
    """Return one trace for each rank. A profiler trace and an execution trace are paired.

    Raises:
        InputError: The rank of a trace is unknown, or a rank has two traces of one kind.
    """
    if not traces:
        raise InputError("there are no traces: give at least one")
    if len(traces) > 1 and hints.rank is None and _are_unranked(traces):
        traces = [replace(trace, rank=place) for place, trace in enumerate(traces)]
        traces[0] = replace(traces[0], assumed=(*traces[0].assumed, _RANKS_IN_ORDER_NOTE))
    if len(traces) > 1 and (joint := [trace for trace in traces if trace.covers_all_ranks]):
        peer = next(trace for trace in traces if trace is not joint[0])
        raise InputError(
            f"{joint[0].source}: it describes all ranks ({joint[0].format}), and {peer.source} "
            f"another job ({peer.format}): give one of the two"
        )
    unknown = [trace for trace in traces if trace.rank is None]
    paired_up = len(traces) - len(unknown) <= 1 and len(unknown) <= 2
    if unknown and not (
        paired_up and {trace.format for trace in traces} >= {u.format for u in unknown}
    ):
        raise InputError(
            f"{unknown[0].source}: its rank is not in the trace: give the traces of all ranks with "
            "their distributed information, or one of them with --rank"
        )
    rank = next((trace.rank for trace in traces if trace.rank is not None), hints.rank)
    note = "the trace belongs to rank 0 (not in the trace)" if rank is None else ""
    named = [
        replace(trace, rank=rank or 0, assumed=(*trace.assumed, *((note,) if note else ())))
        if trace.rank is None
        else trace
        for trace in traces
    ]
    if hints.rank is not None:
        named = [trace for trace in named if trace.rank == hints.rank]
        if not named:
            ranks = ", ".join(sorted({str(trace.rank) for trace in traces}))
            raise InputError(f"there is no trace of rank {hints.rank}: expected one of {ranks}")
    of_rank: dict[int | None, RankTrace] = {}
    for trace in named:
        before = of_rank.get(trace.rank)
        if before is None:
            of_rank[trace.rank] = trace
        elif before.has_times and not trace.has_times and " with " not in before.source:
            of_rank[trace.rank] = pair_traces(before, trace)
        else:
            raise InputError(
                f"{before.source} and {trace.source} are both of rank {trace.rank}: give one of "
                "them"
            )
    return list(of_rank.values())


def _are_unranked(traces: Sequence[RankTrace]) -> bool:
    """Return whether all traces have one format and no trace has its rank."""
    return len({trace.format for trace in traces}) == 1 and all(
        trace.rank is None for trace in traces
    )


def _traces_of_all_ranks(trace: RankTrace, world: int) -> dict[int, RankTrace]:
    """Return the trace of each rank, from a trace that describes all ranks.

    If every collective has all ranks, the trace of rank 0 represents all of them.

    Raises:
        InputError: The number of ranks is not a multiple of the ranks that share a model.
    """
    each = trace.model_ranks
    if not each:
        return {0: trace}
    if world % each:
        raise InputError(
            f"{trace.source}: {each} ranks share a model, and --ranks is {world}: give a multiple"
        )
    if world * len(trace.events) > MAX_EVENTS:
        raise TooLargeError(f"{trace.source}: {len(trace.events)} events of {world} ranks are many")
    by_rank = {}
    for rank in range(world):
        groups = {
            CallSpan.MODEL: ((rank - rank % each, 1), each),
            CallSpan.REPLICAS: ((rank % each, each), world // each),
            CallSpan.ALL: ((0, 1), world),
        }
        events = tuple(
            replace(e, first_stride=groups[e.span][0], group_size=groups[e.span][1])
            if isinstance(e, TracedCall)
            else e
            for e in trace.events
        )
        by_rank[rank] = replace(trace, rank=rank, events=events)
    return by_rank


def _last_rank(call: TracedCall) -> int:
    """Return the last rank of a call's group. -1: unknown."""
    if call.group:
        return max(call.group)
    first, stride = call.first_stride or (-1, 0)
    return first + stride * (call.group_size - 1) if call.group_size else -1


def _check_groups(trace: RankTrace) -> None:
    """Check that no call has more ranks than the job.

    Raises:
        InputError: A call has more ranks.
    """
    for call in trace.calls():
        ranks = max(call.group_size, _last_rank(call) + 1)
        if ranks > trace.world:
            raise InputError(
                f"{trace.source}: the job has {trace.world} ranks by the trace, and "
                f"{call.collective} is called by a group of {call.group_size}, up to rank "
                f"{ranks - 1}: give the trace as it was written"
            )


def _job_size(
    traces: Sequence[RankTrace], listed: GroupList | None, hints: TraceHints
) -> tuple[int, tuple[str, ...]]:
    """Return the number of ranks of the job, and assumptions about it.

    Raises:
        InputError: No trace has the number of ranks.
    """
    for trace in traces:
        if trace.world and not trace.covers_all_ranks:
            _check_groups(trace)
    sizes = [call.group_size for trace in traces for call in trace.calls()]
    members = [_last_rank(call) + 1 for trace in traces for call in trace.calls()]
    world = max(*(trace.world for trace in traces), *sizes, *members, listed.world if listed else 0)
    if hints.ranks is not None:
        all_ranks = next(
            (trace for trace in traces if trace.covers_all_ranks and trace.world), None
        )
        if all_ranks is not None and all_ranks.world != hints.ranks:
            raise InputError(
                f"{all_ranks.source}: it has {all_ranks.world} ranks, and --ranks is "
                f"{hints.ranks}: leave --ranks out"
            )
        if world > hints.ranks:
            raise InputError(f"--ranks is {hints.ranks}, and the traces have {world} ranks")
        return hints.ranks, ()
    if world > MAX_RANKS:
        raise TooLargeError(f"the traces have {world} ranks, and up to {MAX_RANKS} are supported")
    if world:
        return world, ()
    last = 1 + max(trace.rank or 0 for trace in traces)
    if len(traces) > 1:
        return last, (f"the job has {last} ranks, the number of traces (not in the traces)",)
    if not traces[0].calls():
        return last, ()  # another check reports the error
    raise InputError(
        f"{traces[0].source}: the number of ranks is not in the traces: give --ranks N"
    )


def pair_traces(timed: RankTrace, named: RankTrace) -> RankTrace:
    """Return the trace with times, completed with the calls and waits of the other trace.

    Raises:
        InputError: The traces come from different steps or ranks.
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
    """Return a text of the properties that an event has in both traces."""
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
