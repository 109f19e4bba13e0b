"""Graph of the steps of an external program: reads, writes, and predecessors of each step.

Formats differ in the synchronization of thread blocks: queued messages, signals, barriers. The
reader of a format translates it to dependencies between steps. :mod:`sccl.formats.program_check`
verifies the graph for all formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sccl.core.collective import Collective

Place = tuple[int, str, int]
"""(rank, buffer, index): memory for one chunk."""

Label = tuple[int, int]
"""(rank, index): a chunk of a rank's input."""

Content = frozenset[Label]
"""Content of a place: the sum of these chunks."""


@dataclass(frozen=True, slots=True)
class Move:
    """Write the sum of ``srcs`` to ``dst``, which for one source is a copy."""

    dst: Place
    srcs: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class GraphStep:
    """A step of a thread block, which begins after the block's previous step.

    Attributes:
        block: Number of the thread block. Negative for events such as the start of a call.
        operation: Operation in the terms of the format.
        chunk: First chunk of the operation in the numbering of the format, None without a chunk.
        moves: Data movements, all of which read before any of them writes.
        after: Numbers of the steps of other blocks that have to end before it begins.
        never_reason: Reason why it never begins, otherwise empty.
    """

    rank: int
    block: int
    index: int
    operation: str
    chunk: int | None
    moves: tuple[Move, ...] = ()
    after: tuple[int, ...] = ()
    never_reason: str = ""

    @property
    def name(self) -> str:
        """Return its position in the program, for messages."""
        if self.block < 0:
            return f"the {self.operation} of rank {self.rank}"
        return f"rank {self.rank}, thread block {self.block}, step {self.index} ({self.operation})"


@dataclass(frozen=True, slots=True)
class StepGraph:
    """A program and its demand.

    Attributes:
        steps: All steps, in order and grouped by thread block.
        initial: Content of places before the run.
        demand: Required content of places after the run.
    """

    steps: tuple[GraphStep, ...]
    initial: Mapping[Place, Content]
    demand: Mapping[Place, Content]


@dataclass(frozen=True, slots=True)
class GraphFault:
    """A fault of a program.

    Attributes:
        kind: ``deadlock``, ``race``, ``unwritten``, ``twice``, ``missing`` or ``wrong``.
        block: Thread block of the rank, None if the fault concerns no particular one.
        step: Step of the thread block, from 0.
    """

    kind: str
    message: str
    rank: int
    block: int | None = None
    step: int | None = None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class ProgramTransfer:
    """A transfer from a place of one rank to a place of another.

    Attributes:
        index: Index of the destination.
        sent: Time of its read, counted in the order of the run.
        used: Time of its first use: a copy, a send, or an addition. Later than ``sent``.
        content: Chunks that it carried.
        reduced: Whether it was added to other content.
    """

    src: int
    dst: int
    index: int
    sent: int
    used: int
    content: Content
    reduced: bool


@dataclass(frozen=True, slots=True)
class CallMode:
    """A program in one mode of a call.

    Attributes:
        name: ``in place`` or ``out of place``.
        faults: Faults that are known without a run, such as messages without a receiver.
    """

    name: str
    graph: StepGraph
    faults: tuple[GraphFault, ...] = ()


@dataclass(frozen=True, slots=True)
class StepProgram:
    """A program that was read from a file, in every mode of a call.

    Attributes:
        collective: Collective of the program. If the file has none, only its precondition is known.
        chunks: Chunk of the collective for each chunk of an input.
        call_modes: The program in place and out of place.
    """

    name: str
    collective: Collective
    chunks: Mapping[Label, int]
    call_modes: tuple[CallMode, ...]
