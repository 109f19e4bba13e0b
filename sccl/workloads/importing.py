"""Traces of some ranks, read, told apart by rank, and made one workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sccl.core.words import counted
from sccl.core.workload import Workload
from sccl.errors import InputError, ParameterError, TooLargeError
from sccl.workloads import readers
from sccl.workloads.completing import MOST_EVENTS, completed
from sccl.workloads.groups import check_listed, named_groups
from sccl.workloads.merging import merged
from sccl.workloads.pairing import paired
from sccl.workloads.readers import MAX_RANKS, TraceReader, WantedStep
from sccl.workloads.readers.group_list import GroupList, group_list
from sccl.workloads.readers.rank_trace import HOST, Call, CallSpan, Kernel, RankTrace

_IN_ORDER = "ranks of the traces are 0, 1, and so on, in the given order (not in the traces)"


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
        host_time: Whether the host's time between calls is kept, as its own stream.
    """

    format: str = "auto"
    rank: int | None = None
    ranks: int | None = None
    step: int | None = None
    alike: bool = False
    host_time: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("rank", self.rank, 0), ("ranks", self.ranks, 1)):
            if value is not None and not least <= value <= MAX_RANKS:
                raise ParameterError(f"{name} is {value}, expected {least} to {MAX_RANKS}")


@dataclass(frozen=True, slots=True)
class ReadWorkload:
    """A workload from traces.

    Attributes:
        formats: Names of the readers, in the order of the traces.
        understood: Content of the traces, in lines.
        assumed: Assumed values that the traces lack.
        unread: Content that no reader uses.
    """

    workload: Workload
    formats: tuple[str, ...]
    understood: tuple[str, ...]
    assumed: tuple[str, ...]
    unread: tuple[str, ...]


def read_workload(
    traces: Iterable[tuple[str, bytes]], hints: TraceHints, name: str
) -> ReadWorkload:
    """Return the workload that traces tell of.

    Args:
        traces: where each is from, and its bytes.
        name: of the workload.

    Raises:
        InputError: one cannot be read, ranks disagree, or there are no collectives.
    """
    every, listed = _read(traces, hints)
    found = _by_rank(every, hints)
    world, assumed = _world(found, listed, hints)
    by_rank = {one.rank: one for one in found if one.rank is not None}
    if found[0].of_all:
        by_rank = _of_all(found[0], world)
    if max(by_rank) >= world:
        raise InputError(
            f"{by_rank[max(by_rank)].where}: it is of rank {max(by_rank)} of {world} ranks: give "
            "--ranks, or another --rank"
        )
    _check_steps(found)
    if not any(trace.calls() for trace in found):
        others = f" and {counted(len(found) - 1, 'other')}" if len(found) > 1 else ""
        raise InputError(
            f"{found[0].where}{others}: the selected part has no collectives: trace a job of "
            "several ranks, or take another --step"
        )
    if not found[0].of_all:
        by_rank = named_groups(by_rank, world, listed, alike=hints.alike)
        by_rank = completed(dict(sorted(by_rank.items())), world, alike=hints.alike)
        check_listed(by_rank, listed)
    result = merged(by_rank, world, name, len(found))
    groups = (f"{listed.where}: {counted(len(listed.ranks), 'group')} of ranks",) if listed else ()
    return ReadWorkload(
        workload=result.workload,
        formats=tuple(one.format for one in found),
        understood=(
            *(_understood(one) for one in sorted(found, key=lambda one: one.rank or 0)),
            *groups,
        ),
        assumed=(*result.assumed, *assumed),
        unread=tuple(dict.fromkeys(line for one in found for line in one.unread)),
    )


def _check_steps(found: Sequence[RankTrace]) -> None:
    first = found[0]
    other = next((one for one in found if one.step != first.step), None)
    if other is not None:
        told = " and ".join(
            f"{one.where} {'has no marks of steps' if one.step is None else f'of step {one.step}'}"
            for one in (first, other)
        )
        raise InputError(f"traces are of several steps, {told}: give --step N, which all have")


def _understood(trace: RankTrace) -> str:
    """Return a description of a rank's trace, in a line."""
    calls = trace.calls()
    every = [event for event in trace.events if isinstance(event, Kernel)]
    kernels = [kernel for kernel in every if kernel.thread != HOST]
    who = "all ranks" if trace.of_all else f"rank {trace.rank}"
    step = "all of it" if trace.step is None else f"step {trace.step}"
    line = f"{who}, {step} ({trace.format}): {counted(len(calls), 'collective')}"
    took = [call.duration_us for call in calls if call.duration_us is not None]
    if took:
        line += f" that take {sum(took):.0f} us"
    if trace.timed:
        computing = sum(kernel.duration_us for kernel in kernels)
        line += f", {computing:.0f} us of computation in {counted(len(kernels), 'piece')}"
    if trace.iteration_us is not None:
        line += f", in {trace.iteration_us:.0f} us"
    if len(every) > len(kernels):
        line += f", {sum(one.duration_us for one in every if one.thread == HOST):.0f} of the host"
    elif trace.left_out_us:
        line += f", {trace.left_out_us:.0f} of which the device is idle: these are left out"
    return line


def _read(
    traces: Iterable[tuple[str, bytes]], hints: TraceHints
) -> tuple[list[RankTrace], GroupList | None]:
    """Return the traces, and the list of groups among them.

    Traces with times come first, because they select the step. Traces are large, so one with times
    is released as soon as it is read.

    Raises:
        InputError: One cannot be read, or two files list groups.
    """
    found: list[RankTrace] = []
    others: list[tuple[TraceReader, str, bytes]] = []
    listed: GroupList | None = None
    for where, content in traces:
        if (groups := group_list(content, where)) is not None:
            if listed is not None:
                raise InputError(f"{listed.where} and {where} both list groups: give one of them")
            listed = groups
            continue
        known = hints.format != "auto"
        reader = readers.load(hints.format) if known else readers.who_reads(content, where)
        if reader.NAME == "kineto":
            found.append(reader.read(content, where, WantedStep(hints.step, host=hints.host_time)))
        else:
            others.append((reader, where, content))
    if hints.host_time and not found and others:
        raise InputError(
            f"{others[0][1]}: only Kineto traces have the time of the host: leave --host-time out"
        )
    wanted = WantedStep(found[0].step, marked=False) if found else WantedStep(hints.step)
    found += [reader.read(content, where, wanted) for reader, where, content in others]
    return found, listed


def _by_rank(found: Sequence[RankTrace], hints: TraceHints) -> list[RankTrace]:
    """Return a trace for each rank, two of one paired.

    Raises:
        InputError: which ranks they are of is unknown, or two are of one.
    """
    if not found:
        raise InputError("there are no traces: give at least one")
    if len(found) > 1 and hints.rank is None and _are_alike(found):
        found = [replace(one, rank=place) for place, one in enumerate(found)]
        found[0] = replace(found[0], assumed=(*found[0].assumed, _IN_ORDER))
    if len(found) > 1 and (alone := [one for one in found if one.of_all]):
        other = next(one for one in found if one is not alone[0])
        raise InputError(
            f"{alone[0].where}: it describes all ranks ({alone[0].format}), and {other.where} "
            f"a job by itself ({other.format}), whose sizes and times differ: give one "
            "of them"
        )
    unknown = [one for one in found if one.rank is None]
    paired_up = len(found) - len(unknown) <= 1 and len(unknown) <= 2
    if unknown and not (paired_up and {one.format for one in found} >= {u.format for u in unknown}):
        raise InputError(
            f"{unknown[0].where}: its rank is not in the trace: give the traces of all ranks with "
            "their distributed information, or one of them with --rank"
        )
    told = next((one.rank for one in found if one.rank is not None), hints.rank)
    note = "the trace is of rank 0 (not in the trace)" if told is None else ""
    named = [
        replace(one, rank=told or 0, assumed=(*one.assumed, *((note,) if note else ())))
        if one.rank is None
        else one
        for one in found
    ]
    if hints.rank is not None:
        named = [one for one in named if one.rank == hints.rank]
        if not named:
            ranks = ", ".join(sorted({str(one.rank) for one in found}))
            raise InputError(f"there is no trace of rank {hints.rank}: there are those of {ranks}")
    of_rank: dict[int | None, RankTrace] = {}
    for one in named:
        before = of_rank.get(one.rank)
        if before is None:
            of_rank[one.rank] = one
        elif before.timed and not one.timed and " with " not in before.where:
            of_rank[one.rank] = paired(before, one)
        else:
            raise InputError(
                f"{before.where} and {one.where} are both of rank {one.rank}: give one of them"
            )
    return list(of_rank.values())


def _are_alike(found: Sequence[RankTrace]) -> bool:
    """Return whether traces are of one format, and none says of which rank it is."""
    return len({one.format for one in found}) == 1 and all(one.rank is None for one in found)


def _of_all(trace: RankTrace, world: int) -> dict[int, RankTrace]:
    """Return what each rank does by a trace of all. That of one, where all collectives are of all.

    Raises:
        InputError: so many ranks do not make up whole models.
    """
    each = trace.model_ranks
    if not each:
        return {0: trace}
    if world % each:
        raise InputError(
            f"{trace.where}: {each} ranks share a model, and --ranks is {world}: give a multiple"
        )
    if world * len(trace.events) > MOST_EVENTS:
        raise TooLargeError(f"{trace.where}: {len(trace.events)} events of {world} ranks are many")
    found = {}
    for rank in range(world):
        groups = {
            CallSpan.MODEL: ((rank - rank % each, 1), each),
            CallSpan.REPLICAS: ((rank % each, each), world // each),
            CallSpan.ALL: ((0, 1), world),
        }
        events = tuple(
            replace(e, first_stride=groups[e.span][0], group_size=groups[e.span][1])
            if isinstance(e, Call)
            else e
            for e in trace.events
        )
        found[rank] = replace(trace, rank=rank, events=events)
    return found


def _last(call: Call) -> int:
    """Return the last rank of a call's group. -1: it is unknown."""
    if call.group:
        return max(call.group)
    first, stride = call.first_stride or (-1, 0)
    return first + stride * (call.group_size - 1) if call.group_size else -1


def _check_groups(trace: RankTrace) -> None:
    """Check that no call is of more ranks than the job has.

    Raises:
        InputError: one is.
    """
    for call in trace.calls():
        ranks = max(call.group_size, _last(call) + 1)
        if ranks > trace.world:
            raise InputError(
                f"{trace.where}: the job has {trace.world} ranks by the trace, and "
                f"{call.collective} is called by a group of {call.group_size}, up to rank "
                f"{ranks - 1}: give the trace as it was written"
            )


def _world(
    found: Sequence[RankTrace], listed: GroupList | None, hints: TraceHints
) -> tuple[int, tuple[str, ...]]:
    """Return the number of ranks of the job, and the assumptions about it.

    Raises:
        InputError: No trace has it.
    """
    for one in found:
        if one.world and not one.of_all:
            _check_groups(one)
    sizes = [call.group_size for one in found for call in one.calls()]
    members = [_last(call) + 1 for one in found for call in one.calls()]
    told = max(*(one.world for one in found), *sizes, *members, listed.world if listed else 0)
    if hints.ranks is not None:
        all_ranks = next((one for one in found if one.of_all and one.world), None)
        if all_ranks is not None and all_ranks.world != hints.ranks:
            raise InputError(
                f"{all_ranks.where}: it is of {all_ranks.world} ranks, and --ranks is "
                f"{hints.ranks}: leave --ranks out"
            )
        if told > hints.ranks:
            raise InputError(f"--ranks is {hints.ranks}, and the traces have {told} ranks")
        return hints.ranks, ()
    if told > MAX_RANKS:
        raise TooLargeError(f"the traces have {told} ranks, and up to {MAX_RANKS} are supported")
    if told:
        return told, ()
    last = 1 + max(one.rank or 0 for one in found)
    if len(found) > 1:
        return last, (f"the job has {last} ranks, the number of traces (not in the traces)",)
    if not found[0].calls():
        return last, ()  # what is wrong with it is said elsewhere
    raise InputError(f"{found[0].where}: the number of ranks is not in the traces: give --ranks N")
