"""Convert MSCCL programs to graphs of their steps: queues, dependencies, and contents of buffers.

The k-th sent message from one rank to another over a channel is the k-th received one. It occupies
a slot of a short queue, so a sender waits until the message one queue length earlier is consumed.
Source: the interpreter of microsoft/msccl (``src/collectives/device/msccl_interpreter.h``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sccl.core.collective import Collective
from sccl.formats.common.program_graph import (
    CallMode,
    GraphFault,
    GraphStep,
    Move,
    Offsets,
    Place,
    ProgramDemand,
    StepGraph,
    StepProgram,
    aliased_place,
    build_collective,
    in_place_offsets,
)
from sccl.formats.msccl.msccl_program import (
    BUFFERS,
    RECEIVES,
    REDUCES,
    SENDS,
    MscclProgram,
    MscclStep,
)

SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}
"""Number of messages in a queue: NCCL_STEPS is 8, and a chunk of Simple takes MSCCL_CHUNKSTEPS = 4.
"""

COLLECTIVE_NAMES = {"reduce_scatter": "reducescatter", "reducescatter": "reducescatter"} | {
    name: name for name in ("allgather", "allreduce", "alltoall", "broadcast", "reduce")
}
"""Collectives with a known result, by their spelling."""

ROOTED = frozenset({"broadcast", "reduce"})

QUEUE = "queue "
"""Prefix of the names of buffers that are queues."""


def build_graph(program: MscclProgram) -> StepProgram:
    """Return the behavior of a program, for each permitted way to call it."""
    collective = _find_collective(program)
    sizes = _buffer_sizes(program, collective)
    demand = ProgramDemand(collective, sizes)
    offsets = in_place_offsets(sizes) if demand.is_known else {}
    return StepProgram(
        program.attributes.get("name", "program"),
        demand.collective,
        demand.chunks,
        tuple(
            _build_call_mode(program, demand, name, aliases)
            for name, aliases in (("in place", offsets), ("out of place", {}))
            if _has_call_mode(program, in_place=name == "in place")
        ),
    )


def _has_call_mode(program: MscclProgram, *, in_place: bool) -> bool:
    inside = program.attributes.get("inplace", "0") != "0"
    outside = program.attributes.get("outofplace", "0" if inside else "1") != "0"
    if not inside and not outside:
        return not in_place
    return inside if in_place else outside


def _find_collective(program: MscclProgram) -> Collective | None:
    """Return the collective of a program, None if it is unknown."""
    name = COLLECTIVE_NAMES.get(program.attributes.get("coll", ""), "")
    ranks, total = program.ranks, program.chunks
    has_blocks = name in {"allgather", "alltoall", "reducescatter"}
    if not name or ranks < 2 or (has_blocks and total % ranks):
        return None
    chunks = total // ranks if name == "allgather" else total
    root = _find_root(program, name) if name in ROOTED else None
    return build_collective(name, ranks, chunks, root)


def _buffer_sizes(program: MscclProgram, collective: Collective | None) -> list[tuple[int, int]]:
    """Return the number of chunks of the input and of the output of each rank."""
    total = program.chunks
    if collective is None:
        return [(max(total, gpu.inputs), gpu.outputs) for gpu in program.gpus]
    block = total // program.ranks
    inputs = block if collective.name == "allgather" else total
    return [(inputs, block if collective.name == "reducescatter" else total)] * program.ranks


def _find_root(program: MscclProgram, name: str) -> int:
    """Return the root: the only rank that receives nothing, or (for reduce) sends nothing."""
    ends = {"broadcast": RECEIVES, "reduce": SENDS}.get(name, frozenset())
    busy = {
        rank
        for rank, _, block in program.blocks()
        if any(step.type in ends for step in block.steps)
    }
    idle = [rank for rank in range(program.ranks) if rank not in busy]
    return idle[0] if len(idle) == 1 else 0


@dataclass(slots=True)
class _Queue:
    """Messages of a pair of ranks over a channel: numbers of steps, in order."""

    sends: list[int] = field(default_factory=list)
    receives: list[int] = field(default_factory=list)


def _build_call_mode(
    program: MscclProgram, demand: ProgramDemand, name: str, offsets: Offsets
) -> CallMode:
    builder = _GraphBuilder(program, offsets)
    builder.build()
    content = demand.initial_content(offsets), demand.required_content(offsets)
    return CallMode(name, StepGraph(tuple(builder.steps), *content), tuple(builder.faults))


class _GraphBuilder:
    def __init__(self, program: MscclProgram, offsets: Offsets) -> None:
        self.program = program
        self.offsets = offsets
        self.slots = SLOTS.get(program.attributes.get("proto", ""), 2)
        self.steps: list[GraphStep] = []
        self.faults: list[GraphFault] = []
        self.number: dict[tuple[int, int, int], int] = {}
        self.queues: dict[tuple[int, int, int], _Queue] = defaultdict(_Queue)

    def build(self) -> None:
        """Number the steps, match messages, then record actions and dependencies of each step."""
        raw = [
            (rank, b, s, step)
            for rank, b, block in self.program.blocks()
            for s, step in enumerate(block.steps)
        ]
        self.number = {(rank, b, s): n for n, (rank, b, s, _) in enumerate(raw)}
        arrives: dict[int, tuple[tuple[int, int, int], int]] = {}
        leaves: dict[int, tuple[tuple[int, int, int], int]] = {}
        for n, (rank, b, _, step) in enumerate(raw):
            block = self.program.gpus[rank].blocks[b]
            if step.type in RECEIVES and block.recv >= 0:
                key = (block.recv, rank, block.channel)
                arrives[n] = (key, len(self.queues[key].receives))
                self.queues[key].receives.append(n)
            if step.type in SENDS and block.send >= 0:
                key = (rank, block.send, block.channel)
                leaves[n] = (key, len(self.queues[key].sends))
                self.queues[key].sends.append(n)
        for n, (rank, b, s, step) in enumerate(raw):
            after, never = self._step_dependencies(rank, step, arrives.get(n), leaves.get(n))
            moves = self._step_moves(rank, step, arrives.get(n), leaves.get(n))
            chunk = max(step.src[1], step.dst[1]) if step.src[1] < 0 else step.src[1]
            known_chunk = chunk if chunk >= 0 else None
            self.steps.append(GraphStep(rank, b, s, step.type, known_chunk, moves, after, never))
        self._check_matching(raw)

    def _step_dependencies(
        self,
        rank: int,
        step: MscclStep,
        arrives: tuple[tuple[int, int, int], int] | None,
        leaves: tuple[tuple[int, int, int], int] | None,
    ) -> tuple[tuple[int, ...], str]:
        after: list[int] = []
        if step.type in RECEIVES:
            if arrives is None:
                return (), "receives, but its thread block has no source"
            (src, _, channel), k = arrives
            queue = self.queues[arrives[0]]
            if k >= len(queue.sends):
                text = f"waits for message {k} of rank {src} over channel {channel}, which "
                return (), text + f"sends {len(queue.sends)}"
            after.append(queue.sends[k])
        if step.type in SENDS:
            if leaves is None:
                return (), "sends, but its thread block has no destination"
            queue, k = self.queues[leaves[0]], leaves[1]
            if k >= self.slots:
                if k - self.slots >= len(queue.receives):
                    text = f"waits for a slot of the queue to rank {leaves[0][1]} over channel "
                    return (), text + f"{leaves[0][2]}, of which {self.slots} stay full"
                after.append(queue.receives[k - self.slots])
        if step.dep is not None:
            return self._add_dependency(rank, step.dep, after)
        return tuple(after), ""

    def _add_dependency(
        self, rank: int, dep: tuple[int, int], after: list[int]
    ) -> tuple[tuple[int, ...], str]:
        """Add a dependency on the first signaling step at or after ``dep``."""
        blocks = self.program.gpus[rank].blocks
        block, index = dep
        if block >= len(blocks) or not 0 <= index < len(blocks[block].steps):
            return (), f"waits for thread block {block}, step {index}, which does not exist"
        for s in range(index, len(blocks[block].steps)):
            if blocks[block].steps[s].signals:
                return (*after, self.number[rank, block, s]), ""
        return (
            (),
            f"waits for thread block {block}, step {index}, which sends no signal (hasdep is 0)",
        )

    def _step_moves(
        self,
        rank: int,
        step: MscclStep,
        arrives: tuple[tuple[int, int, int], int] | None,
        leaves: tuple[tuple[int, int, int], int] | None,
    ) -> tuple[Move, ...]:
        moves: list[Move] = []
        for j in range(step.count if step.type != "nop" else 0):
            src = self._place(rank, step.src, j)
            dst = self._place(rank, step.dst, j)
            come = None if arrives is None else _queue_place(*arrives, j)
            gone = None if leaves is None else _queue_place(*leaves, j)
            value = _operands(step.type, src, dst, come)
            if step.type in {"r", "rcs", "rrc", "rrcs", "re", "cpy"} and (dst,) != value:
                moves.append(Move(dst, value))
            if step.type in SENDS and gone is not None:
                moves.append(Move(gone, value))
        return tuple(moves)

    def _place(self, rank: int, at: tuple[str, int], j: int) -> Place:
        return aliased_place(self.offsets, rank, BUFFERS[at[0]], at[1] + j)

    def _check_matching(self, raw: list[tuple[int, int, int, MscclStep]]) -> None:
        """Record faults for messages that are never received, or received with another size."""
        for (_, dst, channel), queue in sorted(self.queues.items()):
            for n in queue.sends[len(queue.receives) :]:
                text = f"is never received by rank {dst} over channel {channel}"
                self._add_fault("unreceived", n, text)
            for n, m in zip(queue.sends, queue.receives, strict=False):
                if raw[n][3].count != raw[m][3].count:
                    text = f"sends {raw[n][3].count} chunks, and {self.steps[m].name} takes "
                    self._add_fault("count", n, text + f"{raw[m][3].count}")

    def _add_fault(self, kind: str, number: int, text: str) -> None:
        s = self.steps[number]
        fault = GraphFault(kind, f"{s.name} {text}", s.rank, s.block, s.index, s.chunk)
        self.faults.append(fault)


def _operands(kind: str, src: Place, dst: Place, come: Place | None) -> tuple[Place, ...]:
    """Return the operands of a reduction step, in order."""
    if kind == "re":
        return (dst, src)
    if come is None:
        return (src,)
    return (src, come) if kind in REDUCES else (come,)


def _queue_place(key: tuple[int, int, int], k: int, j: int) -> Place:
    src, dst, channel = key
    return (dst, f"{QUEUE}{src} {channel} {k}", j)
