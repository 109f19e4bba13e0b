"""Write a project's ``program.json``, and load the programs of projects.

The file contains the programs, their scratch sizes, and the switch points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sccl.codegen.buffer_layout import build_layout
from sccl.codegen.bundle import Bundle, LoweredAlgorithm
from sccl.codegen.ir import (
    Arrival,
    Block,
    Buffer,
    Instruction,
    Landing,
    Op,
    Program,
    RankProgram,
    Slot,
)
from sccl.codegen.switch_points import Protocols
from sccl.collectives import collective_names, named_spec
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.disk import is_folder, path_exists, read_text
from sccl.core.files.json_text import digest, file_kind, parse
from sccl.core.files.kinds import PROGRAM
from sccl.core.files.outputs import build_output
from sccl.core.files.programs import (
    BlockWire,
    CollectiveProgramsWire,
    InstructionRow,
    LinkRow,
    LoweredWire,
    ProgramWire,
    ProjectWire,
    RankProgramWire,
)
from sccl.core.formatting import format_count
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError, ParameterError
from sccl.topo import resolve_topology

PROGRAM_FILE = "program.json"


def project_to_wire(bundle: Bundle, target: str, protocols: Protocols) -> ProjectWire:
    """Convert a bundle's programs to their file shape."""
    return ProjectWire(
        target=target,
        ranks=bundle.ranks,
        selection=str(bundle.selection()),
        protocols=tuple(protocols),
        collectives=tuple(
            CollectiveProgramsWire(
                identifier=entry.identifier,
                algorithms=tuple(map(_lowered_to_wire, entry.algorithms)),
            )
            for entry in bundle.entries
        ),
    )


def _lowered_to_wire(lowered: LoweredAlgorithm) -> LoweredWire:
    collective = lowered.algorithm.collective
    return LoweredWire(
        label=lowered.label,
        topology=lowered.algorithm.topology.name,
        collective=collective.name,
        chunks=collective.chunks,
        rounds=lowered.algorithm.rounds,
        root=collective.root,
        digest=digest(algorithm_to_wire(lowered.algorithm)),
        links=tuple(LinkRow(*edge, n) for edge, n in lowered.algorithm.topology.lanes().items()),
        eager=_program_to_wire(lowered.eager),
        direct=_program_to_wire(lowered.direct),
    )


def _program_to_wire(program: Program) -> ProgramWire:
    def rank_wire(rank: RankProgram) -> RankProgramWire:
        blocks = (
            build_output(BlockWire, block, instructions=map(_instruction_row, block.instructions))
            for block in rank.blocks
        )
        return build_output(RankProgramWire, rank, blocks=blocks)

    parts, ranks = program.layout.parts, map(rank_wire, program.ranks)
    return build_output(ProgramWire, program, parts=parts, ranks=ranks)


def _instruction_row(line: Instruction) -> InstructionRow:
    def slot(which: Slot | None) -> str | None:
        return None if which is None else f"{which.buffer}:{which.index}"

    return InstructionRow(
        line.op.value,
        line.step,
        line.chunk,
        line.peer,
        slot(line.src),
        slot(line.other),
        slot(line.dst),
        line.flag,
        line.credit,
        line.after,
        line.next_peer,
        line.next_flag,
        tuple((a.peer, a.flag, f"{a.slot.buffer}:{a.slot.index}") for a in line.arrivals),
    )


_FIELDS = {
    "send": ("peer", "src", "dst", "flag"),
    "recv": ("peer", "dst", "flag"),
    "recv_reduce": ("peer", "src", "other", "dst", "flag"),
    "recv_reduce_send": ("peer", "src", "other", "dst", "flag", "next_peer", "next_flag"),
    "reduce": ("src", "other", "dst"),
    "copy": ("src", "dst"),
    "credit": ("peer", "flag"),
}
"""Required fields of each instruction."""


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program and its machine.

    Attributes:
        name: Algorithm and protocol of the program in the file.
    """

    file: Path
    name: str
    program: Program
    topology: Topology


def is_project(path: Path) -> bool:
    """Return whether a path is the folder of a generated project, or its ``program.json``.

    Raises:
        InputError: A JSON file cannot be read.
    """
    if is_folder(path):
        return path_exists(path / PROGRAM_FILE)
    return path.suffix == ".json" and path_exists(path) and file_kind(path) == PROGRAM


def load_programs(path: Path, machine: str | None) -> list[LoadedProgram]:
    """Load and verify the programs of a project: the eager and direct one of each algorithm.

    Args:
        path: Folder of the project, or its ``program.json``.
        machine: Name or file of a topology. None: the topologies that the programs name.

    Raises:
        InputError: There are no programs, the machine does not exist, or a program is wrong.
    """
    file = path / PROGRAM_FILE if is_folder(path) else path
    wire = parse(read_text(file), ProjectWire, str(file))
    return [
        _load_program(file, lowered, protocol, machine)
        for entry in wire.collectives
        for lowered in entry.algorithms
        for protocol in ("eager", "direct")
    ]


def _load_program(
    file: Path, lowered: LoweredWire, protocol: str, machine: str | None
) -> LoadedProgram:
    where = f"{file}: {lowered.label}, {protocol}"
    wire: ProgramWire = getattr(lowered, protocol)
    program = _decode_program(where, lowered, wire)
    try:
        topology = resolve_topology(machine or lowered.topology)
    except InputError as error:
        if machine:
            raise
        raise ParameterError(
            f"{where}: its machine {lowered.topology!r} is not a named topology: give --topo with "
            "the machine's file"
        ) from error
    if topology.ranks != len(program.ranks):
        raise ParameterError(
            f"{where}: it is for {format_count(len(program.ranks), 'rank')}, and topology "
            f"{topology.name!r} has {topology.ranks}: give its own machine"
        )
    return LoadedProgram(file, f"{lowered.label}, {protocol}", program, topology)


def _decode_program(where: str, lowered: LoweredWire, wire: ProgramWire) -> Program:
    """Decode and verify a program.

    Raises:
        InputError: The program is inconsistent, or does not implement its collective.
    """
    if lowered.collective not in collective_names():
        raise FormatError(
            f"{where}: the demand of the custom collective {lowered.collective} is not in the "
            "file: simulate its algorithm"
        )
    spec = named_spec(lowered.collective, len(wire.ranks), lowered.root)
    collective = spec.at(lowered.chunks)
    program = Program(
        name=lowered.topology,
        collective=collective,
        layout=build_layout(collective),
        steps=wire.steps,
        landing=Landing(wire.landing),
        ranks=tuple(
            RankProgram(
                tuple(
                    Block(b.send_peer, b.recv_peer, tuple(map(_decode_instruction, b.instructions)))
                    for b in rank_wire.blocks
                ),
                rank_wire.scratch_slots,
                rank_wire.flags,
                rank_wire.saves,
            )
            for rank_wire in wire.ranks
        ),
        serial=all(len(rank_wire.blocks) == 1 for rank_wire in wire.ranks),
    )
    if wrong := next(_program_faults(wire, program), ""):
        raise FormatError(f"{where}: {wrong}")
    from sccl.codegen.interpreter import find_faults  # noqa: PLC0415 - NumPy is slow to load

    if faults := find_faults(program):
        raise InputError(
            f"{where}: the interpreter finds {format_count(len(faults), 'fault')} in this program, "
            "the "
            f"first: {faults[0].message}; generate it anew with 'sccl project new'"
        )
    return program


def _parse_slot(text: str) -> Slot:
    """Parse a slot such as ``"scratch:3"``."""
    buffer, index = text.split(":")
    return Slot(Buffer(buffer), int(index))


def _decode_instruction(row: InstructionRow) -> Instruction:
    def slot(text: str | None) -> Slot | None:
        return None if text is None else _parse_slot(text)

    return Instruction(
        op=Op(row.op),
        step=row.step,
        chunk=row.chunk,
        peer=row.peer,
        src=slot(row.src),
        other=slot(row.other),
        dst=slot(row.dst),
        flag=row.flag,
        credit=row.credit,
        after=row.after,
        next_peer=row.next_peer,
        next_flag=row.next_flag,
        arrivals=tuple(Arrival(a, flag, _parse_slot(at)) for a, flag, at in row.arrivals),
    )


def _program_faults(wire: ProgramWire, program: Program) -> Iterator[str]:
    """Yield faults of fields: missing ones, and unknown chunks, ranks, and instructions."""
    ranks, chunks = len(program.ranks), program.collective.num_chunks
    for rank, rank_wire in enumerate(wire.ranks):
        lengths = [len(block.instructions) for block in rank_wire.blocks]
        for b, block in enumerate(rank_wire.blocks):
            for i, row in enumerate(block.instructions):
                at = f"rank {rank}, block {b}, instruction {i}"
                missing = [name for name in _FIELDS[row.op] if getattr(row, name) is None]
                if missing:
                    yield f"{at}: {row.op} has no {missing[0]}"
                if row.chunk >= chunks:
                    yield f"{at}: chunk is {row.chunk}, expected 0 to {chunks - 1}"
                for peer in (row.peer, row.next_peer, *(a[0] for a in row.arrivals)):
                    if peer is not None and (peer >= ranks or peer == rank):
                        yield f"{at}: peer is {peer}, expected another rank, up to {ranks - 1}"
                for block_, index in row.after:
                    if block_ >= len(lengths) or index >= lengths[block_]:
                        yield (
                            f"{at}: it waits for instruction {index} of block {block_}, which "
                            "does not exist"
                        )
