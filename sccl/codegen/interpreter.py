"""Run a program on NumPy buffers under any schedule of its blocks, and report faults.

The interpreter shares no code with the passes. It uses only the semantics of instructions and the
demand of the collective. An instruction takes two moves, its begin and its end, so two instructions
can access a slot at the same time. The schedule selects the next move. Verification runs programs
on numbers that differ for each chunk and rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sccl.codegen.buffer_layout import ALIGNMENT_BYTES, part_ranges
from sccl.codegen.ir import Address, Buffer, Instruction, Op, Program, Slot
from sccl.core.collective import Collective

Array = npt.NDArray[Any]
Chooser = Callable[[int], int]
"""Function from the number of possible moves to the index of the next one."""

REDUCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a program.

    Attributes:
        kind: ``deadlock``, ``unwritten``, ``race``, ``flag``, ``channel`` or ``wrong``.
    """

    kind: str
    message: str


Place = tuple[int, str, int]
"""(rank, buffer, index): the memory behind a slot."""


@dataclass(slots=True)
class _Access:
    """Number of current readers and writers of a place."""

    readers: int = 0
    writers: int = 0


class _Prerequisites(NamedTuple):
    """Prerequisites of an instruction. They are cached, because each move reads them.

    Attributes:
        after: Instructions of the same rank that must end first.
        flags: (rank, flag) pairs that must be set.
        entered: Rank that must enter first, because the instruction writes into its output.
    """

    after: tuple[Address, ...]
    flags: frozenset[tuple[int, int]]
    entered: int | None

    @classmethod
    def of_instruction(cls, rank: int, line: Instruction) -> _Prerequisites:
        target = line.sends()
        entered = target[0] if target and target[1].buffer is Buffer.OUTPUT else None
        return cls(line.after, frozenset((rank, flag) for flag in line.awaits()), entered)


class Interpreter:
    """The state of a run of all ranks of a program."""

    def __init__(
        self, program: Program, inputs: Sequence[Array], op: str, *, in_place: bool
    ) -> None:
        self.program = program
        self.op = REDUCTIONS[op]
        self.in_place = in_place
        self.count = _element_count(program, inputs)
        self.parts = part_ranges(self.count, program.layout.parts, inputs[0].itemsize)
        self.memory: dict[Place, Array] = {}
        self.touch: dict[Place, _Access] = defaultdict(_Access)
        self.flags: set[tuple[int, int]] = set()
        self.position = [[0] * len(rank_program.blocks) for rank_program in program.ranks]
        self.is_begun = [[False] * len(rank_program.blocks) for rank_program in program.ranks]
        self.opened = [False] * len(program.ranks)
        self.faults: list[Fault] = []
        self.aliased = [program.layout.aliased(r) if in_place else {} for r in range(len(inputs))]
        for rank, data in enumerate(inputs):
            for block in range(len(program.layout.inputs[rank])):
                for part, (first, end) in enumerate(self.parts):
                    at = self._place(rank, Slot(Buffer.INPUT, block * len(self.parts) + part))
                    base = block * self.count
                    self.memory[at] = data[base + first : base + end].copy()
        self._possible: list[list[tuple[int, int]]] = [[] for _ in program.ranks]
        self._needs = [
            [
                [_Prerequisites.of_instruction(rank, line) for line in block.instructions]
                for block in rank_program.blocks
            ]
            for rank, rank_program in enumerate(program.ranks)
        ]

    def _place(self, rank: int, slot: Slot) -> Place:
        if slot.buffer is Buffer.INPUT and slot.index in self.aliased[rank]:
            return (rank, Buffer.OUTPUT, self.aliased[rank][slot.index])
        return (rank, slot.buffer, slot.index)

    def moves(self) -> list[tuple[int, int]]:
        """Return every (rank, block) that can move, with (rank, -1) for the rank's entry."""
        entries = [(rank, -1) for rank, opened in enumerate(self.opened) if not opened]
        return list(chain(entries, *self._possible))

    def _refresh_movable(self, ranks: Iterable[int]) -> None:
        """Update the possible moves of ranks after a move of one of them or of a peer."""
        for rank in ranks:
            if self.opened[rank]:
                blocks = range(len(self.program.ranks[rank].blocks))
                self._possible[rank] = [(rank, b) for b in blocks if self._can_move(rank, b)]

    def _can_move(self, rank: int, block: int) -> bool:
        positions, needs = self.position[rank], self._needs[rank][block]
        if positions[block] == len(needs):
            return False
        if self.is_begun[rank][block]:
            return True
        after, flags, entered = needs[positions[block]]
        if not flags <= self.flags or (entered is not None and not self.opened[entered]):
            return False
        return all(positions[b] > i for b, i in after)

    def move(self, rank: int, block: int) -> None:
        """Make a move: a rank enters, or a block begins or ends its next instruction."""
        if block < 0:
            self._enter(rank)
            self._refresh_movable(range(len(self.opened)))  # any rank may wait for an entry
            return
        line = self.program.ranks[rank].blocks[block].instructions[self.position[rank][block]]
        if not self.is_begun[rank][block]:
            self.is_begun[rank][block] = True
            self._begin(rank, line)
            return  # it can move again, and no instruction waits for its begin
        self._end(rank, line)
        self.is_begun[rank][block] = False
        self.position[rank][block] += 1
        target = line.sets()
        self._refresh_movable({rank, target[0] if target else rank})

    def _enter(self, rank: int) -> None:
        for index in self.program.ranks[rank].saves if self.in_place else ():
            place = self._place(rank, Slot(Buffer.INPUT, index))
            del self.aliased[rank][index]
            self.memory[self._place(rank, Slot(Buffer.INPUT, index))] = self.memory[place].copy()
        self.opened[rank] = True

    def _written_places(self, rank: int, line: Instruction) -> list[Place]:
        if target := line.sends():
            return [self._place(*target)]
        return [self._place(rank, slot) for slot in line.writes()]

    def _accessed_places(self, rank: int, line: Instruction) -> tuple[list[Place], list[Place]]:
        """Return the places that an instruction reads and writes, none for a copy onto itself."""
        reads = [self._place(rank, slot) for slot in line.reads()]
        writes = self._written_places(rank, line)
        return ([], []) if line.op is Op.COPY and reads == writes else (reads, writes)

    def _begin(self, rank: int, line: Instruction) -> None:
        reads, writes = self._accessed_places(rank, line)
        for place in reads:
            if place not in self.memory:
                self._fault("unwritten", rank, line, place)
                self.memory[place] = np.zeros(0)
            if self.touch[place].writers and place not in writes:
                self._fault("race", rank, line, place)
            self.touch[place].readers += 1
        for place in writes:
            own_reads = reads.count(place)
            if self.touch[place].writers or self.touch[place].readers > own_reads:
                self._fault("race", rank, line, place)
            self.touch[place].writers += 1

    def _end(self, rank: int, line: Instruction) -> None:
        reads, writes = self._accessed_places(rank, line)
        data = [self.memory[place] for place in reads]
        for place in reads:
            self.touch[place].readers -= 1
        for place in writes:
            self.touch[place].writers -= 1
            reduces = line.op in (Op.REDUCE, Op.RECV_REDUCE, Op.RECV_REDUCE_SEND)
            result = data[0].copy()
            for operand in data[1:] if reduces else ():
                if result.shape == operand.shape:
                    result = self.op(result, operand).astype(result.dtype)
            self.memory[place] = result
        if target := line.sets():
            if target in self.flags:
                text = f"rank {rank} sets flag {target[1]} of rank {target[0]} a second time"
                self.faults.append(Fault("flag", text))
            self.flags.add(target)

    def _fault(self, kind: str, rank: int, line: Instruction, place: Place) -> None:
        phrase = {"unwritten": "reads what nobody wrote:", "race": "meets another access of"}[kind]
        text = (
            f"rank {rank}, step {line.step}: {line.op} of chunk {line.chunk} {phrase} "
            f"{place[1]} {place[2]} of rank {place[0]}"
        )
        self.faults.append(Fault(kind, text))

    def is_finished(self) -> bool:
        """Return whether every block has run to its end."""
        return all(self.opened) and all(
            at == len(block.instructions)
            for rank_program, positions in zip(self.program.ranks, self.position, strict=True)
            for block, at in zip(rank_program.blocks, positions, strict=True)
        )

    def output(self, rank: int) -> Array:
        """Return the output buffer of a rank, without slots that are not written."""
        slots = len(self.program.layout.outputs[rank]) * len(self.parts)
        pieces = [self.memory.get((rank, Buffer.OUTPUT, i), np.zeros(0)) for i in range(slots)]
        return np.concatenate(pieces) if pieces else np.zeros(0)


def _element_count(program: Program, inputs: Sequence[Array]) -> int:
    for data, blocks in zip(inputs, program.layout.inputs, strict=True):
        if blocks:
            return len(data) // len(blocks)
    return 0


def run_program(
    program: Program,
    inputs: Sequence[Array],
    op: str = "sum",
    *,
    choose: Chooser = lambda _: 0,
    in_place: bool = False,
) -> tuple[list[Array], list[Fault]]:
    """Run a program and return every rank's output and all faults.

    Args:
        inputs: Input of each rank: a 1-D array of its concatenated blocks, empty without input. All
            inputs have one type and one number of elements per block.
        op: ``sum``, ``prod``, ``min`` or ``max``.
        choose: Schedule: function that selects one of n possible moves.
        in_place: Whether input and output share memory, as with MPI_IN_PLACE.
    """
    interpreter = Interpreter(program, inputs, op, in_place=in_place)
    interpreter.faults += check_channels(program)
    while moves := interpreter.moves():
        interpreter.move(*moves[choose(len(moves))])
    if not interpreter.is_finished():
        stuck = sorted(
            (rank, b)
            for rank, rank_program in enumerate(program.ranks)
            for b, block in enumerate(rank_program.blocks)
            if interpreter.position[rank][b] < len(block.instructions)
        )
        text = (
            f"no block can move; first of {len(stuck)} that have not ended: rank, block {stuck[0]}"
        )
        interpreter.faults.append(Fault("deadlock", text))
    outputs = [interpreter.output(rank) for rank in range(len(inputs))]
    interpreter.faults += _output_faults(program, inputs, outputs, op)
    return outputs, interpreter.faults


def check_channels(program: Program) -> list[Fault]:
    """Return a fault for each instruction whose peer is not that of its block.

    Programs of single threads have no such faults. A reduction of several arrivals belongs to the
    block of one of them.
    """
    faults = []
    for rank, rank_program in enumerate(program.ranks):
        for (b, i), line in rank_program.instructions():
            block = rank_program.blocks[b]
            own_peer = block.send_peer if line.op is Op.SEND else block.recv_peer
            peers = [arrival.peer for arrival in line.receives()]
            peers = peers if peers or line.peer is None else [line.peer]
            if not program.serial and peers and own_peer not in peers:
                text = f"rank {rank}, block {b}, instruction {i}: {line.op} with peer {line.peer}"
                faults.append(Fault("channel", text))
    return faults


def expected_outputs(
    collective: Collective, program: Program, inputs: Sequence[Array], op: str
) -> list[Array]:
    """Compute the outputs that the collective demands from its relations alone."""
    layout, count = program.layout, _element_count(program, inputs)
    outputs = []
    for rank in range(collective.ranks):
        blocks = []
        for pattern in layout.outputs[rank]:
            sources = [
                inputs[r][(at := layout.inputs[r].index(pattern)) * count : (at + 1) * count]
                for r in sorted(collective.holders(pattern))
            ]
            total = sources[0]
            for operand in sources[1:] if collective.combining else ():
                total = REDUCTIONS[op](total, operand).astype(total.dtype)
            blocks.append(total)
        outputs.append(np.concatenate(blocks) if blocks else np.zeros(0))
    return outputs


def _output_faults(
    program: Program, inputs: Sequence[Array], outputs: Sequence[Array], op: str
) -> list[Fault]:
    wanted = expected_outputs(program.collective, program, inputs, op)
    return [
        Fault("wrong", f"rank {rank} does not end with the result of the collective")
        for rank, (got, want) in enumerate(zip(outputs, wanted, strict=True))
        if got.shape != want.shape or not np.array_equal(got, want)
    ]


_ELEMENTS = ALIGNMENT_BYTES // 8
"""Number of 64-bit elements of a part: the smallest number without empty parts."""


def find_faults(program: Program) -> list[Fault]:
    """Return the faults of a program, found by running it in two orders of its blocks."""
    return [
        fault
        for choose in (lambda _: 0, lambda many: many - 1)
        for fault in run_program(program, _test_inputs(program), choose=choose)[1]
    ]


def _test_inputs(program: Program) -> list[Array]:
    # All blocks differ, and in reductions all ranks, so a misplaced chunk changes the result.
    count = program.layout.parts * _ELEMENTS
    inputs = []
    for rank, blocks in enumerate(program.layout.inputs):
        seed = rank if program.collective.combining else 0
        data = [np.random.default_rng([p, seed]).integers(0, 2**40, count) for p in blocks]
        inputs.append(np.concatenate([np.zeros(0, np.int64), *data]))
    return inputs
