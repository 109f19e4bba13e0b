"""What one rank did in one step, as its trace tells it: what readers return.

Calls of collectives, waits for them and computation stand in the order in which the host came to
them. What a trace does not tell is None or empty: merging ranks fills it in, or refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HOST = "host"
"""A stream of what the host does, and its thread, which calls nothing."""


class CallSpan(StrEnum):
    """Which ranks a call is of, where one trace tells of all ranks."""

    ALL = "all"
    MODEL = "model"
    """Those that share a model."""
    REPLICAS = "replicas"
    """Those that have the same part of it."""


@dataclass(frozen=True, slots=True)
class OtherEnd:
    """The rank that one is sent to, or gets from.

    Attributes:
        rank: its place in the group of the call, or its number in the job.
        sends: whether the caller sends.
        in_job: which of the two that is.
    """

    rank: int
    sends: bool
    in_job: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A collective that the rank called, or one end of a send: a broadcast among two ranks.

    Attributes:
        thread: of the host.
        collective: its name in :data:`~sccl.core.workload_ops.COLLECTIVES`.
        dtype: one of :data:`~sccl.core.dtypes.ITEM_BYTES`.
        given: elements of the tensors that it was given. None: unknown.
        got: elements of the tensors that it filled. None: unknown.
        request: the number by which a wait names it. None: unknown.
        group_name: whatever tells its group from others of the rank. Empty: unknown.
        group: global ranks in the order of the group. Empty: unknown.
        first_stride: the first of these and how far each is from the one before. None: unknown.
        cut_group: whether the trace lists some ranks of its group and not the others.
        group_size: how many these are. 0: unknown.
        root: its place in the group. None: it has none, or unknown.
        reduce: what combines elements. Empty: it combines nothing, or unknown.
        gives: what goes to each rank of the group, in units of any size. Empty: as much to each.
        gets: what comes from each, likewise.
        splits_unknown: why an alltoall tells no splits. Empty: it tells them, or has none.
        bucket: whether gradients are added up that nobody waits for by itself.
        duration_us: how long the device took for it. None: unknown.
        span: of a trace of all ranks, which of them make it.
        end: of a send between two ranks the other one. None: it is a collective.
    """

    thread: str
    collective: str
    dtype: str
    given: int | None = None
    got: int | None = None
    request: int | None = None
    group_name: str = ""
    group: tuple[int, ...] = ()
    first_stride: tuple[int, int] | None = None
    group_size: int = 0
    root: int | None = None
    reduce: str = ""
    gives: tuple[int, ...] = ()
    gets: tuple[int, ...] = ()
    splits_unknown: str = ""
    cut_group: bool = False
    bucket: bool = False
    duration_us: float | None = None
    span: CallSpan = CallSpan.ALL
    end: OtherEnd | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """A wait of the thread for a call; request None: the trace does not tell for which."""

    thread: str
    request: int | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Computation, or a copy, that a thread launched on a stream of the device.

    Attributes:
        of_steps: how long it took in each of several steps, which all ranks took together; empty:
            of one step is told.
    """

    thread: str
    stream: str
    duration_us: float
    of_steps: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A mark that is set on a stream of the device, or for which a stream waits.

    Attributes:
        number: of the mark, which is set once; several may wait for it.
        waits: whether what is behind it on the stream waits for what is before the mark.
    """

    stream: str
    number: int
    waits: bool


TraceEvent = Call | Awaited | Kernel | StreamEvent


@dataclass(frozen=True, slots=True)
class RankTrace:
    """What one rank did in one step.

    Attributes:
        where: the file that it is from, for messages.
        format: the reader's name.
        events: in the order of the host.
        rank: None: unknown.
        world: how many ranks the job has. 0: unknown.
        main: the thread that runs the steps.
        step: its number. None: the trace has no marks of steps, and this is all of it.
        iteration_us: how long it took. None: unknown.
        left_out_us: of that, time in which the device did nothing, and which no event stands for.
        timed: whether computation has durations.
        assumed: what was taken for granted, in sentences.
        unread: what the trace holds and the reader does not use, in sentences.
        shared_names: whether a name of a group means the same group in the traces of all ranks.
        of_all: whether it tells of all ranks, which do the same.
        model_ranks: how many share a model then, one after the other. 0: all, or unknown.
    """

    where: str
    format: str
    events: tuple[TraceEvent, ...]
    rank: int | None = None
    world: int = 0
    main: str = ""
    step: int | None = None
    iteration_us: float | None = None
    left_out_us: float | None = None
    timed: bool = False
    assumed: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    shared_names: bool = False
    of_all: bool = False
    model_ranks: int = 0

    def calls(self) -> list[Call]:
        """Return the calls of collectives, in order."""
        return [event for event in self.events if isinstance(event, Call)]
