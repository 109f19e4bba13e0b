"""Define the contract of trace readers, which are the modules of this folder.

A reader defines ``NAME`` (as in ``--format``), ``ABOUT`` (its format, in a line), ``SOURCE``
(description of the format, and its versions), ``EXAMPLE`` (a small valid trace), and

- ``sniff(content) -> bool``: whether bytes are in this format. It is fast, and accepts any bytes.
- ``read(content, where, wanted) -> RankTrace``: events of a rank in one step of the trace. An
  :class:`~sccl.errors.InputError` has the fault and the remedy in a sentence.

Traces are untrusted: a reader must not hang or raise other errors on any bytes, and must obey the
limits below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sccl.errors import InputError
from sccl.training.traces.readers.rank_trace import RankTrace

MAX_BYTES = 2**31
"""Largest unpacked trace, and largest sum of all traces in an archive, in bytes."""

MAX_EVENTS = 10**7
"""Largest number of events of a profiler, or nodes of a graph, in a trace."""

MAX_DEPTH = 64
"""Largest depth of nested lists in the arguments of an event."""

MAX_RANKS = 2**16
"""Largest number of ranks of a job, because each collective of a workload lists its ranks."""

NO_MARKS = "there are no step markers: the whole trace counts as one step"


@dataclass(frozen=True, slots=True)
class StepSelection:
    """The requested step of a trace.

    Attributes:
        number: Number of the step. None: one in the middle.
        marked: Whether a trace without marks of steps is refused if a number is given.
        host: Whether host work is kept while the device is idle.
    """

    number: int | None = None
    marked: bool = True
    host: bool = False

    def find_index(self, numbers: list[int], where: str) -> int | None:
        """Return the place of the step among the marks of a trace. None: take all of it.

        Raises:
            InputError: it is not there.
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
    """A module of this folder."""

    NAME: str
    ABOUT: str
    SOURCE: str
    EXAMPLE: bytes

    def sniff(self, content: bytes) -> bool:
        """Return whether bytes are of this format."""
        ...

    def read(self, content: bytes, where: str, wanted: StepSelection) -> RankTrace:
        """Return the events of a rank in one step.

        Args:
            where: Name of the trace, for messages.

        Raises:
            InputError: It is not in this format, exceeds a limit, or has no such step.
        """
        ...
