"""Graph of the steps of an external program: reads, writes, and predecessors of each step.

Formats differ in the synchronization of thread blocks: queued messages, signals, barriers. The
reader of a format translates it to dependencies between steps.
:mod:`sccl.formats.common.program_check` verifies the graph for all formats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sccl.codegen.buffer_layout import build_layout
from sccl.collectives import named_spec
from sccl.core.collective import Collective, Relation, RelationKind
from sccl.core.topology import to_ranks
from sccl.errors import TooLargeError

MAX_MOVES = 2**22
"""Largest number of moved parts of chunks of a program."""

Place = tuple[int, str, int]
"""(rank, buffer, index): memory for one chunk."""

Label = tuple[int, int]
"""(rank, index): a chunk of a rank's input."""

Content = frozenset[Label]
"""Content of a place: the sum of these chunks."""

Offsets = Mapping[tuple[int, str], int]
"""Offset in chunks of each (rank, buffer) that is part of the other buffer in an in-place call."""


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
    """A fault of a program, or of a plan in a foreign format.

    Attributes:
        kind: ``deadlock``, ``race``, ``unwritten``, ``twice``, ``missing`` or ``wrong``, or a kind
            of the judge's.
        block: Thread block of the rank, None if the fault concerns no particular one.
        step: Step of the thread block, from 0.
    """

    kind: str
    message: str
    rank: int | None
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


class ProgramDemand:
    """The demand of a program's collective, in the input and output buffers of its ranks.

    Attributes:
        is_known: Whether the collective is known. An unknown one demands nothing, and each rank
            holds the chunks of its input.
        chunks: Chunk of the collective for each chunk of an input.
        outputs: Required content of each (rank, index) of the outputs.
    """

    def __init__(self, collective: Collective | None, sizes: Sequence[tuple[int, int]]) -> None:
        """Derive the demand.

        Args:
            collective: Collective. None: unknown.
            sizes: Number of chunks of the input and of the output of each rank.

        Raises:
            TooLargeError: An unknown collective has too many chunks.
        """
        self.is_known = collective is not None
        self.collective = collective or _identity_collective([inputs for inputs, _ in sizes])
        layout = build_layout(self.collective)
        self.chunks: dict[Label, int] = {}
        holders: dict[int, list[Label]] = defaultdict(list)
        for rank, (inputs, _) in enumerate(sizes):
            for i in range(min(inputs, len(layout.inputs[rank]) * layout.parts)):
                chunk = self.chunks[rank, i] = layout.chunk_of_input(rank, i)
                holders[chunk].append((rank, i))
        content = {chunk: frozenset(labels) for chunk, labels in holders.items()}
        self.outputs = {
            (rank, i): content[layout.chunk_of_output(rank, i)]
            for rank, (_, outputs) in enumerate(sizes if self.is_known else ())
            for i in range(min(outputs, len(layout.outputs[rank]) * layout.parts))
        }

    def initial_content(self, offsets: Offsets, parts: int = 1) -> dict[Place, Content]:
        """Return the content of inputs before the run, with each chunk divided into parts."""
        return {
            aliased_place(offsets, rank, "input", i * parts + part, parts): frozenset({(rank, i)})
            for rank, i in self.chunks
            for part in range(parts)
        }

    def required_content(self, offsets: Offsets, parts: int = 1) -> dict[Place, Content]:
        """Return the content of outputs after the run, with each chunk divided into parts."""
        return {
            aliased_place(offsets, rank, "output", i * parts + part, parts): content
            for (rank, i), content in self.outputs.items()
            for part in range(parts)
        }


def build_collective(name: str, ranks: int, chunks: int, root: int | None) -> Collective:
    """Return a collective with any number of chunks of a rank's input.

    Programs of other tools need no multiple of :attr:`sccl.collectives.Spec.unit`.
    """
    spec, times = named_spec(name, ranks, root), ranks if name in {"allgather", "alltoall"} else 1
    return Collective(
        *(name, ranks, chunks, chunks * times, spec.pre, spec.post),
        combining=spec.combining,
        root=spec.root,
    )


def _identity_collective(inputs: Sequence[int]) -> Collective:
    """Return the collective in which each rank keeps the chunks of its input."""
    if sum(inputs) > MAX_MOVES:
        raise TooLargeError(f"{sum(inputs)} chunks, and up to {MAX_MOVES} are followed")
    holders = tuple(to_ranks((rank,)) for rank, count in enumerate(inputs) for _ in range(count))
    pattern = holders or (to_ranks((0,)),)
    kept = Relation(RelationKind.PAIRS, pattern=pattern)
    return Collective("custom", max(2, len(inputs)), 1, len(pattern), kept, kept)


def in_place_offsets(sizes: Sequence[tuple[int, int]]) -> Offsets:
    """Return the offsets of buffers in an in-place call.

    Args:
        sizes: Number of chunks of the input and of the output of each rank.
    """
    inside: dict[tuple[int, str], int] = {}
    for rank, (inputs, outputs) in enumerate(sizes):
        if inputs > outputs:
            inside[rank, "output"] = rank * outputs
        else:
            inside[rank, "input"] = rank * inputs if inputs < outputs else 0
    return inside


def aliased_place(offsets: Offsets, rank: int, buffer: str, index: int, parts: int = 1) -> Place:
    """Return the memory of a part of a buffer, which may be part of another buffer.

    Args:
        index: Number of the part.
        parts: Number of parts of a chunk.
    """
    offset = offsets.get((rank, buffer))
    if offset is None:
        return (rank, buffer, index)
    return (rank, "output" if buffer == "input" else "input", offset * parts + index)
