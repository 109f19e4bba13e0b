"""Merge the traces of several ranks into one workload, with dependencies by device streams.

A collective depends on the last work that its thread launched before the call, on the stream of
that work. The next work that the thread launches after a wait depends on the collective, and with
it everything after it on that stream. Computation between two lines of a program is one operation
for each stream. If host work is known, calls and launches after it depend on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sccl.core.words import counted
from sccl.core.workload import Workload
from sccl.core.workload_ops import (
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)
from sccl.errors import FormatError, ParameterError
from sccl.workloads.calls import MergedCalls, merged_calls
from sccl.workloads.readers.rank_trace import HOST, Kernel, RankTrace, StreamEvent
from sccl.workloads.waits import Line, Submitted, Waited, program_of

_Program = tuple[tuple[HostEvent, ...], tuple[bool, ...], tuple[tuple[int, StreamEvent], ...]]
"""Its lines; of each call whether it sends to one rank, as who does is not who gets; where streams
wait for one another."""

_Gaps = dict[tuple[int, str], float]
"""Microseconds of computation, by the lines of the program before it, and by stream."""


@dataclass(frozen=True, slots=True)
class MergedWorkload:
    """A workload, with its assumptions as sentences."""

    workload: Workload
    assumed: tuple[str, ...]


def merged(traces: Mapping[int, RankTrace], world: int, name: str, traced: int) -> MergedWorkload:
    """Return the workload of ranks.

    Args:
        traces: Traces of all ranks, in ascending order, or of one that represents all.
        world: Number of ranks of the job.
        traced: Number of traced ranks.

    Raises:
        InputError: Ranks disagree, or traces lack data.
    """
    where = next(iter(traces.values())).where
    calls = merged_calls(traces, world)
    assumed = {line: None for trace in traces.values() for line in trace.assumed}
    assumed |= dict.fromkeys(calls.assumed)
    programs: dict[int, tuple[Line, ...]] = {}
    for rank, trace in traces.items():
        programs[rank], told = program_of(trace)
        assumed |= dict.fromkeys(told)
    roles = _roles(programs, calls, traces)
    ops: list[AnyOp] = []
    deps: dict[Dependency, None] = {}
    hosts: list[HostProgram] = []
    shown = _named_roles(list(roles.values()), world)
    if len(traces) < world and not any(trace.of_all for trace in traces.values()):
        assumed[f"{world - len(traces)} of {world} ranks were not traced: they do the same"] = None
    for role, (events, _, _), ranks in zip(shown, roles, roles.values(), strict=True):
        gaps = _gaps([programs[rank] for rank in ranks])
        part = _Part(role.name, calls.of_rank[ranks[0]], gaps)
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
            left_out_us=_median(trace.left_out_us for trace in traces.values()),
            source=_source(traces, traced),
        )
    except ParameterError as error:
        raise FormatError(f"{where}: {error}") from error
    return MergedWorkload(workload, tuple(assumed))


def _median(told: Iterable[float | None]) -> float | None:
    """Return the median of the ranks' values. None: none has one."""
    known = [one for one in told if one is not None]
    return round(median(known), 3) if known else None


def _source(traces: Mapping[int, RankTrace], traced: int) -> str:
    one = next(iter(traces.values()))
    step = "" if one.step is None else f", step {one.step}"
    if one.of_all:
        return f"{one.format} of all ranks"
    return f"{one.format} of {counted(traced, 'rank')}{step}"


def _roles(
    programs: Mapping[int, tuple[Line, ...]], calls: MergedCalls, traces: Mapping[int, RankTrace]
) -> dict[_Program, list[int]]:
    """Return the ranks of each program, in the order in which programs are met."""
    found: dict[_Program, list[int]] = defaultdict(list)
    for rank, lines in programs.items():
        own = calls.of_rank[rank]
        events = tuple(_event(line, own) for line in lines if isinstance(line, (Submitted, Waited)))
        rows = [line for line in lines if not isinstance(line, Kernel)]
        marks = tuple((k, row) for k, row in enumerate(rows) if isinstance(row, StreamEvent))
        gives = tuple(call.end is not None and call.end.sends for call in traces[rank].calls())
        found[events, gives, marks].append(rank)
    return found


def _event(line: Submitted | Waited, own: Sequence[CommOp]) -> HostEvent:
    if isinstance(line, Submitted):
        return HostEvent(HostAction.SUBMIT, own[line.call].id)
    return HostEvent(HostAction.WAIT, own[line.call].id, line.lag)


def _named_roles(of_ranks: Sequence[Sequence[int]], world: int) -> list[Role]:
    """Return the roles: one of all ranks, where all that were traced do the same."""
    if len(of_ranks) == 1:
        return [Role("all", tuple(range(world)))]
    return [Role(f"role-{i}", tuple(ranks)) for i, ranks in enumerate(of_ranks)]


def _gaps(programs: Sequence[Sequence[Line]]) -> _Gaps:
    """Return the durations of computations, the median over ranks.

    If the trace has steps that all ranks took together, it is the median over steps of the slowest
    rank, because the others wait for it.
    """
    found: list[dict[tuple[int, str], list[Kernel]]] = []
    for lines in programs:
        own: dict[tuple[int, str], list[Kernel]] = defaultdict(list)
        before = 0
        for line in lines:
            if isinstance(line, Kernel):
                own[before, line.stream].append(line)
            else:
                before += 1
        found.append(own)
    keys = sorted({key for own in found for key in own})
    steps = {len(one.of_steps) for own in found for kernels in own.values() for one in kernels}
    many = steps.pop() if len(steps) == 1 else 0
    return {key: _middle([own.get(key, []) for own in found], many) for key in keys}


def _middle(of_ranks: Sequence[Sequence[Kernel]], steps: int) -> float:
    """Return how long a piece of computation takes, of which each rank has some kernels."""
    if not steps:
        told = [sum(one.duration_us for one in own) for own in of_ranks]
    else:
        told = [max(sum(one.of_steps[k] for one in own) for own in of_ranks) for k in range(steps)]
    return round(median(told), 3)


@dataclass(slots=True)
class _Part:
    """The computation of a role, with dependencies on its streams.

    Attributes:
        pending: By stream, collectives that its next work depends on, with lags.
        last: By stream, the last work.
        first: By stream, the first work. It depends on the pending collectives at the end.
        marks: Last work on a stream when a mark was set, and the collectives that it waited for
            since.
        launched_first: Time before the first line after the host finished the previous step.
    """

    role: str
    own: Sequence[CommOp]
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

    def walk(self, lines: Sequence[Line]) -> None:
        """Go through a program, line by line."""
        streams = _streams(lines)
        events = [line for line in lines if not isinstance(line, Kernel)]
        of_gap: dict[int, list[str]] = defaultdict(list)
        for gap, stream in self.gaps:
            of_gap[gap].append(stream)
        for place, line in enumerate(events):
            self._compute(place, of_gap[place])
            if isinstance(line, StreamEvent):
                self._mark(line)
                continue
            name, stream = self.own[line.call].id, streams[place]
            if isinstance(line, Waited):
                self.pending[stream][name, line.lag] = None
                continue
            if len(self.pending[stream]) > 1:
                self._compute(place, [stream])  # of no time: or each later call waits for them all
            self._after_pending(name, stream)
            for one in (stream, HOST):
                if one in self.last:
                    self.deps[Dependency(self.last[one], name)] = None
        self._compute(len(events), of_gap[len(events)])
        for stream, left in self.pending.items():
            for name, lag in left:
                if stream in self.first:
                    self.deps[Dependency(name, self.first[stream], lag + 1)] = None
        if HOST in self.last:
            for op in self.launched_first:
                self.deps[Dependency(self.last[HOST], op, 1)] = None

    def _mark(self, line: StreamEvent) -> None:
        if line.waits:
            self.pending[line.stream].update(dict.fromkeys(self.marks.get(line.number, ())))
            return
        last = [(self.last[line.stream], 0)] if line.stream in self.last else []
        self.marks[line.number] = (*last, *self.pending[line.stream])

    def _compute(self, gap: int, streams: Sequence[str]) -> None:
        for stream in sorted(streams, key=lambda one: one == HOST):
            op = f"{self.role}/{stream}/{gap}"
            if stream != HOST and HOST in self.last:
                self.deps[Dependency(self.last[HOST], op)] = None
            elif stream != HOST:
                self.launched_first.append(op)
            self.ops.append(ComputeOp(op, self.role, stream, self.gaps.get((gap, stream), 0.0)))
            self._after_pending(op, stream)
            self.pending.pop(stream, None)
            self.last[stream] = op

    def _after_pending(self, op: str, stream: str) -> None:
        self.first.setdefault(stream, op)
        for name, lag in self.pending[stream]:
            self.deps[Dependency(name, op, lag)] = None


def _streams(lines: Sequence[Line]) -> list[str]:
    """Return the stream of each call and each wait.

    For a call it is the stream of the thread's last launch, for a wait that of its next launch. If
    there is none, the other one, or else the first stream that computes.
    """
    kernels = (line for line in lines if isinstance(line, Kernel))
    default = next((one.stream for one in kernels if one.thread != HOST), "device")
    before: list[str | None] = []
    after: list[str | None] = []
    for found, way in ((before, lines), (after, lines[::-1])):
        at: dict[str, str] = {}
        for line in way:
            if isinstance(line, Kernel):
                at[line.thread] = line.stream
            else:
                found.append(None if isinstance(line, StreamEvent) else at.get(line.thread))
    after.reverse()
    events = [line for line in lines if not isinstance(line, Kernel)]
    return [
        (a or b or default) if isinstance(line, Waited) else (b or a or default)
        for line, b, a in zip(events, before, after, strict=True)
    ]
