"""Convert MSCCL programs to graphs of their steps: queues, dependencies, and contents of buffers.

The k-th sent message from one rank to another over a channel is the k-th received one. It occupies
a slot of a short queue, so a sender waits until the message one queue length earlier is consumed.
Source: the interpreter of microsoft/msccl (``src/collectives/device/msccl_interpreter.h``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sccl.collectives import named_spec
from sccl.core.collective import Collective, Relation
from sccl.core.collective import RelationKind as Kind
from sccl.core.topology import to_ranks
from sccl.formats.msccl.msccl_program import (
    BUFFERS,
    RECEIVES,
    REDUCES,
    SENDS,
    MscclProgram,
    MscclStep,
)
from sccl.formats.program_graph import (
    CallMode,
    Content,
    GraphFault,
    GraphStep,
    Label,
    Move,
    Place,
    StepGraph,
    StepProgram,
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
    demand = _Demand(program)
    modes = [
        is_in_place
        for is_in_place in (True, False)
        if _has_call_mode(program, in_place=is_in_place)
    ]
    return StepProgram(
        program.attributes.get("name", "program"),
        demand.collective(),
        {label: demand.chunk(label) for label in demand.labels()},
        tuple(_build_call_mode(program, demand, in_place=is_in_place) for is_in_place in modes),
    )


def _has_call_mode(program: MscclProgram, *, in_place: bool) -> bool:
    inside = program.attributes.get("inplace", "0") != "0"
    outside = program.attributes.get("outofplace", "0" if inside else "1") != "0"
    if not inside and not outside:
        return not in_place
    return inside if in_place else outside


class _Demand:
    """The demand of a collective, in NCCL's buffers."""

    def __init__(self, program: MscclProgram) -> None:
        self.name = COLLECTIVE_NAMES.get(program.attributes.get("coll", ""), "")
        self.ranks = program.ranks
        self.total = program.chunks
        self.has_full_buffers = self.name not in {"allgather", "reducescatter", "alltoall"}
        if self.ranks < 2 or (not self.has_full_buffers and self.total % self.ranks):
            self.name, self.has_full_buffers = "", True  # ranks have no separate blocks
        self.each = self.total if self.has_full_buffers else self.total // self.ranks
        self.root = _find_root(program, self.name)
        self.sizes = [(gpu.inputs, gpu.outputs) for gpu in program.gpus]

    def labels(self) -> list[Label]:
        return [(rank, index) for rank in range(self.ranks) for index in range(self._inputs(rank))]

    def _inputs(self, rank: int) -> int:
        if not self.name:
            return max(self.total, self.sizes[rank][0])
        return self.each if self.name == "allgather" else self.total

    def chunk(self, label: Label) -> int:
        """Return the collective's chunk of an input chunk."""
        rank, index = label
        block, part = divmod(index, self.each)
        match self.name:
            case "allgather":
                return index * self.ranks + rank
            case "reducescatter":
                return part * self.ranks + block
            case "alltoall":
                return (part * self.ranks + block) * self.ranks + rank
            case "":
                return self._first[rank] + index
        return index

    @property
    def _first(self) -> list[int]:
        """Return the number of every rank's first chunk, if ranks have separate chunks."""
        firsts = [0]
        for rank in range(self.ranks):
            firsts.append(firsts[-1] + self._inputs(rank))
        return firsts

    def collective(self) -> Collective:
        """Return the collective. For an unknown one, ranks keep their data."""
        n, each = self.ranks, self.each
        if not self.name:
            holders = tuple(to_ranks((rank,)) for rank, _ in self.labels())
            kept = Relation(Kind.PAIRS, pattern=holders)
            return Collective("custom", n, 1, len(holders), kept, kept)
        spec = named_spec(self.name, n, self.root if self.name in ROOTED else None)
        chunks = n * each if self.name in {"alltoall", "reducescatter"} else each
        in_all = {"allgather": n * each, "alltoall": n * n * each}.get(self.name, chunks)
        return Collective(
            *(spec.name, n, chunks, in_all, spec.pre, spec.post),
            combining=spec.combining,
            root=spec.root,
        )

    def place(self, rank: int, buffer: str, index: int, *, in_place: bool) -> Place:
        """Return the memory of a buffer's chunk. In place, output and input share memory."""
        if in_place and buffer == "input":
            match self.name:
                case "allgather":
                    return (rank, "output", rank * self.each + index)
                case "allreduce" | "alltoall" | "broadcast" | "reduce":
                    return (rank, "output", index)
        if in_place and buffer == "output" and self.name == "reducescatter":
            return (rank, "input", rank * self.each + index)
        return (rank, buffer, index)

    def initial(self, *, in_place: bool) -> dict[Place, Content]:
        return {
            self.place(rank, "input", index, in_place=in_place): frozenset({(rank, index)})
            for rank, index in self.labels()
            if self.name != "broadcast" or rank == self.root
        }

    def demand(self, *, in_place: bool) -> dict[Place, Content]:
        """Return the required contents of buffers at the end."""
        outputs = self.each if self.name == "reducescatter" else self.total
        everyone = range(self.ranks)
        contents: dict[Place, Content] = {}
        for rank in everyone if self.name else ():
            if self.name == "reduce" and rank != self.root:
                continue
            for index in range(outputs):
                place = self.place(rank, "output", index, in_place=in_place)
                contents[place] = self._output_content(rank, index)
        return contents

    def _output_content(self, rank: int, index: int) -> Content:
        block, part = divmod(index, self.each)
        everyone = range(self.ranks)
        match self.name:
            case "allgather":
                return frozenset({(block, part)})
            case "alltoall":
                return frozenset({(block, rank * self.each + part)})
            case "broadcast":
                return frozenset({(self.root, index)})
            case "reducescatter":
                return frozenset((r, rank * self.each + index) for r in everyone)
        return frozenset((r, index) for r in everyone)


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


def _build_call_mode(program: MscclProgram, demand: _Demand, *, in_place: bool) -> CallMode:
    builder = _GraphBuilder(program, demand, in_place=in_place)
    builder.build()
    initial, wanted = demand.initial(in_place=in_place), demand.demand(in_place=in_place)
    graph = StepGraph(tuple(builder.steps), initial, wanted)
    name = "in place" if in_place else "out of place"
    return CallMode(name, graph, tuple(builder.faults))


class _GraphBuilder:
    def __init__(self, program: MscclProgram, demand: _Demand, *, in_place: bool) -> None:
        self.program = program
        self.demand = demand
        self.in_place = in_place
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
        return self.demand.place(rank, BUFFERS[at[0]], at[1] + j, in_place=self.in_place)

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
