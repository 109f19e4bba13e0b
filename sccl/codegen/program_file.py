"""Write a project's ``program.json``: its programs, their scratch and its switch points."""

from __future__ import annotations

from sccl.codegen.bundle import Bundle, LoweredAlgorithm
from sccl.codegen.ir import Instruction, Program, Slot
from sccl.codegen.switch_points import Protocols
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.json_text import digest
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

PROGRAM_FILE = "program.json"


def project_to_wire(made: Bundle, target: str, protocols: Protocols) -> ProjectWire:
    """Convert a bundle's programs to their file shape.

    Args:
        made: Bundle of the project.
        target: Name of its target.
        protocols: Protocols of its target.
    """
    return ProjectWire(
        target=target,
        ranks=made.ranks,
        selection=str(made.selection()),
        protocols=tuple(protocols),
        collectives=tuple(
            CollectiveProgramsWire(
                identifier=entry.identifier,
                algorithms=tuple(map(_lowered_to_wire, entry.algorithms)),
            )
            for entry in made.entries
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
    return ProgramWire(
        steps=program.steps,
        landing=program.landing.value,
        parts=program.layout.parts,
        scratch_slots=program.scratch_slots,
        flags=program.flags,
        ranks=tuple(
            RankProgramWire(
                scratch_slots=rank_program.scratch_slots,
                flags=rank_program.flags,
                saves=rank_program.saves,
                blocks=tuple(
                    BlockWire(
                        send_peer=block.send_peer,
                        recv_peer=block.recv_peer,
                        instructions=tuple(map(_instruction_row, block.instructions)),
                    )
                    for block in rank_program.blocks
                ),
            )
            for rank_program in program.ranks
        ),
    )


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
