"""Define the meaning of MSCCL++ plans: order, demand, and synchronization.

Most operations of a thread block assign words to threads freely, and threads do not wait for each
other before ``nop`` or ``barrier``. Packet operations assign the same words to the same threads.

Ranks send packets without waiting, and calls overlap: a rank may write packets of one call while
another rank still reads those of the previous call (or, if calls alternate between two halves of
scratch, of the call before the previous one). This is safe if the sender already knows that the
receiver has entered a later call. The happens-before relation decides this, so it does not depend
on speeds.

Source: ``execution_kernel.hpp``, and ``launchKernelHelper`` in ``executor.cc``, of
microsoft/mscclpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sccl.core.collective import Collective
from sccl.errors import InputError
from sccl.formats.common.program_check import completed_before, order_steps
from sccl.formats.common.program_graph import (
    GraphFault,
    GraphStep,
    Move,
    Place,
    ProgramDemand,
    build_collective,
)
from sccl.formats.mscclpp_plans.plan_file import PACKETS, WAITS, OpPart, PlanPart

PIECES = 2
"""Number of pieces of a pipeline in the model, enough that one piece meets the next."""

PORTED = frozenset({"put", "pws", "pwsf", "ppkt", "rppkt", "signal", "rlxsignal"})
"""Operations that a port executes if their channel is a port."""


@dataclass(slots=True)
class PlanLine:
    """An operation at run time. An operation of a pipeline occurs once per piece.

    Attributes:
        moves_by_target: Its moves by destination.
        port_moves: Moves that it delegates to ports.
        origin: Number of the line that delegates this to a port. -1: a thread block does it.
    """

    rank: int
    block: int
    index: int
    op: OpPart
    piece: int = 0
    pieces: int = 1
    moves: list[Move] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    never_reason: str = ""
    moves_by_target: list[list[Move]] = field(default_factory=list)
    port_moves: list[Move] = field(default_factory=list)
    origin: int = -1


def port_operations(
    lines: Sequence[PlanLine], blocks: Sequence[int]
) -> Iterator[tuple[int, int, PlanLine]]:
    """Yield the operations of the ports of each thread block, port by port, in order.

    Each comes with the number of the line that delegates it, and the place of the port among the
    channels of that line.

    A port is a host thread: it reads and writes later than its delegation, in order.

    Args:
        blocks: Number of thread blocks of each rank. Ports are numbered after them.
    """
    commands: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.op.channel_type == "port" and line.op.name in PORTED:
            for place, channel in enumerate(line.op.channel_ids):
                commands[line.rank, line.block, channel].append((number, place))
    used = list(blocks)
    for (rank, block, _), delegated in commands.items():
        for number, place in delegated:
            text = f"{lines[number].op.name} by a port of thread block {block}"
            yield number, place, PlanLine(rank, used[rank], 0, OpPart(text), origin=number)
        used[rank] += 1


def number_lines(lines: Sequence[PlanLine]) -> Iterator[tuple[int, PlanLine]]:
    """Yield lines with their indices within their thread block."""
    last, index = (-1, -2), 0
    for line in lines:
        index = index + 1 if (line.rank, line.block) == last else 0
        last = (line.rank, line.block)
        yield index, line


def unroll_pipelines(rank: int, block: int, ops: Sequence[OpPart]) -> Iterator[PlanLine]:
    """Yield the operations of a thread block. Those of pipelines occur once per piece."""
    index = 0
    for op in ops:
        if op.name != "pipeline":
            yield PlanLine(rank, block, index, op)
        for piece in range(PIECES if op.ops else 0):
            for i, inner in enumerate(op.ops):
                yield PlanLine(rank, block, index + 1 + i, inner, piece, PIECES)
        index += 1 + len(op.ops)


def build_demand(plan: PlanPart) -> ProgramDemand:
    """Return the demand of a plan's collective.

    Raises:
        TooLargeError: An unknown collective has too many chunks.
    """
    return ProgramDemand(_find_collective(plan), buffer_sizes(plan))


def buffer_sizes(plan: PlanPart) -> list[tuple[int, int]]:
    """Return the number of chunks of the input and of the output of each rank."""
    return [(gpu.input_chunks, gpu.output_chunks) for gpu in plan.gpus]


def _find_collective(plan: PlanPart) -> Collective | None:
    """Return the collective that matches a plan's buffers, None if there is none."""
    ranks, gpu = len(plan.gpus), plan.gpus[0]
    if plan.collective == "sendrecv" or ranks == 1 or len(set(buffer_sizes(plan))) > 1:
        return None
    chunks = gpu.input_chunks
    outputs = {"allgather": chunks * ranks, "reducescatter": chunks // ranks}
    blocks = {"alltoall", "reducescatter"}
    if gpu.output_chunks != outputs.get(plan.collective, chunks) or not chunks:
        return None
    if plan.collective in blocks and chunks % ranks:
        return None
    try:
        return build_collective(plan.collective, ranks, chunks, None)
    except InputError:
        return None


PACKET = "packets of scratch"
"""Name of the buffer of packets, which shares memory with the data of scratch."""


class ThreadSync:
    """The accesses of a thread block's threads since they last synchronized."""

    def __init__(self) -> None:
        self.waited = False
        self.read: set[Place] = set()
        self.written: set[Place] = set()
        self.by_packets: set[Place] = set()

    def take_operation(self, op: OpPart, moves: Sequence[Move]) -> str:
        """Process the next operation, and return its race. Empty: none."""
        if op.name in {"nop", "barrier"}:
            self.waited = False
            for touched in (self.read, self.written, self.by_packets):
                touched.clear()
            return ""
        text = ""
        reads = {p for move in moves for p in move.srcs if p[1] != PACKET}
        writes = {move.dst for move in moves if move.dst[1] != PACKET}
        if op.name in {"signal", "rlxsignal", "sem_release"} and (
            self.written or self.read or self.by_packets
        ):
            text = (
                "comes before all threads have finished the work that it signals: put nop before it"
            )
        elif moves and (reads or writes) and self.waited:
            text = "comes before all threads know that the wait is over: put nop before it"
        elif (reads & self.written or writes & (self.read | self.written)) or (
            op.name not in PACKETS and (reads | writes) & self.by_packets
        ):
            text = "touches data that other threads of the block may still use: put nop before"
        self.waited |= op.name in WAITS or op.name == "sem_acquire"
        if op.name in PACKETS:  # a thread processes the same words of these
            self.by_packets |= reads | writes
            return text
        self.read |= reads
        self.written |= writes
        return text


def find_early_packets(
    steps: Sequence[GraphStep], blocks: Sequence[int], *, halves: bool
) -> list[GraphFault]:
    """Return the packets that may arrive too early. Empty for steps with cyclic waits.

    Args:
        steps: Steps. Those before the first of any thread block begin the call, one for each rank.
        blocks: Number of thread blocks of each rank. A higher number is a port.
        halves: Whether calls alternate between two halves of scratch.
    """
    readers = _packet_readers(steps)
    order, faults = order_steps(steps)
    if not readers or faults:
        return []
    before = completed_before(steps)
    entered, left = _entry_sets(steps, order, before)
    done = [completed_by_end(steps, before, rank, many) for rank, many in enumerate(blocks)]
    early: dict[tuple[int, int], GraphFault] = {}
    for number, step in enumerate(steps):
        entered_bits = left[step.rank] if halves else entered[number]
        for place in (m.dst for m in step.moves if m.dst[1] == PACKET and m.dst[0] != step.rank):
            reader = place[0]
            safe = entered_bits >> reader & 1 or readers[place] <= done[step.rank]
            if safe or (step.rank, reader) in early:
                continue
            last = "last call but one" if halves else "last call"
            hint = "" if halves else ": use_double_scratch_buffer"
            text = (
                f"{step.name} may overwrite data at rank {reader} that it has not read yet, from "
                f"the {last}{hint}"
            )
            at = (step.rank, step.block, step.index, step.chunk)
            early[step.rank, reader] = GraphFault("overlap", text, *at)
    return list(early.values())


def completed_by_end(
    steps: Sequence[GraphStep], before: Sequence[Sequence[int]], rank: int, blocks: int
) -> set[int]:
    """Return the steps that are certainly completed when a rank's thread blocks end."""
    rank_steps = ((n, step) for n, step in enumerate(steps) if step.rank == rank)
    last = {step.block: n for n, step in rank_steps if step.block < blocks}
    left = list(last.values())
    done = set(left)
    while left:
        fresh = set(before[left.pop()]) - done
        done |= fresh
        left += fresh
    return done


def _packet_readers(steps: Sequence[GraphStep]) -> dict[Place, set[int]]:
    readers: dict[Place, set[int]] = defaultdict(set)
    for number, step in enumerate(steps):
        for move in step.moves:
            for place in move.srcs:
                if place[1] == PACKET:
                    readers[place].add(number)
    return readers


def _entry_sets(
    steps: Sequence[GraphStep], order: Sequence[int], before: Sequence[Sequence[int]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the ranks that have certainly entered, as bits: by step, and by each rank's end."""
    entered: dict[int, int] = {}
    left: dict[int, int] = defaultdict(int)
    for number in order:
        step = steps[number]
        bits = 1 << step.rank
        for source in before[number]:
            bits |= entered[source]
        entered[number] = bits
        left[step.rank] |= bits
    return entered, left
