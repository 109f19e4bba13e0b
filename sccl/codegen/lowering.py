"""Lower an algorithm to a naive program, which the passes improve.

The first stage finds the moved values: static single assignment over (chunk, rank). Verification
defines a run in the same way: all sends of a step carry the values that senders had before it.

Each end of a link has one block, and local copies have another one. Each arrival has its own
scratch slot. Receipt and reduction are separate instructions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from sccl.codegen.buffer_layout import BufferLayout, build_layout
from sccl.codegen.hazards import find_dependencies, protect_remote_writes
from sccl.codegen.ir import (
    Address,
    Block,
    Buffer,
    Instruction,
    Landing,
    Op,
    Program,
    RankProgram,
    Slot,
)
from sccl.core.algorithm import Algorithm, Send
from sccl.judge import require_valid

BlockKey = tuple[str, int]
"""("send", peer), ("recv", peer) or ("local", 0)."""


def lower(algorithm: Algorithm, landing: Landing) -> Program:
    """Lower an algorithm to a program without optimizations.

    Args:
        landing: Buffer into which senders write arrivals that belong into the output.

    Raises:
        JudgeError: The algorithm fails verification.
    """
    require_valid(algorithm, "the file or its maker")
    writer = _ProgramWriter(algorithm, landing)
    writer.write()
    ranks = tuple(writer.rank_program(r) for r in range(algorithm.topology.ranks))
    program = Program(
        name=algorithm.topology.name,
        collective=algorithm.collective,
        layout=writer.layout,
        steps=algorithm.steps,
        landing=landing,
        ranks=ranks,
    )
    return protect_remote_writes(program)


@dataclass(slots=True)
class _Places:
    """Slots of values.

    Attributes:
        home: Slot of each value from which its users read it.
        landing: Slot of each arrival that its sender writes.
        scratch: Number of allocated scratch slots of each rank.
    """

    home: dict[int, Slot] = field(default_factory=dict)
    landing: dict[int, Slot] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def fresh(self, rank: int) -> Slot:
        self.scratch[rank] += 1
        return Slot(Buffer.SCRATCH, self.scratch[rank] - 1)


class _ProgramWriter:
    def __init__(self, algorithm: Algorithm, landing: Landing) -> None:
        self.algorithm = algorithm
        self.landing = landing
        self.layout: BufferLayout = build_layout(algorithm.collective)
        self.trace: ValueTrace = trace_values(algorithm)
        self.places = _assign_places(algorithm, self.layout, self.trace, landing)
        self.code: list[list[tuple[BlockKey, Instruction]]] = [
            [] for _ in range(algorithm.topology.ranks)
        ]
        self.flags: dict[int, int] = defaultdict(int)

    def write(self) -> None:
        """Generate every rank's instructions in a topological order of their dependencies."""
        for number, value in enumerate(self.trace.values):
            if not self.trace.needed[number]:
                continue
            if value.arrived_from is not None:
                self._transfer(number, value, value.arrived_from)
            elif value.operands is not None:
                self._reduce(number, value, value.operands)
        for (chunk, rank), number in sorted(self.trace.final.items()):
            if rank in self.algorithm.collective.destinations(chunk):
                self._deliver(number, self.trace.values[number])

    def rank_program(self, rank: int) -> RankProgram:
        serial = sorted(self.code[rank], key=lambda item: item[1].order)
        blocks: dict[BlockKey, list[Instruction]] = {key: [] for key in sorted(dict(serial))}
        number = {key: b for b, key in enumerate(blocks)}
        address: list[Address] = []
        earlier = find_dependencies([i for _, i in serial], self.layout.unmoved_in_place(rank))
        for (key, instruction), sources in zip(serial, earlier, strict=True):
            after = sorted(address[s] for s in sources if address[s][0] != number[key])
            address.append((number[key], len(blocks[key])))
            blocks[key].append(instruction.with_dependencies(tuple(after)))
        return RankProgram(
            tuple(
                Block(
                    peer if kind == "send" else None,
                    peer if kind == "recv" else None,
                    tuple(instructions),
                )
                for (kind, peer), instructions in blocks.items()
            ),
            self.places.scratch[rank],
            self.flags[rank],
        )

    def _transfer(self, number: int, value: SsaValue, source: int) -> None:
        src, dst = self.trace.values[source].rank, value.rank
        flag = self.flags[dst]
        self.flags[dst] += 1
        landing = self.places.landing[number]
        push = Instruction(
            Op.SEND,
            value.step,
            value.chunk,
            peer=dst,
            src=self.places.home[source],
            dst=landing,
            flag=flag,
        )
        self.code[src].append((("send", dst), push))
        await_ = Instruction(Op.RECV, value.step, value.chunk, peer=src, dst=landing, flag=flag)
        self.code[dst].append((("recv", src), await_))
        if self.places.home[number] != landing:
            copy = Instruction(
                Op.COPY, value.step, value.chunk, src=landing, dst=self.places.home[number]
            )
            self.code[dst].append((("recv", src), copy))

    def _reduce(self, number: int, value: SsaValue, operands: tuple[int, int]) -> None:
        older, arrival = operands
        source = self.trace.values[arrival].arrived_from
        assert source is not None
        instruction = Instruction(
            Op.REDUCE,
            value.step,
            value.chunk,
            src=self.places.home[older],
            other=self.places.home[arrival],
            dst=self.places.home[number],
        )
        sender = self.trace.values[source].rank
        self.code[value.rank].append((("recv", sender), instruction))

    def _deliver(self, number: int, value: SsaValue) -> None:
        wanted = Slot(Buffer.OUTPUT, self.layout.output_index(value.rank, value.chunk))
        home = self.places.home[number]
        if home != wanted:
            copy = Instruction(Op.COPY, max(value.step, 0), value.chunk, src=home, dst=wanted)
            self.code[value.rank].append((("local", 0), copy))


def _assign_places(
    algorithm: Algorithm, layout: BufferLayout, traced: ValueTrace, landing: Landing
) -> _Places:
    """Assign a home to every needed value and a landing slot to every arrival."""
    places = _Places()
    consumed = {
        value.operands[1]
        for value, needed in zip(traced.values, traced.needed, strict=True)
        if needed and value.operands is not None
    }
    last_read = _last_reads(traced)
    in_output: dict[tuple[int, int], int] = {}  # last step that reads an output slot
    for number, value in enumerate(traced.values):
        if not traced.needed[number]:
            continue
        rank, chunk = value.rank, value.chunk
        wanted = rank in algorithm.collective.destinations(chunk)
        output = Slot(Buffer.OUTPUT, layout.output_index(rank, chunk)) if wanted else None
        if value.operands is not None:
            home = output or _choose_slot(places, value.operands)
        elif value.arrived_from is None:
            home = Slot(Buffer.INPUT, layout.input_index(rank, chunk))
        else:
            is_own = number not in consumed and output is not None
            # A value that is still read in the step of the arrival must not be overwritten by it.
            direct = landing is Landing.OUTPUT and in_output.get((rank, chunk), -1) < value.step
            places.landing[number] = output if is_own and direct and output else places.fresh(rank)
            home = output if is_own and output else places.landing[number]
        places.home[number] = home
        if home == output:
            in_output[rank, chunk] = max(in_output.get((rank, chunk), -1), last_read[number])
    return places


def _choose_slot(places: _Places, operands: tuple[int, int]) -> Slot:
    # A partial result stays in its former slot unless that is input, which is read-only.
    older, arrival = (places.home[o] for o in operands)
    return older if older.buffer is Buffer.SCRATCH else arrival


def _last_reads(traced: ValueTrace) -> list[int]:
    last = [-1] * len(traced.values)
    for number, value in enumerate(traced.values):
        if traced.needed[number]:
            for source in value.sources():
                last[source] = max(last[source], value.step)
    return last


@dataclass(frozen=True, slots=True)
class SsaValue:
    """A chunk, or a partial result of it, on one rank.

    Attributes:
        step: Step that creates it, -1 for input.
        arrived_from: Value whose send created it, None if it did not arrive.
        operands: The two values whose reduction created it, the older first, or None.
    """

    rank: int
    chunk: int
    step: int
    arrived_from: int | None = None
    operands: tuple[int, int] | None = None

    def sources(self) -> tuple[int, ...]:
        """Return the values from which it is computed."""
        return self.operands or (() if self.arrived_from is None else (self.arrived_from,))


@dataclass(slots=True)
class ValueTrace:
    """All values of an algorithm, in topological order.

    Attributes:
        final: Value of every (chunk, rank) at the end of the algorithm.
        needed: Whether each value contributes to the postcondition.
    """

    values: list[SsaValue] = field(default_factory=list)
    final: dict[tuple[int, int], int] = field(default_factory=dict)
    needed: list[bool] = field(default_factory=list)

    def add(self, value: SsaValue) -> int:
        """Append a value and return its number."""
        self.values.append(value)
        return len(self.values) - 1


def trace_values(algorithm: Algorithm) -> ValueTrace:
    """Trace the values of a *valid* algorithm. Sends that change nothing create no value.

    Reductions into one place are in the order of the sends' (step, chunk, src), so floating-point
    results are the same in every run.
    """
    collective, traced = algorithm.collective, ValueTrace()
    contributions: list[int] = []  # ranks that contributed to each value, as bits
    for chunk in range(collective.num_chunks):
        for rank in sorted(collective.holders(chunk)):
            traced.final[chunk, rank] = traced.add(SsaValue(rank, chunk, -1))
            contributions.append(1 << rank if collective.combining else 1)
    by_step: dict[int, list[Send]] = defaultdict(list)
    for send in algorithm.sends:
        by_step[send.step].append(send)
    for step in range(algorithm.steps):
        sent = [(send, traced.final[send.chunk, send.src]) for send in by_step[step]]
        for send, value in sorted(sent, key=lambda item: (item[0].reduce, item[0])):
            _trace_receive(traced, contributions, send, value)
    traced.needed = _mark_needed(algorithm, traced)
    return traced


def _trace_receive(traced: ValueTrace, contributions: list[int], send: Send, value: int) -> None:
    place = (send.chunk, send.dst)
    current = traced.final.get(place)
    if not send.reduce and current is not None and contributions[current] == contributions[value]:
        return  # the receiver already has the value
    arrival = traced.add(SsaValue(send.dst, send.chunk, send.step, arrived_from=value))
    contributions.append(contributions[value])
    if send.reduce and current is not None:
        arrival = traced.add(SsaValue(send.dst, send.chunk, send.step, operands=(current, arrival)))
        contributions.append(contributions[current] | contributions[value])
    traced.final[place] = arrival


def _mark_needed(algorithm: Algorithm, traced: ValueTrace) -> list[bool]:
    needed = [False] * len(traced.values)
    for (chunk, rank), value in traced.final.items():
        needed[value] = rank in algorithm.collective.destinations(chunk)
    for number in reversed(range(len(traced.values))):
        if needed[number]:
            for source in traced.values[number].sources():
                needed[source] = True
    return needed
