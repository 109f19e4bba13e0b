"""Merge the traces of several ranks into one workload, with dependencies by device streams.

A collective depends on the last kernel that its thread launched before the call. After a wait, the
next kernel that the thread launches depends on the collective, and so do later kernels of the same
stream. A program consists of lines (calls and waits), and the computation between two lines is one
operation per stream. If host work is known, later calls and launches depend on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sccl.core.formatting import format_count
from sccl.errors import FormatError, ParameterError
from sccl.training.traces.collective_calls import (
    MergedCalls,
    ProgramLine,
    SubmitLine,
    WaitLine,
    build_program,
    merge_calls,
)
from sccl.training.traces.readers.common.contract import HOST, Kernel, RankTrace, StreamEvent
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)

_Program = tuple[tuple[HostEvent, ...], tuple[bool, ...], tuple[tuple[int, StreamEvent], ...]]
"""Key of ranks with equal programs: the lines, whether each call sends to one rank (senders and
receivers have different roles), and the marks and waits of streams."""

_Gaps = dict[tuple[int, str], float]
"""Microseconds of computation, by the number of program lines before it, and by stream."""


@dataclass(frozen=True, slots=True)
class MergedWorkload:
    """A workload, and its assumptions as sentences."""

    workload: Workload
    assumed: tuple[str, ...]


def merge_ranks(
    traces: Mapping[int, RankTrace], world: int, name: str, traced: int
) -> MergedWorkload:
    """Merge the traces of ranks into a workload.

    Args:
        traces: Traces of all ranks in ascending order, or of one rank that represents all.
        world: Number of ranks of the job.
        name: Name of the workload.
        traced: Number of traced ranks.

    Raises:
        InputError: Ranks disagree, or traces lack data.
    """
    where = next(iter(traces.values())).source
    calls = merge_calls(traces, world)
    assumed = {line: None for trace in traces.values() for line in trace.assumed}
    assumed |= dict.fromkeys(calls.assumed)
    programs: dict[int, tuple[ProgramLine, ...]] = {}
    for rank, trace in traces.items():
        programs[rank], assumptions = build_program(trace)
        assumed |= dict.fromkeys(assumptions)
    roles = _group_by_program(programs, calls, traces)
    ops: list[AnyOp] = []
    deps: dict[Dependency, None] = {}
    hosts: list[HostProgram] = []
    shown = _named_roles(list(roles.values()), world)
    if len(traces) < world and not any(trace.covers_all_ranks for trace in traces.values()):
        assumed[f"{world - len(traces)} of {world} ranks were not traced: they do the same"] = None
    for role, (events, _, _), ranks in zip(shown, roles, roles.values(), strict=True):
        gaps = _computation_gaps([programs[rank] for rank in ranks])
        part = _RoleProgram(role.name, calls.by_rank[ranks[0]], gaps)
        part.walk(programs[ranks[0]])
        ops += part.ops
        deps |= part.deps
        hosts.append(HostProgram(role.name, events))
    try:
        workload = Workload(
            name=name,
            ranks=world,
            roles=tuple(shown),
            ops=(*ops, *calls.ops),
            deps=tuple(deps),
            submits=tuple(hosts),
            iteration_us=_median(trace.iteration_us for trace in traces.values()),
            left_out_us=_median(trace.excluded_us for trace in traces.values()),
            source=_source_text(traces, traced),
        )
    except ParameterError as error:
        raise FormatError(f"{where}: {error}") from error
    return MergedWorkload(workload, tuple(assumed))


def _median(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values. None: no value is known."""
    numbers = [value for value in values if value is not None]
    return round(median(numbers), 3) if numbers else None


def _source_text(traces: Mapping[int, RankTrace], traced: int) -> str:
    first = next(iter(traces.values()))
    step = "" if first.step is None else f", step {first.step}"
    if first.covers_all_ranks:
        return f"{first.format} of all ranks"
    return f"{first.format} of {format_count(traced, 'rank')}{step}"


def _group_by_program(
    programs: Mapping[int, tuple[ProgramLine, ...]],
    calls: MergedCalls,
    traces: Mapping[int, RankTrace],
) -> dict[_Program, list[int]]:
    """Return the ranks of each program, with programs in the order of their first ranks."""
    roles: dict[_Program, list[int]] = defaultdict(list)
    for rank, lines in programs.items():
        rank_ops = calls.by_rank[rank]
        events = tuple(
            _host_event(line, rank_ops)
            for line in lines
            if isinstance(line, (SubmitLine, WaitLine))
        )
        rows = [line for line in lines if not isinstance(line, Kernel)]
        marks = tuple((k, row) for k, row in enumerate(rows) if isinstance(row, StreamEvent))
        gives = tuple(call.end is not None and call.end.sends for call in traces[rank].calls())
        roles[events, gives, marks].append(rank)
    return roles


def _host_event(line: SubmitLine | WaitLine, rank_ops: Sequence[CommOp]) -> HostEvent:
    if isinstance(line, SubmitLine):
        return HostEvent(HostAction.SUBMIT, rank_ops[line.call].id)
    return HostEvent(HostAction.WAIT, rank_ops[line.call].id, line.lag)


def _named_roles(of_ranks: Sequence[Sequence[int]], world: int) -> list[Role]:
    """Return the roles. If all traced ranks have one program, the only role has all ranks."""
    if len(of_ranks) == 1:
        return [Role("all", tuple(range(world)))]
    return [Role(f"role-{i}", tuple(ranks)) for i, ranks in enumerate(of_ranks)]


def _computation_gaps(programs: Sequence[Sequence[ProgramLine]]) -> _Gaps:
    """Return the duration of each computation: the median over ranks.

    If traces have several steps that all ranks execute together, it is the median over steps of the
    slowest rank's duration, because the other ranks wait for it.
    """
    by_rank: list[dict[tuple[int, str], list[Kernel]]] = []
    for lines in programs:
        rank_kernels: dict[tuple[int, str], list[Kernel]] = defaultdict(list)
        before = 0
        for line in lines:
            if isinstance(line, Kernel):
                rank_kernels[before, line.stream].append(line)
            else:
                before += 1
        by_rank.append(rank_kernels)
    keys = sorted({key for rank_kernels in by_rank for key in rank_kernels})
    steps = {
        len(kernel.step_durations_us)
        for rank_kernels in by_rank
        for kernels in rank_kernels.values()
        for kernel in kernels
    }
    many = steps.pop() if len(steps) == 1 else 0
    return {
        key: _median_duration([rank_kernels.get(key, []) for rank_kernels in by_rank], many)
        for key in keys
    }


def _median_duration(of_ranks: Sequence[Sequence[Kernel]], steps: int) -> float:
    """Return the duration of a computation, given its kernels on each rank, in microseconds."""
    if not steps:
        durations = [sum(kernel.duration_us for kernel in kernels) for kernels in of_ranks]
    else:
        durations = [
            max(sum(kernel.step_durations_us[k] for kernel in kernels) for kernels in of_ranks)
            for k in range(steps)
        ]
    return round(median(durations), 3)


@dataclass(slots=True)
class _RoleProgram:
    """The computation of a role, with dependencies on its streams.

    Attributes:
        role: Name of the role.
        calls: Collective of each call.
        gaps: Durations of computations.
        ops: Computations, in order.
        deps: Dependencies.
        pending: Collectives, with lags, that the next work of each stream depends on.
        last: Last computation of each stream.
        first: First computation of each stream. In the next iteration it depends on the collectives
            that are pending at the end.
        marks: Work that precedes each mark: the last computation of its stream, and collectives for
            which the stream waited since.
        launched_first: Computations that are launched before the first host work. They depend on
            the last host work of the previous iteration.
    """

    role: str
    calls: Sequence[CommOp]
    gaps: _Gaps
    ops: list[ComputeOp] = field(default_factory=list)
    deps: dict[Dependency, None] = field(default_factory=dict)
    pending: dict[str, dict[tuple[str, int], None]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    last: dict[str, str] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    marks: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    launched_first: list[str] = field(default_factory=list)

    def walk(self, lines: Sequence[ProgramLine]) -> None:
        streams = _line_streams(lines)
        events = [line for line in lines if not isinstance(line, Kernel)]
        of_gap: dict[int, list[str]] = defaultdict(list)
        for gap, stream in self.gaps:
            of_gap[gap].append(stream)
        for place, line in enumerate(events):
            self._add_computation(place, of_gap[place])
            if isinstance(line, StreamEvent):
                self._set_mark(line)
                continue
            name, stream = self.calls[line.call].id, streams[place]
            if isinstance(line, WaitLine):
                self.pending[stream][name, line.lag] = None
                continue
            if len(self.pending[stream]) > 1:
                self._add_computation(
                    place, [stream]
                )  # no duration: joins the waits, or each later call depends on all
            self._add_pending_waits(name, stream)
            for lane in (stream, HOST):
                if lane in self.last:
                    self.deps[Dependency(self.last[lane], name)] = None
        self._add_computation(len(events), of_gap[len(events)])
        for stream, left in self.pending.items():
            for name, lag in left:
                if stream in self.first:
                    self.deps[Dependency(name, self.first[stream], lag + 1)] = None
        if HOST in self.last:
            for op in self.launched_first:
                self.deps[Dependency(self.last[HOST], op, 1)] = None

    def _set_mark(self, line: StreamEvent) -> None:
        if line.waits:
            self.pending[line.stream].update(dict.fromkeys(self.marks.get(line.number, ())))
            return
        last = [(self.last[line.stream], 0)] if line.stream in self.last else []
        self.marks[line.number] = (*last, *self.pending[line.stream])

    def _add_computation(self, gap: int, streams: Sequence[str]) -> None:
        for stream in sorted(streams, key=lambda lane: lane == HOST):
            op = f"{self.role}/{stream}/{gap}"
            if stream != HOST and HOST in self.last:
                self.deps[Dependency(self.last[HOST], op)] = None
            elif stream != HOST:
                self.launched_first.append(op)
            self.ops.append(ComputeOp(op, self.role, stream, self.gaps.get((gap, stream), 0.0)))
            self._add_pending_waits(op, stream)
            self.pending.pop(stream, None)
            self.last[stream] = op

    def _add_pending_waits(self, op: str, stream: str) -> None:
        self.first.setdefault(stream, op)
        for name, lag in self.pending[stream]:
            self.deps[Dependency(name, op, lag)] = None


def _line_streams(lines: Sequence[ProgramLine]) -> list[str]:
    """Return the stream of each call and each wait.

    A call has the stream of its thread's last launch, and a wait that of the next launch. If there
    is no such launch, it is the stream of the next or last one, or else the first stream that
    computes.
    """
    kernels = (line for line in lines if isinstance(line, Kernel))
    default = next((kernel.stream for kernel in kernels if kernel.thread != HOST), "device")
    before: list[str | None] = []
    after: list[str | None] = []
    for streams, ordered in ((before, lines), (after, lines[::-1])):
        at: dict[str, str] = {}
        for line in ordered:
            if isinstance(line, Kernel):
                at[line.thread] = line.stream
            else:
                streams.append(None if isinstance(line, StreamEvent) else at.get(line.thread))
    after.reverse()
    events = [line for line in lines if not isinstance(line, Kernel)]
    return [
        (a or b or default) if isinstance(line, WaitLine) else (b or a or default)
        for line, b, a in zip(events, before, after, strict=True)
    ]
