"""A program of anybody as the graph of its steps: what each reads and writes, and what it awaits.

Formats of others differ in how thread blocks tell one another that something is done: messages that
queue, signals, barriers. Whoever reads one knows which step awaits which, and says so here; what
is common to all is judged in :mod:`sccl.formats.program_check`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sccl.core.collective import Collective

Place = tuple[int, str, int]
"""(rank, buffer, index): room for one chunk."""

Label = tuple[int, int]
"""(rank, index): a chunk of a rank's input."""

Content = frozenset[Label]
"""What a place holds: the sum of these chunks."""


@dataclass(frozen=True, slots=True)
class Move:
    """``dst`` becomes the sum of ``srcs``: of one a copy."""

    dst: Place
    srcs: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class GraphStep:
    """A step of a thread block; it begins when the block's step before it is done.

    Attributes:
        block: negative: what no thread block does, as the start of a call.
        operation: its operation, as its format calls it.
        chunk: the first that it is about, as its format counts them; None: of none.
        moves: all read before any of them writes.
        after: numbers of steps of others that are done before it begins.
        never_reason: why it does not begin at all; empty: it does.
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
        """Return where it stands."""
        if self.block < 0:
            return f"the {self.operation} of rank {self.rank}"
        return f"rank {self.rank}, thread block {self.block}, step {self.index} ({self.operation})"


@dataclass(frozen=True, slots=True)
class StepGraph:
    """A program, and what it is to bring about.

    Attributes:
        steps: those of a thread block one after the other, in order.
        initial: what places hold before.
        demand: what they are to hold afterwards.
    """

    steps: tuple[GraphStep, ...]
    initial: Mapping[Place, Content]
    demand: Mapping[Place, Content]


@dataclass(frozen=True, slots=True)
class GraphFault:
    """What is wrong with a program.

    Attributes:
        kind: ``deadlock``, ``race``, ``unwritten``, ``twice``, ``missing`` or ``wrong``.
        block: a thread block of the rank; None: of none in particular.
        step: of the thread block, from 0.
    """

    kind: str
    message: str
    rank: int
    block: int | None = None
    step: int | None = None
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class ProgramTransfer:
    """What went from a place of one rank to one of another, and when it was first used there.

    Attributes:
        index: of the place that it came to.
        sent: when it was read, counted in the order of the run.
        used: when it was copied, sent on or added to what is there; later than it was sent.
        content: what it carried.
        reduced: whether it was added to something.
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
    """A program as it runs in one way of calling it.

    Attributes:
        name: that way: ``in place`` or ``out of place``.
        faults: what was wrong before it could be run: messages that nobody takes, and such.
    """

    name: str
    graph: StepGraph
    faults: tuple[GraphFault, ...] = ()


@dataclass(frozen=True, slots=True)
class StepProgram:
    """A program that was read: what it does in each way of calling it.

    Attributes:
        collective: what it is for; of one that is not stated, who begins with what alone.
        chunks: which chunk of the collective each chunk of an input is.
    """

    name: str
    collective: Collective
    chunks: Mapping[Label, int]
    call_modes: tuple[CallMode, ...]
