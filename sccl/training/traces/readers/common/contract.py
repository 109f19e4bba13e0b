"""Define the interface of trace readers, which are modules of this folder, and their result.

A reader defines ``NAME`` (as in ``--format``), ``ABOUT`` (its format, in a line), ``SOURCE``
(description of the format, and its versions), ``EXAMPLE`` (a small valid trace), and

- ``sniff(content) -> bool``: whether bytes are in this format. It is fast, and accepts any bytes.
- ``read(content, where, wanted) -> RankTrace``: events of a rank in one step of the trace. It may
  raise an :class:`~sccl.errors.InputError` that states the fault and the remedy in a sentence.

Calls of collectives, waits, and computation are in the order in which the host issued them. Values
that a trace lacks are None or empty. The merge of ranks completes them, or raises an error.

Traces are untrusted: whatever the bytes, a reader must not hang or raise other errors, and must
observe the limits below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sccl.errors import InputError

HOST = "host"
"""Name of the stream of host work, and of its thread, which makes no calls."""


class CallSpan(StrEnum):
    """The ranks of a call in a trace that describes all ranks."""

    ALL = "all"
    MODEL = "model"
    """Ranks that share a model."""
    REPLICAS = "replicas"
    """Ranks with the same part of the model."""


@dataclass(frozen=True, slots=True)
class PeerEnd:
    """The peer of a send or receive.

    Attributes:
        rank: Place of the peer in the group of the call, or its rank in the job.
        sends: Whether the caller sends.
        in_job: Whether ``rank`` is a rank in the job.
    """

    rank: int
    sends: bool
    in_job: bool = False


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A call of a collective, or one end of a send (a broadcast between two ranks).

    Attributes:
        thread: Host thread.
        collective: Name in :data:`~sccl.training.types.workload_ops.COLLECTIVES`.
        dtype: Element type, one of :data:`~sccl.core.sizes.ITEM_BYTES`.
        input_elements: Elements of the input tensors. None: unknown.
        output_elements: Elements of the output tensors. None: unknown.
        request: Request number, by which waits refer to the call. None: unknown.
        group_name: Key of the group among those of the rank. Empty: unknown.
        group: Global ranks in the order of the group. Empty: unknown.
        first_stride: First rank of the group, and the distance between ranks. None: unknown.
        cut_group: Whether the trace lists only some ranks of the group.
        group_size: Number of ranks of the group. 0: unknown.
        root: Place of the root in the group. None: none, or unknown.
        reduce: Reduction operator. Empty: none, or unknown.
        send_splits: Data for each rank of the group, in any unit. Empty: equal parts.
        receive_splits: Data from each rank of the group, in any unit. Empty: equal parts.
        splits_unknown: Reason why an alltoall has no splits. Empty: splits are known or not needed.
        bucket: Whether it reduces a bucket of gradients, which has no own wait.
        duration_us: Duration on the device. None: unknown.
        span: Ranks of the call, in a trace that describes all ranks.
        end: Peer of a send between two ranks. None: the call is a collective.
    """

    thread: str
    collective: str
    dtype: str
    input_elements: int | None = None
    output_elements: int | None = None
    request: int | None = None
    group_name: str = ""
    group: tuple[int, ...] = ()
    first_stride: tuple[int, int] | None = None
    group_size: int = 0
    root: int | None = None
    reduce: str = ""
    send_splits: tuple[int, ...] = ()
    receive_splits: tuple[int, ...] = ()
    splits_unknown: str = ""
    cut_group: bool = False
    bucket: bool = False
    duration_us: float | None = None
    span: CallSpan = CallSpan.ALL
    end: PeerEnd | None = None


@dataclass(frozen=True, slots=True)
class TracedWait:
    """A wait of a thread for a call. Request None: the trace does not name the call."""

    thread: str
    request: int | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Computation, or a copy, that a thread launched on a stream of the device.

    Attributes:
        thread: Host thread.
        stream: Stream of the device.
        duration_us: Duration.
        step_durations_us: Duration in each of several steps that all ranks execute together. Empty:
            the trace has one step.
    """

    thread: str
    stream: str
    duration_us: float
    step_durations_us: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A mark on a stream of the device, or a wait of a stream for it.

    Attributes:
        stream: Stream of the device.
        number: Number of the mark. It is set once, and several streams may wait for it.
        waits: True: later work on the stream waits for the work before the mark. False: the mark is
            set.
    """

    stream: str
    number: int
    waits: bool


TraceEvent = TracedCall | TracedWait | Kernel | StreamEvent


@dataclass(frozen=True, slots=True)
class RankTrace:
    """The events of one rank in one step.

    Attributes:
        source: Name of the file, for messages.
        format: Name of the reader.
        events: Events in the order in which the host issued them.
        rank: Rank. None: unknown.
        world: Number of ranks of the job. 0: unknown.
        main: Thread that runs the steps.
        step: Number of the step. None: the trace has no step markers, and the events are all of it.
        iteration_us: Duration of the step. None: unknown.
        excluded_us: Part of this duration in which the device idles and no event represents it.
        has_times: Whether computation has durations.
        assumed: Assumptions, as sentences.
        unread: Unused content of the trace, as sentences.
        shared_names: Whether group names mean the same in the traces of all ranks.
        covers_all_ranks: Whether the trace describes all ranks, which behave alike.
        model_ranks: Number of consecutive ranks that share a model in such a trace. 0: all, or
            unknown.
    """

    source: str
    format: str
    events: tuple[TraceEvent, ...]
    rank: int | None = None
    world: int = 0
    main: str = ""
    step: int | None = None
    iteration_us: float | None = None
    excluded_us: float | None = None
    has_times: bool = False
    assumed: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    shared_names: bool = False
    covers_all_ranks: bool = False
    model_ranks: int = 0

    def calls(self) -> list[TracedCall]:
        """Return the calls of collectives, in order."""
        return [event for event in self.events if isinstance(event, TracedCall)]


MAX_BYTES = 2**31
"""Largest unpacked trace, and largest sum of all traces in an archive, in bytes."""

MAX_EVENTS = 10**7
"""Largest number of events of a profiler, or nodes of a graph, in a trace."""

MAX_DEPTH = 64
"""Largest depth of nested lists in the arguments of an event."""

MAX_RANKS = 2**16
"""Largest number of ranks of a job, because each collective of a workload lists its ranks."""

_MAX_SHOWN = 16
"""Largest number of names in a line."""


def list_names(names: Sequence[str], limit: int = _MAX_SHOWN) -> str:
    """Return the first names from a file, escaped, and the number of the others."""
    shown = ", ".join(f"{name!a:.62}"[1:-1] for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


NO_MARKS = "there are no step markers: the whole trace counts as one step"


@dataclass(frozen=True, slots=True)
class StepSelection:
    """The requested step of a trace.

    Attributes:
        number: Number of the step. None: one in the middle.
        marked: Whether a trace without step markers is an error if a number is given.
        host: Whether to keep host work while the device is idle.
    """

    number: int | None = None
    marked: bool = True
    host: bool = False

    def find_index(self, numbers: list[int], where: str) -> int | None:
        """Return the index of the step among the step markers. None: use the whole trace.

        Raises:
            InputError: The step is not in the trace.
        """
        if not numbers:
            if self.number is not None and self.marked:
                raise InputError(
                    f"{where}: it has no step markers (ProfilerStep#N), so no step {self.number}: "
                    "leave --step out to read the whole trace"
                )
            return None
        if self.number is None:
            return len(numbers) // 2
        if self.number not in numbers:
            raise InputError(
                f"{where}: step {self.number} is not in it: give --step one of "
                f"{', '.join(map(str, numbers[:12]))}"
            )
        return numbers.index(self.number)


class TraceReader(Protocol):
    """A module that reads traces of one format."""

    NAME: str
    ABOUT: str
    SOURCE: str
    EXAMPLE: bytes

    def sniff(self, content: bytes) -> bool:
        """Return whether bytes are in this format."""
        ...

    def read(self, content: bytes, where: str, wanted: StepSelection) -> RankTrace:
        """Return the events of a rank in one step.

        Args:
            content: Content of the trace.
            where: Name of the trace, for messages.
            wanted: Requested step.

        Raises:
            InputError: The trace is invalid, exceeds a limit, or has no such step.
        """
        ...
