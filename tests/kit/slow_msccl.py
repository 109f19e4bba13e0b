"""An independent run of an MSCCL program: thread blocks move by chance, on sums of powers of two.

Knows nothing of the graph that the reader makes: queues are lists of few slots, memory is a
dictionary, and a step takes two moves, so that reads and writes of others can fall between.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque

from sccl.formats.msccl.msccl_program import MscclBlock, MscclProgram, MscclStep

Numbers = dict[tuple[int, str, int], int]


SENDS = {"s", "rcs", "rrs", "rrcs"}
RECEIVES = {"r", "rcs", "rrs", "rrc", "rrcs"}
KEEPS = {"r", "rcs", "rrc", "rrcs", "re", "cpy"}


class Run:
    """A program in the middle of a run."""

    def __init__(self, program: MscclProgram, slots: int, *, in_place: bool) -> None:
        self.program = program
        self.slots = slots
        self.in_place = in_place
        self.name, total = program.attributes["coll"], program.chunks
        per_rank = self.name in {"allgather", "reduce_scatter", "reducescatter"}
        self.each = total // program.ranks if per_rank else total
        self.memory: Numbers = {}
        for rank in range(program.ranks):
            for index in range(self.each if self.name == "allgather" else total):
                self.memory[self.where(rank, "i", index)] = 1 << (rank * total + index)
        self.queues: dict[tuple[int, int, int], deque[list[int]]] = defaultdict(deque)
        self.blocks = {(r, b): block for r, b, block in program.blocks()}
        self.at = dict.fromkeys(self.blocks, 0)
        self.ahead: dict[tuple[int, int], list[int]] = {}

    def where(self, rank: int, buffer: str, index: int) -> tuple[int, str, int]:
        """Return the memory of a chunk."""
        if not self.in_place or buffer != "i":
            return (rank, buffer, index)
        if "scatter" in self.name:
            own = index // self.each == rank
            return (rank, "o", index - rank * self.each) if own else (rank, "i", index)
        return (rank, "o", index + (rank * self.each if self.name == "allgather" else 0))

    def moves(self) -> list[tuple[int, int]]:
        """Return the thread blocks that can begin or end a step."""
        return [
            key
            for key, block in self.blocks.items()
            if key in self.ahead or (self.at[key] < len(block.steps) and self.ready(*key))
        ]

    def ready(self, rank: int, number: int) -> bool:
        """Return whether a thread block's next step may begin."""
        block = self.blocks[rank, number]
        step = block.steps[self.at[rank, number]]
        if step.dep is not None:
            other = self.blocks[rank, step.dep[0]].steps
            told = next((k for k in range(step.dep[1], len(other)) if other[k].signals), len(other))
            if self.at[rank, step.dep[0]] <= told:
                return False
        if step.type in RECEIVES and not self.queues[block.recv, rank, block.channel]:
            return False
        full = len(self.queues[rank, block.send, block.channel]) >= self.slots
        return step.type not in SENDS or not full

    def move(self, rank: int, number: int) -> None:
        """Let a thread block do the reads of its step, or then its writes."""
        block = self.blocks[rank, number]
        step = block.steps[self.at[rank, number]]
        there = [self.where(rank, step.dst[0], step.dst[1] + j) for j in range(step.count)]
        if (rank, number) not in self.ahead:
            self.ahead[rank, number] = self.values(rank, block, step, there)
            return
        values = self.ahead.pop((rank, number))
        if step.type in RECEIVES:
            self.queues[block.recv, rank, block.channel].popleft()
        if step.type in KEEPS:
            self.memory.update(zip(there, values, strict=False))
        if step.type in SENDS:
            self.queues[rank, block.send, block.channel].append(values)
        self.at[rank, number] += 1

    def values(
        self, rank: int, block: MscclBlock, step: MscclStep, there: list[tuple[int, str, int]]
    ) -> list[int]:
        """Return the result of a step."""
        here = [self.where(rank, step.src[0], step.src[1] + j) for j in range(step.count)]
        own = [self.memory.get(place, 0) for place in here]
        if step.type == "re":
            return [a + self.memory.get(p, 0) for a, p in zip(own, there, strict=True)]
        if step.type not in RECEIVES:
            return own
        came = self.queues[block.recv, rank, block.channel][0]
        if step.type in {"r", "rcs"}:
            return came
        return [a + b for a, b in zip(own, came, strict=False)]


def outcome(program: MscclProgram, seed: int, slots: int, *, in_place: bool) -> Numbers | None:
    """Return the final outputs of a run, or None after a deadlock.

    A chunk of a rank's input is the power of two of its index among all chunks.
    """
    draw = random.Random(seed)  # noqa: S311 - the same run every time
    run = Run(program, slots, in_place=in_place)
    while moves := run.moves():
        run.move(*draw.choice(moves))
    if any(run.at[key] < len(block.steps) for key, block in run.blocks.items()):
        return None
    return {
        (rank, "o", index): run.memory.get(run.where(rank, "o", index), 0)
        for rank in range(program.ranks)
        for index in range(run.each if "scatter" in run.name else program.chunks)
    }


def wanted(program: MscclProgram, root: int) -> Numbers:
    """Return the expected outputs, for a reduce only the root's."""
    name, n, total = program.attributes["coll"], program.ranks, program.chunks
    each = total // n
    found: Numbers = {}
    for rank in range(n):
        for index in range(each if "scatter" in name else total):
            if name in {"allreduce", "reduce"}:
                value = sum(1 << (r * total + index) for r in range(n))
            elif name == "broadcast":
                value = 1 << (root * total + index)
            elif name == "allgather":
                value = 1 << (index // each * total + index % each)
            elif name == "alltoall":
                value = 1 << (index // each * total + rank * each + index % each)
            else:
                value = sum(1 << (r * total + rank * each + index) for r in range(n))
            if name != "reduce" or rank == root:
                found[rank, "o", index] = value
    return found


def runs_correctly(program: MscclProgram, root: int, seed: int, *, in_place: bool) -> bool:
    """Return whether a run ends with the expected outputs."""
    slots = 2 if program.attributes["proto"] == "Simple" else 8
    got = outcome(program, seed, slots, in_place=in_place)
    return got is not None and all(got[place] == v for place, v in wanted(program, root).items())
