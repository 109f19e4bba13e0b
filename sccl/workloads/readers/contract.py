"""What a reader of traces is: a module of this folder.

It states ``NAME`` (as in ``--format``), ``ABOUT`` (what it reads, in a line), ``SOURCE`` (where the
format is described, and for which versions), ``EXAMPLE`` (a small trace that it reads), and has

- ``sniff(content) -> bool``: whether bytes are of this format; quick, and of any bytes;
- ``read(content, where, wanted) -> RankTrace``: what a rank did in one step of the trace. An
  :class:`~sccl.errors.InputError` says in a sentence what is wrong, and what to do.

Traces come from strangers: a reader neither hangs nor fails otherwise on any bytes, and takes no
more than the limits below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sccl.errors import InputError
from sccl.workloads.readers.rank_trace import RankTrace

MAX_BYTES = 2**31
"""Of a trace, unpacked; of all in one archive, too."""

MAX_EVENTS = 10**7
"""Of a trace: events of a profiler, or nodes of a graph."""

MAX_DEPTH = 64
"""Of lists in lists among the arguments of an event."""

MAX_RANKS = 2**16
"""Of a traced job: each collective of a workload lists its ranks."""

NO_MARKS = "there are no marks of steps: all that was traced is taken for one"


@dataclass(frozen=True, slots=True)
class WantedStep:
    """Which step is wanted of a trace.

    Attributes:
        number: None: one in the middle.
        marked: whether a trace without marks of steps is refused where a number is given.
        host: whether what the host does while the device does nothing is kept.
    """

    number: int | None = None
    marked: bool = True
    host: bool = False

    def place(self, numbers: list[int], where: str) -> int | None:
        """Return the place of the step among the marks of a trace. None: take all of it.

        Raises:
            InputError: it is not there.
        """
        if not numbers:
            if self.number is not None and self.marked:
                raise InputError(
                    f"{where}: it has no marks of steps (ProfilerStep#N), so no step "
                    f"{self.number}: leave --step out, and all of it is taken"
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

    def read(self, content: bytes, where: str, wanted: WantedStep) -> RankTrace:
        """Return what a rank did in one step.

        Args:
            where: what to call the trace in a message.

        Raises:
            InputError: it is not of this format, or larger than is read, or has no such step.
        """
        ...
