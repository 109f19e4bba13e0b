"""Programs of generated projects, as files have them, for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sccl.collectives import named, names
from sccl.core.files.disk import is_folder, is_there, read_text
from sccl.core.files.kinds import PROGRAM
from sccl.core.files.programs import InstructionRow, LoweredWire, ProgramWire, ProjectWire
from sccl.core.files.text import parse
from sccl.core.topology import Topology
from sccl.core.words import counted
from sccl.emit import PROGRAM_FILE
from sccl.errors import FormatError, InputError, ParameterError
from sccl.lower import Instruction, Landing, Op, Program, RankProgram, Slot, layout_of
from sccl.lower.program import Arrival, Block, Buffer
from sccl.tasks.files import kind_of_file
from sccl.topo import resolve

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
    """A program, and the machine that it is for.

    Attributes:
        name: which of those in the file: its algorithm and its protocol.
    """

    file: Path
    name: str
    program: Program
    topology: Topology


def is_project(path: Path) -> bool:
    """Return whether a path is that of a generated project, or of its programs.

    Raises:
        InputError: it is a JSON file that cannot be read.
    """
    if is_folder(path):
        return is_there(path / PROGRAM_FILE)
    return path.suffix == ".json" and is_there(path) and kind_of_file(path) == PROGRAM


def load_programs(path: Path, machine: str | None) -> list[LoadedProgram]:
    """Return the programs of a project: of each algorithm the eager and the direct one, judged.

    Args:
        path: its program.json, or its folder.
        machine: a topology's name or file. None: those that the programs name.

    Raises:
        InputError: it holds none, there is no such machine, or a program is wrong.
    """
    file = path / PROGRAM_FILE if is_folder(path) else path
    wire = parse(read_text(file), ProjectWire, str(file))
    return [
        _loaded(file, lowered, protocol, machine)
        for entry in wire.collectives
        for lowered in entry.algorithms
        for protocol in ("eager", "direct")
    ]


def _loaded(file: Path, lowered: LoweredWire, protocol: str, machine: str | None) -> LoadedProgram:
    where = f"{file}: {lowered.label}, {protocol}"
    wire: ProgramWire = getattr(lowered, protocol)
    program = _program(where, lowered, wire)
    try:
        topology = resolve(machine or lowered.topology)
    except InputError as error:
        if machine:
            raise
        raise ParameterError(
            f"{where}: its machine is {lowered.topology!r}, which is none that has a name: give "
            "--topo and the machine's file"
        ) from error
    if topology.ranks != len(program.ranks):
        raise ParameterError(
            f"{where}: it is for {counted(len(program.ranks), 'rank')}, and topology "
            f"{topology.name!r} has {topology.ranks}: give its own machine"
        )
    return LoadedProgram(file, f"{lowered.label}, {protocol}", program, topology)


def _program(where: str, lowered: LoweredWire, wire: ProgramWire) -> Program:
    """Return a program, judged.

    Raises:
        InputError: it contradicts itself, or does something else.
    """
    if lowered.collective not in names():
        raise FormatError(
            f"{where}: {lowered.collective} is a custom collective whose demand is not in its "
            "file; simulate its algorithm"
        )
    spec = named(lowered.collective, len(wire.ranks), lowered.root)
    collective = spec.at(lowered.chunks)
    program = Program(
        name=lowered.topology,
        collective=collective,
        layout=layout_of(collective),
        steps=wire.steps,
        landing=Landing(wire.landing),
        ranks=tuple(
            RankProgram(
                tuple(
                    Block(b.send_peer, b.recv_peer, tuple(map(_instruction, b.instructions)))
                    for b in own.blocks
                ),
                own.scratch_slots,
                own.flags,
                own.saves,
            )
            for own in wire.ranks
        ),
        serial=all(len(own.blocks) == 1 for own in wire.ranks),
    )
    if wrong := next(_wrong(wire, program), ""):
        raise FormatError(f"{where}: {wrong}")
    from sccl.lower.trial import faults_of  # noqa: PLC0415 - NumPy is slow to load

    if found := faults_of(program):
        raise InputError(
            f"{where}: the interpreter finds {counted(len(found), 'fault')} in this program, the "
            f"first: {found[0].message}; generate it anew with 'sccl codegen'"
        )
    return program


def _slot(text: str) -> Slot:
    """Return the slot that a file spells like ``"scratch:3"``."""
    buffer, index = text.split(":")
    return Slot(Buffer(buffer), int(index))


def _instruction(row: InstructionRow) -> Instruction:
    def slot(text: str | None) -> Slot | None:
        return None if text is None else _slot(text)

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
        arrivals=tuple(Arrival(a, flag, _slot(at)) for a, flag, at in row.arrivals),
    )


def _wrong(wire: ProgramWire, program: Program) -> Iterator[str]:
    """Yield faults such as missing fields, and unknown ranks and instructions."""
    ranks, chunks = len(program.ranks), program.collective.num_chunks
    for rank, own in enumerate(wire.ranks):
        lengths = [len(block.instructions) for block in own.blocks]
        for b, block in enumerate(own.blocks):
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
                        yield f"{at}: it waits for instruction {index} of block {block_}: none is"
